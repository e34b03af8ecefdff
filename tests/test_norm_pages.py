"""What chapters 6 and 7 say of others and of themselves: quotations, sources, types of numbers."""

import json
import re
from pathlib import Path

import pytest
from claims import read_claims

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "notebooks").glob("0[67]*.ipynb"))
CLAIMS = {claim.id: claim for claim in read_claims(ROOT / "book" / "claims.yml")[1]}
CITED = re.compile(r"\[(\d{3}-\d\d(?:, \d{3}-\d\d)*)\]")
TYPES = r"(?:(?:b?float\d\d)(?:, | and )?)+"


def text(path):
    """The Markdown of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def said(path):
    """What the cells of a notebook print."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join("".join(output.get("text", "")) for output in outputs)


def chapter(start):
    (path,) = (path for path in CHAPTERS if path.name.startswith(start))
    return path


def quotations(markdown):
    """(what is quoted, the claims it is cited for), line by line."""
    for line in markdown.splitlines():
        before = 0
        for cited in CITED.finditer(line):
            for quoted in re.findall("“([^”]+)”", line[before : cited.start()]):
                yield quoted, cited[1].split(", ")
            before = cited.end()


def is_in_the_ledger(quoted, ids):
    """Whether one of the claims rests on these words, in its own language or translated."""
    return any(
        quoted in (words or "")
        for claim in map(CLAIMS.get, ids)
        for words in (claim.words, claim.translation)
    )


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_what_is_quoted_beside_a_claim_are_its_words(path):
    assert [q for q in quotations(text(path)) if not is_in_the_ledger(*q)] == []


def test_the_chapters_do_quote():
    assert sum(len([*quotations(text(path))]) for path in CHAPTERS) > 12


def test_the_contrary_of_a_claim_is_not_its_words():
    assert is_in_the_ledger("LayerNorm is not permutation invariant", ["002-19", "002-20"])
    assert not is_in_the_ledger("LayerNorm commutes with permutations", ["002-19", "002-20"])


def test_the_pull_request_on_a_frozen_norm_stands_where_evaluation_is_proved():
    assert "pull request 5012" in text(chapter("06-b"))
    assert "5012" not in text(chapter("07-l"))


def test_the_overview_names_the_types_in_which_each_theorem_was_measured():
    path = chapter("06-b")
    (measured,) = re.findall(r"^Measured on .*$", text(path), re.MULTILINE)
    claimed = {
        number: set(re.findall(r"b?float\d\d", types))
        for numbers, types in re.findall(rf"Theorems? (.*?) in ({TYPES})", measured)
        for number in re.findall(r"\d\.\d", numbers)
    }
    judged = re.findall(rf"^PASS  Theorem (\d\.\d) .*: ({TYPES}) within", said(path), re.MULTILINE)
    assert claimed == {number: set(re.findall(r"b?float\d\d", types)) for number, types in judged}
    assert len(claimed) == 3
