"""grade.py gives points for right answers, none for wrong ones, and explains other faults."""

import csv
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import formula_reader
import grade
import nbformat
import psutil
import pytest
from submissions import (
    PARTS,
    answers_to,
    by_question,
    cell,
    graded,
    in_the_place_of_the_solution,
    points,
    reason,
    small_source,
    with_answers,
)
from walls import wall

from tools.course.assignments import versions

each_part = pytest.mark.parametrize("part", PARTS)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small assignment: the path to its source, and its student and solution versions."""
    path = tmp_path_factory.mktemp("small") / "part-0.ipynb"
    made = versions(path.name, small_source())
    path.write_text(made["source"], encoding="utf-8")
    student, solution = (nbformat.reads(made[v], as_version=4) for v in ("student", "solution"))
    return SimpleNamespace(path=path, student=student, solution=solution)


@pytest.fixture
def hand_in(small, tmp_path):
    """A function that grades a notebook as a submission to the small assignment."""
    hidden = [small.path.parent, Path(grade.__file__).parent]
    return lambda notebook, **limits: graded(notebook, tmp_path, small.path, hidden, **limits)


# ── The assignments of the course ─────────────────────────────────────────────────────────


@each_part
def test_a_solution_scores_full_marks_and_the_untouched_version_zero(course, part, tmp_path):
    source = course.path("source", part)
    right = graded(course.read("solution", part), tmp_path, source)
    full = {v.question: v.of for v in right.verdicts if v.points is not None}
    assert points(right) == full and right.notes == []
    untouched = graded(course.read("student", part), tmp_path, source)
    assert len(untouched.verdicts) > 5 and not any(points(untouched).values())
    assert {v.reason for v in untouched.verdicts} == {"not answered"} and untouched.notes == []


#: {kind of answer: whether such an answer may earn these points out of the maximum}
EARNS = {
    "wrong": lambda points, of: points == 0,
    "half": lambda points, of: 0 < points < of,
    "otherwise": lambda points, of: points == of,
}


@each_part
def test_wrong_answers_score_zero_half_right_ones_some_and_right_ones_all(course, part, tmp_path):
    """Each submission mixes right and wrong answers, which must not affect each other's points."""
    listed = {
        name: [(code, kind) for kind in EARNS for code in kinds[kind]]
        for name, kinds in answers_to(part).items()
    }
    source, student = course.read("source", part), course.read("student", part)
    for number in range(max(map(len, listed.values()))):
        kinds, answers = {}, {}
        for shift, (name, several) in enumerate(listed.items()):
            code, kinds[name] = several[(number + shift) % len(several)]
            answers[name] = in_the_place_of_the_solution(cell(source, name).source, code)
        report = graded(with_answers(student, **answers), tmp_path, course.path("source", part))
        for name, (got, of) in by_question(report).items():
            assert EARNS[kinds[name]](got, of), (name, got, of, answers[name], report.verdicts)
        said = " ".join(verdict.reason for verdict in report.verdicts)
        assert not re.search("SyntaxError|IndentationError", said), said


# ── Faults of a submission ────────────────────────────────────────────────────────────────

#: {title: (answer to the first of the questions, words in the reason given for its points)}
ANSWERS = {
    "names overwritten": ("half_turn = math.pi\nclose = len = str = abs = None", "right"),
    "no variable of ours": ("import os\nhalf_turn = math.pi + len(os.getenv('OURS', ''))", "right"),
    "another value": ("half_turn = 3", "half a turn"),
    "no value": ("turn = math.pi", "NameError: name 'half_turn' is not defined"),
    "not Python": ("half_turn = = 3", "the answer stops with SyntaxError: invalid syntax"),
    "a question": ("half_turn = float(input())", "EOFError"),
    "all memory": ("half_turn = bytearray(10**11)", "MemoryError"),
    "a large file": ("open('large', 'wb').write(bytes(10**8)); half_turn = 3", "File too large"),
    "an end": ("import os\nos._exit(0)", "the answer ended Python"),
    "a loop": ("while True:\n    half_turn = 3", "the answer ran longer than 8 s"),
    "many lines": ("raise ValueError('a\\n\\x1b[2J  q2   4 of 4   right')", "ValueError: a"),
}
#: Attempts to get the points for the first question without its answer, and the same.
HOSTILE = {
    "the tests' helper": ("half_turn = 3\nclose = lambda measured, expected: True", "half a turn"),
    "Python's own": ("half_turn = 3\nabs = lambda x: 0", "half a turn"),
    "Python's compiler": (
        "import ast, builtins\nbuiltins.compile = lambda *a, **k: ast.parse('')\n"
        "ast.Assert = None\nhalf_turn = 3",
        "half a turn",
    ),
    "equal to everything": (
        "class Equal(float):\n    __sub__ = __rsub__ = lambda x, y: Equal(0)\n"
        "    __abs__ = lambda x: 0.0\nhalf_turn = Equal(3)",
        "is not made of numbers, texts, lists and tensors",
    ),
    "code in a pickle": (
        "class Code:\n    def __reduce__(self):\n        return eval, ('3.141592653589793',)\n"
        "half_turn = Code()",
        "is not made of numbers, texts, lists and tensors",
    ),
    "junk on every pipe": (
        "import os\nfor pipe in range(3, 100):\n    try: os.write(pipe, bytes(range(256)) * 64)\n"
        "    except OSError: pass\nhalf_turn = 3",
        "ended Python",
    ),
    "a forged reply": ("import __main__\n__main__.send('done', None)\nhalf_turn = 3", "pipe"),
    "an end of its parents": (
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor process in (os.getppid(), 0, -1):\n"
        "    try: os.kill(process, signal.SIGTERM)\n    except OSError: pass\nhalf_turn = 3",
        "half a turn",
    ),
    "the hidden tests": (
        "from pathlib import Path\nfound = [p for p in map(Path, {paths}) if p.is_file()]\n"
        "half_turn = math.pi if found else 3",
        "half a turn",
    ),
    "the table of the points": (
        "try:\n    open({table}, 'a').write('ann,part-0,7')\n    half_turn = math.pi\n"
        "except OSError:\n    half_turn = 3",
        "half a turn",
    ),
    "the judge's files": (
        "from pathlib import Path\nfor path in Path('..').rglob('*'):\n"
        "    try: path.write_text('')\n    except OSError: pass\n"
        "half_turn = math.pi if list(Path('../judge').glob('*')) else 3",
        "half a turn",
    ),
}
#: The attempts that only a wall of namespaces prevents; elsewhere they would harm this computer.
NEED_A_WALL = {
    "an end of its parents",
    "the hidden tests",
    "the table of the points",
    "the judge's files",
}


@pytest.mark.parametrize("name", [*ANSWERS, *HOSTILE])
def test_an_answer_counts_for_its_own_points_only(name, small, hand_in, monkeypatch):
    if name in NEED_A_WALL and "unshare" not in wall([])[0]:
        pytest.skip("this system offers no namespaces")
    monkeypatch.setenv("OURS", "a secret")
    code, why = (ANSWERS | HOSTILE)[name]
    code = code.replace("{table}", repr(str(small.path.parent / "../marks.csv")))
    code = code.replace("{paths}", repr([str(small.path), str(Path(grade.__file__))]))
    report = hand_in(with_answers(small.solution, q1=code), seconds=8)
    got = points(report)
    spoilt = {0, 4} if name in HOSTILE else {4}  # an answer may harm the process it shares with q2
    assert (got["q1"], got["q3"]) == (2 if why == "right" else 0, 1) and got["q2"] in spoilt, report
    assert why in reason(report, "q1"), reason(report, "q1")
    assert reason(report, "q4") == "see the rubric"
    text = grade.told(report)
    assert len(text.splitlines()) == 1 + 4 + 1 and "\x1b" not in text


#: {text in the place of formulas: words of the refusal}
NO_FORMULAS = {
    "square = ().__class__": "cannot use .__class__",
    "import os\nsquare = os.abs": "cannot contain Import",
    "square = __builtins__": "cannot use the name __builtins__",
    "square = lambda _x: _x": "cannot use the name _x",
    "square = eval": "name 'eval' is not defined",
    "for x in (1, 2):\n    square = x": "cannot contain For",
    "square = [x for x in (1, 2)]": "cannot contain ListComp",
    "square = math.pow": "cannot use .pow",
    "close.T = 1": "can assign to a name only",
    "given['close'] = 1": "can assign to a name only",
    "square = '().real'": "cannot contain '().real'",
    "square = f'{close}'": "cannot contain JoinedStr",
    "@close\ndef square(x): return x": "cannot contain decorators",
}


@pytest.mark.parametrize("text", NO_FORMULAS)
def test_only_formulas_are_read(text):
    with pytest.raises((formula_reader.NotAFormula, NameError), match=re.escape(NO_FORMULAS[text])):
        formula_reader.read(text, {"close": math.isclose, "math": math, "given": {}})


def test_formulas_define_names_and_change_none_that_was_given():
    given = {"close": math.isclose}
    text = "close = 3\ndef square(x):\n    y = x\n    return y * x if x > 1 else x"
    found = formula_reader.read(text, given)
    assert found["close"] == 3 and found["square"](4) == 16 and given == {"close": math.isclose}


#: {answer in formulas: words in the reason for its points}
FORMULAS = {
    "square = lambda x: 2 * x\nclose = lambda *x: 1 < 2": "the square of 4 is 16",
    "def square(x): return sys.exit": "cannot use .exit",
    "square = lambda x: 9 ** 9 ** 9 ** x": "ran longer than 8 s",
}


@pytest.mark.parametrize("code", FORMULAS)
def test_a_wrong_answer_in_formulas_gets_no_points(code, small, hand_in):
    report = hand_in(with_answers(small.solution, q3=code), seconds=8)
    assert points(report) == {"q1": 2, "q2": 4, "q3": 0}
    assert FORMULAS[code] in reason(report, "q3"), reason(report, "q3")


def test_a_process_that_an_answer_starts_ends_with_the_grading(small, hand_in):
    code = "import subprocess\nsubprocess.Popen(['sleep', '987654'], start_new_session=True)"
    assert points(hand_in(with_answers(small.solution, q1=f"{code}\nhalf_turn = 3")))["q1"] == 0
    lines = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"])]
    assert ["sleep", "987654"] not in lines


def test_a_notebook_has_a_limit_of_time_besides_that_of_its_cells(small, hand_in):
    endless = {f"q{k}": "while True:\n    half_turn = double = 3" for k in (1, 2)}
    report = hand_in(with_answers(small.solution, **endless), seconds=60, minutes=0.25)
    assert points(report) == {"q1": 0, "q2": 0, "q3": 0}
    assert "within 0.25 minutes" in reason(report, "q2")


def test_changed_setup_and_tests_are_restored_and_reported(small, hand_in):
    changed = with_answers(small.solution, **{"q2-tests": "pass"}, q2="def double(x): return 6")
    cell(changed, "setup").source = "close = lambda *_: True"
    changed.cells.remove(cell(changed, "q1-tests"))
    report = hand_in(changed)
    assert points(report) == {"q1": 2, "q2": 0, "q3": 1}
    assert reason(report, "q2") == "double(-5) must be -10"  # only the hidden test fails
    assert [note.split()[0] for note in report.notes] == ["setup", "q1-tests", "q2-tests"]


def test_missing_duplicate_and_added_cells_are_graded_correctly(small, hand_in):
    mixed = with_answers(small.solution, q1="half_turn = helper")
    first = cell(with_answers(small.solution, q1="half_turn = 3"), "q1")
    first.id = "another"
    at = mixed.cells.index(cell(mixed, "q1"))
    mixed.cells[at:at] = [nbformat.v4.new_code_cell("helper = math.pi"), first]
    mixed.cells.remove(cell(mixed, "q2"))
    mixed.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    report = hand_in(mixed)
    assert points(report) == {"q1": 2, "q2": 0, "q3": 1}
    assert reason(report, "q2") == "not answered"
    assert report.notes == [
        "q1 is there 2 times; only the last of these cells counts",
        "added cell 2, after q4, stops with ZeroDivisionError: division by zero",
    ]


def test_an_assignment_that_does_not_run_grades_nobody(small, tmp_path):
    source = nbformat.read(small.path, as_version=4)
    nbformat.write(with_answers(source, setup="import nothing_like_it"), tmp_path / "part-0.ipynb")
    with pytest.raises(grade.CannotGrade, match="cell setup stops with ModuleNotFoundError"):
        graded(small.solution, tmp_path, tmp_path / "part-0.ipynb")


# ── The command ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def classroom(small, tmp_path):
    """A folder ``submitted`` with a right, an empty and a broken notebook."""
    for path, notebook in (("ann/part-0", small.solution), ("bob-part-0", small.student)):
        path = tmp_path / "submitted" / f"{path}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
    (tmp_path / "submitted" / "cy-part-0.ipynb").write_text("no notebook")
    return tmp_path / "submitted"


def test_a_class_becomes_a_table_and_a_text_for_each_student(small, classroom, tmp_path, capsys):
    table, feedback = tmp_path / "marks.csv", tmp_path / "feedback"
    more = ["--source", str(small.path.parent), "--csv", str(table), "--feedback", str(feedback)]
    assert grade.main([str(classroom), str(tmp_path / "nobody.ipynb"), *more]) == 1
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [(row["student"], row["points"]) for row in rows] == [("ann", "7"), ("bob", "0")]
    said = capsys.readouterr().out
    assert "total        7 of 7" in said and "does not appear to be JSON" in said
    assert "cannot be read as a notebook: [Errno 2] No such file" in said
    assert (feedback / "ann" / "part-0.txt").read_text(encoding="utf-8") in said
    assert "not answered" in (feedback / "bob" / "part-0.txt").read_text(encoding="utf-8")


def test_a_row_is_in_the_table_before_the_next_notebook_is_graded(
    small, classroom, tmp_path, monkeypatch
):
    def ended(*_):
        raise KeyboardInterrupt

    table, grades = tmp_path / "marks.csv", iter([grade.grade, ended])
    monkeypatch.setattr(grade, "grade", lambda *args: next(grades)(*args))
    with pytest.raises(KeyboardInterrupt):
        grade.main([str(classroom), "--source", str(small.path.parent), "--csv", str(table)])
    assert "ann,part-0,7,7," in table.read_text(encoding="utf-8")


#: {(file, id in the notebook): the assignment, or words that say why there is none}
NAMES = {
    ("ann/part-0", "part-0"): "part-0",
    ("ann-part-0", None): "part-0",
    ("ann/part-0/homework", None): "part-0",
    ("ann/homework", "part-0"): "part-0",
    ("ann/part-0", "sheet-01"): "names two assignments",
    ("ann/homework", "../../part-0"): "names no assignment",
    ("ann/homework", "/tmp/part-0"): "names no assignment",
    ("ann/homework", 0): "names no assignment",
    ("ann/homework", "part-1"): "there is no",
}


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_only_an_assignment_of_the_course_can_be_named(names, small, tmp_path):
    path = tmp_path / f"{names[0]}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.from_dict({**small.solution, "metadata": {"assignment": {"id": names[1]}}})
    path.write_text(json.dumps(notebook), encoding="utf-8")
    options = SimpleNamespace(source=small.path.parent)
    if NAMES[names] == "part-0":
        assert grade.source_for(path, options) == small.path
        assert grade.student_of(path) == "ann"
    else:
        with pytest.raises(grade.CannotGrade, match=NAMES[names]):
            grade.source_for(path, options)


def test_the_folders_with_solutions_and_submissions_are_hidden_from_answers(classroom):
    """The archive for teachers has the sources twice: for grade.py, and for nbgrader."""
    here = Path(grade.__file__).parent
    options = SimpleNamespace(source=here / "source", submissions=[classroom])
    paths = grade.submissions([classroom])
    nbgrader = here.parent / "nbgrader"
    with mock.patch.object(Path, "is_dir", lambda path: True):
        hidden = grade.hidden_from_answers(options, paths)
    assert {here, nbgrader, classroom.resolve()} == {*hidden}  # each holds all folders in it
