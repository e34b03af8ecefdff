"""Write assignments and drawn sheets: as source, for students, and solved.

    python -m tools assignments                # into _build/course/assignments
    SEED=autumn python -m tools assignments some/folder

An assignment is a notebook in book/teaching/assignments, marked as nbgrader expects.  A sheet has
the same format and poses one exercise on a chapter: the SEED decides how the cells in ``sheet.yml``
are filled from the chapter's family in ``families.yml``.  The version ``source`` is for the graders,
``student`` has no solutions and no hidden tests, and ``solution`` has no marks around its solutions.
All three run alone, because their first cell writes the book's code into their folder.
"""

import copy
import functools
import os
import random
import re
from pathlib import Path
from string import Template

import nbformat
import yaml

from tools.colab import with_opening
from tools.execute_notebooks import KERNEL
from tools.files import ROOT, as_text, demand, read_notebook, write

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


def main(folder=COPIES):
    write_assignments(Path(folder))


def seed():
    """The seed for drawing the sheets; only a seed from the environment can be secret."""
    return os.environ.get("SEED", "1")


def write_assignments(folder):
    sources = {path.name: read_notebook(path) for path in sorted(SOURCES.glob("*.ipynb"))}
    sources |= {f"sheet-{chapter:02}.ipynb": sheet(chapter, seed()) for chapter in families()}
    for name, notebook in sources.items():
        for version, text in versions(name, notebook).items():
            (folder / version).mkdir(parents=True, exist_ok=True)
            write(folder / version / name, text)
    print(f"{len(sources)} assignments, each as source, for students and solved: {folder}")


# ---- the three versions -------------------------------------------------------------------


def versions(name, notebook):
    """{"source", "student" or "solution": text}; raises Fault if a ### BEGIN has no ### END."""
    source = with_opening(notebook, 0)
    source.cells[0].metadata.update(marked("the-checker"))
    student = changed(source, for_students)
    for cell in student.cells:
        whole = not MARKER.search(cell.source)
        demand(whole, f"{name}: cell {cell.id}: each ### BEGIN needs its ### END")
    made = {"source": source, "student": student, "solution": changed(source, solved)}
    return {name: as_text(one) for name, one in made.items()}


def changed(notebook, change):
    """A copy of the notebook in which each cell has the source ``change(cell)``."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        cell.source = change(cell).rstrip("\n")
    return notebook


def for_students(cell):
    """A cell's source with a stub for each solution and without hidden tests."""
    stub = lambda found: "".join(f"{found[1]}{line}\n" for line in STUBS[cell.cell_type])
    return HIDDEN.sub("", SOLUTION.sub(stub, cell.source + "\n"))


def solved(cell):
    """A cell's source with its solutions, but without the marks around them."""
    return SOLUTION.sub(lambda found: found[2], cell.source + "\n")


# ---- sheets of drawn exercises -------------------------------------------------------------


def families():
    """{chapter: the family of its exercise}."""
    return read_yaml("families.yml")["families"]


@functools.cache
def read_yaml(name):
    return yaml.safe_load((SOURCES / name).read_text(encoding="utf-8"))


def sheet(chapter, seed):
    """The source version of a chapter's sheet."""
    made = drawn(families()[chapter], random.Random(f"{seed}, {chapter}"))
    title = {"id": f"sheet-{chapter:02}", "title": f"Chapter {chapter}"}
    return nbformat.v4.new_notebook(
        cells=[cell_of({**made, "chapter": chapter}, **cell) for cell in read_yaml("sheet.yml")],
        metadata={"assignment": title, "kernelspec": KERNEL},
    )


def drawn(family, chance):
    """One exercise: {name in sheet.yml: text}, drawn from a family's letters, claims and order."""
    letters = {letter: chance.choice(others) for letter, others in family["letters"].items()}
    put = lambda text: text.format_map(letters)
    say = lambda words: words.format_map({letter: f"`{name}`" for letter, name in letters.items()})
    left, right, roles = chance.choice(family["holds"])
    fails = chance.choice(family["fails"])
    options = chance.sample([fails["needs"], *fails["useless"]], 5)
    instance = put(fails["example"])
    names = re.findall(r"(\w+) = ", instance)
    return {
        "name": family["name"],
        "given": family["lemma"] + put(family["given"]).rstrip(),
        "true_left": put(left),
        "true_right": put(right),
        "false_left": put(fails["claim"][0]),
        "false_right": put(fails["claim"][1]),
        "options": "\n".join(f"{k}. {say(words)}" for k, (words, _) in enumerate(options, 1)),
        "number": 1 + options.index(fails["needs"]),
        "at": put(fails["at"]),
        "wanted": say(fails["instance"][0]),
        "condition": put(fails["instance"][1]),
        "instance": instance,
        "form": ", ".join(f"{name} = …" for name in names),
        "names": ", ".join(names),
        "roles": ", ".join(f'"{letter}": {put(meant)}' for letter, meant in roles.items()),
        "role_form": ", ".join(f'"{letter}": …' for letter in roles),
    }


def cell_of(made, id, points=None, **source):
    """A cell from its entry in sheet.yml."""
    ((kind, text),) = source.items()
    text = Template(text).substitute(made).rstrip("\n")
    if kind == "markdown":
        return nbformat.v4.new_markdown_cell(text, id=id, metadata=marked(id, cell_type=kind))
    answer = kind in ("answer", "formulas")
    mark = marked(id, solution=answer, locked=not answer)
    if points:
        mark["nbgrader"] |= {"grade": True, "points": points}
    if kind == "formulas":  # the process that tests them reads these answers, and runs no code
        mark["answer"] = kind
    return nbformat.v4.new_code_cell(text, id=id, metadata=mark)


def marked(name, **mark):
    """The metadata that nbgrader needs for a cell; without ``mark``, for code that is not graded."""
    usual = {"schema_version": 3, "cell_type": "code", "locked": True}
    usual |= {"grade_id": name, "grade": False, "solution": False, "task": False}
    return {"nbgrader": usual | mark}
