"""Write the assignments: with solutions and hidden tests, for students, and solved.

    python tools/assignments.py                # into _build/course/assignments
    python tools/assignments.py some/folder    # elsewhere

Each is one source in book/teaching/assignments, marked as nbgrader has it, and becomes three
notebooks that run alone: their first cell writes the book's code beside them.

    source/part-2.ipynb      for grade.py, and for nbgrader, which makes its own students' version
    student/part-2.ipynb     without solutions and hidden tests
    solution/part-2.ipynb    without the lines that mark them; it runs from top to bottom

A source that breaks a rule is refused, with the cell and the rule: nothing is written then.
"""

import ast
import copy
import re
import sys
from pathlib import Path

import nbformat
from colab import COLAB, FOLDED, companions, writing_cell
from files import Fault, in_a_sentence, write

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "book" / "teaching" / "assignments"
COPIES = ROOT / "_build" / "course" / "assignments"
OPENING = {"grade_id": "the-checker", "schema_version": 3, "cell_type": "code",
           "grade": False, "solution": False, "locked": True, "task": False}  # fmt: skip
STUBS = {
    "code": ["# YOUR CODE HERE", "raise NotImplementedError()"],
    "markdown": ["YOUR ANSWER HERE"],
}
REGION = r"^( *)### BEGIN {0}\n(.*?)^ *### END {0} *$\n?"
SOLUTION = re.compile(REGION.format("SOLUTION"), re.DOTALL | re.MULTILINE)
HIDDEN = re.compile(REGION.format("HIDDEN TESTS"), re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"^ *### (BEGIN|END) .*\n?", re.MULTILINE)


@in_a_sentence
def main(arguments):
    folder = Path(arguments[0]) if arguments else COPIES
    paths = sorted(SOURCES.glob("*.ipynb"))
    texts = {folder / version / path.name: text
             for path in paths for version, text in versions(path).items()}  # fmt: skip
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)
    print(f"{len(paths)} assignments, each as source, for students and solved: {folder}")
    return 0


def versions(path):
    """{"source", "student", "solution": the text of the notebook}; raises Fault for a broken rule."""
    source = with_opening(checked(path))
    made = {
        "source": source,
        "student": changed(source, for_students),
        "solution": changed(source, solved),
    }
    return {name: nbformat.writes(one).rstrip("\n") + "\n" for name, one in made.items()}


def with_opening(notebook):
    """The notebook behind a first cell that writes the book's code."""
    opening = nbformat.v4.new_code_cell(
        writing_cell(companions(changed(notebook, solved))),
        metadata={**FOLDED, "nbgrader": OPENING},
        id="the-checker",
    )
    notebook = copy.deepcopy(notebook)
    notebook.cells.insert(0, opening)
    notebook.metadata.update(COLAB)
    return notebook


def changed(notebook, change):
    """The notebook with another source in each cell."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        cell.source = change(cell)
    return notebook


def for_students(cell):
    """A cell's source with a stub for each solution, and without hidden tests."""
    stub = lambda found: "".join(f"{found[1]}{line}\n" for line in STUBS[cell.cell_type])
    return HIDDEN.sub("", SOLUTION.sub(stub, cell.source + "\n")).rstrip("\n")


def solved(cell):
    """A cell's source without the lines that mark solutions and hidden tests."""
    return MARKER.sub("", cell.source + "\n").rstrip("\n")


# ── The rules ─────────────────────────────────────────────────────────────────────────────


def checked(path):
    """The source, once it keeps all rules."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # whatever is no notebook
        raise Fault(f"{path.name}: not a notebook: {str(error).splitlines()[0]}") from None
    about = notebook.metadata.get("assignment", {})
    if about.get("id") != path.stem or not about.get("title"):
        raise Fault(f'{path.name}: its metadata must say "assignment": id "{path.stem}" and title')
    waiting, names = None, set()  # the answer that has no tests yet; what is named already
    for number, cell in enumerate(notebook.cells, 1):
        mark = cell.metadata.get("nbgrader", {})
        name = mark.get("grade_id", f"number {number}")
        twice = ["this grade_id is there already"] if name in names else []
        names.add(name)
        for broken in [*rules(cell, mark, waiting), *twice]:
            raise Fault(f"{path.name}: cell {name}: {broken}")
        if cell.cell_type == "code":
            waiting = mark.grade_id if mark.solution else None if mark.grade else waiting
    if waiting:
        raise Fault(f"{path.name}: cell {waiting}: an answer without tests after it")
    return notebook


def rules(cell, mark, waiting):
    """The rules that a cell of a source breaks, each as a sentence."""
    code, tests = cell.cell_type == "code", mark.get("grade") and not mark.get("solution")
    if code and not re.fullmatch(r"[\w-]+", str(mark.get("grade_id", ""))):
        yield "a code cell needs nbgrader's metadata: it is setup, an answer or tests"
        return
    left = MARKER.sub("", HIDDEN.sub("", SOLUTION.sub("", cell.source + "\n")))
    if "### BEGIN" in left or len(MARKER.findall(cell.source)) % 2:
        yield "each ### BEGIN needs its ### END"
    if mark.get("solution") and not SOLUTION.search(cell.source + "\n"):
        yield "an answer without a solution: ### BEGIN SOLUTION is missing"
    if not mark.get("solution") and SOLUTION.search(cell.source + "\n"):
        yield "a solution stands in a cell that is no answer"
    if mark.get("grade") and not mark.get("points", 0) > 0:
        yield "a graded cell needs points"
    if code and tests and waiting is None:
        yield "tests without an answer before them"
    if code:
        yield from rules_of_code(cell, tests)


def rules_of_code(cell, tests):
    try:
        tree, _ = ast.parse(solved(cell)), ast.parse(for_students(cell))
    except SyntaxError as error:
        yield f"not Python, in line {error.lineno}: {error.msg}"
        return
    if tests and any(isinstance(n, ast.Assert) and not n.msg for n in ast.walk(tree)):
        yield "an assert without a message: it must say what is wrong"
    last = tree.body[-1] if tests and tree.body else None
    if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call):
        yield "tests end with a value: nbgrader would take it for points"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
