"""Pack the course, as `student.zip` and `instructor.zip`, into `_build/course`.

    make course                        # builds the book, then runs this
    make course SEED=…                 # draws exercises for one class only
    python -m tools course FOLDER      # writes elsewhere, with the book as last built

Students get the book without the teacher's pages; its chapters and exercise sheets as notebooks
that run alone (the sheets without solutions); and the assignments.  Teachers get all of that with
solutions, and what `for_teachers` adds.  Equal sources produce equal bytes.
"""

import re
import shutil
from pathlib import Path

import nbformat

from tools import colab
from tools.addresses import PDF, site_address
from tools.cells import has_tag
from tools.course import assignments, quizzes, slides
from tools.files import ROOT, as_text, demand, write_zip

COURSE = ROOT / "_build" / "course"
SITE = ROOT / "_build" / "html"
TEACHING = ROOT / "book" / "teaching"
HANDOUTS = TEACHING / "handouts"

#: The packages that the notebooks of the course import, and the program that opens notebooks.
PINNED = ("ipykernel", "matplotlib", "nbclient", "nbformat")
PINNED += ("numpy", "sympy", "torch", "transformers")
OPENS_NOTEBOOKS = "jupyterlab>=4.4,<5"
#: Files of the built site that only Sphinx reads.
LEFT_OUT = (".buildinfo", "objects.inv")
FOLDED_ANSWER = re.compile(r"\n*<details>\s*<summary>Solution</summary>.*?</details>\n*", re.DOTALL)
#: A cell that the teacher types in class, after the sentence of the plan that introduces it.
TYPED = re.compile(r"(.*?)^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: Pages for teachers, and the files that contain them, if the site offers those for download.
FOR_TEACHERS = re.compile(r"(?:_sources/)?book/teaching/(?:lecture|grading|session-\d)\.")
CONTAIN_THEM = (PDF, "student.zip", "instructor.zip")
NOTE = "This page is for teachers. The teacher's archive, instructor.zip, contains it."
DOWNLOAD = re.compile(
    rf'<li>\s*<a href="[^"]*({"|".join(map(re.escape, CONTAIN_THEM))})".*?</li>', re.S
)
ARTICLE = re.compile(r'(?<=<article class="bd-article">).*?(?=</article>)', re.S)
CONTENTS = re.compile(r'<ul class="[^"]*section-nav.*?(?=</nav>)', re.S)


def main(folder=COURSE):
    folder = Path(folder)
    demand((SITE / "index.html").is_file(), f"{SITE} holds no book: run `make book` first")
    shutil.rmtree(folder, ignore_errors=True)
    slides.write_slides(folder / "slides")
    pack(folder)


def pack(folder):
    """Write both archives into ``folder``, which already contains the slides."""
    assignments.write_assignments(folder / "assignments")
    quizzes.write_quizzes(folder / "quizzes")
    copies = colab.copies(site_address(ROOT))
    sheets = {f"exercises/{name}": data for name, data in copies.items() if "exercises" in name}
    both = {f"chapters/{name}": data for name, data in copies.items() if "exercises" not in name}
    both |= {name: (ROOT / name).read_bytes() for name in ("LICENSE", "LICENSE-TEXT")}
    both["requirements.txt"] = requirements().encode()
    for name, contents in {"student": for_students, "instructor": for_teachers}.items():
        files = both | contents(folder, sheets)
        files["README.md"] = (HANDOUTS / f"README-{name}.md").read_bytes()
        write_zip(folder / f"{name}.zip", name, files)
        print(f"{folder / name}.zip: {len(files)} files", flush=True)


# ---- contents: {name in the archive: bytes} ---------------------------------------------


def for_students(folder, sheets):
    files = {name: without_solutions(sheet) for name, sheet in sheets.items()}
    files |= inside("assignments/", folder / "assignments" / "student")
    return files | students_book(inside("book/", SITE))


def for_teachers(folder, sheets):
    """The solutions, slides and quizzes, the grader, the live derivations, a folder for nbgrader."""
    files = sheets | inside("book/", SITE)
    for name in ("assignments", "quizzes", "slides"):
        files |= inside(f"{name}/", folder / name)
    for name, path in files_of(folder / "assignments" / "source"):
        files[f"nbgrader/source/{path.stem}/{name}"] = path.read_bytes()
    files["assignments/seed.txt"] = f"{assignments.seed()}\n".encode()
    files["nbgrader/nbgrader_config.py"] = (HANDOUTS / "nbgrader_config.py").read_bytes()
    grader = TEACHING / "assignments"
    for path in (*grader.glob("*.py"), grader / "rubric.md", grader / "Containerfile"):
        files[f"assignments/{path.name}"] = path.read_bytes()
    for plan in (TEACHING / "lecture.md", *TEACHING.glob("session-*.md")):
        files[f"live/{plan.stem}.ipynb"] = live(plan.read_text(encoding="utf-8"))
    return files


def students_book(files):
    """The book without the answers that a teacher asks for in class.

    A note replaces each plan and the page on grading, so that every link to them works; files that
    contain them are left out, with the links to these files.
    """
    copied = {}
    for name, data in files.items():
        path = name.removeprefix("book/")
        for_teachers = FOR_TEACHERS.match(path)
        if path.endswith(".html"):
            page = DOWNLOAD.sub("", data.decode())
            if for_teachers:
                page = ARTICLE.sub(f"<section><p>{NOTE}</p></section>", CONTENTS.sub("", page))
            data = page.encode()
        elif for_teachers:
            data = f"{NOTE}\n".encode()
        if path not in CONTAIN_THEM:
            copied[name] = data
    return copied


def inside(prefix, folder):
    """The files of ``folder`` that are not for Sphinx alone, with the prefix before their names."""
    found = [(name, path) for name, path in files_of(folder) if not name.startswith(LEFT_OUT)]
    return {f"{prefix}{name}": path.read_bytes() for name, path in found}


def files_of(folder):
    """(name within the folder, path) of each file, sorted."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.relative_to(folder).as_posix(), path) for path in paths]


def requirements():
    """The book's pins for what its notebooks import and for a program that opens notebooks."""
    pins = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), re.M))
    return "\n".join([*(f"{name}=={pins[name]}" for name in PINNED), OPENS_NOTEBOOKS, ""])


# ---- notebooks ----------------------------------------------------------------------------


def without_solutions(sheet):
    """A sheet, as bytes, without its solutions, which are folded text and folded code."""
    sheet = nbformat.reads(sheet, as_version=4)
    for cell in sheet.cells:
        if cell.cell_type == "markdown":
            cell.source = FOLDED_ANSWER.sub("\n\n", cell.source).strip()
    sheet.cells = [cell for cell in sheet.cells if cell.source and not has_tag(cell, "hide-cell")]
    return as_text(sheet).encode()


def live(plan):
    """A notebook, as bytes, of the cells to type in class, each below its introduction."""
    markdown, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    title = f"{plan.splitlines()[0]}\n\nThe live derivation, as planned."
    cells = [markdown(title, id="title")]
    for number, (before, typed) in enumerate(TYPED.findall(plan), 1):
        cells.append(markdown(before.strip().rpartition("\n\n")[2], id=f"step-{number}"))
        cells.append(code(typed.rstrip("\n"), id=f"code-{number}"))
    return as_text(colab.with_opening(nbformat.v4.new_notebook(cells=cells))).encode()
