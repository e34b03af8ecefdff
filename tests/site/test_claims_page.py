"""On the page of claims, whatever settles a claim can be followed."""

from pathlib import Path

from claims import VERDICTS, read_claims
from register import read_register
from site_files import SITE, anchors, links_of

BOOK = Path(__file__).resolve().parents[2] / "book"
_, CLAIMS = read_claims(BOOK / "claims.yml")
PAGE = SITE / "book" / "claims.html"


def test_what_settles_a_claim_is_linked_a_theorem_with_its_check():
    theorems = {entry.number: entry for entry in read_register(BOOK.parent / "notebooks")}
    for claim in CLAIMS:
        links = list(links_of(PAGE, within=claim.anchor))
        assert len(links) >= len(claim.settled)
        assert all(anchor in anchors(page) for page, anchor in links), claim.id
        for entry in filter(None, map(theorems.get, claim.settled)):
            wanted = {entry.slug, f"{entry.slug}-check" if entry.kind != "Lemma" else entry.slug}
            assert wanted <= {anchor for _, anchor in links}, f"{claim.id}: {entry.label}"


def test_the_counts_at_the_top_are_those_of_the_file():
    text = PAGE.read_text(encoding="utf-8")
    row = text[text.index("<strong>all</strong>") :].partition("</tr>")[0]
    counts = [sum(claim.verdict == verdict for claim in CLAIMS) for verdict in VERDICTS]
    for count in [len(CLAIMS), *counts]:
        assert f"<p>{count}</p>" in row
