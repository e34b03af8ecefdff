"""Make the slides of the teaching module from the chapters: called by `make course`.

    python tools/slides.py                      # into _build/course/slides
    python tools/slides.py some/folder --pdf    # elsewhere, and printed by Chromium
    python tools/slides.py --notebooks FOLDER   # from other notebooks

A deck, `book/teaching/slides/NAME.yml`, names in their order what the slides show, and holds what
the presenter says. NAME.html opens from a disk, without a network. Each slide has a title, its
minutes, its notes, and in `show` its parts:

    cell: notebook#id   a cell tagged `slide`; of text `excerpt: 2` takes the second marked part.
                        Code says as: code | print | formula | figure. Of code and print `from` and
                        `to` name the first and the last line by its beginning, `only` words that a
                        printed line holds; `columns: true` keeps printed lines whole. Of formulas
                        `steps: true` shows line after line, `reasons: below` puts each reason on a
                        line, `where: false` leaves abbreviations out, `sums: small` saves height.
    theorem: "3.2"      its statement, then what it needs; `stack: true` for formulas side by side
    claim: "002-11"     a claim of the ledger, the vote, then the verdict
    exercise: "4A"      of the exercise sheets
    summary: ["3.2"]    theorems in a table, with what breaks them
    ask, answer         a question to the room, and its answer as a second step
    live, text          words of the deck itself

`fragment: true` hides a part until the next key.
"""

import argparse
import re
import shutil
import sys
from base64 import b64decode
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from pathlib import Path

import jinja2
import pikepdf
import yaml
from files import in_a_sentence, write
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from print_pdf import Browser
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from slide_sources import PROVED_KINDS, ROOT, SlidesError, Sources, excerpt, lines_between

DECKS = ROOT / "book" / "teaching" / "slides"
OUTPUT = ROOT / "_build" / "course" / "slides"
ASSETS = "assets"
MATHJAX = ROOT / "book" / "static" / "mathjax"
CODE_STYLE = "a11y-high-contrast-light"
#: Most lines of code that the back row reads.
CODE_LINES = 10
VOTE = "Vote: true, true only if …, or false?"


@dataclass
class Deck:
    """A deck as it is written, and what it uses."""

    name: str
    title: str
    subtitle: str
    slides: list
    used: set = field(default_factory=set)
    figures: dict = field(default_factory=dict)


@in_a_sentence
def main(arguments=None):
    options = read_options(arguments)
    sources = Sources(options.notebooks, ROOT / "book" / "claims.yml")
    decks = [read_deck(path) for path in sorted(DECKS.glob("*.yml"))]
    copy_assets(options.folder)
    for deck in decks:
        write_deck(deck, sources, options.folder)
        print(f"{deck.name}: {len(deck.slides)} slides, {minutes(deck)} minutes")
    check_used(decks, sources)
    if options.pdf:
        print_decks(decks, options.folder)
    return 0


def read_options(arguments):
    parser = argparse.ArgumentParser(description="Make the slides from the chapters.")
    parser.add_argument("folder", nargs="?", type=Path, default=OUTPUT)
    parser.add_argument("--notebooks", type=Path, default=ROOT / "notebooks")
    parser.add_argument("--pdf", action="store_true", help="print each deck with Chromium")
    return parser.parse_args(arguments)


def check_used(decks, sources):
    """Every tagged cell is on a slide."""
    unused = sources.tagged - set().union(*(deck.used for deck in decks))
    if unused:
        raise SlidesError(f"Tagged for slides, and on none: {', '.join(sorted(unused))}.")


# ---- a deck ---------------------------------------------------------------------------


def read_deck(path):
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as problem:
        raise SlidesError(f"{path.name} is no YAML: {problem}") from None
    for number, slide in enumerate(data["slides"], 1):
        missing = [key for key in ("title", "minutes", "notes", "show") if key not in slide]
        if missing:
            raise SlidesError(f"{path.name}, slide {number}: {', '.join(missing)} is missing.")
    return Deck(path.stem, data["title"], data["subtitle"], data["slides"])


def minutes(deck):
    return sum(slide["minutes"] for slide in deck.slides)


def write_deck(deck, sources, folder):
    slides = [
        {
            "id": f"{number}-{slug(slide['title'])}",
            "title": inline(slide["title"]),
            "body": [body(part, deck, sources, slide) for part in slide["show"]],
            "notes": notes(slide),
        }
        for number, slide in enumerate(deck.slides, 1)
    ]
    page = template().render(deck=deck, slides=slides, assets=ASSETS)
    write(folder / f"{deck.name}.html", page)
    for name, png in deck.figures.items():
        write(folder / ASSETS / name, png)


def template():
    loader = jinja2.FileSystemLoader(DECKS)
    settings = dict(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return jinja2.Environment(loader=loader, **settings).get_template("template.html")


def slug(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def notes(slide):
    count = slide["minutes"]
    return markdown(f"**{count} minute{'s' * (count != 1)}.**\n\n{slide['notes']}")


def copy_assets(folder):
    """What all decks share, in one folder beside them."""
    assets = folder / ASSETS
    shutil.rmtree(assets, ignore_errors=True)
    shutil.copytree(DECKS / "reveal", assets / "reveal")
    shutil.copytree(MATHJAX, assets / "mathjax")
    for path in (DECKS / "slides.css", DECKS / "slides.js", ROOT / "book" / "static" / "logo.svg"):
        shutil.copy(path, assets)
    colours = HtmlFormatter(style=CODE_STYLE).get_style_defs(".code")
    write(assets / "code.css", colours)


# ---- the parts of a slide ---------------------------------------------------------------


def body(part, deck, sources, slide):
    """The HTML of one part, hidden at first where the deck says so."""
    makers = [name for name in PARTS if name in part]
    where = f"{deck.name}.yml, “{slide['title']}”"
    if len(makers) != 1:
        raise SlidesError(f"{where}: a part names one of {', '.join(PARTS)}.")
    try:
        html = PARTS[makers[0]](part, deck, sources)
    except SlidesError as problem:
        raise SlidesError(f"{where}: {problem}") from None
    return f'<div class="fragment">{html}</div>' if part.get("fragment") else html


def cell_part(part, deck, sources):
    """A cell: the excerpt of its text, or of a code cell what `as` names."""
    cell = sources.cell(part["cell"])
    deck.used.add(cell.name)
    if cell.kind == "markdown":
        return block("text", markdown(excerpt(cell, part.get("excerpt"))))
    kinds = {"code": code, "print": printed, "formula": formula, "figure": figure}
    if part.get("as") not in kinds:
        raise SlidesError(f"{cell.name} is code: say as: {', '.join(kinds)}.")
    return kinds[part["as"]](cell, part, deck)


def code(cell, part, deck):
    text = lines_between(cell.source, part.get("from"), part.get("to"), where=cell.name)
    text = re.sub(r"\n{3,}", "\n\n", text)
    if len(text.splitlines()) > CODE_LINES:
        raise SlidesError(f"{cell.name} shows more than {CODE_LINES} lines of code: from, to.")
    coloured = highlight(text, PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<pre class="code"><code>{coloured}</code></pre>'


def printed(cell, part, deck):
    if not cell.printed:
        raise SlidesError(f"{cell.name} prints nothing.")
    where = f"what {cell.name} prints"
    text = lines_between(cell.printed, part.get("from"), part.get("to"), part.get("only"), where)
    lines = (f"<span>{escape(line) or '&nbsp;'}</span>" for line in text.split("\n"))
    kind = "print columns" if part.get("columns") else "print"
    return block(kind, "".join(block("line", line) for line in lines))


def formula(cell, part, deck):
    if not cell.formula:
        raise SlidesError(f"{cell.name} has no formula among its outputs.")
    latex = cell.formula.replace(r"\small", "")
    latex = reasons_below(latex) if part.get("reasons") == "below" else latex
    latex = without_where(latex) if part.get("where") is False else latex
    latex = latex.replace(r"\sum_", r"\textstyle\sum_") if part.get("sums") == "small" else latex
    steps = f' data-steps="{step_of_each_row(latex)}"' if part.get("steps") else ""
    return f'{caption(cell)}<div class="formula math"{steps}>\\[{escape(latex)}\\]</div>'


def caption(cell):
    """The number and the name of the theorem that a cell proves; nothing for a mere line."""
    found = re.match(rf"({'|'.join(PROVED_KINDS)}) ([\d.]+) \((.+)\):\n", cell.data("text/plain"))
    return f'<p class="caption">{found[1]} {found[2]} · {escape(found[3])}</p>' if found else ""


def rows_of(latex):
    """The rows of a displayed derivation, with what stands around them."""
    found = re.fullmatch(r"(\\begin\{aligned\})\n?(.*?)\n?(\\end\{aligned\})", latex, re.DOTALL)
    if not found:
        raise SlidesError("this formula has no rows that could appear one by one.")
    return found[1], re.split(r" ?\\\\\n", found[2]), found[3]


def reasons_below(latex):
    """Put the reason of a line, which stands beside it, below it."""
    start, rows, end = rows_of(latex)
    placed = []
    for row in rows:
        line, _, reason = row.partition(" && ")
        left, equals, right = line.partition(" &= ")
        placed += [f"& {left}", f"&= {right}"] if equals else [line]
        placed += [rf"&\qquad \text{{by }}{reason}"] if reason else []
    return f"{start}\n" + " \\\\\n".join(placed) + f"\n{end}"


def without_where(latex):
    """Leave out what the abbreviations stand for."""
    start, rows, end = rows_of(latex)
    kept = [row for row in rows if not row.lstrip("& ").startswith(r"\text{where")]
    return f"{start}\n" + " \\\\\n".join(kept) + f"\n{end}"


def step_of_each_row(latex):
    """The number of the step with which each row appears: a row that begins with = starts one."""
    steps, count = [], 0
    for number, row in enumerate(rows_of(latex)[1]):
        count += number > 0 and row.lstrip().startswith("&=")
        steps.append(str(count))
    return " ".join(steps)


def figure(cell, part, deck):
    if not cell.figure:
        raise SlidesError(f"{cell.name} has no figure among its outputs.")
    if not cell.alt:
        raise SlidesError(f"The figure of {cell.name} has no words in the place of the picture.")
    name = cell.name.partition("#")[2] + ".png"
    deck.figures[name] = b64decode(cell.figure)
    return f'<figure><img src="{ASSETS}/{name}" alt="{escape(cell.alt)}"></figure>'


def theorem_part(part, deck, sources):
    """The statement, and what it needs as a second step."""
    entry = sources.theorem(str(part["theorem"]))
    title = f'<p class="name">{entry.label} · {inline(entry.name)}</p>'
    needs = f'<p class="needs fragment"><em>Needs:</em> {inline(entry.needs)}</p>'
    statement = stacked(entry.statement) if part.get("stack") else entry.statement
    return block("theorem", title + markdown(statement) + needs)


def stacked(statement):
    """A statement whose formulas, side by side, are put below one another."""
    below = r"$$\begin{gathered} %s \\[.3em] %s \end{gathered}$$"
    pair = re.compile(r"\$\$(.+?)\\qquad(.+?)\$\$", re.DOTALL)
    return pair.sub(lambda found: below % found.groups(), statement)


def claim_part(part, deck, sources):
    """A claim, the question, and then the verdict."""
    claim = sources.claim(str(part["claim"]))
    words = claim.why if not claim.needs else f"{claim.why}\n\n*Needs:* {claim.needs}"
    verdict = f'<p class="verdict">{claim.verdict.capitalize()}</p>{markdown(words)}'
    return (
        f"<blockquote>{markdown(claim.claim)}</blockquote>"
        f'<p class="vote">{VOTE} <span class="id">claim {claim.id}</span></p>'
        f'<div class="answer fragment {slug(claim.verdict)}">{verdict}</div>'
    )


def summary_part(part, deck, sources):
    """A table of theorems: what each says and where it breaks."""
    rows = [sources.theorem(str(number)) for number in part["summary"]]
    lines = [f"| {row.number} {row.name} | {row.breaks_when} |" for row in rows]
    return block("table", markdown("\n".join(["| theorem | breaks when |", "|---|---|", *lines])))


def exercise_part(part, deck, sources):
    exercise = sources.exercise(str(part["exercise"]))
    title = f'<p class="name">Exercise {exercise.number} · {inline(exercise.name)}</p>'
    return block("exercise", title + markdown(exercise.text))


def ask_part(part, deck, sources):
    """A question to the room, and its answer as a second step."""
    answer = markdown(part["answer"]) if "answer" in part else ""
    answer = answer and f'<div class="answer fragment">{answer}</div>'
    return block("ask", markdown(part["ask"])) + answer


def text_part(part, deck, sources):
    """Words of the deck itself: titles, tasks, what comes next."""
    return block("text", markdown(part["text"]))


def live_part(part, deck, sources):
    return block("live", '<p class="name">Now live</p>' + markdown(part["live"]))


PARTS = {
    "cell": cell_part,
    "theorem": theorem_part,
    "claim": claim_part,
    "summary": summary_part,
    "exercise": exercise_part,
    "ask": ask_part,
    "text": text_part,
    "live": live_part,
}


def block(kind, html):
    return f'<div class="{kind}">{html}</div>'


# ---- Markdown ---------------------------------------------------------------------------


def math(content, options):
    left, right = (r"\[", r"\]") if options["display_mode"] else (r"\(", r"\)")
    tag = "div" if options["display_mode"] else "span"
    kind = "formula math" if options["display_mode"] else "math"
    return f'<{tag} class="{kind}">{left}{content.strip()}{right}</{tag}>'


def reader():
    """Markdown as the book reads it; a link to another page is plain words here."""
    made = MarkdownIt("commonmark").enable("table")
    made.use(dollarmath_plugin, double_inline=True, renderer=math).use(amsmath_plugin)
    made.add_render_rule("link_open", lambda *_: "")
    made.add_render_rule("link_close", lambda *_: "")
    return made


READER = reader()


def markdown(text):
    return READER.render(str(text))


def inline(text):
    return READER.renderInline(str(text))


# ---- the PDF ----------------------------------------------------------------------------


def print_decks(decks, folder):
    """One page for each slide, with everything on it shown."""
    with Browser() as browser:
        for deck in decks:
            printed_deck(browser, deck, folder)
            print(f"{deck.name}.pdf")


def printed_deck(browser, deck, folder):
    page = browser.chromium.new_page(viewport={"width": 1280, "height": 720})
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    page.goto((folder / f"{deck.name}.html").resolve().as_uri() + "?print-pdf")
    page.wait_for_function("window.slidesReady === true")
    pdf = page.pdf(prefer_css_page_size=True, print_background=True, tagged=True, outline=True)
    page.close()
    write(folder / f"{deck.name}.pdf", titled(pdf, deck))


def titled(pdf, deck):
    made = BytesIO()
    with pikepdf.open(BytesIO(pdf)) as document:
        document.docinfo["/Title"] = f"{deck.title}: {deck.subtitle}"
        document.save(made, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return made.getvalue()


if __name__ == "__main__":
    sys.exit(main())
