"""Every claim of the five texts has a verdict, a reason, and links to what settles it."""

import re

import pytest

from tools.cells import printed_in, text_of
from tools.files import ROOT
from tools.site.claims import THEOREM, VERDICTS, links, read_claims
from tools.site.register import read_statements

NOTEBOOKS = ROOT / "notebooks"
TEXTS, CLAIMS = read_claims(ROOT / "book" / "claims.yml")
BY_ID = {claim.id: claim for claim in CLAIMS}
THEOREMS = read_statements(NOTEBOOKS)
#: The number of claims in each text.
MADE = {"000": 12, "001": 10, "002": 28, "003": 15, "004": 10}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: The most characters in a quotation; the book has no right to print the whole texts.
LONGEST = 160
#: Quotations “…”, followed on the same line by the ids of the claims from which they come.
QUOTED = re.compile(r"(“.+?)\[(\d{3}-\d\d(?:, \d{3}-\d\d)*)\]")


def test_every_claim_of_every_text_is_there():
    expected = [f"{text}-{i:02d}" for text, made in MADE.items() for i in range(1, made + 1)]
    assert [claim.id for claim in CLAIMS] == expected and list(TEXTS) == list(MADE)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_a_claim_has_a_verdict_a_reason_and_sources(claim):
    assert claim.verdict in VERDICTS and claim.why
    assert claim.settled or claim.verdict == "not checkable"
    assert bool(claim.needs) or claim.verdict != "true only if", "true only if what?"
    assert claim.verdict != "true" or not claim.needs
    assert 0 < len(claim.words) <= LONGEST
    formula = claim.words.startswith("$") and claim.text in ("002", "004")
    assert bool(claim.translation) == (formula or bool(CHINESE.search(claim.words)))
    assert not CHINESE.search(claim.translation)
    for settled in claim.settled:  # the strict build finds a notebook or a source that is missing
        link = links(settled, THEOREMS)  # raises Fault if no notebook states the theorem
        assert ("-check)" in link) == ("[Theorem" in link)
        assert THEOREM.fullmatch(settled) or settled[0] == "@" or "#" in settled


def test_a_quotation_beside_a_claim_is_in_its_words():
    chapters = sorted(NOTEBOOKS.glob("0[67]*.ipynb"))
    cited = QUOTED.findall("\n".join(text_of(path) + printed_in(path) for path in chapters))
    assert len(cited) > 12
    for before, ids in cited:
        claims = [BY_ID[id] for id in ids.split(", ")]
        words = [f"{claim.words}\n{claim.translation}" for claim in claims]
        for quoted in re.findall("“(.+?)”", before):
            assert any(quoted in one for one in words), quoted
