"""The register of theorems, read from the notebooks.

A notebook states each theorem in a block quote, its box:

    ### Theorem 3.2 · The key bias cancels

    > **Theorem 3.2 (The key bias cancels).** For every number of queries ...
    >
    > *Needs:* softmax over the keys; the same $b$ added to every key.
    >
    > *Evidence:*
    >
    > - the weights are the same: *checked*, “Theorem 3.2”
    > - only if: *by hand*, at $z = -b/2$ the norm of $z + b$ is minus that of $z$
    > - in bfloat16 as well: *measured*, “PASS  control: in evaluation b has no effect”

    ## Summary

    | theorem | hypotheses | proved for | measured against | breaks when |
    |---|---|---|---|---|
    | [3.2](#the-key-bias-cancels) The key bias cancels | ... | ... | ... | ... |

The box determines the heading above it and the first cell of its row in the summary.  A notebook is
refused if these differ, or if a clause lacks its evidence.  *Checked* needs a derivation with the
quoted title on the page, an exact instance (… ≠ …) that contains the quotation, or a theorem of
another page; *measured* needs the quotation in what the page prints; *by hand* needs an argument.
Whether a derivation proves the clause is for a reader to judge.
A one-line consequence is a remark, `> **Remark 3.3 (Name).** …`.  Its page prints its derivation,
named by `.qed("Remark 3.3")`.  A remark has a box and an anchor, but no row in the summary.
The directive `{theorem-register}` renders what was read, so that nothing is typed twice.
"""

import os
import re
from collections import Counter, namedtuple
from dataclasses import dataclass
from functools import cache
from itertools import groupby, takewhile
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from tools.cells import FENCE, printed_in, text_of
from tools.files import Fault, demand, naming

FACTS = ("hypotheses", "proved for", "measured against", "breaks when")

NUMBER = r"(?P<number>\d+[a-z]?\.\d+)"
LABEL = rf"(?P<kind>Theorem|Lemma) {NUMBER}"
HEADING = re.compile(rf"### {LABEL} · (?P<name>.+)")
BOX_TITLE = re.compile(rf"{LABEL} \((?P<name>.+)\)\.?")
REMARK_TITLE = re.compile(rf"(?P<kind>Remark) {NUMBER} \((?P<name>.+)\)\.?")
BOX = re.compile(
    rf"\*\*{BOX_TITLE.pattern}\*\*\s*(?P<statement>.+?)"
    r"\n\s*\n\*Needs:\*\s*(?P<needs>.+?)\n\s*\n\*Evidence:\*\s*(?P<evidence>.+)",
    re.DOTALL,
)

REMARK = re.compile(rf"\*\*{REMARK_TITLE.pattern}\*\*\s*(?P<statement>.+)", re.DOTALL)

MARKS = ("checked", "by hand", "measured")
FEWEST_WORDS = 5  # in an argument by hand
CLAUSE = re.compile(rf"(.+?): \*({'|'.join(MARKS)})\*, (.+)", re.DOTALL)
DERIVED = re.compile(r"^(\S.*?)(?:, (?:base|step))?:\n {4}\S", re.MULTILINE)
LABELLED = re.compile(r"^((?:Theorem|Lemma|Remark) \S+) \(")

Clause = namedtuple("Clause", "words mark rests_on")


@dataclass(frozen=True)
class Statement:
    """A theorem, a lemma or a remark: a statement with a number, a name and an anchor."""

    notebook: Path
    chapter: str
    kind: str
    number: str
    name: str
    statement: str

    @property
    def label(self):
        return f"{self.kind} {self.number}"

    @property
    def slug(self):
        """The anchor of the statement: its name in lower case, with hyphens between the words."""
        return nodes.make_id(self.name)


@dataclass(frozen=True)
class Entry(Statement):
    """A theorem or lemma: the contents of its box, and the last four cells of its summary row."""

    needs: str
    evidence: tuple
    facts: dict


@cache
def read_register(folder):
    """Every theorem of the notebooks in `folder`, in the order of the chapters.

    Raises Fault for a notebook whose boxes, headings, summary and evidence do not agree.
    """
    entries = []
    for path in sorted(Path(folder).glob("*.ipynb")):
        with naming(path.name):
            entries += read_notebook(path)
    for path, own in groupby(entries, key=lambda entry: entry.notebook):
        said = printed_in(path)
        elsewhere = [entry.label for entry in entries if entry.notebook != path]
        for entry in own:
            with naming(path.name), naming(entry.label):
                check_evidence(entry.evidence, said, elsewhere)
    return tuple(entries)


@cache
def read_statements(folder):
    """{number: theorem, lemma or remark}.  Raises Fault if two of them share a number or a name."""
    found = list(read_register(folder))
    for path in sorted(Path(folder).glob("*.ipynb")):
        with naming(path.name):
            found += read_remarks(path)
    for keys in ([s.number for s in found], [s.slug for s in found]):
        for key, times in Counter(keys).items():
            demand(times == 1, f"“{key}” is of {times} theorems")
    return {statement.number: statement for statement in found}


def read_notebook(path):
    """The Entries of a notebook, each from a box and its row of the summary."""
    text = FENCE.sub("", text_of(path))
    lines, title = [line.rstrip() for line in text.splitlines()], chapter_of(text)
    boxes, rows = list(read_boxes(lines)), summary_rows(lines)
    headings = [f"### {kind} {number} · {name}" for kind, number, name, *_ in boxes]
    firsts = [f"[{number}](#{nodes.make_id(name)}) {name}" for _, number, name, *_ in boxes]
    compare("heading", headings, list(filter(HEADING.fullmatch, lines)))
    compare("row of the summary", firsts, [row[0] for row in rows])
    facts = {first: dict(zip(FACTS, cells)) for first, *cells in rows}
    return [Entry(path, title, *box, facts[first]) for box, first in zip(boxes, firsts)]


def compare(what, wanted, found):
    """Demand that each wanted heading or row is found exactly once, and that no other is found."""
    for one in wanted + found:
        asked, there = wanted.count(one), found.count(one)
        demand(asked == there == 1, f"{asked} boxes make the {what} “{one}”; it is there {there}×")


def read_boxes(lines):
    """Yield the contents of each box: kind, number, name, statement, needs, clauses."""
    for text in quotes(lines):
        if re.match(rf"\*\*{LABEL} \(", text):
            found = BOX.fullmatch(text)
            demand(found, f"a box without “*Needs:* …” and “*Evidence:* …”: {text[:50]}")
            *parts, evidence = found.groups()
            yield *parts, read_clauses(evidence)


def quotes(lines):
    """Yield the block quotes in lines of Markdown, without the `>` at the start of each line."""
    for quoted, block in groupby(lines, key=lambda line: line.startswith(">")):
        if quoted:
            yield "\n".join(re.sub("^> ?", "", line) for line in block)


def read_clauses(bullets):
    """The Clauses of a list in Markdown.  Raises Fault for a bullet without one of the MARKS."""
    bullets = [" ".join(one.split()) for one in re.split(r"(?:^|\n)- ", bullets.strip())[1:]]
    for bullet in bullets:
        demand(CLAUSE.fullmatch(bullet), f"“{bullet}” is not marked as {' or '.join(MARKS)}")
    return tuple(Clause(*CLAUSE.fullmatch(bullet).groups()) for bullet in bullets)


def check_evidence(clauses, text, elsewhere=()):
    """Look for the evidence in a page's printed text and in ``elsewhere``, labels on other pages.

    Raises Fault for the first clause whose evidence is missing.
    """
    titles = set(DERIVED.findall(text))
    proved = titles | {label[1] for label in map(LABELLED.match, titles) if label} | {*elsewhere}
    instances = "\n".join(line for line in text.splitlines() if " ≠ " in line)
    for words, mark, rests_on in clauses:
        if mark == "by hand":
            enough = len(rests_on.split()) >= FEWEST_WORDS
            demand(enough, f"“{words}” is proved by hand, and does not say how")
            continue
        quoted = re.findall("“([^”]+)”", rests_on)
        demand(quoted, f"“{words}” is {mark}, and quotes no evidence")
        for quotation in quoted:
            there = quotation in proved or quotation in instances
            there = quotation in text if mark == "measured" else there
            demand(there, f"“{words}” rests on “{quotation}”, which the page does not print")


def read_remarks(path):
    """Yield the remarks of a notebook.  Raises Fault for one whose derivation is not printed."""
    said, text = printed_in(path), FENCE.sub("", text_of(path))
    for block in quotes(text.splitlines()):
        if found := REMARK.fullmatch(block):
            remark = Statement(path, chapter_of(text), *found.groups())
            title = f"{remark.label} ({remark.name})"
            demand(f"{title}:" in said, f"the page prints no derivation of {title}")
            yield remark


def chapter_of(text):
    """The title of a notebook, from its Markdown."""
    return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")


def summary_rows(lines):
    if "## Summary" not in lines:
        return []
    section = takewhile(lambda s: not s.startswith("## "), lines[lines.index("## Summary") + 1 :])
    head, *rows = [table_cells(line) for line in section if line.startswith("|")] or [[]]
    columns = ["theorem", *FACTS]
    demand(head == columns, f"the summary needs the columns {' | '.join(columns)}")
    for row in rows:
        demand(len(row) == len(columns), f"not five cells in the summary: {' | '.join(row)}")
    return rows[1:]


def table_cells(line):
    """The cells of one row of a Markdown table; `\\|` is a bar inside a cell."""
    inner = re.sub(r"(?<!\\)\|$", "", line.strip().removeprefix("|"))
    return [c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", inner)]


# ---- the page of the book ---------------------------------------------------------


class BookDirective(SphinxDirective):
    """A directive that writes Markdown into a page, and reports a Fault at the directive's line."""

    def run(self):
        try:
            return list(self.written())
        except Fault as wrong:
            raise self.error(str(wrong)) from None

    @property
    def folder(self):
        return Path(self.env.doc2path(self.env.docname)).parent

    def parse(self, markdown, *classes):
        """A container with these classes that holds the Markdown as nodes of this page."""
        return nodes.container("", *self.parse_text_to_nodes(markdown), classes=list(classes))


class TheoremRegister(BookDirective):
    """The names of all theorems; with `:chapters: 1 2`, the theorems of these chapters in full.

    The argument is the notebooks' folder.
    """

    required_arguments = 1
    option_spec = {"chapters": str.split}

    def written(self):
        entries = read_register((self.folder / self.arguments[0]).resolve())
        wanted = self.options.get("chapters")
        shown = [e for e in entries if wanted is None or e.notebook.stem[:2].lstrip("0") in wanted]
        clauses = [clause for entry in shown for clause in entry.evidence]
        count = Counter(clause.mark for clause in clauses)
        marked = ", ".join(f"{count[mark]} {mark}" for mark in MARKS if count[mark])
        words = f"{len(shown)} statements with {len(clauses)} clauses: {marked}."
        write = self.names if wanted is None else self.chapter
        chapters = groupby(shown, key=lambda entry: entry.notebook)
        tally = nodes.paragraph("", words)
        return [tally, *(write(path, list(group)) for path, group in chapters)]

    def names(self, path, entries):
        links = [f"- [{entry.label}](#{entry.slug}) {entry.name}" for entry in entries]
        heading = f"**[{entries[0].chapter}]({path.name})**"
        return self.quote("\n".join([heading, "", *links]), path, "register-names")

    def chapter(self, path, entries):
        section = nodes.section(ids=[path.stem], classes=["register-chapter"])
        section += nodes.title("", entries[0].chapter)
        section += self.quote(f"[Read the chapter]({path.name})", path, "register-link")
        section += [self.card(entry) for entry in entries]
        return section

    def card(self, entry):
        card = nodes.container(classes=["register-entry"])
        title = f"[{entry.label}](#{entry.slug}) {entry.name}"
        card += self.quote(title, entry.notebook, "register-title")
        card += self.quote(entry.statement, entry.notebook, "register-statement")
        evidence = "\n".join(f"- {c.words}: *{c.mark}*, {c.rests_on}" for c in entry.evidence)
        items = nodes.definition_list()
        for term, text in {"evidence": evidence, **entry.facts}.items():
            value = nodes.definition("", *self.quote(text, entry.notebook).children)
            items += nodes.definition_list_item("", nodes.term("", term.capitalize()), value)
        card += items
        return card

    def quote(self, markdown, notebook, *classes):
        """Markdown from a notebook, as nodes, with its links adapted to this page."""
        where = Path(os.path.relpath(notebook, self.folder)).as_posix()
        markdown = re.sub(r"\]\(#", f"]({where}#", markdown)
        markdown = re.sub(r"\]\(([^()/:#]+\.ipynb)", rf"]({where.rpartition('/')[0]}/\1", markdown)
        return self.parse(markdown, *classes)


def setup(app):
    app.add_directive("theorem-register", TheoremRegister)
