"""The claims that the book settles, read from `claims.yml`.

The directive `{claims} claims.yml ../notebooks` renders them, with counts at the top.  Each claim
lists what settles it in one of these forms, and this module turns every entry into a link:

    3.2                     a theorem of the register: its proof and its check
    03-a-notebook#overview  a section of a notebook, where something is measured or read
    @ioffe2015batch         a source in references.bib

Numbers of claims elsewhere in the book, as in `[002-11]` or `[000-09, 000-10]`, become links.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml
from docutils import nodes

from tools.cells import table
from tools.files import demand
from tools.site.register import BookDirective, Statement, read_statements
from tools.site.theorem_boxes import check_anchor

VERDICTS = ("true", "true only if", "false", "not checkable")
CITED_ID = re.compile(r"(?<=[\[ ])(\d{3}-\d{2})(?=[,\]])")
THEOREM = re.compile(r"\d+[a-z]?\.\d+")
PAGE = "book/claims"


@dataclass(frozen=True)
class Claim:
    """A claim in the book's words; ``words`` are the few words of the text that make the claim."""

    id: str
    claim: str
    words: str
    verdict: str
    why: str
    settled: list
    needs: str = ""
    translation: str = ""

    @property
    def text(self):
        """The number of the text that makes the claim."""
        return self.id.partition("-")[0]


def read_claims(path: Path) -> tuple[dict, list[Claim]]:
    """(texts, claims): {number of a text: its "about" and "source"}, and a list of Claims."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    return data["texts"], [Claim(**entry) for entry in data["claims"]]


def links(settled: str, theorems: dict[str, Statement], notebooks: str = "../notebooks") -> str:
    """A link, as Markdown, to what settles a claim; ``theorems`` is {number: statement}."""
    if settled.startswith("@"):
        return f"{{cite}}`{settled[1:]}`"
    if not THEOREM.fullmatch(settled):
        notebook, _, section = settled.partition("#")
        chapter = notebook.partition("-")[0].lstrip("0") or "0"
        return f"[chapter {chapter}]({notebooks}/{notebook}.ipynb#{section})"
    demand(settled in theorems, f"no notebook states a theorem {settled}")
    entry = theorems[settled]
    page = f"{notebooks}/{entry.notebook.name}"
    check = f" ([check]({page}#{check_anchor(entry.slug)}))" * (entry.kind == "Theorem")
    return f"[{entry.label}]({page}#{entry.slug}){check}"


# ---- the page of the book ---------------------------------------------------------


class Claims(BookDirective):
    """All claims, text by text; the arguments are the data file and the notebooks' folder."""

    required_arguments = 2

    def written(self):
        path, folder = (self.folder / name for name in self.arguments)
        self.theorems = read_statements(folder)
        texts, claims = read_claims(path)
        rows = []  # how many claims have each verdict, in total and in each text
        for name in ["**all**", *texts]:
            verdicts = [claim.verdict for claim in claims if name in ("**all**", claim.text)]
            rows.append([name, len(verdicts), *map(verdicts.count, VERDICTS)])
        yield self.parse(table(["text", "claims", *VERDICTS], rows), "claims-summary")
        for number, text in texts.items():
            section = nodes.section(ids=[f"text-{number}"], classes=["claims-of-a-text"])
            about = text["about"]
            section += nodes.title("", f"{number} · {about[0].upper()}{about[1:]}")
            section += self.parse(text["source"], "claims-source")
            section += [self.card(claim) for claim in claims if claim.text == number]
            yield section

    def card(self, claim):
        card = nodes.container(
            ids=[f"claim-{claim.id}"], classes=["claim", nodes.make_id(claim.verdict)]
        )
        title = self.parse(claim.claim, "claim-title")
        title[0][0:0] = [nodes.inline("", claim.id, classes=["claim-id"]), nodes.Text(" ")]
        meaning = claim.translation and f": {claim.translation}"  # if the words are Chinese
        card += [title, self.parse(f"“{claim.words}”{meaning}", "claim-words")]
        verdict = nodes.inline("", claim.verdict, classes=["verdict"])
        why = self.parse(claim.why)[0].children
        card += nodes.paragraph("", "", verdict, nodes.Text(" "), *why)
        if claim.needs:
            card += self.parse(f"*Needs:* {claim.needs}", "claim-needs")
        if claim.settled:
            settled = "; ".join(links(each, self.theorems) for each in claim.settled)
            card += self.parse(f"Settled by {settled}.", "claim-settled")
        return card


class ClaimsInShort(BookDirective):
    """A table of the claims whose ids are the directive's content, and the number of all claims."""

    required_arguments = 1
    has_content = True

    def written(self):
        by_id = {claim.id: claim for claim in read_claims(self.folder / self.arguments[0])[1]}
        counts = Counter(claim.verdict for claim in by_id.values())
        shown = [by_id[id] for id in " ".join(self.content).split()]
        rows = table(["a claim", "verdict", "why"], [(c.claim, c.verdict, c.why) for c in shown])
        count = f"all {len(by_id)}: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS)
        rest = f"These are some of the claims that five texts make; [{count}](claims.md)."
        return [self.parse(f"{rows}\n\n{rest}", "claims-in-short")]


def link_cited_claims(app, doctree, docname):
    """Turn each claim id that a page cites into a link."""
    if PAGE not in app.env.found_docs or docname == PAGE:
        return
    target = app.builder.get_relative_uri(docname, PAGE)
    link = lambda id: nodes.reference(
        "", id, internal=True, refuri=f"{target}#claim-{id}", classes=["cited-claim"]
    )
    for text in list(doctree.findall(nodes.Text)):
        parts = CITED_ID.split(text)  # every other part is the number of a claim
        if len(parts) > 1 and not isinstance(text.parent, nodes.literal | nodes.literal_block):
            parts = [(link if i % 2 else nodes.Text)(part) for i, part in enumerate(parts)]
            text.parent.replace(text, parts)


def setup(app):
    app.add_directive("claims", Claims)
    app.add_directive("claims-in-short", ClaimsInShort)
    app.connect("doctree-resolved", link_cited_claims)
