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

    ## Summary

    | theorem | hypotheses | proved for | measured against | breaks when |
    |---|---|---|---|---|
    | [3.2](#the-key-bias-cancels) The key bias cancels | ... | ... | ... | ... |

The box makes the heading above it and the first cell of its row in the summary; a notebook that
has others there is refused, and so is a clause without evidence (`evidence`).
The directive `{theorem-register}` renders what was read, so that nothing is typed twice.
"""

import os
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, takewhile
from pathlib import Path

from cells import FENCE, printed_in, text_of
from docutils import nodes
from evidence import check_evidence, counted, read_clauses
from files import Fault, demand, naming
from sphinx.util.docutils import SphinxDirective

FACTS = ("hypotheses", "proved_for", "measured_against", "breaks_when")
COLUMNS = ["theorem", *(fact.replace("_", " ") for fact in FACTS)]

LABEL = r"(?P<kind>Theorem|Lemma) (?P<number>\d+[a-z]?\.\d+)"
HEADING = re.compile(rf"### {LABEL} · (?P<name>.+)")
BOX_TITLE = re.compile(rf"{LABEL} \((?P<name>.+)\)\.?")
BOX = re.compile(rf"\*\*{BOX_TITLE.pattern}\*\*\s*(?P<statement>.*)", re.DOTALL)
PART = re.compile(r"\n\s*\n\*(Needs|Evidence):\*\s*")


@dataclass(frozen=True)
class Entry:
    """A theorem: what its box says, and the other cells of its row in the summary."""

    notebook: Path
    chapter: str
    kind: str
    number: str
    name: str
    statement: str
    needs: str = ""
    evidence: tuple = ()
    hypotheses: str = ""
    proved_for: str = ""
    measured_against: str = ""
    breaks_when: str = ""

    @property
    def label(self):
        return f"{self.kind} {self.number}"

    @property
    def slug(self):
        """The anchor of a theorem: its name in lower case, joined by hyphens."""
        return nodes.make_id(self.name)

    @property
    def heading(self):
        return f"### {self.label} · {self.name}"

    @property
    def first_cell(self):
        """Of its row in the summary."""
        return f"[{self.number}](#{self.slug}) {self.name}"


@cache
def read_register(folder):
    """Every theorem of the notebooks in `folder`, in the order in which they are read.

    Raises Fault for a notebook whose theorems, boxes and summary do not agree.
    """
    entries, taken = [], {}
    for path in sorted(Path(folder).glob("*.ipynb")):
        with naming(path.name):
            for entry in read_notebook(path):
                for key in (entry.number, entry.slug):
                    demand(key not in taken, f"{entry.label} uses “{key}”: {taken.get(key)} does")
                    taken[key] = f"{entry.label} in {path.name}"
                entries.append(entry)
    for path, own in groupby(entries, key=lambda entry: entry.notebook):
        said = printed_in(path)
        elsewhere = [entry.label for entry in entries if entry.notebook != path]
        for entry in own:
            with naming(path.name), naming(entry.label):
                check_evidence(entry.evidence, said, elsewhere)
    return tuple(entries)


def read_notebook(path):
    """The boxes of a notebook, each with its row of the summary."""
    lines = [line.rstrip() for line in FENCE.sub("", text_of(path)).splitlines()]
    title = next((line[2:].strip() for line in lines if line.startswith("# ")), "")
    boxes, rows = list(read_boxes(path, title, lines)), summary_rows(lines)
    firsts = [box.first_cell for box in boxes]
    compare("heading", [box.heading for box in boxes], list(filter(HEADING.fullmatch, lines)))
    compare("row of the summary", firsts, [row[0] for row in rows])
    facts = {first: dict(zip(FACTS, cells)) for first, *cells in rows}
    return [replace(box, **facts[box.first_cell]) for box in boxes]


def compare(what, wanted, found):
    """Each box has what it makes, once; and nothing else is there."""
    for one in dict.fromkeys(wanted + found):
        demand(one in found, f"a box asks for the {what} “{one}”, which is not there")
        demand(one in wanted, f"no box makes the {what} “{one}”")
        demand(found.count(one) == 1, f"the {what} “{one}” is there twice")


def read_boxes(path, title, lines):
    for quoted, block in groupby(lines, key=lambda line: line.startswith(">")):
        found = quoted and BOX.match("\n".join(re.sub("^> ?", "", s) for s in block))
        if not found:
            continue
        statement, *rest = PART.split(found["statement"])
        parts = {"Needs": "", "Evidence": ""} | dict(zip(rest[::2], rest[1::2]))
        kind, number, name = found["kind"], found["number"], found["name"]
        with naming(f"{kind} {number}"):
            for part, text in parts.items():
                demand(text, f"the box has no paragraph “*{part}:* …”")
            clauses = read_clauses(parts["Evidence"])
        needs = parts["Needs"].strip()
        yield Entry(path, title, kind, number, name, statement.strip(), needs, clauses)


def summary_rows(lines):
    """The rows of the summary's table, as lists of cells."""
    if "## Summary" not in lines:
        return []
    section = takewhile(lambda s: not s.startswith("## "), lines[lines.index("## Summary") + 1 :])
    head, *rows = [table_cells(line) for line in section if line.startswith("|")] or [[]]
    demand(head == COLUMNS, f"the summary needs the columns {' | '.join(COLUMNS)}")
    for row in rows:
        demand(len(row) == len(COLUMNS), f"not five cells in the summary: {' | '.join(row)}")
    return rows[1:]


def table_cells(line):
    """The cells of one row of a Markdown table; `\\|` is a bar inside a cell."""
    inner = re.sub(r"(?<!\\)\|$", "", line.strip().removeprefix("|"))
    return [c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", inner)]


# ---- the page of the book ---------------------------------------------------------


class BookDirective(SphinxDirective):
    """A directive that writes Markdown into a page; a Fault in `written` names its line there."""

    def run(self):
        try:
            return list(self.written())
        except Fault as wrong:
            raise self.error(str(wrong)) from None

    @property
    def folder(self):
        """The folder of the page."""
        return Path(self.env.doc2path(self.env.docname)).parent

    def parse(self, markdown, *classes):
        """Markdown as nodes of this page, in a box with these classes."""
        return nodes.container("", *self.parse_text_to_nodes(markdown), classes=list(classes))


class TheoremRegister(BookDirective):
    """All theorems by name; with `:chapters: 1 2`, those of these chapters with all that is said.

    The argument is the notebooks' folder.
    """

    required_arguments = 1
    option_spec = {"chapters": str.split}

    def written(self):
        entries = read_register((self.folder / self.arguments[0]).resolve())
        wanted = self.options.get("chapters")
        shown = [e for e in entries if wanted is None or e.notebook.stem[:2].lstrip("0") in wanted]
        clauses = [clause for entry in shown for clause in entry.evidence]
        words = f"{len(shown)} statements with {len(clauses)} clauses: {counted(clauses)}."
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
        facts = {"Evidence": evidence}
        facts |= {fact.replace("_", " ").capitalize(): getattr(entry, fact) for fact in FACTS}
        items = nodes.definition_list()
        for term, text in facts.items():
            value = nodes.definition("", *self.quote(text, entry.notebook).children)
            items += nodes.definition_list_item("", nodes.term("", term), value)
        card += items
        return card

    def quote(self, markdown, notebook, *classes):
        """Markdown of a notebook, its links made to fit here."""
        where = Path(os.path.relpath(notebook, self.folder)).as_posix()
        markdown = re.sub(r"\]\(#", f"]({where}#", markdown)
        markdown = re.sub(r"\]\(([^()/:#]+\.ipynb)", rf"]({where.rpartition('/')[0]}/\1", markdown)
        return self.parse(markdown, *classes)


def setup(app):
    app.add_directive("theorem-register", TheoremRegister)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
