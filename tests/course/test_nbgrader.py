"""nbgrader accepts the assignments unchanged, and gives honest answers the points of grade.py."""

import copy
import os
import re
import shutil
import subprocess
import sys

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
    with_answers,
)

from tools.course.archives import TEACHING
from tools.files import ROOT

FOLDER = ROOT / ".venv" / "nbgrader"
VERSION = "0.9.6"
STRIP = """
import ast
class Strip(ast.NodeTransformer):
    visit_Assert = lambda self, node: ast.copy_location(ast.Pass(), node)
get_ipython().ast_transformers.append(Strip())
"""
UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|NameResolutionError|Network is unreachable|Max retries"
)


@pytest.fixture(scope="session")
def nbgrader():
    """Install nbgrader in a folder of its own, with dependencies at the book's pinned versions."""
    pins = [f"-c{ROOT / name}" for name in ("requirements.txt", "constraints.txt")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", f"--target={FOLDER}"]
    with FileLock(FOLDER.with_suffix(".lock")):
        if not list(FOLDER.glob(f"nbgrader-{VERSION}.dist-info")):
            done = subprocess.run(
                [*pip, f"nbgrader=={VERSION}", *pins], capture_output=True, text=True
            )
            if done.returncode and UNREACHABLE.search(done.stderr):
                pytest.skip("nbgrader cannot be installed: PyPI cannot be reached")
            assert done.returncode == 0, done.stderr[-2000:]
    sys.path.append(str(FOLDER))
    return FOLDER


@pytest.fixture(scope="session")
def classroom(nbgrader, tmp_path_factory):
    """A function that runs nbgrader's commands in ``run.folder``, a teacher's course folder."""
    folder = tmp_path_factory.mktemp("classroom")
    shutil.copy(TEACHING / "handouts" / "nbgrader_config.py", folder)
    environment = os.environ | {
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PATH": f"{nbgrader / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(nbgrader),
        "JUPYTER_PATH": str(nbgrader / "share" / "jupyter"),
    }

    def run(*command):
        command = [sys.executable, "-m", "nbgrader", *command]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    run.folder = folder
    return run


def gradebook(folder, part):
    """{student: {cell: its points, or None if a person has to grade it}}."""
    from nbgrader.api import Gradebook  # the fixture `nbgrader` installs this

    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        return {
            submission.student.id: {
                grade.name: None if grade.needs_manual_grade else grade.auto_score
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in book.assignment_submissions(part)
        }


def without_assertions(notebook):
    """A submission that removes the assertions of all cells after its first."""
    notebook = copy.deepcopy(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRIP))
    return notebook


@pytest.mark.parametrize("part", PARTS)
def test_nbgrader_gives_the_same_points_as_grade_py(part, classroom, course, tmp_path):
    (classroom.folder / "source" / part).mkdir(parents=True)
    shutil.copy(course.path("source", part), classroom.folder / "source" / part)
    classroom("generate_assignment", part)
    students = {name: course.read(name, part) for name in ("solution", "student")}
    question, kinds = next(iter(answers_to(part).items()))
    marked = cell(course.read("source", part), question).source
    for kind in ("wrong", "half"):
        answer = in_the_place_of_the_solution(marked, kinds[kind][0])
        students[kind] = with_answers(students["solution"], **{question: answer})
    students["stripped"] = without_assertions(students["wrong"])
    for student, notebook in students.items():
        folder = classroom.folder / "submitted" / student / part
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{part}.ipynb")
    classroom("autograde", part, "--Execute.timeout=120")
    told = gradebook(classroom.folder, part)

    stripped, notebook = told.pop("stripped"), students.pop("stripped")
    assert sum(filter(None, stripped.values())) > sum(filter(None, told["wrong"].values()))
    apart = points(graded(notebook, tmp_path, course.path("source", part)))
    assert sum(apart.values()) <= sum(filter(None, told["wrong"].values()))

    for student, notebook in students.items():
        report = graded(notebook, tmp_path, course.path("source", part))
        by_tests = {name: of for name, of in told[student].items() if name.endswith("-tests")}
        assert by_tests == {f"{name}-tests": of for name, of in points(report).items()}, student
        waiting = {name for name, of in told[student].items() if of is None}
        assert waiting == {v.question for v in report.verdicts if v.reason == "see the rubric"}

    classroom("generate_feedback", part)
    page = classroom.folder / "feedback" / "half" / part / f"{part}.html"
    shown = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").get_text()
    missing = next(v.reason for v in report.verdicts if v.points == 0)
    assert "".join(missing.split()) in "".join(shown.split())
