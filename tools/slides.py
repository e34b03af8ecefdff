"""Make the slides of the teaching module from the chapters: called by `make course`.

    python tools/slides.py                # into _build/course/slides
    python tools/slides.py some/folder    # elsewhere

A deck, `book/teaching/slides/NAME.yml`, names in their order what the slides show, and holds what
the presenter says. NAME.html opens from a disk, without a network; NAME.pdf is printed of it where
there is a Chromium. Each slide has a title, its minutes, its notes, and in `show` its parts:

    cell: notebook#id   a cell tagged `slide`; of text `excerpt: 2` takes the second marked part.
                        Code says as: code | print | formula | figure. Of code and print `from` and
                        `to` name the first and the last line by its beginning, `only` words that a
                        printed line holds; `columns: true` keeps printed lines whole. Of formulas
                        `steps: true` shows line after line, `reasons: below` puts each reason on a
                        line, `where: false` leaves abbreviations out.
    theorem: "3.2"      its statement, then what it needs; `stack: true` for formulas side by side
    claim: "002-11"     a claim of the ledger, the vote, then the verdict
    exercise: "4A"      of the exercise sheets
    summary: ["3.2"]    theorems in a table, with what breaks them
    ask, answer         a question to the room, and its answer as a second step
    live, text          words of the deck itself

`fragment: true` hides a part until the next key.
"""

import re
import shutil
import sys
from html import escape
from pathlib import Path

import jinja2
import yaml
from docutils.nodes import make_id
from files import demand, in_a_sentence, naming, write
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from print_pdf import CannotPrint, chromium, to_pdf
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from slide_sources import (
    NOTEBOOKS,
    ROOT,
    data,
    excerpt,
    find,
    lines_between,
    printed,
    read_sources,
)

sys.path.insert(0, str(NOTEBOOKS))
from derivation.display import aligned, rows_of  # noqa: E402

DECKS = ROOT / "book" / "teaching" / "slides"
OUTPUT = ROOT / "_build" / "course" / "slides"
STATIC = ROOT / "book" / "static"
ASSETS = "assets"
ABBREVIATIONS = (r"& \text{where", r"& \text{with")
PARTS = ("cell", "theorem", "claim", "summary", "exercise", "ask", "text", "live")
CAPTION = re.compile(r"(\w+ [\d.]+) \((.+)\):\n")


@in_a_sentence
def main(arguments):
    write_slides(Path(arguments[0]) if arguments else OUTPUT)
    return 0


def write_slides(folder):
    """Every deck as a page, and as a PDF where Chromium is there to print it."""
    names = write_pages(folder)
    try:
        with chromium() as browser:
            print_pages(browser, folder, names)
    except CannotPrint as why:
        print(f"The slides are there without PDF: {why}")


# ---- a deck ---------------------------------------------------------------------------


def write_pages(folder):
    """The pages and what they share; the names of the decks."""
    copy_assets(folder / ASSETS)
    sources, decks = read_sources(), read_decks()
    template = TEMPLATES.get_template("template.html")
    for name, deck in decks.items():
        slides = [slide_of(name, *numbered, sources) for numbered in enumerate(deck["slides"], 1)]
        write(folder / f"{name}.html", template.render(deck=deck, slides=slides, assets=ASSETS))
        print(f"{name}: {len(slides)} slides")
    return list(decks)


def read_decks():
    """{name: the deck as it is written}."""
    paths = sorted(DECKS.glob("*.yml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def slide_of(deck, number, slide, sources):
    """What the template shows of a slide."""
    with naming(f"{deck}.yml, slide {number}"):
        for key in ("title", "minutes", "notes", "show"):
            demand(key in slide, f"“{key}” is missing")
        title, minutes = inline(slide["title"]), slide["minutes"]
        notes = f"**{minutes} minute{'s' * (minutes != 1)}.**\n\n{slide['notes']}"
        body = [html_of(part, sources) for part in slide["show"]]
        return {
            "id": f"{number}-{make_id(title)}",
            "title": title,
            "body": body,
            "notes": markdown(notes),
        }


def copy_assets(assets):
    """What all decks share, in one folder beside them."""
    shutil.rmtree(assets, ignore_errors=True)
    shutil.copytree(DECKS / "reveal", assets / "reveal")
    shutil.copytree(STATIC / "mathjax", assets / "mathjax")
    for path in (DECKS / "slides.css", DECKS / "slides.js", STATIC / "logo.svg"):
        shutil.copy(path, assets)
    colours = HtmlFormatter(style="a11y-high-contrast-light").get_style_defs(".code")
    write(assets / "code.css", colours)


# ---- the parts of a slide ---------------------------------------------------------------


def html_of(part, sources):
    """The HTML of one part, hidden at first where the deck says so."""
    kind = next((name for name in PARTS if name in part), None)
    demand(kind, f"a part names one of {', '.join(PARTS)}")
    it = part[kind]
    if kind in sources:
        it = find(sources, kind, it)
    elif kind == "summary":
        it = [find(sources, "theorem", number) for number in it]
    html = cell_part(it, part) if kind == "cell" else getattr(SHOWN, kind)(it, part)
    return f'<div class="fragment">{html}</div>' if part.get("fragment") else html


def block(kind, html):
    return f'<div class="{kind}">{html}</div>'


def cell_part(cell, part):
    """A cell: the excerpt of its text, or of a code cell what `as` names."""
    if cell.cell_type == "markdown":
        return block("text", markdown(excerpt(cell, part.get("excerpt"))))
    kind = part.get("as")
    demand(kind in KINDS, f"{part['cell']} is code: say as: {', '.join(KINDS)}")
    stored, show = KINDS[kind]
    demand(stored(cell), f"{part['cell']} has no {kind}")
    return show(stored(cell), part, cell)


def code(source, part, cell):
    text = re.sub(r"\n{3,}", "\n\n", chosen_lines(source, part))
    coloured = highlight(text, PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<pre class="code"><code>{coloured}</code></pre>'


def lines(text, part, cell):
    shown = (escape(line) or "&nbsp;" for line in chosen_lines(text, part).split("\n"))
    kind = "print columns" if part.get("columns") else "print"
    return block(kind, "".join(block("line", f"<span>{line}</span>") for line in shown))


def chosen_lines(text, part):
    return lines_between(text, part.get("from", ""), part.get("to"), part.get("only", ""))


def formula(latex, part, cell):
    """A line or a proof, below the name of the theorem that it proves."""
    rows = rows_of(latex.strip("$\n ").replace(r"\small", ""))
    if part.get("where") is False:
        rows = [row for row in rows if not row[0].startswith(ABBREVIATIONS)]
    if part.get("reasons") == "below":
        rows = [(below, "") for line, reason in rows for below in reason_below(line, reason)]
    shown = aligned(f"{line} && {reason}" if reason else line for line, reason in rows)
    steps = f' data-steps="{step_of_each(rows)}"' if part.get("steps") else ""
    found = CAPTION.match(data(cell, "text/plain"))
    caption = f'<p class="caption">{found[1]} · {escape(found[2])}</p>' if found else ""
    return f'{caption}<div class="formula math"{steps}>\\[{escape(shown)}\\]</div>'


def reason_below(line, reason):
    """The rows of a line whose reason, which stands beside it, is put below it."""
    left, equals, right = line.partition(" &= ")
    rows = [f"& {left}", f"&= {right}"] if equals else [line]
    return [*rows, rf"&\qquad \text{{by }}{reason}"] if reason else rows


def step_of_each(rows):
    """The number of the step with which each row appears: a row that begins with = starts one."""
    starts = [number > 0 and line.startswith("&=") for number, (line, _) in enumerate(rows)]
    return " ".join(str(sum(starts[: number + 1])) for number in range(len(rows)))


def figure(png, part, cell):
    picture = "data:image/png;base64," + png.replace("\n", "")
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    return f'<figure><img src="{picture}" alt="{escape(alt)}"></figure>'


#: What a code cell can show: where the cell has it, and its HTML.
KINDS = {
    "code": (lambda cell: cell.source, code),
    "print": (printed, lines),
    "formula": (lambda cell: data(cell, "text/latex"), formula),
    "figure": (lambda cell: data(cell, "image/png"), figure),
}


# ---- Markdown ---------------------------------------------------------------------------


def math(content, options):
    """MathJax's own marks around a formula, of a line or of a paragraph."""
    if options["display_mode"]:
        return f'<div class="formula math">\\[{content.strip()}\\]</div>'
    return f'<span class="math">\\({content.strip()}\\)</span>'


#: Markdown as the book reads it; a link to another page is plain words here.
READER = MarkdownIt("commonmark").enable("table").use(amsmath_plugin)
READER.use(dollarmath_plugin, double_inline=True, renderer=math)
READER.add_render_rule("link_open", lambda *_: "")
READER.add_render_rule("link_close", lambda *_: "")


def markdown(text):
    return READER.render(str(text))


def inline(text):
    return READER.renderInline(str(text))


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(DECKS), trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.filters |= {"markdown": markdown, "inline": inline}
SHOWN = TEMPLATES.get_template("parts.html").module


# ---- the PDF ----------------------------------------------------------------------------


def print_pages(browser, folder, names):
    """One sheet for each slide, with everything on it shown."""
    for name in names:
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto((folder / f"{name}.html").resolve().as_uri() + "?print-pdf")
        page.wait_for_function("window.slidesReady === true")
        write(folder / f"{name}.pdf", to_pdf(page))
        page.close()
        print(f"{name}.pdf")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
