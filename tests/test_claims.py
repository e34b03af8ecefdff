"""Every claim of the five texts has a verdict, a reason, and something that settles it."""

import re
from pathlib import Path

import pytest
from claims import THEOREM, ClaimsError, links, read_claims
from register import read_register

ROOT = Path(__file__).resolve().parent.parent
TEXTS, CLAIMS = read_claims(ROOT / "book" / "claims.yml")
THEOREMS = {entry.number: entry for entry in read_register(ROOT / "notebooks")}
#: How many claims each text makes.
MADE = {"000": 12, "001": 10, "002": 28, "003": 15, "004": 10}

each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)


def test_every_claim_of_every_text_is_there():
    expected = [f"{text}-{i:02d}" for text, made in MADE.items() for i in range(1, made + 1)]
    assert [claim.id for claim in CLAIMS] == expected


@each_claim
def test_it_says_why_in_one_sentence(claim):
    assert claim.why.endswith(".") and claim.why.count(". ") == 0
    assert bool(claim.needs) or claim.verdict != "true only if", "true only if what?"


@each_claim
def test_what_needs_a_condition_is_not_called_true(claim):
    assert claim.verdict != "true" or not claim.needs


CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: The quotations are short: the texts themselves are not the book's to print.
LONGEST = 160


@each_claim
def test_it_quotes_the_words_it_rests_on(claim):
    assert 0 < len(claim.words) <= LONGEST
    formula = claim.words.startswith("$") and claim.text in ("002", "004")
    assert bool(claim.translation) == (formula or bool(CHINESE.search(claim.words)))
    assert not CHINESE.search(claim.translation)


@each_claim
def test_what_settles_it_is_there(claim):
    for settled in claim.settled:
        assert links(settled, THEOREMS)  # a theorem that no notebook states is refused
        if settled.startswith("@"):
            assert f"{{{settled[1:]}," in (ROOT / "book" / "references.bib").read_text()
        elif not THEOREM.fullmatch(settled):
            assert (ROOT / "notebooks" / f"{settled.partition('#')[0]}.ipynb").is_file()


COMPLETE = """
texts: {"000": {about: a question, source: A site.}}
claims:
  - {id: "000-01", claim: A., words: a, verdict: true, why: B., settled: ["3.2"]}
"""


@pytest.mark.parametrize(
    "old, new, complaint",
    [
        ("000-01", "one", "is no id of a claim"),
        ("verdict: true", "verdict: perhaps", "expected one of true, true only if"),
        ("why: B., ", "", "lacks why"),
        ("words: a, ", "", "lacks words"),
        ('["3.2"]', "[]", "nothing settles 000-01"),
        ('"000-01"', '"001-01"', "there is no text 001"),
    ],
)
def test_a_file_that_says_too_little_is_refused(tmp_path, old, new, complaint):
    path = tmp_path / "claims.yml"
    path.write_text(COMPLETE, encoding="utf-8")
    assert [claim.verdict for claim in read_claims(path)[1]] == ["true"]
    path.write_text(COMPLETE.replace(old, new), encoding="utf-8")
    with pytest.raises(ClaimsError, match=complaint):
        read_claims(path)
