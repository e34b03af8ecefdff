"""The claims that the book settles, read from `claims.yml`.

The directive `{claims} claims.yml ../notebooks` renders them, with counts at the top.  What
settles a claim is named there once, and becomes a link here:

    3.2                     a theorem of the register: its proof and its check
    03-a-notebook#overview  a section of a notebook, where something is measured or read
    @ioffe2015batch         a source in references.bib

Elsewhere in the book the numbers in `[002-11]` or `[000-09, 000-10]` become links.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from register import read_register
from theorem_boxes import check_anchor

VERDICTS = ("true", "true only if", "false", "not checkable")
FIELDS = {"id", "claim", "words", "verdict", "why", "settled"}
CLAIM_ID = re.compile(r"\d{3}-\d{2}")
CITED_ID = re.compile(r"(?<=[\[ ])(\d{3}-\d{2})(?=[,\]])")
THEOREM = re.compile(r"\d+[a-z]?\.\d+")
PAGE = "book/claims"


class ClaimsError(ValueError):
    """A data file that does not say what it has to."""


@dataclass(frozen=True)
class Text:
    """One of the texts that make the claims: what it is about, and where it is from."""

    about: str
    source: str


@dataclass(frozen=True)
class Claim:
    """A claim in the book's words, with the few words of its text that it rests on."""

    id: str
    claim: str
    words: str
    verdict: str
    why: str
    settled: tuple
    needs: str = ""
    translation: str = ""

    @property
    def text(self):
        """The number of the text that makes the claim."""
        return self.id.partition("-")[0]

    @property
    def anchor(self):
        return f"claim-{self.id}"


def read_claims(path):
    """(texts, claims): each Text by its number, and the claims in their order."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    claims = [checked(path, entry) for entry in data["claims"]]
    for id, count in Counter(claim.id for claim in claims).items():
        if count > 1:
            raise ClaimsError(f"{path.name}: the claim {id} is there {count} times.")
    for claim in claims:
        if claim.text not in data["texts"]:
            raise ClaimsError(f"{path.name}: there is no text {claim.text} for claim {claim.id}.")
    return {number: Text(**text) for number, text in data["texts"].items()}, claims


def checked(path, entry):
    id = str(entry.get("id"))
    # YAML reads a bare true as a truth value
    entry = entry | {"verdict": str(entry.get("verdict")).lower()}
    if not CLAIM_ID.fullmatch(id):
        raise ClaimsError(f"{path.name}: “{id}” is no id of a claim; expected one like 002-11.")
    if missing := FIELDS - set(entry):
        raise ClaimsError(f"{path.name}: the claim {id} lacks {', '.join(sorted(missing))}.")
    if entry["verdict"] not in VERDICTS:
        raise ClaimsError(
            f"{path.name}: the verdict on {id} is “{entry['verdict']}”; "
            f"expected one of {', '.join(VERDICTS)}."
        )
    if not entry["settled"] and entry["verdict"] != "not checkable":
        raise ClaimsError(f"{path.name}: nothing settles {id}, so it cannot have a verdict.")
    return Claim(**entry | {"settled": tuple(map(str, entry["settled"]))})


def links(settled, theorems, notebooks="../notebooks"):
    """Markdown for one thing that settles a claim; ``theorems`` is the register by number."""
    if settled.startswith("@"):
        return f"{{cite}}`{settled[1:]}`"
    if not THEOREM.fullmatch(settled):
        notebook, _, section = settled.partition("#")
        chapter = notebook.partition("-")[0].lstrip("0") or "0"
        return f"[chapter {chapter}]({notebooks}/{notebook}.ipynb#{section})"
    if settled not in theorems:
        raise ClaimsError(f"no notebook states a theorem {settled}.")
    entry = theorems[settled]
    page = f"{notebooks}/{entry.notebook.name}"
    check = f" ([check]({page}#{check_anchor(entry.slug)}))" * (entry.kind != "Lemma")
    return f"[{entry.label}]({page}#{entry.slug}){check}"


# ---- the page of the book ---------------------------------------------------------


class Claims(Directive):
    """All claims, text by text; the arguments are the data file and the notebooks' folder."""

    required_arguments = 2

    def run(self):
        env = self.state.document.settings.env
        self.page = Path(env.doc2path(env.docname))
        path, folder = (self.page.parent / name for name in self.arguments)
        for file in (path, *folder.glob("*.ipynb")):
            env.note_dependency(str(file.resolve()))
        self.theorems = {entry.number: entry for entry in read_register(folder)}
        try:
            texts, claims = read_claims(path)
            return [self.summary(texts, claims), *self.sections(texts, claims)]
        except ClaimsError as wrong:
            raise self.error(str(wrong)) from None

    def summary(self, texts, claims):
        """How many claims have which verdict, in all and text by text."""
        rows = [("**all**", claims)]
        rows += [(n, [c for c in claims if c.text == n]) for n in texts]
        table = [f"| text | claims | {' | '.join(VERDICTS)} |", "|---" * (len(VERDICTS) + 2) + "|"]
        for name, some in rows:
            counts = Counter(claim.verdict for claim in some)
            cells = [name, len(some), *(counts[verdict] for verdict in VERDICTS)]
            table.append(f"| {' | '.join(map(str, cells))} |")
        return self.parse("\n".join(table), "claims-summary")

    def sections(self, texts, claims):
        for number, text in texts.items():
            section = nodes.section(ids=[f"text-{number}"], classes=["claims-of-a-text"])
            section += nodes.title("", f"{number} · {text.about[0].upper()}{text.about[1:]}")
            section += self.parse(text.source, "claims-source")
            section += [self.card(claim) for claim in claims if claim.text == number]
            yield section

    def card(self, claim):
        card = nodes.container(ids=[claim.anchor], classes=["claim", slug(claim.verdict)])
        title = self.parse(claim.claim, "claim-title")
        title[0][0:0] = [nodes.inline("", claim.id, classes=["claim-id"]), nodes.Text(" ")]
        card += [title, self.parse(quotation(claim), "claim-words")]
        verdict = nodes.inline("", claim.verdict, classes=["verdict"])
        card += nodes.paragraph("", "", verdict, nodes.Text(" "), *self.inline(claim.why))
        if claim.needs:
            card += self.parse(f"*Needs:* {claim.needs}", "claim-needs")
        if claim.settled:
            settled = "; ".join(links(each, self.theorems) for each in claim.settled)
            card += self.parse(f"Settled by {settled}.", "claim-settled")
        return card

    def inline(self, markdown):
        return self.parse(markdown)[0].children

    def parse(self, markdown, *classes):
        box = nodes.container(classes=list(classes))
        lines = StringList(markdown.splitlines(), source=str(self.page))
        self.state.nested_parse(lines, self.content_offset, box)
        return box


class ClaimsInShort(Directive):
    """How many claims there are, and some of them; the content is their ids."""

    required_arguments = 1
    has_content = True

    def run(self):
        env = self.state.document.settings.env
        page = Path(env.doc2path(env.docname))
        path = page.parent / self.arguments[0]
        env.note_dependency(str(path.resolve()))
        by_id = {claim.id: claim for claim in read_claims(path)[1]}
        counts = Counter(claim.verdict for claim in by_id.values())
        rows = [by_id[id] for id in " ".join(self.content).split()]
        count = f"all {len(by_id)}: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS)
        table = ["| a claim | verdict | why |", "|---|---|---|"]
        table += [f"| {c.claim} [{c.id}] | {c.verdict} | {c.why} |" for c in rows]
        table += [
            "",
            f"These are some of the claims that five texts make; [{count}]({PAGE.rpartition('/')[2]}.md).",
        ]
        box = nodes.container(classes=["claims-in-short"])
        self.state.nested_parse(StringList(table, source=str(page)), self.content_offset, box)
        return [box]


def quotation(claim):
    """The words of the text in Markdown; where they are Chinese, what they mean as well."""
    meaning = claim.translation and f": {claim.translation}"
    return f"“{claim.words}”{meaning}"


def slug(verdict):
    return verdict.replace(" ", "-")


def link_cited_claims(app, doctree, docname):
    """Make a link of each claim that the text of a page cites."""
    if PAGE not in app.env.found_docs or docname == PAGE:
        return
    target = app.builder.get_relative_uri(docname, PAGE)
    for text in list(doctree.findall(nodes.Text)):
        if CITED_ID.search(text) and not isinstance(
            text.parent, (nodes.literal, nodes.literal_block)
        ):
            text.parent.replace(text, list(linked(str(text), target)))


def linked(text, target):
    """The text as nodes, each claim that it cites a link."""
    for position, part in enumerate(CITED_ID.split(text)):
        if position % 2:
            uri = f"{target}#claim-{part}"
            yield nodes.reference("", part, internal=True, refuri=uri, classes=["cited-claim"])
        elif part:
            yield nodes.Text(part)


def setup(app):
    app.add_directive("claims", Claims)
    app.add_directive("claims-in-short", ClaimsInShort)
    app.connect("doctree-resolved", link_cited_claims)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
