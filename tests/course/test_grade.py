"""grade.py: points for what is right, none for what is wrong, and a sentence for everything else."""

import csv
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from itertools import count
from pathlib import Path

import grade
import nbformat
import pytest
from submissions import (
    GRADER,
    PARTS,
    PYTHON,
    answers_to,
    cell,
    grade_notebook,
    in_the_place_of_the_solution,
    numbered,
    run_grader,
    wide_source,
    with_answers,
    write_versions,
)

each_part = pytest.mark.parametrize("part", PARTS)


def full_marks(graded):
    return all(verdict["points"] == verdict["of"] for verdict in graded.report["verdicts"])


def in_time(graded, seconds=grade.SECONDS):
    """Whether grading ended by itself within what a submission may take in all."""
    return graded.seconds < grade.Limits(seconds).total


# ---- the assignments of the course --------------------------------------------------


@each_part
def test_the_solution_scores_full_marks(course, part, tmp_path):
    solution = course.folder / "solution" / f"{part}.ipynb"
    graded = run_grader(tmp_path, solution, "--source", course.folder / "source")
    assert full_marks(graded), graded.text
    assert graded.code == 0 and graded.report["notes"] == [] and graded.left == []
    assert in_time(graded) and graded.megabytes < grade.MEGABYTES


@each_part
def test_the_untouched_student_version_scores_zero(course, part, tmp_path):
    student = course.folder / "student" / f"{part}.ipynb"
    graded = run_grader(tmp_path, student, "--source", course.folder / "source")
    assert len(graded.points()) >= 5 and not any(graded.points().values()), graded.text
    assert {graded.reason(name) for name in graded.points()} == {"not answered"}
    assert [answered for _, answered in graded.report["by_hand"].values()] == [False]


def variants(part, source):
    """{question: [(code, whether it is right)]}: the wrong answers and those written otherwise."""
    listed = {}
    for name, kinds in answers_to(part).items():
        mark = cell(source, name).metadata.nbgrader
        assert mark.solution and not mark.grade, f"{name} is not an answer that tests grade"
        listed[name] = [(code, False) for code in kinds["wrong"]]
        listed[name] += [(code, True) for code in kinds["otherwise"]]
    return listed


@each_part
def test_wrong_answers_score_zero_and_right_ones_full_marks(course, part, tmp_path):
    """Every variant of every answer, in each submission another of each question.

    So right and wrong ones stand side by side, and none may change what another gets.
    """
    source = course.read("source", part)
    listed, seen, mistaken = variants(part, source), set(), []
    for number in range(max(map(len, listed.values()))):
        chosen = {
            name: (number + shift) % len(several)
            for shift, (name, several) in enumerate(listed.items())
        }
        answers = {
            name: in_the_place_of_the_solution(cell(source, name).source, listed[name][at][0])
            for name, at in chosen.items()
        }
        notebook = with_answers(course.read("student", part), **answers)
        (folder := tmp_path / str(number)).mkdir()
        graded = grade_notebook(notebook, folder, course.folder / "source")
        for name, at in chosen.items():
            seen.add((name, at))
            right, of = listed[name][at][1], cell(source, f"{name}-tests").metadata.nbgrader.points
            reason = graded.reason(name)
            if graded.points()[name] != of * right or re.search(r"\w*(Syntax|Indent)\w*", reason):
                mistaken.append(
                    f"{part}, {name}, variant {at} ({'right' if right else 'wrong'}): {reason}"
                )
    assert seen == {(name, at) for name, several in listed.items() for at in range(len(several))}
    assert not mistaken, "\n".join(mistaken)


def test_a_hostile_submission_to_an_assignment_of_the_course(course, tmp_path):
    """Loops, takes all memory, ends the process and tampers; two questions are right."""
    part, folder = "part-1", course.folder / "source"
    notebook = with_answers(
        course.read("solution", part),
        q1="def shuffle_error(layer, x, sees, order):\n    while True:\n        layer(x, sees)",
        q2="torch.ones(10**11)",
        q3="import os\nos._exit(0)",
        q4="print('x' * 10**6)\nshuffles_left = 1",
    )
    cell(notebook, "q4-tests").source = "pass"
    cell(notebook, "the-checker").source = "import derivation"
    graded = grade_notebook(notebook, tmp_path, folder, "--seconds", 10)
    points = graded.points()
    assert [points[name] for name in ("q1", "q2", "q3", "q4")] == [0, 0, 0, 0]
    assert points["q5"] > 0 and points["q6"] > 0, graded.text
    assert (
        graded.reason("q1") == "when it is tested, the answer ran longer than 10 s and was stopped"
    )
    assert "the answer asks for more memory than" in graded.reason("q2")
    assert graded.reason("q3") == "the answer ended the process (exit code 0)"
    assert "the tests of q4 were changed in the submission" in graded.notes
    assert "the assignment's cell the-checker was changed" in graded.notes
    assert graded.code == 0 and graded.left == []
    assert in_time(graded, 10) and graded.megabytes < 2600 and len(graded.text) < 5000


# ---- what is said of a small assignment ---------------------------------------------


def test_the_solution_of_the_small_one(small, hand_in):
    graded = hand_in(small.solution)
    assert graded.points() == {"q1": 1, "q2": 2, "q3": 4}
    assert "? of 3   for a person to grade: see the rubric" in graded.text
    assert re.search(r"total +7 of 7   and up to 3 from a person$", graded.text, re.M)


def test_wrong_answers_get_the_message_of_their_test(small, hand_in):
    graded = hand_in(
        with_answers(
            small.solution,
            q1="double = lambda x: 6",
            q2="half_turn = 180",
            q3="twice = attempt(lambda: Derivation('twice', S + S).by(3 * S).qed())",
        )
    )
    assert graded.points() == {"q1": 0, "q2": 0, "q3": 0}
    assert graded.reason("q1") == "double(-5) must be -10"
    assert graded.reason("q2") == "half_turn is half a turn, in radians"
    assert "no such theorem: twice, line 1 is not justified" in graded.reason("q3")


def test_a_right_answer_beside_one_that_is_not_given(small, hand_in):
    notebook = with_answers(small.student, q2="from math import tau\nhalf_turn = tau / 2")
    graded = hand_in(notebook)
    assert graded.points() == {"q1": 0, "q2": 2, "q3": 0}
    assert graded.reason("q1") == graded.reason("q3") == "not answered"


def test_answers_may_use_magics_and_await(small, hand_in):
    q2 = "%precision 3\nimport asyncio\nawait asyncio.sleep(0)\nhalf_turn = math.pi"
    assert full_marks(hand_in(with_answers(small.solution, q2=q2)))


def test_what_torch_loads_on_first_use_is_not_held_against_an_answer(small, hand_in):
    q1 = """
    def double(x):
        square = lambda t: t * t
        return torch.func.grad(square)(torch.tensor(float(x), dtype=torch.float64)).item()
    """
    assert full_marks(hand_in(with_answers(small.solution, q1=textwrap.dedent(q1))))


def hand_in_many(sources, folder, *options):
    """Hand in many answers to question 2, with a right answer to another question after each."""
    nbformat.write(wide_source(len(sources)), folder / "wide.ipynb")
    paths = write_versions(folder / "wide.ipynb", folder)
    answers = {f"q{n}": numbered(source, n) for n, source in enumerate(sources)}
    notebook = with_answers(nbformat.read(paths["solution"], as_version=4), **answers)
    graded = grade_notebook(notebook, folder, paths["source"].parent, *options)
    points = graded.points()
    assert all(points[f"right{n}"] == 1 for n in range(len(sources))), graded.text
    assert graded.code == 0 and graded.left == [] and graded.errors == ""
    return graded


WRONG = {
    "an error": ("1 / 0", "the answer stops in line 1 with ZeroDivisionError: division by zero"),
    "a missing module": (
        "\nimport not_there_at_all",
        "ModuleNotFoundError: No module named 'not_there_at_all'",
    ),
    "no Python": ("half_turn = (", "the answer stops in line 1 with"),
    "another name": ("half = math.pi", "the answer defines no half_turn"),
    "an empty cell": ("", "the answer defines no half_turn"),
    "half of it": ("# mine\nraise NotImplementedError()", "NotImplementedError"),
    "a test that cannot run": ("half_turn = 'pi'", "the tests stop with TypeError"),
    "input": ("half_turn = float(input())", "nobody is there to type"),
    "sys.exit": ("import sys\nsys.exit()", "the answer stops in line 2 with SystemExit"),
    "exit": ("exit()", "the answer defines no half_turn"),
    "os._exit": ("import os\nos._exit(3)", "the answer ended the process (exit code 3)"),
    "kill": ("import os\nos.kill(os.getpid(), 9)", "the answer was killed by the system"),
    "a crash": ("import ctypes\nctypes.string_at(0)", "crashed the process (SIGSEGV)"),
    "endless recursion": ("f = lambda: f()\nf()", "RecursionError"),
    "an error without words": (
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "the answer stops in line 3 with E",
    ),
    "its own abs": ("half_turn, abs = 3, lambda x: 0", "half_turn is half a turn"),
    "its own close": ("half_turn, close = 3, lambda *_: True", "half_turn is half a turn"),
    "a closed channel": ("import os\nos.closerange(3, 100)\nhalf_turn = 3", "the answer"),
}


def test_a_wrong_answer_costs_its_own_points_only(tmp_path):
    graded = hand_in_many([source for source, _ in WRONG.values()], tmp_path)
    for number, (name, (_, sentence)) in enumerate(WRONG.items()):
        assert graded.points()[f"q{number}"] == 0, name
        wanted = numbered(sentence, number)
        assert wanted in graded.reason(f"q{number}"), (name, graded.reason(f"q{number}"))
    assert in_time(graded) and graded.megabytes < grade.MEGABYTES


#: The answer, the sentence, and what grading may take in MB.
GREEDY = {
    "an endless loop": (
        "while True: pass",
        "the answer ran longer than 4 s and was stopped",
        500,
    ),
    "an endless loop that swallows all": (
        """
        while True:
            try:
                while True: pass
            except BaseException: pass
        """,
        "the answer ran longer than 4 s and was stopped",
        500,
    ),
    "an endless loop in C": (
        "sum(iter(int, 1))",
        "the answer ran longer than 4 s and was stopped",
        500,
    ),
    "a process that stops itself": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "the answer ran longer than 4 s and was stopped",
        500,
    ),
    "endless printing": (
        "while True: print('x' * 10000)",
        "the answer printed more than 32 MB and was stopped",
        500,
    ),
    "endless printing that swallows all": (
        """
        while True:
            try:
                print('x' * 10000)
            except BaseException: pass
        """,
        "the answer printed more than 32 MB and was stopped",
        500,
    ),
    "a large file": (
        "with open('large', 'wb') as file:\n    for _ in range(100): file.write(bytes(10**6))",
        "a file has more than 32 MB",
        500,
    ),
    "all memory": (
        "eaten = []\nwhile True: eaten.append(bytearray(10**7))",
        "the answer asks for more memory than the 600 MB that it may use",
        800,
    ),
    "one large list": (
        "half_turn = [0] * 10**10",
        "the answer asks for more memory than the 600 MB that it may use",
        800,
    ),
    "shared memory": (
        """
        import mmap
        eaten = mmap.mmap(-1, 4 << 30)
        for at in range(0, 4 << 30, 4096): eaten[at] = 1
        """,
        "the answer used more than 750 MB of memory and was stopped",
        1500,
    ),
    "memory in many processes": (
        """
        import os, time
        for _ in range(5):
            if not os.fork():
                eaten = os.urandom(1) * (300 << 20)
                time.sleep(100)
        time.sleep(100)
        """,
        "the answer used more than 750 MB of memory and was stopped",
        800,
    ),
    "processes that are left running": (
        """
        import os, time
        for _ in range(100):
            if not os.fork():
                time.sleep(100)
                os._exit(0)
        half_turn = math.pi
        """,
        "the answer started more than 64 processes and was stopped",
        500,
    ),
    "many processes": (
        """
        import os, time
        for _ in range(200):
            if not os.fork():
                time.sleep(100)
                os._exit(0)
        time.sleep(100)
        """,
        "the answer started more than 64 processes and was stopped",
        500,
    ),
}
#: Those that end their process are graded by a few: it is started again for each.
GROUPS = [list(GREEDY)[at : at + 3] for at in range(0, len(GREEDY), 3)]


@pytest.mark.parametrize("names", GROUPS, ids=" and ".join)
def test_greedy_answers_are_stopped_within_their_limits(names, tmp_path):
    options = "--seconds", 4, "--megabytes", 600
    graded = hand_in_many([GREEDY[name][0] for name in names], tmp_path, *options)
    for number, name in enumerate(names):
        _, sentence, _ = GREEDY[name]
        assert graded.points()[f"q{number}"] == 0, name
        assert sentence in graded.reason(f"q{number}"), (name, graded.reason(f"q{number}"))
    assert in_time(graded, 4)
    assert graded.megabytes < max(GREEDY[name][2] for name in names)
    assert len(graded.text) < 3000


def test_a_megabyte_printed_is_measured_and_not_kept(small, hand_in):
    graded = hand_in(with_answers(small.solution, q2="print('x' * 10**6)\nhalf_turn = math.pi"))
    assert full_marks(graded) and graded.notes == "q2 printed 1,000,001 bytes"
    assert len(graded.text) < 1000 and graded.megabytes < 500


def test_a_submission_that_must_be_ended_time_and_again_comes_to_an_end(small, hand_in):
    notebook = with_answers(small.solution)
    for number in range(grade.RESTARTS + 3):
        notebook.cells.insert(-1, nbformat.v4.new_code_cell(f"import os\nos._exit({number})"))
    at = next(n for n, c in enumerate(notebook.cells) if c.source.startswith("# Define half"))
    notebook.cells.insert(at, nbformat.v4.new_code_cell("1 / 0"))
    graded = hand_in(notebook)
    assert graded.points() == {"q1": 1, "q2": 2, "q3": 4}, graded.text
    assert f"had to be ended {grade.RESTARTS + 1} times" in graded.notes


# ---- what a submission may not change -----------------------------------------------


def test_tests_that_were_changed_are_undone_and_reported(small, hand_in):
    notebook = with_answers(small.solution, q1="double = 0", **{"q1-tests": "pass"})
    graded = hand_in(notebook)
    assert graded.points() == {"q1": 0, "q2": 2, "q3": 4}
    assert graded.notes == "the tests of q1 were changed in the submission; the original was used"


def test_a_changed_setup_and_a_changed_checker_are_undone_and_reported(small, hand_in):
    everything = "proves = close = lambda *_, **__: True"
    notebook = with_answers(small.solution, q2="half_turn = 3", q3="twice = 2", setup=everything)
    cell(notebook, "the-checker").source += "\nwrite('derivation/__init__.py', '')"
    graded = hand_in(notebook)
    assert graded.points() == {"q1": 1, "q2": 0, "q3": 0}
    assert "the assignment's cell setup was changed" in graded.notes
    assert "the assignment's cell the-checker was changed" in graded.notes


#: What an answer may try, so that it passes though it is wrong; what the report says of it.
TRICKS = {
    "its own proves": ("proves = lambda *_, **__: True", ""),
    "its own assertion": ("AssertionError = attempt = S = 0", ""),
    "proves of the module": (
        "import derivation.proofs as p\np.proves = lambda *_, **__: True",
        "derivation.proofs.proves had been replaced",
    ),
    "what proves calls": (
        "import derivation.proofs as p\np._says_no_more = p.isinstance = lambda *_: True",
        "derivation.proofs._says_no_more, derivation.proofs.isinstance had been replaced",
    ),
    "a method of the checker": (
        "from derivation.kernel.normal import Normal\nNormal.same = lambda *_: True",
        "Normal.same had been replaced",
    ),
    "a module in the place of another": (
        "import sys, types\nsys.modules['derivation'] = types.SimpleNamespace()",
        "derivation had been replaced",
    ),
    "all": (
        "import builtins\nbuiltins.all = lambda *_: True",
        "builtins.all had been replaced",
    ),
    "a function of the setup": (
        "close.__globals__['abs'] = close.__globals__['math'] = 0",
        "math of the setup, abs of the setup had been replaced",
    ),
    "the checker's files": ("open('derivation/proofs.py', 'w').write('')", ""),
}


WRONG_ANSWER = """
from derivation import *
half_turn = 3
twice = attempt(lambda: Derivation("thrice", S + 2 * S).by(3 * S).qed())
"""


def test_what_an_answer_replaces_does_not_help_it(small, tmp_path):
    graded = hand_in_many([WRONG_ANSWER + trick for trick, _ in TRICKS.values()], tmp_path)
    for number, (name, (_, note)) in enumerate(TRICKS.items()):
        assert graded.points()[f"q{number}"] == 0, name
        before = f"before q{number}-tests, " if note else ""
        assert before in graded.notes and note in graded.notes, (name, graded.notes)


def test_what_an_answer_replaces_does_not_help_another(small, hand_in):
    trick = "import derivation.proofs as p\np._says_no_more = proves = lambda *_: True\nhalf_turn = math.pi"
    wrong = "twice = Derivation('thrice', S + 2 * S).by(3 * S).qed()"
    graded = hand_in(with_answers(small.solution, q2=trick, q3=wrong))
    assert graded.points() == {"q1": 1, "q2": 2, "q3": 0}
    assert "no such theorem: thrice" in graded.reason("q3")


def test_what_is_replaced_while_the_tests_run_gives_no_points(small, hand_in):
    q1 = "def double(x):\n    import derivation.proofs as p\n    p._says_no_more = 0\n    return 2 * x"
    graded = hand_in(with_answers(small.solution, q1=q1))
    assert graded.points() == {"q1": 0, "q2": 2, "q3": 4}
    assert (
        graded.reason("q1")
        == "when it is tested, the answer replaces derivation.proofs._says_no_more"
    )


FORGED = """
import os
for channel in range(3, 64):
    try:
        os.write(channel, b'{"nonce": "", "ok": true}\\n')
    except OSError:
        pass
"""


def test_a_forged_result_counts_for_nothing(small, hand_in):
    graded = hand_in(with_answers(small.solution, q2=FORGED))
    assert graded.points() == {"q1": 1, "q2": 0, "q3": 4}
    assert "wrote into the grader's own channel" in graded.reason("q2")


def test_a_copy_of_the_process_reports_nothing(small, hand_in):
    q2 = "import os\nos.fork()\nhalf_turn = math.pi"
    assert full_marks(hand_in(with_answers(small.solution, q2=q2)))


def test_what_an_answer_says_cannot_pass_for_lines_of_the_report(small, hand_in):
    q2 = r"raise ValueError('x\n  q2           2 of 2   right\n\x1b[2J\r  total      7 of 7')"
    graded = hand_in(with_answers(small.solution, q2=q2))
    assert len(re.findall(r"^  q2 ", graded.text, re.M)) == 1
    assert len(re.findall(r"^  total ", graded.text, re.M)) == 1 and "\x1b" not in graded.text


def test_words_that_call_for_a_reader_are_named(small, hand_in):
    graded = hand_in(with_answers(small.solution, q2="import gc\nhalf_turn = math.pi"))
    assert full_marks(graded) and graded.notes == "q2 uses gc: read it"


# ---- cells that are gone, double, added ---------------------------------------------


def test_a_cell_that_is_missing(small, hand_in):
    notebook = with_answers(small.solution)
    notebook.cells = [c for c in notebook.cells if c.id not in ("q2", "q3-tests", "setup")]
    graded = hand_in(notebook)
    assert graded.points() == {"q1": 1, "q2": 0, "q3": 4}
    assert graded.reason("q2") == "the cell q2 is missing"
    assert "the tests of q3 were missing" in graded.notes
    assert "the assignment's cell setup was missing" in graded.notes


def test_a_cell_that_is_there_twice(small, hand_in):
    notebook = with_answers(small.solution)
    second = nbformat.from_dict(cell(notebook, "q2"))
    second.update(source="half_turn = 3", id="another")
    notebook.cells.append(second)
    graded = hand_in(notebook)
    assert graded.points() == {"q1": 1, "q2": 0, "q3": 4}
    assert "there is more than one cell q2: the last one counts" in graded.notes


def test_a_cell_whose_metadata_got_lost_is_known_by_its_id(small, hand_in):
    notebook = with_answers(small.solution)
    for one in notebook.cells:
        one.metadata = {}
    graded = hand_in(notebook)
    assert full_marks(graded) and graded.notes == ""


def test_a_cell_that_became_markdown(small, hand_in):
    notebook = with_answers(small.solution)
    at = notebook.cells.index(cell(notebook, "q2"))
    old = notebook.cells[at]
    notebook.cells[at] = nbformat.v4.new_markdown_cell(old.source, metadata=old.metadata, id=old.id)
    graded = hand_in(notebook)
    assert full_marks(graded)
    assert graded.notes == "the cell q2 had become markdown: it was read as code"


def test_cells_that_were_added_run_in_their_place_and_cost_nothing(small, hand_in):
    notebook = with_answers(small.solution, q2="half_turn = turn / 2")
    at = notebook.cells.index(cell(notebook, "q2"))
    added = "turn = 2 * math.pi\nprint(turn)", "1 / 0", "while True: pass"
    notebook.cells[at:at] = [nbformat.v4.new_code_cell(source) for source in added]
    notebook.cells.insert(0, nbformat.v4.new_code_cell("assert m != n\nimport os\nos._exit(1)"))
    graded = hand_in(notebook, "--seconds", 4)
    assert full_marks(graded), graded.text


# ---- what a submission can reach, and what is left ----------------------------------


def running(word):
    """The processes whose command holds a word."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in command:
            yield folder.name


SECONDS_ASLEEP = count(54321 + os.getpid())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("options", ["", ", start_new_session=True"])
def test_a_process_left_in_the_background_is_ended(options, small, hand_in):
    asleep = f"{next(SECONDS_ASLEEP)}"
    q2 = f"import subprocess\nsubprocess.Popen(['sleep', '{asleep}']{options})\nhalf_turn = math.pi"
    graded = hand_in(with_answers(small.solution, q2=q2))
    assert full_marks(graded) and in_time(graded)
    assert list(running(asleep)) == []


def test_files_go_into_a_folder_that_is_removed(small, hand_in):
    q2 = """
        import os, pathlib, tempfile
        os.makedirs("deep/er")
        pathlib.Path("deep/er/here.txt").write_text("here")
        os.chmod("deep", 0)
        (pathlib.Path.home() / "at-home.txt").write_text("here")
        tempfile.mkstemp()
        os.symlink("/", "root")
        half_turn = math.pi
    """
    graded = hand_in(with_answers(small.solution, q2=q2))
    assert full_marks(graded) and graded.left == []


def test_no_variable_of_the_teacher_is_handed_on(small, hand_in):
    q2 = """
        import os, sys
        told = " ".join(map(repr, [*os.environ.items(), sys.argv, os.getcwd()]))
        assert "TOKEN" not in told and "s3cret" not in told, told
        assert os.getcwd() not in sys.path and not sys.stdin.read()
        half_turn = math.pi
    """
    graded = hand_in(with_answers(small.solution, q2=q2), A_TOKEN="s3cret")
    assert full_marks(graded), graded.text


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may read everything")
def test_the_variables_of_the_grader_itself_cannot_be_read(small, hand_in):
    q2 = "import os\nopen(f'/proc/{os.getppid()}/environ').read()\nhalf_turn = math.pi"
    assert "PermissionError" in hand_in(with_answers(small.solution, q2=q2)).reason("q2")


def test_a_grader_that_is_told_to_stop_leaves_nothing(small, tmp_path):
    path = tmp_path / "submission.ipynb"
    nbformat.write(with_answers(small.solution, q2="while True: pass"), path)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    command = [PYTHON, GRADER, path, "--source", small.folder]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while not list((tmp_path / "temporary").glob("*/work/derivation")):
        assert process.poll() is None
        time.sleep(0.1)
    process.terminate()
    assert process.wait(timeout=20) == 143
    assert list((tmp_path / "temporary").iterdir()) == []


# ---- the command --------------------------------------------------------------------


UNREADABLE = {
    "empty": (b"", "the file is empty"),
    "text": (b"half_turn = 3", "the file is not a notebook: it holds no JSON"),
    "binary": (bytes(range(256)), "the file is not a notebook: it holds no JSON"),
    "deep": (b"[" * 10**6, "the file is not a notebook: it holds no JSON"),
    "a list": (b"[]", "it has no list of cells"),
    "an old one": (b'{"worksheets": [], "nbformat": 3}', "it has no list of cells"),
    "no name": (b'{"cells": []}', "it does not say which assignment it is: add --assignment"),
    "a path": (b'{"cells": [], "metadata": {"assignment": {"id": "../x"}}}', "does not say which"),
    "unknown": (b'{"cells": [], "metadata": {"assignment": {"id": "x"}}}', "no assignment x in"),
    "huge": (b" " * (grade.LARGEST + 1), "clear its outputs and hand it in again"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_graded_is_named_with_the_reason(name, small, tmp_path):
    content, sentence = UNREADABLE[name]
    path = tmp_path / "submission.ipynb"
    path.write_bytes(content)
    graded = run_grader(tmp_path, path, "--source", small.folder)
    assert f"{path}\n  not graded: " in graded.text and sentence in graded.text
    assert graded.code == 1 and graded.errors == "" and graded.megabytes < 300


def test_what_this_process_holds_is_not_counted(small, tmp_path):
    held = b"1" * (400 << 20)
    graded = run_grader(tmp_path, "nothing.ipynb", "--source", small.folder)
    assert graded.megabytes < 300 < len(held) >> 20


def test_cells_that_are_no_cells_are_passed_over(small, tmp_path):
    path = tmp_path / "submission.ipynb"
    odd = [0, None, [], {}, {"cell_type": "code", "source": 5, "metadata": {"nbgrader": [1]}}]
    odd += [{"cell_type": "code", "metadata": {"nbgrader": {"grade_id": {}, "points": "x"}}}]
    odd += [{"cell_type": ["code"], "source": ["x = '\ud800'", 1], "id": 3, "metadata": 7}]
    path.write_text(json.dumps({"cells": odd, "metadata": {"assignment": {"id": "small"}}}))
    graded = run_grader(tmp_path, path, "--source", small.folder)
    assert graded.code == 0 and not any(graded.points().values())
    assert graded.reason("q1") == "the cell q1 is missing"


MISUSE = {
    "no file": (["nothing.ipynb"], "There is no file nothing.ipynb"),
    "no source": (["{path}", "--source", "{path}.no"], "There are no assignments in"),
    "nothing": ([], "the following arguments are required"),
    "an unknown option": (["{path}", "--fast"], "unrecognized arguments: --fast"),
    "no number": (["{path}", "--seconds", "many"], "argument --seconds: invalid"),
    "below zero": (["{path}", "--megabytes", "-1"], "argument --megabytes: invalid"),
    "no table": (["{path}", "--csv", "{path}/x.csv"], "cannot be written"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_a_command_that_makes_no_sense_is_answered(name, small, tmp_path):
    arguments, sentence = MISUSE[name]
    path = tmp_path / "submission.ipynb"
    path.write_text('{"cells": [], "metadata": {"assignment": {"id": "none"}}}')
    arguments = [argument.format(path=path) for argument in arguments]
    if "--source" not in arguments:
        arguments += ["--source", str(small.folder)]
    graded = run_grader(tmp_path, *arguments)
    assert graded.code == 2 and sentence in graded.errors and "Traceback" not in graded.errors


def test_it_finds_the_folder_source_beside_the_submission(small, tmp_path):
    graded = run_grader(tmp_path, small.paths["solution"])
    assert "There are no assignments in" in graded.errors and graded.code == 2
    beside = small.paths["solution"].parent.parent / "submission.ipynb"
    beside.write_text(small.paths["solution"].read_text())
    assert full_marks(run_grader(tmp_path, beside))


def test_a_class_becomes_a_table(small, tmp_path):
    broken, table = tmp_path / "broken.ipynb", tmp_path / "marks.csv"
    broken.write_text("{")
    files = small.paths["solution"], broken, small.paths["student"]
    graded = run_grader(tmp_path, *files, "--source", small.folder, "--csv", table)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert graded.code == 1 and [row["points"] for row in rows] == ["7", "", "0"]
    assert [row["q2"] for row in rows] == ["2", "", "0"]
    assert [row["waiting for a person"] for row in rows] == ["3", "0", "0"]
    assert "not a notebook" in rows[1]["not graded"]


def test_an_assignment_that_does_not_run_here_is_nobody_s_fault(small, tmp_path):
    notebook = with_answers(small.source)
    cell(notebook, "setup").source = "import a_module_that_is_not_here"
    (tmp_path / "source").mkdir()
    nbformat.write(notebook, tmp_path / "source" / "small.ipynb")
    graded = grade_notebook(small.solution, tmp_path, tmp_path / "source")
    assert graded.code == 1 and "No module named 'a_module_that_is_not_here'" in graded.text
    assert "Is everything installed that it needs" in graded.text


def test_where_a_system_sets_no_limits_it_says_so(small, tmp_path):
    """As on Windows: no module resource, no alarm; the grader's own clock is left."""
    (tmp_path / "resource.py").write_text("raise ImportError")
    path = tmp_path / "submission.ipynb"
    nbformat.write(with_answers(small.solution, q2="while True: pass"), path)
    code = (
        "import runpy, signal, sys; del signal.setitimer; "
        f"sys.path.insert(0, {str(tmp_path)!r}); "
        f"sys.argv = ['grade.py', {str(path)!r}, '--source', {str(small.folder)!r}, '--seconds', '4'];"
        f"runpy.run_path({str(GRADER)!r}, run_name='__main__')"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and told.stderr == ""
    assert told.stdout.startswith("Memory is not limited here")
    assert re.search(r"q2 +0 of 2 +the answer ran longer than 4 s", told.stdout)
