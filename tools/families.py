"""Draw sheets of exercises whose solutions are published nowhere, two for each chapter.

    python tools/families.py SEED CHAPTER      # shows one, with its solution

A family of ``book/teaching/assignments/families.yml`` has letters to choose from, true lines and
false neighbours; the seed draws of each, and which of the two lines is claim A.  A sheet is an
assignment in nbgrader's source format, so that whatever makes and grades those takes it as well.
What is true is no opinion of this file: the solution is a derivation and a counterexample, which
the checker accepts or refuses.
"""

import random
import sys

import nbformat
import yaml
from files import ROOT, in_a_sentence

FAMILIES = ROOT / "book" / "teaching" / "assignments" / "families.yml"
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
PARTS = (("a", 1, "refuted", "the false claim"), ("b", 2, "proved", "the true claim"))


@in_a_sentence
def main(arguments):
    seed, chapter = arguments
    for cell in sheet(int(chapter), seed).cells:
        print(cell.source, end="\n\n")
    return 0


def name_of(chapter):
    return f"sheet-{chapter:02}"


def sheet(chapter, seed):
    """The source of a chapter's sheet, a notebook that nbgrader can read."""
    cells = [markdown("about", ABOUT.format(chapter=chapter)), code("setup", SETUP)]
    for number, family in enumerate(families()[chapter], 1):
        cells += question(number, drawn(family, random.Random(f"{seed}, {chapter}, {number}")))
    title = {"id": name_of(chapter), "title": f"Chapter {chapter}"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"assignment": title, "kernelspec": kernel}
    )


def families():
    """{chapter: its families}."""
    return yaml.safe_load(FAMILIES.read_text(encoding="utf-8"))


def drawn(family, chance):
    """One exercise of a family: its name, code, claims, which is false, why, and the reasons."""
    letters = {letter: chance.choice(others) for letter, others in family["letters"].items()}
    put = lambda text: text.format_map(letters)
    *true, reasons = map(put, chance.choice(family["right"]))
    *wrong, why = map(put, chance.choice(family["wrong"]))
    false = chance.choice("AB")
    pairs = (wrong, true) if false == "A" else (true, wrong)
    told = {"claims": dict(zip("AB", pairs)), "false": false, "why": why, "reasons": reasons}
    return {"name": family["name"], "given": put(family["given"]), **told}


def question(number, made):
    """The cells of one exercise."""
    claims, name = made["claims"], f"q{number}"
    shown = dict(zip("abcd", [*claims["A"], *claims["B"]]))
    sides = "".join(f'    "{k}": ({left}, {right}),\n' for k, (left, right) in claims.items())
    given = f"{made['given']}claims_{number} = {{\n{sides}}}"
    reasons = ", ".join(filter(None, ["right", made["reasons"]]))
    answer = ANSWER.format(number=number, **{**made, "reasons": reasons})
    yield markdown(f"{name}-text", TEXT.format(number=number, name=made["name"], **shown))
    yield code(f"{name}-given", given)
    yield code(name, answer, solution=True, locked=False)
    for part, points, verb, what in PARTS:
        claim = made["false"] if verb == "refuted" else "AB".replace(made["false"], "")
        told = f"# {number}{part} · {points} point{'s' * (points > 1)}: {what}.\n"
        test = f'{verb}(judged_{number}, "{claim}", claims_{number}["{claim}"])'
        hidden = f"### BEGIN HIDDEN TESTS\n{test}\n### END HIDDEN TESTS"
        yield code(f"{name}{part}-tests", told + hidden, grade=True, points=points)


def code(name, source, **mark):
    return nbformat.v4.new_code_cell(source.rstrip("\n"), id=name, metadata=marked(name, mark))


def markdown(name, source):
    metadata = marked(name, {"cell_type": "markdown"})
    return nbformat.v4.new_markdown_cell(source.rstrip("\n"), id=name, metadata=metadata)


def marked(name, mark):
    """What nbgrader wants to know of a cell."""
    usual = {"schema_version": 3, "cell_type": "code", "locked": True}
    usual |= {"grade_id": name, "grade": False, "solution": False, "task": False}
    return {"nbgrader": usual | mark}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
