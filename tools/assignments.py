"""Write the assignments and the sheets of drawn exercises: as source, for students, and solved.

    python tools/assignments.py                # into _build/course/assignments
    SEED=autumn python tools/assignments.py some/folder

An assignment is a notebook in book/teaching/assignments, marked as nbgrader expects.  A sheet has
the same format and poses two exercises on a chapter; their solutions are published nowhere.  The
SEED decides how each exercise is drawn from a family in ``families.yml``, which lists letters, true
claims, and false variants of them.  The checker decides what is true: it has to accept a solution,
which is a derivation or a counterexample.  All three versions run alone, because their first cell
writes the book's code into their folder:

    source/part-2.ipynb      for grade.py and nbgrader, which makes its own students' version
    student/part-2.ipynb     without solutions and hidden tests
    solution/part-2.ipynb    with solutions, and without the marks around them
"""

import copy
import os
import random
import re
import sys
from pathlib import Path

import nbformat
import yaml
from colab import COLAB, FOLDED, companions, writing_cell
from files import ROOT, demand, in_a_sentence, read_notebook, write

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
    source = with_opening(notebook)
    student = changed(source, for_students)
    for cell in student.cells:
        whole = not MARKER.search(cell.source)
        demand(whole, f"{name}: cell {cell.id}: each ### BEGIN needs its ### END")
    made = {"source": source, "student": student, "solution": changed(source, solved)}
    return {name: nbformat.writes(one).rstrip("\n") + "\n" for name, one in made.items()}


def with_opening(notebook):
    """Add a first cell that writes the book's code; return the notebook."""
    opening = code("the-checker", writing_cell(companions(changed(notebook, solved))))
    opening.metadata.update(FOLDED)
    notebook.cells.insert(0, opening)
    notebook.metadata.update(COLAB)
    return notebook


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

ABOUT = """\
# Sheet {chapter} · Two exercises on chapter {chapter}

Of two claims one is true for all sizes and all values of its letters, and the other is false.
For the true one return a theorem, a derivation that ends in `qed()`, from the left side to the
right; for the false one what `counterexample(left, right)` returns. Three points each.

Write in the answer cells only, in the place of `raise NotImplementedError()`.
The tests say nothing before you hand in; ask the checker, `attempt(lambda: judged_1("A"))`.
"""
SETUP = '''\
from derivation import *
from derivation.counterexamples import Counterexample
from derivation.theorems import Theorem


def same(x, y):
    """Whether algebra shows two expressions to be equal."""
    line = attempt(lambda: Derivation("the same", x).by(y).qed())
    return x == y or isinstance(line, Theorem)


def proved(judged, claim, sides):
    """Asserts that judged(claim) is a theorem that says the claim and assumes nothing."""
    said = attempt(lambda: judged(claim))
    assert isinstance(said, Theorem), f"{claim}: this is not a theorem yet: {said!r}"
    right = same(said.lhs, sides[0]) and same(said.rhs, sides[1])
    assert right and not said.hypotheses, f"{claim}: a theorem, but not the claim: {said!r}"


def refuted(judged, claim, sides):
    """Asserts that judged(claim) is a counterexample to the claim."""
    said = attempt(lambda: judged(claim))
    assert isinstance(said, Counterexample), f"{claim}: no counterexample yet: {said!r}"
    assert tuple(said.claim) == tuple(sides), f"{claim}: a counterexample to another claim"
'''
TEXT = """\
## Question {number} · {name} (3 points)

**A.** `{a}` equals `{b}`.

**B.** `{c}` equals `{d}`.
"""
ANSWER = '''\
def judged_{number}(claim):
    """A theorem for the claim that is true, a counterexample to the other one."""
    left, right = claims_{number}[claim]
    ### BEGIN SOLUTION
    # {false} is false. Whoever takes it for true believes: {why}
    if claim == "{false}":
        return counterexample(left, right)
    return Derivation("a true claim", left).by({reasons}).qed()
    ### END SOLUTION
'''


def families():
    return yaml.safe_load((SOURCES / "families.yml").read_text(encoding="utf-8"))


def sheet(chapter, seed):
    """The source version of a chapter's sheet."""
    cells = [markdown("about", ABOUT.format(chapter=chapter)), code("setup", SETUP)]
    for number, family in enumerate(families()[chapter], 1):
        cells += question(number, drawn(family, random.Random(f"{seed}, {chapter}, {number}")))
    title = {"id": f"sheet-{chapter:02}", "title": f"Chapter {chapter}"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"assignment": title, "kernelspec": kernel}
    )


def drawn(family, chance):
    """One exercise, drawn from the letters, true claims and false claims of a family."""
    letters = {letter: chance.choice(others) for letter, others in family["letters"].items()}
    put = lambda text: text.format_map(letters)
    *true, reasons = map(put, chance.choice(family["right"]))
    *wrong, why = map(put, chance.choice(family["wrong"]))
    false = chance.choice("AB")
    pairs = (wrong, true) if false == "A" else (true, wrong)
    told = {"claims": dict(zip("AB", pairs)), "false": false, "why": why, "reasons": reasons}
    return {"name": family["name"], "given": put(family["given"]), **told}


def question(number, made):
    claims, name, false = made["claims"], f"q{number}", made["false"]
    shown = dict(zip("abcd", [*claims["A"], *claims["B"]]))
    sides = "".join(f'    "{k}": ({left}, {right}),\n' for k, (left, right) in claims.items())
    reasons = ", ".join(filter(None, ["right", made["reasons"]]))
    answer = ANSWER.format(number=number, **{**made, "reasons": reasons})
    yield markdown(f"{name}-text", TEXT.format(number=number, name=made["name"], **shown))
    yield code(f"{name}-given", f"{made['given']}claims_{number} = {{\n{sides}}}")
    yield code(name, answer, solution=True, locked=False)
    yield tests(f"{number}a", "refuted", false, "1 point: the false claim")
    yield tests(f"{number}b", "proved", "AB".replace(false, ""), "2 points: the true claim")


def tests(part, verb, claim, told):
    number = part[0]
    test = f'{verb}(judged_{number}, "{claim}", claims_{number}["{claim}"])'
    hidden = f"### BEGIN HIDDEN TESTS\n{test}\n### END HIDDEN TESTS"
    return code(f"q{part}-tests", f"# {part} · {told}.\n{hidden}", grade=True, points=int(told[0]))


def code(name, source, **mark):
    return nbformat.v4.new_code_cell(source.rstrip("\n"), id=name, metadata=marked(name, mark))


def markdown(name, source):
    metadata = marked(name, {"cell_type": "markdown"})
    return nbformat.v4.new_markdown_cell(source.rstrip("\n"), id=name, metadata=metadata)


def marked(name, mark):
    """The metadata that nbgrader needs for a cell."""
    usual = {"schema_version": 3, "cell_type": "code", "locked": True}
    usual |= {"grade_id": name, "grade": False, "solution": False, "task": False}
    return {"nbgrader": usual | mark}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
