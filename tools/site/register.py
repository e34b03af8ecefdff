"""The register of theorems, read from the notebooks.

`notebooks/README.md` shows how a notebook states a theorem: a heading, a block quote, which is its
box, and a row of the summary.
The box determines the heading above it and the first cell of its row in the summary.  A notebook is
refused if these differ, or if a clause lacks its evidence.  *Checked* needs a derivation with the
quoted title on the page, an exact instance (… ≠ …) that contains the quotation, or a theorem of
another page; *measured* needs the quotation in what the page prints; *by hand* needs an argument.
Whether a derivation proves the clause is for a reader to judge.  A remark has a box and an anchor,
but no row in the summary.  The directive `{theorem-register}` renders what was read.
"""

import os
import re
from collections import Counter, namedtuple
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby, takewhile
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from tools.cells import FENCE, printed_in, text_of, title_of
from tools.files import Fault, demand, naming

FACTS = ("hypotheses", "proved for", "measured against", "breaks when")

NUMBER = r"(?P<number>\d+[a-z]?\.\d+)"
HEADING = re.compile(rf"### (?P<kind>Theorem|Lemma) {NUMBER} · (?P<name>.+)")
BOX_TITLE = re.compile(rf"(?P<kind>Theorem|Lemma|Remark) {NUMBER} \((?P<name>.+)\)\.?")
BOX = re.compile(
    rf"\*\*{BOX_TITLE.pattern}\*\*\s*(?P<statement>.+?)"
    r"(?:\n\s*\n\*Needs:\*\s*(?P<needs>.+?)\n\s*\n\*Evidence:\*\s*(?P<evidence>.+))?",
    re.DOTALL,
)

MARKS = ("checked", "by hand", "measured")
FEWEST_WORDS = 5  # in an argument by hand
CLAUSE = re.compile(rf"(.+?): \*({'|'.join(MARKS)})\*, (.+)", re.DOTALL)
DERIVED = re.compile(r"^(\S.*?)(?:, (?:base|step))?:\n {4}\S", re.MULTILINE)
LABELLED = re.compile(r"^((?:Theorem|Lemma|Remark) \S+) \(")

Clause = namedtuple("Clause", "words mark rests_on")


@dataclass(frozen=True)
class Statement:
    """A numbered statement: the contents of its box, and the last four cells of its summary row.

    A remark has neither hypotheses nor evidence nor a row.
    """

    notebook: Path
    chapter: str
    kind: str
    number: str
    name: str
    statement: str
    needs: str
    evidence: tuple
    facts: dict

    @property
    def label(self):
        return f"{self.kind} {self.number}"

    @property
    def slug(self):
        """The anchor of the statement: its name in lower case, with hyphens between the words."""
        return nodes.make_id(self.name)


@cache
def read_statements(folder: Path) -> dict[str, Statement]:
    """{number: theorem, lemma or remark} of the notebooks in `folder`, chapter by chapter.

    Raises Fault for a notebook whose boxes, headings, summary and evidence do not agree, and for
    two statements with the same number or name.
    """
    found = []
    for path in sorted(Path(folder).glob("*.ipynb")):
        with naming(path.name):
            found += read_notebook(path)
    for path, own in groupby(found, key=lambda statement: statement.notebook):
        said = printed_in(path)
        elsewhere = [one.label for one in found if one.notebook != path and one.kind != "Remark"]
        for one in own:
            with naming(path.name), naming(one.label):
                title = f"{one.label} ({one.name})"
                derived = one.kind != "Remark" or f"{title}:" in said
                demand(derived, f"the page prints no derivation of {title}")
                check_evidence(one.evidence, said, elsewhere)
    for keys in ([s.number for s in found], [s.slug for s in found]):
        for key, times in Counter(keys).items():
            demand(times == 1, f"“{key}” is of {times} theorems")
    return {statement.number: statement for statement in found}


def read_register(folder: Path) -> tuple[Statement, ...]:
    """Every theorem and lemma of the notebooks in `folder`, in the order of the chapters."""
    return tuple(one for one in read_statements(folder).values() if one.kind != "Remark")


def read_notebook(path):
    """The Statements of a notebook, each theorem from its box and its row of the summary."""
    text = FENCE.sub("", text_of(path))
    lines = [line.rstrip() for line in text.splitlines()]
    boxes, rows = list(read_boxes(lines)), summary_rows(lines)
    stated = [(kind, number, name) for kind, number, name, *_ in boxes if kind != "Remark"]
    headings = [f"### {kind} {number} · {name}" for kind, number, name in stated]
    firsts = [f"[{number}](#{nodes.make_id(name)}) {name}" for _, number, name in stated]
    compare("heading", headings, list(filter(HEADING.fullmatch, lines)))
    compare("row of the summary", firsts, [row[0] for row in rows])
    facts = {first.partition("]")[0][1:]: dict(zip(FACTS, cells)) for first, *cells in rows}
    return [Statement(path, title_of(text), *box, facts.get(box[1], {})) for box in boxes]


def compare(what, wanted, found):
    """Demand that each wanted heading or row is found exactly once, and that no other is found."""
    for one in wanted + found:
        asked, there = wanted.count(one), found.count(one)
        demand(asked == there == 1, f"{asked} boxes make the {what} “{one}”; it is there {there}×")


def read_boxes(lines):
    """Yield the contents of each box: kind, number, name, statement, needs, clauses."""
    for quoted, block in groupby(lines, key=lambda line: line.startswith(">")):
        text = "\n".join(re.sub("^> ?", "", line) for line in block)
        if quoted and (found := BOX.fullmatch(text)):
            *parts, evidence = found.groups()
            whole = evidence or found["kind"] == "Remark"
            demand(whole, f"a box without “*Needs:* …” and “*Evidence:* …”: {text[:50]}")
            yield *parts, read_clauses(evidence or "")


def read_clauses(bullets: str) -> tuple[Clause, ...]:
    """The Clauses of a list in Markdown.  Raises Fault for a bullet without one of the MARKS."""
    bullets = [" ".join(one.split()) for one in re.split(r"(?:^|\n)- ", bullets.strip())[1:]]
    for bullet in bullets:
        demand(CLAUSE.fullmatch(bullet), f"“{bullet}” is not marked as {' or '.join(MARKS)}")
    return tuple(Clause(*CLAUSE.fullmatch(bullet).groups()) for bullet in bullets)


def check_evidence(clauses: Iterable[Clause], text: str, elsewhere: Iterable[str] = ()) -> None:
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
