"""Write the assignments: with solutions and hidden tests, for students, and solved.

    python tools/assignments.py                # into _build/course/assignments
    python tools/assignments.py some/folder    # elsewhere

Each is one source in book/teaching/assignments, or a chapter's sheet that `families` draws by the
SEED of the environment, marked as nbgrader has it.  It becomes three notebooks that run alone:
their first cell writes the book's code beside them.

    source/part-2.ipynb      for grade.py, and for nbgrader, which makes its own students' version
    student/part-2.ipynb     without solutions and hidden tests
    solution/part-2.ipynb    solved: the source without the lines that mark the solutions
"""

import copy
import os
import re
import sys
from pathlib import Path

import nbformat
from colab import COLAB, FOLDED, companions, writing_cell
from families import families, name_of, sheet
from files import demand, in_a_sentence, read_notebook, write

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "book" / "teaching" / "assignments"
COPIES = ROOT / "_build" / "course" / "assignments"
STUBS = {
    "code": ["# YOUR CODE HERE", "raise NotImplementedError()"],
    "markdown": ["YOUR ANSWER HERE"],
}
REGION = r"^( *)### BEGIN {0}\n(.*?)^ *### END {0} *$\n?"
SOLUTION = re.compile(REGION.format("SOLUTION"), re.DOTALL | re.MULTILINE)
HIDDEN = re.compile(REGION.format("HIDDEN TESTS"), re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"^ *### (BEGIN|END) ", re.MULTILINE)


@in_a_sentence
def main(arguments):
    write_assignments(Path(arguments[0]) if arguments else COPIES)
    return 0


def seed():
    """What the sheets are drawn by: nobody's secret where the environment does not say it."""
    return os.environ.get("SEED", "1")


def write_assignments(folder):
    """All assignments and sheets, each in three versions."""
    sources = {path.name: read_notebook(path) for path in sorted(SOURCES.glob("*.ipynb"))}
    sources |= {f"{name_of(n)}.ipynb": sheet(n, seed()) for n in families()}
    for name, notebook in sources.items():
        for version, text in versions(name, notebook).items():
            (folder / version).mkdir(parents=True, exist_ok=True)
            write(folder / version / name, text)
    print(f"{len(sources)} assignments, each as source, for students and solved: {folder}")


def versions(name, notebook):
    """{"source", "student", "solution": its text}; Fault where a solution has no end."""
    source = with_opening(notebook)
    student = changed(source, for_students)
    for cell in student.cells:
        whole = not MARKER.search(cell.source)
        demand(whole, f"{name}: cell {cell.id}: each ### BEGIN needs its ### END")
    made = {"source": source, "student": student, "solution": changed(source, solved)}
    return {name: nbformat.writes(one).rstrip("\n") + "\n" for name, one in made.items()}


def with_opening(notebook):
    """The notebook behind a first cell that writes the book's code."""
    code = writing_cell(companions(changed(notebook, solved)))
    mark = {"grade_id": "the-checker", "schema_version": 3, "cell_type": "code", "locked": True}
    mark |= {"grade": False, "solution": False, "task": False}
    metadata = {**FOLDED, "nbgrader": mark}
    opening = nbformat.v4.new_code_cell(code, metadata=metadata, id="the-checker")
    notebook.cells.insert(0, opening)
    notebook.metadata.update(COLAB)
    return notebook


def changed(notebook, change):
    """A copy of the notebook with another source in each cell."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        cell.source = change(cell).rstrip("\n")
    return notebook


def for_students(cell):
    """A cell's source with a stub for each solution, and without hidden tests."""
    stub = lambda found: "".join(f"{found[1]}{line}\n" for line in STUBS[cell.cell_type])
    return HIDDEN.sub("", SOLUTION.sub(stub, cell.source + "\n"))


def solved(cell):
    """A cell's source with its solution, whose markers are gone."""
    return SOLUTION.sub(lambda found: found[2], cell.source + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
