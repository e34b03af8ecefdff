"""The register of theorems, read from the notebooks.

A notebook says each theorem three times: in a heading, in a block quote that holds the
statement, and in a row of its summary table.

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

`read_register` reads them back and refuses a notebook in which the three disagree, or in which
a clause has no evidence (`evidence`).
The directive `{theorem-register}` renders what was read, so that nothing is typed twice.
"""

import json
import os
import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from evidence import EvidenceError, check_evidence, counted, printed, read_clauses

KINDS = ("Theorem", "Lemma", "Proposition", "Corollary", "Definition", "Counterexample")
PROVED_KINDS = KINDS[:4]  # these must stand in the summary; the others need no proof
COLUMNS = ["theorem", "hypotheses", "proved for", "measured against", "breaks when"]

_LABEL = rf"(?P<kind>{'|'.join(KINDS)}) (?P<number>\d+[a-z]?\.\d+)"
HEADING = re.compile(rf"### {_LABEL} · (?P<name>.+)")
BOX_TITLE = re.compile(rf"{_LABEL} \((?P<name>.+)\)\.?")
BOX = re.compile(rf"\*\*{BOX_TITLE.pattern}\*\*\s*(?P<statement>.*)", re.DOTALL)
NEEDS = re.compile(r"\n\s*\n\*Needs:\*\s*")
EVIDENCE = re.compile(r"\n\s*\n\*Evidence:\*\s*")
SUMMARY_CELL = re.compile(r"\[(?P<number>[^\]]+)\]\(#(?P<slug>[^)]+)\)\s*(?P<name>.+)")


class RegisterError(ValueError):
    """A notebook whose theorems, boxes and summary do not agree."""


@dataclass(frozen=True)
class Entry:
    number: str
    name: str
    slug: str
    kind: str
    statement: str
    needs: str
    evidence: tuple
    hypotheses: str
    proved_for: str
    measured_against: str
    breaks_when: str
    notebook: Path
    chapter: str

    @property
    def label(self):
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class Box:
    """A statement in a block quote."""

    kind: str
    number: str
    name: str
    statement: str
    needs: str
    evidence: tuple

    @property
    def label(self):
        return f"{self.kind} {self.number}"

    @property
    def title(self):
        return f"{self.label} ({self.name})"


def slugify(name):
    """The anchor of a theorem: its name in lower case, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def read_register(folder):
    """Every theorem of the notebooks in `folder`, in the order in which they are read."""
    entries, first_use = [], {}
    for path in sorted(Path(folder).glob("*.ipynb")):
        lines = markdown_lines(path)
        boxes = read_boxes(path, lines)
        check_headings(path, lines, boxes)
        for box in boxes:
            number = box.number if box.kind in PROVED_KINDS else box.label
            for key in (number, slugify(box.name)):
                if key in first_use:
                    raise RegisterError(
                        f"{path.name}: {box.title} uses “{key}”, "
                        f"which {first_use[key]} has already."
                    )
                first_use[key] = f"{box.title} in {path.name}"
        entries += join_summary(path, lines, boxes)
    check_clauses(entries)
    return entries


def check_clauses(entries):
    """Every clause has evidence that its notebook prints, or a theorem of another one."""
    said = {entry.notebook: printed(entry.notebook) for entry in entries}
    for entry in entries:
        elsewhere = [other.label for other in entries if other.notebook != entry.notebook]
        try:
            check_evidence(entry.evidence, said[entry.notebook], elsewhere)
        except EvidenceError as wrong:
            raise RegisterError(f"{entry.notebook.name}: {entry.label}: {wrong}") from None


def markdown_lines(path):
    """The Markdown lines of a notebook, without what stands in code fences."""
    lines, fenced = [], False
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        for line in "".join(cell["source"]).splitlines():
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                lines.append(line.rstrip())
        lines.append("")  # the end of a cell ends a block quote and a table
    return lines


def chapter_title(lines):
    return next((line[2:].strip() for line in lines if line.startswith("# ")), "")


def read_boxes(path, lines):
    boxes = []
    for quoted, block in groupby(lines, key=lambda line: line.startswith(">")):
        found = quoted and BOX.match("\n".join(re.sub("^> ?", "", s) for s in block))
        if not found:
            continue
        statement, *needs = NEEDS.split(found["statement"], maxsplit=1)
        needs, *evidence = EVIDENCE.split("".join(needs), maxsplit=1)
        label = (found["kind"], found["number"], found["name"])
        try:
            clauses = read_clauses("".join(evidence))
        except EvidenceError as wrong:
            raise RegisterError(
                f"{path.name}: {found['kind']} {found['number']}: {wrong}"
            ) from None
        box = Box(*label, statement.strip(), needs.strip(), clauses)
        if box.kind in PROVED_KINDS and not box.needs:
            raise RegisterError(
                f"{path.name}: {box.title} does not say what it needs; "
                "end its block quote with a paragraph “*Needs:* …”."
            )
        if box.kind in PROVED_KINDS and not box.evidence:
            raise RegisterError(
                f"{path.name}: {box.title} does not say what its clauses rest on; "
                "end its block quote with a list “*Evidence:* …”."
            )
        boxes.append(box)
    return boxes


def check_headings(path, lines, boxes):
    """Each heading has its box, each box its heading, and their names agree."""
    headings = {}
    for found in filter(None, map(HEADING.fullmatch, lines)):
        headings[f"{found['kind']} {found['number']}"] = found["name"].strip()
    boxed = {box.label: box.name for box in boxes}
    for label in headings | boxed:
        if label not in boxed:
            raise RegisterError(
                f"{path.name}: the heading of {label} has no statement; expected a "
                f"block quote that begins “> **{label} ({headings[label]}).**”."
            )
        if label not in headings:
            raise RegisterError(
                f"{path.name}: the statement of {label} has no heading; expected "
                f"“### {label} · {boxed[label]}”."
            )
        if headings[label] != boxed[label]:
            raise RegisterError(
                f"{path.name}: {label} is called “{headings[label]}” in its heading "
                f"and “{boxed[label]}” in its statement."
            )


def join_summary(path, lines, boxes):
    rows = summary_rows(path, lines)
    proved = {box.number: box for box in boxes if box.kind in PROVED_KINDS}
    for number in rows:
        if number not in proved:
            raise RegisterError(
                f"{path.name}: the summary has a row for {number}, "
                "and the notebook states no such theorem."
            )
    for number, box in proved.items():
        if number not in rows:
            raise RegisterError(f"{path.name}: {box.title} has no row in the summary.")
        slug, name, *cells = rows[number]
        if name != box.name:
            raise RegisterError(
                f"{path.name}: {box.label} is called “{box.name}” in its statement "
                f"and “{name}” in the summary."
            )
        if slug != slugify(name):
            raise RegisterError(
                f"{path.name}: the summary links {number} to “#{slug}”; "
                f"its name makes the link “#{slugify(name)}”."
            )
        yield Entry(
            number,
            name,
            slug,
            box.kind,
            box.statement,
            box.needs,
            box.evidence,
            *cells,
            notebook=path,
            chapter=chapter_title(lines),
        )


def summary_rows(path, lines):
    """The summary table as {number: (slug, name, four more cells)}."""
    if "## Summary" not in lines:
        return {}
    after = lines[lines.index("## Summary") + 1 :]
    end = next((i for i, line in enumerate(after) if line.startswith("## ")), None)
    table = [table_cells(line) for line in after[:end] if line.startswith("|")]
    if not table or table[0] != COLUMNS:
        raise RegisterError(
            f"{path.name}: the summary needs a table with the columns {' | '.join(COLUMNS)}."
        )
    rows = {}
    for cells in table[2:]:
        found = SUMMARY_CELL.fullmatch(cells[0])
        if len(cells) != len(COLUMNS) or not found:
            raise RegisterError(
                f"{path.name}: a summary row reads “{' | '.join(cells)}”; expected "
                "“[3.2](#the-slug) The name” and four more cells."
            )
        if found["number"] in rows:
            raise RegisterError(f"{path.name}: the summary has two rows for {found['number']}.")
        rows[found["number"]] = (found["slug"], found["name"].strip(), *cells[1:])
    return rows


def table_cells(line):
    """The cells of one row of a Markdown table; `\\|` is a bar inside a cell."""
    inner = line.strip().removeprefix("|")
    inner = re.sub(r"(?<!\\)\|$", "", inner)
    return [c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", inner)]


# ---- the page of the book ---------------------------------------------------------


class TheoremRegister(Directive):
    """All theorems, grouped by chapter; the argument is the notebooks' folder."""

    required_arguments = 1

    def run(self):
        env = self.state.document.settings.env
        self.page = Path(env.doc2path(env.docname))
        folder = (self.page.parent / self.arguments[0]).resolve()
        for path in folder.glob("*.ipynb"):
            env.note_dependency(str(path))
        registers(env)[env.docname] = (folder, listing(folder))
        try:
            entries = read_register(folder)
        except RegisterError as wrong:
            raise self.error(str(wrong)) from None
        chapters = groupby(entries, key=lambda entry: entry.notebook)
        return [self.tally(entries), *(self.chapter(path, list(group)) for path, group in chapters)]

    def tally(self, entries):
        """How many clauses rest on what: the first line of the page."""
        clauses = [clause for entry in entries for clause in entry.evidence]
        words = f"{len(entries)} statements with {len(clauses)} clauses: {counted(clauses)}."
        return nodes.paragraph("", words)

    def chapter(self, path, entries):
        section = nodes.section(ids=[path.stem], classes=["register-chapter"])
        section += nodes.title("", entries[0].chapter)
        section += self.parse(f"[Read the chapter]({path.name})", path, "register-link")
        section += [self.card(entry) for entry in entries]
        return section

    def card(self, entry):
        card = nodes.container(classes=["register-entry"])
        title = f"[{entry.label}](#{entry.slug}) {entry.name}"
        card += self.parse(title, entry.notebook, "register-title")
        card += self.parse(entry.statement, entry.notebook, "register-statement")
        facts = nodes.definition_list()
        for term, text in (
            ("Evidence", evidence_list(entry)),
            ("Hypotheses", entry.hypotheses),
            ("Proved for", entry.proved_for),
            ("Measured against", entry.measured_against),
            ("Breaks when", entry.breaks_when),
        ):
            value = nodes.definition("", *self.parse(text, entry.notebook).children)
            facts += nodes.definition_list_item("", nodes.term("", term), value)
        card += facts
        return card

    def parse(self, markdown, notebook, *classes):
        """Markdown of a notebook as nodes of this page, its links made to fit here."""
        where = Path(os.path.relpath(notebook, self.page.parent)).as_posix()
        markdown = re.sub(r"\]\(#", f"]({where}#", markdown)
        markdown = re.sub(r"\]\(([^()/:#]+\.ipynb)", rf"]({where.rpartition('/')[0]}/\1", markdown)
        box = nodes.container(classes=list(classes))
        lines = StringList(markdown.splitlines(), source=str(self.page))
        self.state.nested_parse(lines, self.content_offset, box)
        return box


def evidence_list(entry):
    """The clauses of a theorem in Markdown, as its box has them."""
    return "\n".join(f"- {c.words}: *{c.mark}*, {c.rests_on}" for c in entry.evidence)


def registers(env):
    """Which page shows the register of which folder, and the notebooks it saw there."""
    if not hasattr(env, "theorem_registers"):
        env.theorem_registers = {}
    return env.theorem_registers


def listing(folder):
    return sorted(path.name for path in folder.glob("*.ipynb"))


def outdated(app, env, added, changed, removed):
    """The pages to read again because a notebook came or went."""
    return [
        page
        for page, (folder, names) in registers(env).items()
        if names != listing(folder) and page in env.found_docs
    ]


def setup(app):
    app.add_directive("theorem-register", TheoremRegister)
    app.connect("env-get-outdated", outdated)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
