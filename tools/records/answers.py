"""Write the table of which biases can go into the pages that show its rows.

    .venv/bin/python -m tools answers      # after a change in notebooks/redundancy/what_can_go

A comment marks each place in a page, and this tool rewrites the paragraph or table below it:

    <!-- table: group Attention -->         the rows of a group, as a summary
    <!-- table: line Cross-attention -->    what goes alone, what is absorbed, what stays
    <!-- table: not Cross-attention -->     what changes the answers of a line, and what holds then
    <!-- table: moves -->                   the constants that move, by placement (chapter 8b)
    <!-- table: asked -->                   the models that people ask about (the first page)
"""

import re

import nbformat
from redundancy.tables import listed
from redundancy.what_can_go import GROUPS, TABLE
from redundancy.what_can_go.answers import symbol
from redundancy.what_can_go.rows_blocks import MODELS
from redundancy.what_can_go.theorems import LINKS

from tools.cells import table
from tools.files import NOTEBOOKS, ROOT, demand, read_notebook, write

PAGE = ROOT / "book/which-bias-can-go.md"
FIRST = ROOT / "book/index.md"
CHAPTER = NOTEBOOKS / "08b-which-constants-move.ipynb"
MARKED = re.compile(r"(<!-- table: (.+?) -->\n\n)(.*?)(?=\n\n|\n*\Z)", re.DOTALL)
ROWS = {row.title: row for row in TABLE}


def written(text, folder=""):
    """Rewrite the block below every marking comment of a text; links begin with ``folder``."""
    sections = {title.replace("`", "") for title in re.findall(r"^### (.+)$", text, re.MULTILINE)}

    def anew(mark):
        what, _, which = mark[2].partition(" ")
        demand(what in RENDERED, f"nothing is called {mark[2]!r} that a page could print")
        return mark[1] + RENDERED[what](which, folder, sections)

    return MARKED.sub(anew, text)


def group(name, folder, sections):
    """A table of a group's rows: the title, what can go by which theorem, and what stays."""
    demand(name in GROUPS, f"the table has no group {name!r}")
    rows = []
    for row in GROUPS[name]:
        title = lettered(row.title)
        goes, stays = row.can_go(cited(folder)), row.staying(cited(folder))
        if row.title in sections:
            title = f"[{title}](#{slug(row.title)})"
        elif row.breaks:  # no section of the page gives the row's conditions
            goes += f". {row.not_when(cited(folder))}"
        rows.append((title, goes, stays))
    return table(["around your layer", "can go", "stays"], rows)


def moves(_, folder, sections):
    """A table of what has to change when a bias is set to zero, for the placements of the norms."""
    found = {}
    for row in MODELS:
        for answer in row.answers:
            whole = answer.much == "all" or answer.bias == "b_2"
            if row.title in PLACEMENTS and whole and not answer.aside:
                change = answer.changes() or "nothing"
                key = answer.bias, f"{answer.named()}", change + cited(folder)(answer)
                found.setdefault(key, []).append(PLACEMENTS[row.title])
    order = ("b_K", "b_V", "b_Q", "b_2")
    rows = [
        (named, "everywhere" if len(places) == len(PLACEMENTS) else listed(places), change)
        for (_, named, change), places in sorted(found.items(), key=lambda f: order.index(f[0][0]))
    ]
    return table(["to zero", "where", "changes in return"], rows)


#: {title of a row: its name in chapter 8b}, for whole blocks that differ in where the norms are.
PLACEMENTS = {
    "Pre-norm, LayerNorm: GPT-2, OPT, BLOOM, ViT": "pre-norm",
    "Post-norm, LayerNorm: BERT, RoBERTa, BART": "post-norm",
    "LayerNorms on the branch only": "branch",
    "Parallel, one LayerNorm, plain positions": "parallel",
}


ROTARY = "RoPE (rotary positions)"
#: (models that people ask about, biases that their attention has by default, title of a row, and
#: the section that the models link to, if it is not the row's own or its group)
ASKED = (
    ("GPT-2, ViT", "all", "Pre-norm, LayerNorm: GPT-2, OPT, BLOOM, ViT"),
    ("BERT", "all", "Post-norm, LayerNorm: BERT, RoBERTa, BART"),
    ("Llama, Mistral", "none", "RMSNorm, RoPE, all biases: Llama with biases", ROTARY),
    ("Qwen2", "$b_Q$, $b_K$, $b_V$", "RMSNorm, RoPE, no output bias: Qwen2", ROTARY),
    ("Qwen3, Gemma 3", "none", "QK-norm with RMSNorm, and cosine attention"),
    ("DeepSeek-V3", "none", "Multi-head latent attention"),
    ("gpt-oss", "all", "RMSNorm, RoPE, a sink: gpt-oss", "Sinks and softmax off by one"),
    ("ResNet", "none before BatchNorm", "Before BatchNorm"),
)


def asked(_, folder, sections):
    """A table with a row for each entry of `ASKED`, which links to the decision page."""
    rows = []
    headings = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for models, biases, title, *section in ASKED:
        row = row_of(title)
        own = [title] if title in headings else [g for g in GROUPS if row in GROUPS[g]]
        place = (section or own)[0]
        link = f"[{models}]({PAGE.name}#{slug(place)})"
        rows.append((f"{link}: {biases}", row.can_go(), row.staying()))
    return table(["your model: its biases", "can go, if present", "stays"], rows)


#: {word of a marking comment: the function that writes what stands below it}
RENDERED = {
    "group": group,
    "line": lambda title, *_: row_of(title).line(),
    "not": lambda title, folder, _: row_of(title).not_when(cited(folder), bullets=True),
    "moves": moves,
    "asked": asked,
}


def cited(folder):
    """A function that returns the link to an answer's theorem in brackets, or "" without one."""

    def cite(answer):
        theorem = answer.theorem
        return f" ([{theorem}]({folder}{LINKS[theorem]}))" if theorem else ""

    return cite


def slug(title):
    """The anchor that MyST makes from a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def lettered(title):
    """A title with the names of its biases set as formulas."""
    return re.sub(r"\bb_[A-Z\d]", lambda found: symbol(found[0]), title)


def row_of(title):
    demand(title in ROWS, f"the table has no row {title!r}")
    return ROWS[title]


def of_page(path=PAGE):
    return written(path.read_text(encoding="utf-8"), "../notebooks/")


def of_chapter():
    notebook = read_notebook(CHAPTER)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = written(cell.source)
    return notebook


def main():
    write(PAGE, of_page())
    write(FIRST, of_page(FIRST))
    write(CHAPTER, nbformat.writes(of_chapter()) + "\n")
