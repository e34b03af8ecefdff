"""nbgrader takes the assignments as they are, and gives the points that grade.py gives."""

import json
import os
import re
import subprocess
import sysconfig
import venv
from pathlib import Path

import assignments
import nbformat
import pytest
from bs4 import BeautifulSoup
from filelock import FileLock
from submissions import (
    PARTS,
    answers_to,
    cell,
    graded,
    in_the_place_of_the_solution,
    points,
    reason,
    with_answers,
)

ROOT = assignments.ROOT
FOLDER = ROOT / ".venv" / "nbgrader"
NBGRADER = "nbgrader==0.9.6"
PINS = ("requirements.txt", "constraints.txt")
UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|NameResolutionError|Network is unreachable|Max retries"
)

each_part = pytest.mark.parametrize("part", PARTS)

#: Run by nbgrader's Python: what its gradebook says of an assignment.
GRADEBOOK = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({
        submission.student.id: {
            grade.name: [grade.auto_score, grade.max_score, grade.needs_manual_grade]
            for notebook in submission.notebooks for grade in notebook.grades
        }
        for submission in book.assignment_submissions(sys.argv[1])
    }))
"""


@pytest.fixture(scope="session")
def nbgrader():
    """The folder of nbgrader's commands: an environment of its own, which looks into the book's
    for what is there already, so that torch is not installed twice."""
    wanted = f"{NBGRADER} {' '.join((ROOT / name).read_text() for name in PINS)}"
    with FileLock(FOLDER.parent / "nbgrader.lock"):
        stamp = FOLDER / ".installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            venv.create(FOLDER, with_pip=True, clear=True)
            installed = sysconfig.get_paths(vars={"base": str(FOLDER)})["purelib"]
            Path(installed, "the-book.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
            pins = [f"-c{ROOT / name}" for name in PINS]
            command = [FOLDER / "bin" / "python", "-m", "pip", "install", "--quiet", NBGRADER]
            done = subprocess.run([*command, *pins], capture_output=True, text=True)
            if done.returncode and UNREACHABLE.search(done.stderr):
                pytest.skip(f"{NBGRADER} cannot be installed: PyPI cannot be reached")
            assert done.returncode == 0, done.stderr[-2000:]
            stamp.write_text(wanted)
    return FOLDER / "bin"


@pytest.fixture(scope="session")
def classroom(nbgrader, course, tmp_path_factory):
    """A course as nbgrader wants it, and a way to run its commands there."""
    folder, home = tmp_path_factory.mktemp("classroom"), tmp_path_factory.mktemp("home")
    (folder / "nbgrader_config.py").write_text("c.CourseDirectory.course_id = 'bias'\n")
    variables = {"HOME": str(home), "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    variables |= {"PATH": f"{nbgrader}{os.pathsep}{os.environ['PATH']}"}
    unwanted = ("IPYTHONDIR", "JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "MPLBACKEND")
    environment = {k: v for k, v in os.environ.items() if k not in unwanted} | variables

    def run(*command):
        done = subprocess.run(
            [nbgrader / command[0], *command[1:]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    run.folder = folder
    return run


def hand_in(classroom, part, **notebooks):
    """Put submissions where nbgrader looks for them."""
    for student, notebook in notebooks.items():
        path = classroom.folder / "submitted" / student / part / f"{part}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)


def one_mistake(course, part):
    """The solution with a wrong answer to one question; which question."""
    source, solution = course.read("source", part), course.read("solution", part)
    name, kinds = next(iter(answers_to(part).items()))
    wrong = in_the_place_of_the_solution(cell(source, name).source, kinds["wrong"][0])
    return name, with_answers(solution, **{name: wrong})


def words(text):
    """A text without what a page changes of it: blanks and where lines end."""
    return "".join(text.split())


@each_part
def test_nbgrader_gives_the_points_that_the_plain_route_gives(part, classroom, course, tmp_path):
    source = classroom.folder / "source" / part / f"{part}.ipynb"
    source.parent.mkdir(parents=True)
    source.write_bytes((course.folder / "source" / f"{part}.ipynb").read_bytes())
    classroom("nbgrader", "generate_assignment", part)
    name, mistaken = one_mistake(course, part)
    students = {
        "solved": course.read("solution", part),
        "untouched": course.read("student", part),
        "mistaken": mistaken,
    }
    hand_in(classroom, part, **students)
    classroom("nbgrader", "autograde", part, "--Execute.timeout=120")
    told = json.loads(classroom("python", "-c", GRADEBOOK, part))
    for student, notebook in students.items():
        plain = graded(notebook, tmp_path, course.read("source", part))
        scores = {k: score for k, (score, _, _) in told[student].items() if k.endswith("-tests")}
        assert scores == {f"{k}-tests": found for k, found in points(plain).items()}, student
        waiting = [k for k, (_, _, by_hand) in told[student].items() if by_hand]
        assert waiting == [v.question for v in plain.verdicts if v.reason == "see the rubric"]
    tests = {k: (score, of) for k, (score, of, _) in told["solved"].items() if k.endswith("-tests")}
    assert all(score == of > 0 for score, of in tests.values())
    assert not any(score for score, _, _ in told["untouched"].values())
    lost = {k for k, (score, of) in tests.items() if told["mistaken"][k][0] != of}
    assert lost == {f"{name}-tests"} and told["mistaken"][f"{name}-tests"][0] == 0

    classroom("nbgrader", "generate_feedback", part)
    page = classroom.folder / "feedback" / "mistaken" / part / f"{part}.html"
    shown = words(BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").get_text())
    assert words(reason(plain, name)) in shown
