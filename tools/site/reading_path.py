"""Show which pages the course asks students to read, and how many minutes the reading takes.

`book/teaching/path.yml` lists the core pages of each session and the pages that are for later.
Each of these pages says under its title to which list it belongs.  In the sidebar and on the page
“Your path”, a small ring marks the pages for later.  The directive `{reading}` becomes a table of
the sessions, and `{reading} 3` becomes the reading list of session 3.

The marks are added to the finished pages, so the search does not index them.
"""

import re
from functools import cache
from math import ceil

import yaml
from sphinx.util.docutils import SphinxDirective

from tools import cells
from tools.cells import FENCE, text_of, title_of
from tools.files import NOTEBOOKS, ROOT, demand

TEACHING = ROOT / "book" / "teaching"
WORDS_PER_MINUTE = 100
SYLLABUS, YOUR_PATH = "book/teaching/syllabus", "book/teaching/your-path"
#: A link in HTML, with the file name of the page that it leads to, or "" for the page itself.
LINK = re.compile(r'(<a [^>]*href="(?:[^"#]*?([\w-]+)\.html|#)"[^>]*>)(.*?)(</a>)', re.DOTALL)
RING = (
    '<span class="for-later" title="For later in the course">'
    '<span class="visually-hidden"> (for later in the course)</span></span>'
)


@cache
def sessions():
    """{number of a session: {"core": pages, "later": pages, "assignment": its name}}."""
    return yaml.safe_load((TEACHING / "path.yml").read_text(encoding="utf-8"))


@cache
def minutes(page):
    """The minutes that it takes to read a chapter page.

    The words are the parts of the page's Markdown between white space, including formulas, tables
    and folded answers; code and what cells display are not counted.
    """
    text = "".join(FENCE.split(text_of(NOTEBOOKS / f"{page}.ipynb"))[::2])
    return ceil(len(text.split()) / WORDS_PER_MINUTE)


@cache
def assignment_minutes(name):
    """The estimate of the page on grading for an assignment."""
    text = (TEACHING / "grading.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \|.*\| (\d+) \|$", text, re.MULTILINE)
    demand(row, f"the page on grading has no row for `{name}` that ends with its minutes")
    return int(row[1])


# ---- the guide: Markdown ----------------------------------------------------------------


class Reading(SphinxDirective):
    optional_arguments = 1

    def run(self):
        markdown = reading_list(int(self.arguments[0])) if self.arguments else table()
        return self.parse_text_to_nodes(markdown)


def reading_list(number):
    """The core pages and the pages for later of a session, with minutes."""
    session = sessions()[number]
    core, later = (
        ", ".join(f"{link(page)} ({minutes(page)})" for page in session[kind])
        for kind in ("core", "later")
    )
    return f"**Core reading, {core_minutes(number)} minutes:** {core}.\n\n**For later:** {later}."


def table():
    """A table with a row for each session, and the sums."""
    rows = []
    for number, session in sessions().items():
        plan = (TEACHING / f"session-{number}.md").read_text("utf-8").partition("\n")[0]
        pages = ", ".join(link(page, short=True) for page in session["core"])
        name = session.get("assignment")
        work = (f"`{name}`", assignment_minutes(name)) if name else ("nothing", "")
        plan = f"[{plan.removeprefix('# Session ')}](session-{number}.md)"
        rows.append((plan, pages, core_minutes(number), *work))
    names = [session["assignment"] for session in sessions().values() if "assignment" in session]
    reading, work = sum(map(core_minutes, sessions())), sum(map(assignment_minutes, names))
    sums = [f"{total} ({total / 60:.1f} hours)" for total in (reading, work)]
    head = ["session", "core reading", "minutes", "then hand in", "its minutes"]
    return cells.table(head, [*rows, ("all four", "", sums[0], "", sums[1])])


def core_minutes(number):
    return sum(map(minutes, sessions()[number]["core"]))


def link(page, short=False):
    """A link to a page, from a page of the guide; a short link to a chapter is its number."""
    words = title(page).partition(" · ")[0] if short else title(page)
    return f"[{words}](../../notebooks/{page}.ipynb)"


def title(page):
    return title_of(text_of(NOTEBOOKS / f"{page}.ipynb"))


# ---- the pages: HTML --------------------------------------------------------------------


def mark(app, page, template, context, doctree):
    """Add the line under the title of a chapter page, and the rings."""
    name, body = page.rpartition("/")[2], context.get("body", "")
    if SYLLABUS in app.env.found_docs and (line := line_of(name)):
        course = f'<a href="{context["pathto"](SYLLABUS)}">In the course</a>'
        line = f'</h1>\n<p class="course-reading">{course}: {line}</p>'
        context["body"] = body.replace("</h1>", line, 1)
    if page == YOUR_PATH:
        context["body"] = with_rings(body, name)
    if sidebar := context.get("generate_toctree_html"):
        marked = lambda *args, **options: with_rings(str(sidebar(*args, **options)), name)
        context["generate_toctree_html"] = marked


def line_of(page):
    """What a page says under its title about its place in the course, or ""."""
    for number, session in sessions().items():
        if page in session["core"]:
            return f"core reading for session {number}, {minutes(page)} minutes."
        if page in session["later"]:
            return f"for later. The core reading for session {number} leaves this page out."
    return ""


def with_rings(html, here):
    """The HTML, with a ring behind each link to a page for later, from the page ``here``."""
    later = {page for session in sessions().values() for page in session["later"]}
    ringed = lambda found: RING if (found[2] or here) in later else ""
    return LINK.sub(lambda found: "".join([*found.group(1, 3), ringed(found), found[4]]), html)


def setup(app):
    app.add_directive("reading", Reading)
    app.connect("html-page-context", mark, priority=800)  # after the theme has made the sidebar
