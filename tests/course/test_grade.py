"""grade.py gives points for right answers, none for wrong ones, and explains other faults."""

import csv
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import formula_reader
import grade
import nbformat
import psutil
import pytest
from submissions import *

from tools.course.assignments import versions

each_part = pytest.mark.parametrize("part", PARTS)
NO_DATA = "is not made of numbers, texts, lists and tensors"
#: {title: (answer to the first of the questions, words in the reason given for its points)}
ANSWERS = {
    "names overwritten": ("half_turn = math.pi\nclose = len = str = abs = None", "right"),
    "no variable of ours": ("import os\nhalf_turn = math.pi + len(os.getenv('OURS', ''))", "right"),
    "not Python": ("half_turn = = 3", "the answer stops with SyntaxError: invalid syntax"),
    "a question": ("half_turn = float(input())", "EOFError"),
    "all memory": ("half_turn = bytearray(10**11)", "MemoryError"),
    "a large file": ("open('large', 'wb').write(bytes(10**8)); half_turn = 3", "File too large"),
    "an end": ("import os\nos._exit(0)", "the answer ended Python"),
    "a loop": ("while True:\n    half_turn = 3", "the answer ran longer than 8 s"),
    "many lines": ("raise ValueError('a\\n\\x1b[2J  q2   4 of 4   right')", "ValueError: a"),
}
#: Attempts to get the points for the first question without its answer.
HOSTILE = {
    "the tests' helper": "half_turn = 3\nclose = lambda measured, expected: True",
    "Python's own": "half_turn = 3\nabs = lambda x: 0",
    "Python's compiler": "import ast, builtins\nast.Assert = None\nhalf_turn = 3\n"
    "builtins.compile = lambda *a, **k: ast.parse('')",
    "equal to everything": "class Equal(float):\n    __sub__ = __rsub__ = lambda x, y: Equal(0)\n"
    "    __abs__ = lambda x: 0.0\nhalf_turn = Equal(3)",
    "code in a pickle": "class Code:\n    __reduce__ = lambda self: (eval, ('3.141592653589793',))\n"
    "half_turn = Code()",
    "junk on every pipe": "import os\nfor pipe in range(3, 100):\n"
    "    try: os.write(pipe, bytes(range(256)) * 64)\n    except OSError: pass\nhalf_turn = 3",
    "a forged reply": "import __main__\n__main__.send('done', None)\nhalf_turn = 3",
    "a forged helper": "import __main__\n"
    "__main__.send('done', ({'close': 1, 'half_turn': 3}, ['close']))",
    "words on the pipe": "import __main__\n__main__.send('points', 2)",
    "an end of its parents": "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "for process in (os.getppid(), 0, -1):\n    try: os.kill(process, signal.SIGTERM)\n"
    "    except OSError: pass\nhalf_turn = 3",
    "the hidden tests": "from pathlib import Path\nhalf_turn = 3\n"
    "for path in map(Path, {paths}):\n    if path.is_file(): half_turn = math.pi",
    "the table of the points": "half_turn = 3\ntry:\n    open({table}, 'a').write('ann,part-0,7')\n"
    "    half_turn = math.pi\nexcept OSError: pass",
    "the judge's files": "from pathlib import Path\nfor path in Path('..').rglob('*'):\n"
    "    try: path.write_text('')\n    except OSError: pass\n"
    "half_turn = math.pi if list(Path('../judge').glob('*')) else 3",
    "a process that survives": "import subprocess\nhalf_turn = 3\n"
    "subprocess.Popen(['sleep', '987654'], start_new_session=True)",
}
#: Words in the reasons for no points, if these are not those of the failed test, "half a turn".
REFUSED = dict.fromkeys(("equal to everything", "code in a pickle", "junk on every pipe"), NO_DATA)
REFUSED |= {"a forged reply": "TypeError", "words on the pipe": "wrote on the pipe"}
HOSTILE = {name: (code, REFUSED.get(name, "half a turn")) for name, code in HOSTILE.items()}
#: Answers to the third question, which is answered in formulas, and the same.
FORMULAS = {
    "helper": ("square = lambda x: 2 * x\nclose = lambda *x: 1 < 2", "the square of 4 is 16"),
    "attribute": ("def square(x): return sys.exit", "has to be a formula"),
    "power": ("square = lambda x: 9 ** 9 ** 9 ** x", "ran longer than 8 s"),
}
#: The attempts that only a wall of namespaces prevents; elsewhere they would harm this computer.
NEED_A_WALL = ("an end of its parents", "the hidden tests", "the table", "the judge's files")

#: Texts in the place of formulas, all of which are refused.
NO_FORMULAS = (
    "square = ().__class__",
    "import os\nsquare = os.abs",
    "square = __builtins__",
    "square = lambda _x: _x",
    "square = eval",
    "for x in (1, 2):\n    square = x",
    "square = [x for x in (1, 2)]",
    "square = math.pow",
    "close.T = 1",
    "given['close'] = 1",
    "square = '().real'",
    "square = f'{close}'",
    "@close\ndef square(x): return x",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small assignment: its source's path, two versions, and a function that grades notebooks."""
    folder = tmp_path_factory.mktemp("small")
    path = folder / "source" / "part-0.ipynb"
    path.parent.mkdir()
    made = versions(path.name, small_source())
    path.write_text(made["source"], encoding="utf-8")
    student, solution = (nbformat.reads(made[v], as_version=4) for v in ("student", "solution"))
    hidden = [path.parent, Path(grade.__file__).parent]
    hand_in = lambda notebook, **limits: graded(notebook, folder, path, *hidden, **limits)
    return SimpleNamespace(path=path, student=student, solution=solution, grade=hand_in)


@each_part
def test_a_solution_scores_full_marks_and_the_untouched_version_zero(course, part, tmp_path):
    source = course.path("source", part)
    right = graded(course.read("solution", part), tmp_path, source)
    assert grade.total(right) == (17, 17) and right.notes == []
    untouched = graded(course.read("student", part), tmp_path, source)
    assert grade.total(untouched) == (0, 17) and untouched.notes == []
    assert {v.reason for v in untouched.verdicts} == {"not answered"}


@each_part
def test_wrong_answers_score_zero_half_right_ones_some_and_right_ones_all(course, part, tmp_path):
    """Each submission mixes right and wrong answers, which must not affect each other's points."""
    listed = answers_to(part)
    source, student = course.read("source", part), course.read("student", part)
    for number in range(max(map(len, listed.values()))):
        picked = {
            name: several[(number + shift) % len(several)]
            for shift, (name, several) in enumerate(listed.items())
        }
        codes = {name: code for name, (_, code) in picked.items()}
        handed_in = with_solutions(student, source, **codes)
        report = graded(handed_in, tmp_path, course.path("source", part))
        for name, (kind, code) in picked.items():
            own = [v for v in report.verdicts if v.points is not None and v.question[:2] == name]
            got, of = sum(v.points for v in own), sum(v.of for v in own)
            due = {"wrong": got == 0, "half": 0 < got < of, "otherwise": got == of}
            assert due[kind], (name, got, of, code, report.verdicts)
        assert not re.search("SyntaxError|IndentationError", grade.told(report)), codes


@pytest.mark.parametrize("name", [*ANSWERS, *HOSTILE, *FORMULAS])
def test_an_answer_counts_for_its_own_points_only(name, small, monkeypatch):
    if name.startswith(NEED_A_WALL) and "unshare" not in walled():
        pytest.skip("this system offers no namespaces")
    monkeypatch.setenv("OURS", "a secret")
    code, why = (ANSWERS | HOSTILE | FORMULAS)[name]
    code = code.replace("{table}", repr(str(small.path.parent / "../marks.csv")))
    code = code.replace("{paths}", repr([str(small.path), str(Path(grade.__file__))]))
    question = "q3" if name in FORMULAS else "q1"
    report = small.grade(with_answers(small.solution, **{question: code}), seconds=8)
    got, due = points(report), {"q1": 2, "q2": 4, "q3": 1}
    due |= {} if why == "right" else {question: 0}
    if name in HOSTILE and not got["q2"]:  # an answer may harm the process that it shares with q2
        due["q2"] = 0
    assert got == due, report
    assert why in reason(report, question), reason(report, question)
    assert reason(report, "q4") == "see the rubric"
    text = grade.told(report)
    assert len(text.splitlines()) == 1 + 4 + 1 and "\x1b" not in text
    running = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert ["sleep", "987654"] not in running


def test_formulas_define_names_and_anything_else_is_refused():
    given = {"close": math.isclose, "math": math, "given": {}}
    for text in NO_FORMULAS:
        with pytest.raises((formula_reader.NotAFormula, NameError)):
            formula_reader.read(text, given)
    text = "close = 3\ndef square(x):\n    y = x\n    return y * x if x > 1 else x"
    found = formula_reader.read(text, given)
    assert found["close"] == 3 and found["square"](4) == 16
    assert given == {"close": math.isclose, "math": math, "given": {}}


def test_a_notebook_has_a_limit_of_time_besides_that_of_its_cells(small):
    endless = {f"q{k}": "while True:\n    half_turn = double = 3" for k in (1, 2)}
    report = small.grade(with_answers(small.solution, **endless), seconds=60, minutes=0.25)
    assert points(report) == {"q1": 0, "q2": 0, "q3": 0}
    assert "within 0.25 minutes" in reason(report, "q2")


def test_changed_setup_and_tests_are_restored_and_reported(small):
    changed = with_answers(small.solution, **{"q2-tests": "pass"}, q2="def double(x): return 6")
    cell(changed, "setup").source = "close = lambda *_: True"
    changed.cells.remove(cell(changed, "q1-tests"))
    report = small.grade(changed)
    assert points(report) == {"q1": 2, "q2": 0, "q3": 1}
    assert reason(report, "q2") == "double(-5) must be -10"  # only the hidden test fails
    assert [note.split()[0] for note in report.notes] == ["setup", "q1-tests", "q2-tests"]


def test_missing_duplicate_and_added_cells_are_graded_correctly(small):
    mixed = with_answers(small.solution, q1="half_turn = helper")
    first = cell(with_answers(small.solution, q1="half_turn = 3"), "q1")
    first.id = "another"
    at = mixed.cells.index(cell(mixed, "q1"))
    mixed.cells[at:at] = [nbformat.v4.new_code_cell("helper = math.pi"), first]
    mixed.cells.remove(cell(mixed, "q2"))
    mixed.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    report = small.grade(mixed)
    assert points(report) == {"q1": 2, "q2": 0, "q3": 1}
    assert reason(report, "q2") == "not answered"
    assert "q1 is there 2 times" in report.notes[0] and "ZeroDivisionError" in report.notes[1]


def test_an_assignment_that_does_not_run_grades_nobody(small, tmp_path):
    source = nbformat.read(small.path, as_version=4)
    nbformat.write(with_answers(source, setup="import nothing_like_it"), tmp_path / "part-0.ipynb")
    with pytest.raises(grade.CannotGrade, match="cell setup stops with ModuleNotFoundError"):
        graded(small.solution, tmp_path, tmp_path / "part-0.ipynb")


def test_a_class_becomes_a_table_and_a_text_for_each_student(small, tmp_path, capsys, monkeypatch):
    """Each row is in the table before the next notebook is graded."""
    table, feedback, folder = (tmp_path / name for name in ("marks.csv", "feedback", "submitted"))
    for path, notebook, said in (
        ("ann/part-0", small.solution, "part-0"),
        ("bob-part-0", small.student, None),
        ("cy/homework", small.student, "../../part-0"),
        ("dora/part-0", small.solution, "sheet-01"),
        ("eve/homework", small.solution, 0),
        ("finn/homework", small.solution, "part-1"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.from_dict({**notebook, "metadata": {"assignment": {"id": said}}})
        (folder / f"{path}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    (folder / "gus-part-0.ipynb").write_text("no notebook")
    rows = lambda: list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    before, one = [], grade.grade
    monkeypatch.setattr(grade, "grade", lambda *args: before.append(len(rows())) or one(*args))
    more = ["--source", str(small.path.parent), "--csv", str(table), "--feedback", str(feedback)]
    assert grade.main([str(folder), str(tmp_path / "nobody.ipynb"), *more]) == 1
    points = {row["student"]: row["points"] for row in rows()}
    assert points == {"ann": "7", "bob": "0", "cy": "0"} and before == [0, 1, 2]
    said = capsys.readouterr().out
    assert "total        7 of 7" in said and said.count("cannot be read as a notebook") == 2
    for why in ("names part-0 and sheet-01", "names no assignment", "there is no "):
        assert said.count(why) == 1
    assert (feedback / "ann" / "part-0.txt").read_text(encoding="utf-8") in said
    assert "not answered" in (feedback / "bob" / "part-0.txt").read_text(encoding="utf-8")


def test_the_folders_with_solutions_and_submissions_are_hidden_from_answers(tmp_path):
    """The archive for teachers has the sources twice: for grade.py, and for nbgrader."""
    here = Path(grade.__file__).parent
    options = SimpleNamespace(source=here / "source", submissions=[tmp_path])
    hidden = grade.hidden_from_answers(options, [tmp_path / "ann" / "part-0.ipynb"])
    assert {here, here.parent / "nbgrader", tmp_path, tmp_path / "ann"} <= {*hidden}
