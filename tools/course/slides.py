"""Make the slides of the teaching module from the chapters.

    python -m tools slides                # into _build/course/slides
    python -m tools slides some/folder    # elsewhere

A deck, `book/teaching/slides/NAME.yml`, has a section for each row of the table “Plan” in
`book/teaching/NAME.md`: `plan` repeats the row's text, and the minutes of the section's slides sum
to the row's.  NAME.html opens without a network.  Each slide has a title, its minutes, the
presenter's notes, and under `show` a list of parts, each of which begins with its kind:

    cell: notebook#id   a cell tagged `slide`. Text is shown from `<!-- slide -->` to
                        `<!-- /slide -->`; `excerpt: 2` selects the second such excerpt.
                        For code, `as` is one of code, print, formula, figure. For code and print,
                        `from` and `to` name the first and last line by their beginnings;
                        `columns: true` keeps printed lines whole. For formulas,
                        `steps: true` shows one line after another, `reasons: below` leaves
                        reasons on lines of their own, and `short: true` leaves out
                        abbreviations and the remarks after reasons.
    theorem: "3.2"      its statement and hypotheses; `stack: true` puts formulas on separate lines
    claim: "002-11"     a claim, a vote, then the verdict; `verdict: false` leaves the verdict out
    exercise: "4A"      an exercise of a sheet
    summary: ["3.2"]    a table of theorems, with what breaks them
    exit: session-1     the exit question of a plan
    ask, answer         a question to the room, and its answer as a second step
    live, text          the deck's own words

`fragment: true` hides a part until the presenter presses a key.
"""

import re
import shutil
from html import escape
from itertools import accumulate, zip_longest
from pathlib import Path

import jinja2
import yaml
from derivation.language import aligned, rows_of
from docutils.nodes import make_id
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tools.files import NOTEBOOKS, ROOT, demand, naming, read_notebook, write
from tools.site.claims import read_claims
from tools.site.formulas import typeset
from tools.site.register import read_register

TEACHING = ROOT / "book" / "teaching"
DECKS = TEACHING / "slides"
OUTPUT = ROOT / "_build" / "course" / "slides"
STATIC = ROOT / "book" / "static"
ABBREVIATIONS = (r"& \text{where", r"& \text{with", r"& \text{and ")
CAPTION = re.compile(r"(\w+ [\d.]+) \((.+)\):\n")
MARKED = re.compile(r"<!-- slide -->(.*?)<!-- /slide -->", re.DOTALL)
#: A row of the table “Plan”, and the question at the end of a plan.
ROW = re.compile(r"^\| (?P<minutes>\d+) \| (?P<what>.+?) \| (?P<how>.+?) \|", re.MULTILINE)
EXIT = re.compile(r"^## Exit question\s+(.+?)\s+<details>", re.MULTILINE | re.DOTALL)
#: An exercise of a sheet: the text between its heading and its solution.
EXERCISE = re.compile(
    r"^### Exercise (?P<number>\d+[A-Z]) · (?P<name>.+?)\s*$\s*"
    r"(?P<text>.*?)\s*(?=^(?:#{1,3} |<details|:::|```)|\Z)",
    re.MULTILINE | re.DOTALL,
)


def main(folder=OUTPUT):
    write_slides(Path(folder))


# ---- a deck ---------------------------------------------------------------------------


def write_slides(folder):
    """Write the page of each deck and the files that they share; return {name: deck}."""
    copy_assets(folder / "assets")
    sources, template = read_sources(), TEMPLATES.get_template("template.html")
    decks = {path.stem: yaml.safe_load(path.read_bytes()) for path in sorted(DECKS.glob("*.yml"))}
    for name, deck in decks.items():
        slides = slides_of(name, deck["sections"], sources)
        write(folder / f"{name}.html", template.render(deck=deck, slides=slides))
        print(f"{name}: {len(slides)} slides")
    return decks


def copy_assets(assets):
    """Write the files that all decks share into the folder ``assets``."""
    shutil.rmtree(assets, ignore_errors=True)
    shutil.copytree(DECKS / "reveal", assets / "reveal")
    shutil.copytree(STATIC / "katex", assets / "katex")
    for path in (DECKS / "slides.css", DECKS / "slides.js", STATIC / "logo.svg"):
        shutil.copy(path, assets)
    colours = HtmlFormatter(style="a11y-high-contrast-light").get_style_defs(".code")
    write(assets / "code.css", colours)


def read_sources():
    """What decks can show: {"cell", "theorem", "claim" or "exercise": {name: source}}."""
    cells = {
        f"{path.stem}#{cell.get('id', '')}": cell
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for cell in read_notebook(path).cells
    }
    texts = [cell.source for cell in cells.values() if cell.cell_type == "markdown"]
    exercises = (found for text in texts for found in EXERCISE.finditer(text))
    return {
        "cell": cells,
        "theorem": {entry.number: entry for entry in read_register(NOTEBOOKS)},
        "claim": {claim.id: claim for claim in read_claims(ROOT / "book" / "claims.yml")[1]},
        "exercise": {found["number"]: found.groupdict() for found in exercises},
        "exit": {name: EXIT.search(plan)[1] for name, plan in plans().items()},
    }


def plans():
    """{name of a deck: the text of its plan}."""
    names = sorted(path.stem for path in DECKS.glob("*.yml"))
    return {name: (TEACHING / f"{name}.md").read_text(encoding="utf-8") for name in names}


def slides_of(name, sections, sources):
    """The slides of a deck for the template; its sections must be the rows of its plan."""
    rows = [found.groupdict() for found in ROW.finditer(plans()[name])]
    length = lambda section: sum(slide["minutes"] for slide in section["slides"])
    told = [(section["plan"], length(section)) for section in sections]
    wanted = [(row["what"], int(row["minutes"])) for row in rows]
    wrong = [pair for pair in zip_longest(told, wanted) if pair[0] != pair[1]]
    demand(not wrong, f"{name}.yml does not follow its plan; (deck, plan) is {wrong[:1]}")
    slides, clock = [], 0
    for section, row in zip(sections, rows):
        for slide in section["slides"]:
            when = f"Minute {clock} · {row['what']} · {row['how']}"
            slides.append(slide_of(name, len(slides) + 1, slide, when, sources))
            clock += slide["minutes"]
    return slides


def slide_of(deck, number, slide, when, sources):
    """The data of a slide for the template; `when` is its place in the plan."""
    with naming(f"{deck}.yml, slide {number}"):
        title, minutes = inline(slide["title"]), slide["minutes"]
        length = f"This slide: {minutes} minute{'s' * (minutes != 1)}."
        return {
            "id": f"{number}-{make_id(title)}",
            "title": title,
            "body": [html_of(part, sources) for part in slide["show"]],
            "notes": markdown(f"**{when}.** {length}\n\n{slide['notes']}"),
        }


# ---- the parts of a slide ---------------------------------------------------------------


def html_of(part, sources):
    """The HTML of one part of a slide, hidden at first if the deck says so."""
    kind, it = next(iter(part.items()))
    if kind in sources:
        it = find(sources, kind, it)
    elif kind == "summary":
        it = [find(sources, "theorem", number) for number in it]
    if kind == "cell":
        html = KINDS[part["as"] if it.cell_type == "code" else "text"](it, part)
    else:
        html = getattr(SHOWN, kind)(it, part)
    return block("fragment", html) if part.get("fragment") else html


def find(sources, kind, name):
    demand(name in sources[kind], f"there is no {kind} {name}")
    return sources[kind][name]


def block(kind, html):
    return f'<div class="{kind}">{html}</div>'


def text(cell, part):
    """The marked excerpts of a cell's text, or all of it."""
    texts = [found.strip() for found in MARKED.findall(cell.source)] or [cell.source.strip()]
    texts = texts[part["excerpt"] - 1 :][:1] if "excerpt" in part else texts
    return block("text", markdown("\n\n".join(texts)))


def code(cell, part):
    shown = re.sub(r"\n{3,}", "\n\n", "\n".join(chosen(cell.source, part)))
    coloured = highlight(shown, PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<pre class="code"><code>{coloured}</code></pre>'


def printed(cell, part):
    """The output of a cell as HTML: printed lines, and values that are plain text only."""
    outputs = [o for o in cell.outputs if set(o.get("data", ())) <= {"text/plain"}]
    said = "\n".join((o.get("text") or o.data["text/plain"]).strip("\n") for o in outputs)
    lines = [block("line", f"<span>{escape(x) or '&nbsp;'}</span>") for x in chosen(said, part)]
    return block("print columns" if part.get("columns") else "print", "".join(lines))


def chosen(text, part):
    """The lines from the one that begins with `from` to the one that begins with `to`."""
    lines = text.strip("\n").splitlines()
    lines = lines[position(lines, part.get("from", "")) :]
    return lines[: position(lines, part["to"]) + 1] if "to" in part else lines


def position(lines, beginning):
    there = [number for number, line in enumerate(lines) if line.strip().startswith(beginning)]
    demand(there, f"no line begins with “{beginning}”")
    return there[0]


def stored(cell, kind):
    """The stored outputs of a cell that have this MIME type, as one text."""
    found = [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]
    demand(found, f"{cell.id} has no {kind}")
    return "\n".join(found)


def formula(cell, part):
    """A formula or a whole proof as HTML, below the name of the theorem that it proves."""
    shown = stored(cell, "text/latex").strip("$\n ").replace(r"\small", "")
    if part.get("reasons") != "below":  # a notebook prints a reason below its line, for phones
        shown = re.sub(r" \\\\\n&\\qquad (?=\\quad\\textit)", "", shown)
        shown = re.sub(r" \\\\\n&\\qquad \\text{by }", " && ", shown)
    rows = rows_of(shown)
    if part.get("short"):
        rows = [row for row in rows if not row[0].startswith(ABBREVIATIONS)]
        rows = [(line, reason.partition(r"\quad\textit{")[0]) for line, reason in rows]
    whole = " && ".join if any(reason for _, reason in rows) else lambda row: row[0]
    # the number of the step at which each row appears; a row that begins with = starts a step
    starts = (line.startswith("&=") for line, _ in rows[1:])
    numbers = " ".join(map(str, accumulate(starts, initial=0)))
    steps = f' data-steps="{numbers}"' if part.get("steps") else ""
    found = CAPTION.match(stored(cell, "text/plain"))
    caption = f'<p class="caption">{found[1]} · {escape(found[2])}</p>' if found else ""
    shown = typeset(aligned(map(whole, rows)), True)
    return f'{caption}<div class="formula math"{steps}>{shown}</div>'


def figure(cell, part):
    picture = "data:image/png;base64," + stored(cell, "image/png").replace("\n", "")
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    return f'<figure><img src="{picture}" alt="{escape(alt)}"></figure>'


#: {value of `as`: the function that renders such a cell}
KINDS = {"text": text, "code": code, "print": printed, "formula": formula, "figure": figure}


# ---- Markdown ---------------------------------------------------------------------------


def math(content, options):
    """A typeset formula as HTML, inline or as a paragraph."""
    html = typeset(content, options["display_mode"])
    if options["display_mode"]:
        return f'<div class="formula math">{html}</div>'
    return f'<span class="math">{html}</span>'


#: Reads Markdown as the book does, except that links become plain text.
READER = MarkdownIt("commonmark").enable("table").use(amsmath_plugin)
READER.use(dollarmath_plugin, double_inline=True, renderer=math)
READER.add_render_rule("link_open", lambda *_: "")
READER.add_render_rule("link_close", lambda *_: "")
markdown, inline = READER.render, READER.renderInline

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(DECKS), trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.filters |= {"markdown": markdown, "inline": inline}
SHOWN = TEMPLATES.get_template("parts.html").module
