"""Make the students' copy of the built book, which tells no answer that a teacher asks for in class.

A note replaces each plan and the page on grading.  Their addresses and anchors stay, so that every
link to them works; the search does not find their words, and the files that contain them are left
out, with the links to these files.
"""

import json
import re

from tools.addresses import PDF

FOR_TEACHERS = re.compile(r"book/teaching/(lecture|grading|session-\d)(?=\.|$)")
NOTE = "This page is for teachers. The teacher's archive, instructor.zip, contains it."
#: Files that contain the pages for teachers, if the site offers them for download.
CONTAIN_THEM = (PDF, "student.zip", "instructor.zip")
INDEX, SOURCES, OPENING = "searchindex.js", "_sources/", "Search.setIndex("

DOWNLOAD = re.compile(
    rf'<li>\s*<a href="[^"]*({"|".join(map(re.escape, CONTAIN_THEM))})".*?</li>', re.S
)
ARTICLE = re.compile(r'(?<=<article class="bd-article">).*?(?=</article>)', re.S)
CONTENTS = re.compile(r'<ul class="[^"]*section-nav.*?(?=</nav>)', re.S)


def students_book(files):
    """The files of the built book, {name: bytes}, as students get them."""
    copied = {}
    for name, data in files.items():
        if name.endswith(".html"):
            page = DOWNLOAD.sub("", data.decode())
            data = (noted(page) if FOR_TEACHERS.match(name) else page).encode()
        elif name == INDEX:
            data = without_words_for_teachers(data.decode()).encode()
        elif FOR_TEACHERS.match(name.removeprefix(SOURCES)):
            title = data.decode().partition("\n")[0]
            data = f"{title}\n\n{NOTE}\n".encode()
        if name not in CONTAIN_THEM:
            copied[name] = data
    return copied


def noted(page):
    """The HTML of a page with its title, its anchors and the note, and no other text."""
    article = ARTICLE.search(page)[0]
    title = re.search(r"<h1>.*?</h1>", article, re.S)[0]
    anchors = "".join(
        f'<span id="{name}"></span>' for name in re.findall(r' id="([^"]+)"', article)
    )
    text = f"<section>{anchors}{title}<p>{NOTE}</p></section>"
    return ARTICLE.sub(lambda _: text, CONTENTS.sub("", page))


def without_words_for_teachers(index):
    """Sphinx's search index, in which only its title leads to a page for teachers."""
    found = json.loads(index.removeprefix(OPENING).removesuffix(")"))
    hidden = {n for n, name in enumerate(found["docnames"]) if FOR_TEACHERS.match(name)}
    for kind in ("terms", "titleterms"):
        listed = {w: [n] if isinstance(n, int) else n for w, n in found[kind].items()}
        found[kind] = {
            word: left for word, pages in listed.items() if (left := sorted({*pages} - hidden))
        }
    found["alltitles"] = {
        title: left
        for title, places in found["alltitles"].items()
        if (left := [[n, anchor] for n, anchor in places if n not in hidden or anchor is None])
    }
    return f"{OPENING}{json.dumps(found, ensure_ascii=False, separators=(',', ':'))})"
