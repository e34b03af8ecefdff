"""Make the students' copy of the built book, which tells no answer that a teacher asks for in class.

A note replaces each plan and the page on grading, so that every link to them works.  The files that
contain them are left out, with the links to these files.
"""

import re

from tools.addresses import PDF

FOR_TEACHERS = re.compile(r"(?:_sources/)?book/teaching/(?:lecture|grading|session-\d)\.")
NOTE = "This page is for teachers. The teacher's archive, instructor.zip, contains it."
#: Files that contain the pages for teachers, if the site offers them for download.
CONTAIN_THEM = (PDF, "student.zip", "instructor.zip")
DOWNLOAD = re.compile(
    rf'<li>\s*<a href="[^"]*({"|".join(map(re.escape, CONTAIN_THEM))})".*?</li>', re.S
)
ARTICLE = re.compile(r'(?<=<article class="bd-article">).*?(?=</article>)', re.S)
CONTENTS = re.compile(r'<ul class="[^"]*section-nav.*?(?=</nav>)', re.S)


def students_book(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of the built book, {name: bytes}, as students get them."""
    copied = {}
    for name, data in files.items():
        for_teachers = FOR_TEACHERS.match(name)
        if name.endswith(".html"):
            page = DOWNLOAD.sub("", data.decode())
            if for_teachers:
                page = ARTICLE.sub(f"<section><p>{NOTE}</p></section>", CONTENTS.sub("", page))
            data = page.encode()
        elif for_teachers:
            data = f"{NOTE}\n".encode()
        if name not in CONTAIN_THEM:
            copied[name] = data
    return copied
