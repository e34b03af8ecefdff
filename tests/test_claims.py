"""Every claim of the five texts has a verdict, a reason, and something that settles it."""

import re

import pytest
from cells import printed_in, text_of
from claims import THEOREM, links, read_claims
from files import ROOT, Fault
from register import read_register

NOTEBOOKS = ROOT / "notebooks"
TEXTS, CLAIMS = read_claims(ROOT / "book" / "claims.yml")
BY_ID = {claim.id: claim for claim in CLAIMS}
THEOREMS = {entry.number: entry for entry in read_register(NOTEBOOKS)}
SOURCES = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
#: How many claims each text makes.
MADE = {"000": 12, "001": 10, "002": 28, "003": 15, "004": 10}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: The quotations are short: the texts themselves are not the book's to print.
LONGEST = 160


def test_every_claim_of_every_text_is_there():
    expected = [f"{text}-{i:02d}" for text, made in MADE.items() for i in range(1, made + 1)]
    assert [claim.id for claim in CLAIMS] == expected


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_it_says_why_in_one_sentence_quotes_its_words_and_is_settled(claim):
    assert claim.why.endswith(".") and claim.why.count(". ") == 0
    assert bool(claim.needs) or claim.verdict != "true only if", "true only if what?"
    assert claim.verdict != "true" or not claim.needs
    assert 0 < len(claim.words) <= LONGEST
    formula = claim.words.startswith("$") and claim.text in ("002", "004")
    assert bool(claim.translation) == (formula or bool(CHINESE.search(claim.words)))
    assert not CHINESE.search(claim.translation)
    for settled in claim.settled:
        link = links(settled, THEOREMS)  # a theorem that no notebook states is refused
        assert ("-check)" in link) == ("Theorem" in link)  # the build looks whether they lead there
        if settled.startswith("@"):
            assert f"{{{settled[1:]}," in SOURCES
        elif not THEOREM.fullmatch(settled):
            assert (NOTEBOOKS / f"{settled.partition('#')[0]}.ipynb").is_file()


COMPLETE = """
texts: {"000": {about: a question, source: A site.}}
claims:
  - {id: "000-01", claim: A., words: a, verdict: true, why: B., settled: ["3.2"]}
"""


@pytest.mark.parametrize(
    "old, new, complaint",
    [
        ("verdict: true", "verdict: perhaps", "none of the verdicts true, true only if"),
        ("why: B., ", "", "'why'"),
        ('["3.2"]', "[]", "“000-01”: it is settled by nothing"),
        ('"000-01"', '"001-01"', "“001-01”: its text is not there"),
    ],
)
def test_a_file_that_says_too_little_is_refused(tmp_path, old, new, complaint):
    path = tmp_path / "claims.yml"
    path.write_text(COMPLETE, encoding="utf-8")
    assert [claim.verdict for claim in read_claims(path)[1]] == ["true"]
    path.write_text(COMPLETE.replace(old, new), encoding="utf-8")
    with pytest.raises(Fault, match=complaint):
        read_claims(path)


# ---- what chapters 6 and 7 quote, and say of themselves -----------------------------------

CHAPTERS = sorted(NOTEBOOKS.glob("0[67]*.ipynb"))
CITED = re.compile(r"\[(\d{3}-\d\d(?:, \d{3}-\d\d)*)\]")


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
    return any(quoted in f"{BY_ID[id].words}\n{BY_ID[id].translation}" for id in ids)


def test_what_is_quoted_beside_a_claim_are_its_words():
    said = [text_of(path) + printed_in(path) for path in CHAPTERS]
    quoted = [one for text in said for one in quotations(text)]
    assert len(quoted) > 12 and [one for one in quoted if not is_in_the_ledger(*one)] == []
    assert not is_in_the_ledger("LayerNorm commutes with permutations", ["002-19", "002-20"])
