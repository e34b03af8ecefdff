"""Write the assignments: as nbgrader takes them, as students get them, and solved.

    python tools/assignments.py                # into _build/course/assignments
    python tools/assignments.py some/folder    # elsewhere

Each is one source in book/teaching/assignments, and becomes three notebooks that run alone, as the
copies for Colab do: their first cell writes the book's code beside them.

    source/part-2.ipynb      with solutions and hidden tests, for nbgrader and for grade.py
    student/part-2.ipynb     what nbgrader's generate_assignment makes of it, cell by cell
    solution/part-2.ipynb    the source without its markers; it runs from top to bottom

A source that breaks a rule is refused, with the cell and the rule: nothing is written then.
"""

import ast
import builtins
import copy
import hashlib
import re
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import nbformat
from colab import COLAB, FOLDED, companions, writing_cell
from files import in_a_sentence, write

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "book" / "teaching" / "assignments"
COPIES = ROOT / "_build" / "course" / "assignments"

sys.path.insert(0, str(SOURCES))
import grade  # noqa: E402  (the grader says what the student's version of a cell is)

SCHEMA = 3
FLAGS = ("grade", "solution", "locked", "task")
LOCKED = {"grade": False, "solution": False, "locked": True, "task": False}
OPENING_NAME = "the-checker"
MARKERS = (*grade.SOLUTION, *grade.HIDDEN)
#: Words that make nbgrader do something that no assignment here wants.
RESERVED = ("BEGIN MARK SCHEME", "AUTOTEST")
#: What an expression at the end of a test shows, nbgrader takes for points.
SILENT = ast.Call


class BrokenRule(ValueError):
    """A source that breaks a rule: which file, which cell, which rule."""


@in_a_sentence
def main(arguments):
    folder = Path(arguments[0]) if arguments else COPIES
    paths = sorted(SOURCES.glob("*.ipynb"))
    try:
        texts = {
            folder / version / path.name: text
            for path in paths
            for version, text in versions(path).items()
        }
    except BrokenRule as broken:
        print(broken)
        return 1
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)
    print(f"{len(paths)} assignments, each as source, for students and solved: {folder}")
    return 0


def versions(path):
    """{"source", "student", "solution": the text of the notebook}."""
    notebook = checked(path)
    source = with_opening(notebook)
    made = {
        "source": source,
        "student": for_students(source),
        "solution": solved(source),
    }
    return {name: nbformat.writes(one).rstrip("\n") + "\n" for name, one in made.items()}


# ── The three versions ────────────────────────────────────────────────────────────────────


def with_opening(notebook):
    """The notebook behind a first cell that writes the book's code."""
    notebook = copy.deepcopy(notebook)
    source = writing_cell(companions(unmarked(notebook)))
    mark = {**LOCKED, "grade_id": OPENING_NAME, "schema_version": SCHEMA, "cell_type": "code"}
    opening = nbformat.v4.new_code_cell(
        source, metadata={**FOLDED, "nbgrader": mark}, id=OPENING_NAME
    )
    notebook.cells.insert(0, opening)
    notebook.metadata.update(COLAB)
    return notebook


def for_students(source):
    """What nbgrader releases: no solutions, no hidden tests, cells locked, checksums."""
    notebook = copy.deepcopy(source)
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader")
        cell.source = as_graded(cell).for_students()
        if not mark:
            continue
        if mark.solution or mark.grade or mark.locked:
            cell.metadata["deletable"] = False
            mark["checksum"], mark["cell_type"] = checksum(cell), cell.cell_type
        if not mark.solution and (mark.grade or mark.locked):
            cell.metadata["editable"] = False
    return notebook


def solved(source):
    """The source, nothing missing but its markers."""
    return unmarked(copy.deepcopy(source))


def unmarked(notebook):
    """The notebook without the lines that mark solutions and hidden tests."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        cell.source = grade.without_markers(cell.source)
    return notebook


def checksum(cell):
    """The number by which nbgrader knows whether a cell was changed."""
    mark = cell.metadata.nbgrader
    locked = not mark.solution and (mark.grade or mark.locked)
    parts = [cell.source, cell.cell_type, mark.grade, mark.solution, locked, mark.grade_id]
    parts += [float(mark.points)] if mark.grade else []
    return hashlib.md5("".join(map(str, parts)).encode()).hexdigest()


def as_graded(cell):
    """The cell as grade.py reads it."""
    return grade.Cell.of(cell)


# ── The rules ─────────────────────────────────────────────────────────────────────────────


def checked(path):
    """The source, once it keeps all rules."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a missing or doubled id would be made up anew
            notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
            nbformat.validate(notebook)
    except (ValueError, Warning, nbformat.ValidationError) as error:
        raise BrokenRule(f"{path.name}: not a notebook: {str(error).splitlines()[0]}") from None
    for broken in rules(notebook, path.stem):
        raise BrokenRule(f"{path.name}: {broken}")
    return notebook


def rules(notebook, name):
    """The rules that the source of an assignment breaks, each as a sentence."""
    yield from of_the_notebook(notebook, name)
    seen = set()
    for number, cell in enumerate(notebook.cells, 1):
        which = cell.metadata.get("nbgrader", {}).get("grade_id") or f"number {number}"
        found = [*of_its_metadata(cell), *of_its_regions(cell)]
        found += of_its_code(cell) if not found else []
        found += ["this grade_id is there already"] if which in seen else []
        seen.add(which)
        yield from (f"cell {which}: {broken}" for broken in found)
    yield from of_its_questions([as_graded(cell) for cell in notebook.cells])


def of_the_notebook(notebook, name):
    """Format and metadata of the whole."""
    about = notebook.metadata.get("assignment", {})
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        yield f"format {notebook.nbformat}.{notebook.nbformat_minor}, not 4.5"
    if about.get("id") != name or not about.get("title"):
        yield f'its metadata must say {{"assignment": {{"id": "{name}", "title": "…"}}}}'
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its metadata must name the kernel python3"


def of_its_metadata(cell):
    """What nbgrader's metadata of a cell must say."""
    mark = cell.metadata.get("nbgrader")
    if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
        yield "a source is stored without outputs and execution counts"
    if mark is None:
        if cell.cell_type == "code":
            yield "a code cell without nbgrader's metadata: it is neither setup, answer nor tests"
        return
    if mark.get("schema_version") != SCHEMA or not all(
        isinstance(mark.get(flag), bool) for flag in FLAGS
    ):
        yield f"its metadata must say schema_version {SCHEMA} and {', '.join(FLAGS)}"
        return
    if not re.fullmatch(r"[\w-]+", str(mark.get("grade_id", "")), re.ASCII):
        yield "a grade_id is made of letters, digits, - and _"
    if mark.get("cell_type", cell.cell_type) != cell.cell_type:
        yield f"its metadata calls it {mark.cell_type}, but it is {cell.cell_type}"
    if mark.grade and not (isinstance(mark.get("points"), int | float) and mark.points > 0):
        yield "a graded cell needs points"
    if mark.locked == mark.solution or mark.task:
        yield "a cell is either an answer (solution) or locked, and no task"
    if cell.cell_type == "markdown" and mark.grade != mark.solution:
        yield "a Markdown cell is a graded answer, or neither an answer nor graded"
    if cell.cell_type == "code" and mark.grade and mark.solution:
        yield "an answer in code is not graded itself: its tests are"


def of_its_regions(cell):
    """Where solutions and hidden tests may stand, and that each region ends."""
    graded = as_graded(cell)
    for word in RESERVED:
        if word in cell.source:
            yield f"{word} means something to nbgrader"
    for (begin, end), belongs, place in (
        (grade.SOLUTION, graded.answer, "an answer"),
        (grade.HIDDEN, graded.tests, "tests"),
    ):
        opened = [line for line in cell.source.split("\n") if begin in line or end in line]
        if opened and not belongs:
            yield f"{begin} stands in a cell that is not {place}"
        if len(opened) % 2 or not all(
            begin in first and end in last for first, last in zip(opened[::2], opened[1::2])
        ):
            yield f"each {begin} needs its {end}"
        if any(not line.strip().startswith("### ") for line in opened):
            yield f"a marker is a line of its own: ### {begin}"
    if graded.answer and grade.SOLUTION[0] not in cell.source:
        yield "an answer without a solution: ### BEGIN SOLUTION is missing"


def of_its_code(cell):
    """What the code of a cell must be like, in each version."""
    if cell.cell_type != "code":
        return
    graded = as_graded(cell)
    try:
        ast.parse(graded.for_students())
        tree = ast.parse(grade.without_markers(cell.source))
    except SyntaxError as error:
        yield f"not Python (in line {error.lineno} of one of its versions): {error.msg}"
        return
    if any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(tree)):
        yield "import * hides what the setup defines"
    if not graded.tests:
        return
    if any(isinstance(node, ast.Assert) and not node.msg for node in ast.walk(tree)):
        yield "an assert without a message: it must say what is wrong"
    for version in (tree, ast.parse(graded.for_students())):
        last = version.body[-1] if version.body else None
        if isinstance(last, ast.Expr) and not isinstance(last.value, SILENT):
            yield "tests end with a value: nbgrader would take it for points"


def of_its_questions(cells):
    """Each answer has its tests, and no question leans on another."""
    code = [cell for cell in cells if cell.code and cell.mark.get("schema_version")]
    waiting = None
    for before, cell in pairwise([None, *code]):
        if cell.tests and not (before and (before.answer or before.tests)) and waiting is None:
            yield f"cell {cell.name}: tests without an answer before them"
        waiting = cell.name if cell.answer else None if cell.tests else waiting
    if waiting:
        yield f"cell {waiting}: an answer without tests"
    yield from of_their_names(code)


def of_their_names(code):
    """Answers do not rebind what the setup defines; questions use no names of other answers."""
    try:
        trees = {cell.name: ast.parse(grade.without_markers(cell.source)) for cell in code}
    except SyntaxError:
        return
    setup, others, own = set(), {}, {}
    for cell in code:
        tree = trees[cell.name]
        defined = grade.bound(tree)
        for name in sorted(read(tree) & set(others) - set(own) - setup - defined):
            yield f"cell {cell.name}: it uses {name}, which the answer {others[name]} defines"
        if cell.answer:
            for name in sorted(defined & setup):
                yield f"cell {cell.name}: it rebinds {name}, which the setup defines"
            own |= dict.fromkeys(defined, cell.name)
        elif cell.tests:
            others, own = others | own, {}
        else:
            setup |= defined


def read(tree):
    """The names that code looks up, without those of Python itself."""
    names = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    return names - set(dir(builtins))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
