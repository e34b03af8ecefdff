"""nbgrader accepts an assignment unchanged, and gives honest answers the points of grade.py."""

import copy
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from filelock import FileLock
from submissions import PARTS, answers_to, graded, points, with_solutions

from tools.course.archives import HANDOUTS
from tools.files import ROOT

FOLDER = ROOT / "_build" / "nbgrader"
VERSION = "0.9.6"
STRIP = """
import ast
class Strip(ast.NodeTransformer):
    visit_Assert = lambda self, node: ast.copy_location(ast.Pass(), node)
get_ipython().ast_transformers.append(Strip())
"""
UNREACHABLE = re.compile(r"NewConnectionError|ConnectTimeout|NameResolutionError|Max retries")


@pytest.fixture(scope="session")
def nbgrader(tmp_path_factory):
    """A function that runs nbgrader's commands in ``run.folder``, a teacher's course folder.

    nbgrader is installed in a folder of its own, with dependencies at the book's pinned versions.
    """
    pins = [f"-c{ROOT / name}" for name in ("requirements.txt", "constraints.txt")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", f"--target={FOLDER}"]
    FOLDER.parent.mkdir(exist_ok=True)
    with FileLock(FOLDER.with_suffix(".lock")):
        if not list(FOLDER.glob(f"nbgrader-{VERSION}.dist-info")):
            pip += [f"nbgrader=={VERSION}", *pins]
            done = subprocess.run(pip, capture_output=True, text=True)
            if done.returncode and UNREACHABLE.search(done.stderr):
                pytest.skip("nbgrader cannot be installed: PyPI cannot be reached")
            assert done.returncode == 0, done.stderr[-2000:]
    environment = os.environ | {
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PATH": f"{FOLDER / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(FOLDER),
        "JUPYTER_PATH": str(FOLDER / "share" / "jupyter"),
    }

    def run(*command):
        command = [sys.executable, "-m", "nbgrader", *command]
        options = {"cwd": run.folder, "env": environment}
        done = subprocess.run(command, **options, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    run.folder = tmp_path_factory.mktemp("classroom")
    shutil.copy(HANDOUTS / "nbgrader_config.py", run.folder)
    return run


def gradebook(folder, part):
    """{student: {part of a question that tests grade: its points}}."""
    sys.path.append(str(FOLDER))
    from nbgrader.api import Gradebook  # the fixture `nbgrader` installs this

    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        return {
            submission.student.id: {
                grade.name.removesuffix("-tests"): grade.auto_score
                for grade in submission.notebooks[0].grades
                if grade.name.endswith("-tests")
            }
            for submission in book.assignment_submissions(part)
        }


@pytest.mark.parametrize("part", PARTS)
def test_nbgrader_gives_the_same_points_as_grade_py(part, nbgrader, course, tmp_path):
    path, source = course.path("source", part), course.read("source", part)
    question, answers = next(iter(answers_to(part).items()))
    students = {name: course.read(name, part) for name in ("solution", "student")}
    for kind in ("wrong", "half"):
        answer = {question: dict(reversed(answers))[kind]}
        students[kind] = with_solutions(students["solution"], source, **answer)
    students["stripped"] = copy.deepcopy(students["wrong"])
    students["stripped"].cells.insert(0, nbformat.v4.new_code_cell(STRIP))
    for student, notebook in students.items():
        folder = nbgrader.folder / "submitted" / student / part
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{part}.ipynb")
    (nbgrader.folder / "source" / part).mkdir(parents=True)
    shutil.copy(path, nbgrader.folder / "source" / part)
    nbgrader("generate_assignment", part)
    nbgrader("autograde", part, "--Execute.timeout=120")
    told = gradebook(nbgrader.folder, part)

    # a submission can remove the assertions of the cells after it, but not from grade.py
    assert sum(told.pop("stripped").values()) > sum(told["wrong"].values())
    ours = {name: points(graded(one, tmp_path, path)) for name, one in students.items()}
    assert sum(ours.pop("stripped").values()) <= sum(told["wrong"].values())
    assert told == ours
    nbgrader("generate_feedback", part)
