"""nbgrader takes the assignments as they are, and gives the points that grade.py gives."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest
from assignments import ROOT
from bs4 import BeautifulSoup
from course import TEACHING
from filelock import FileLock
from submissions import (
    PARTS,
    answers_to,
    by_question,
    cell,
    graded,
    in_the_place_of_the_solution,
    points,
    with_answers,
)

FOLDER = ROOT / ".venv" / "nbgrader"
NBGRADER = "nbgrader==0.9.6"
PINS = ("requirements.txt", "constraints.txt")
UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|NameResolutionError|Network is unreachable|Max retries"
)
#: Run by nbgrader's Python: {student: {cell: its points}}, None for what waits for a person.
GRADEBOOK = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({
        submission.student.id: {
            grade.name: None if grade.needs_manual_grade else grade.auto_score
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
def classroom(nbgrader, tmp_path_factory):
    """A course folder as a teacher gets it, and a way to run nbgrader's commands there."""
    folder = tmp_path_factory.mktemp("classroom")
    shutil.copy(TEACHING / "handouts" / "nbgrader_config.py", folder)
    environment = {
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PATH": f"{nbgrader}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }

    def run(*command):
        command = [nbgrader / command[0], *command[1:]]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    run.folder = folder
    return run


def with_another_first_answer(course, part, kind):
    """(the solution with a wrong or half-right answer to one question, which question)."""
    source, solution = course.read("source", part), course.read("solution", part)
    name, kinds = next(iter(answers_to(part).items()))
    code = in_the_place_of_the_solution(cell(source, name).source, kinds[kind][0])
    return with_answers(solution, **{name: code}), name


@pytest.mark.parametrize("part", PARTS)
def test_nbgrader_gives_the_points_that_the_plain_route_gives(part, classroom, course, tmp_path):
    (classroom.folder / "source" / part).mkdir(parents=True)
    shutil.copy(course.path("source", part), classroom.folder / "source" / part)
    classroom("nbgrader", "generate_assignment", part)
    students = {name: course.read(name, part) for name in ("solution", "student")}
    for kind in ("wrong", "half"):
        students[kind], question = with_another_first_answer(course, part, kind)
    for student, notebook in students.items():
        folder = classroom.folder / "submitted" / student / part
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{part}.ipynb")
    classroom("nbgrader", "autograde", part, "--Execute.timeout=120")
    told = json.loads(classroom("python", "-c", GRADEBOOK, part))

    plain = {}
    for student, notebook in students.items():
        report = plain[student] = graded(notebook, tmp_path, course.path("source", part))
        by_tests = {name: of for name, of in told[student].items() if name.endswith("-tests")}
        assert by_tests == {f"{name}-tests": of for name, of in points(report).items()}, student
        waiting = {name for name, of in told[student].items() if of is None}
        assert waiting == {v.question for v in report.verdicts if v.reason == "see the rubric"}
    (wrong, of), (half, _) = (by_question(plain[kind])[question] for kind in ("wrong", "half"))
    assert wrong == 0 < half < of

    classroom("nbgrader", "generate_feedback", part)
    page = classroom.folder / "feedback" / "half" / part / f"{part}.html"
    shown = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").get_text()
    missing = next(v.reason for v in plain["half"].verdicts if v.points == 0)
    assert "".join(missing.split()) in "".join(shown.split())
