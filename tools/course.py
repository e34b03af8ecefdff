"""Pack what a teacher hands out: `student.zip` and `instructor.zip`, into `_build/course`.

    make course                        # the book first, then this
    python tools/course.py FOLDER      # elsewhere; the book is taken as it was built

A student gets the book to read offline, its chapters and exercise sheets as notebooks that run
alone, the sheets without their solutions, and the assignments.  A teacher gets all of that with
solutions, and the slides, the rubric, the grading script and a course folder for nbgrader.
The same sources give the same bytes.
"""

import re
import shutil
import sys
import zipfile
from pathlib import Path

import assignments
import colab
import nbformat
import slides
from addresses import site_address
from files import Fault, in_a_sentence, whole

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "_build" / "course"
SITE = ROOT / "_build" / "html"
TEACHING = ROOT / "book" / "teaching"

LICENCES = ("LICENSE", "LICENSE-TEXT")
#: Packages that the notebooks of the course import, by their pins; and what opens them.
PINNED = (
    "ipykernel",
    "matplotlib",
    "nbclient",
    "nbformat",
    "numpy",
    "sympy",
    "torch",
    "transformers",
)
OPENS_NOTEBOOKS = "jupyterlab>=4.4,<5"
#: Of the built site: live proofs, which need a server and are half of it.
LEFT_OUT = {"_static/live", ".buildinfo", "objects.inv"}
FOLDED_ANSWER = re.compile(r"\n*<details>\s*<summary>Solution</summary>.*?</details>\n*", re.DOTALL)
#: A cell that a plan of the guide has typed, after what the plan says of it.
TYPED = re.compile(r"(.*?)^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold


class CannotPack(Fault):
    """Why there is no course, for the one who called."""


@in_a_sentence
def main(arguments):
    folder = Path(arguments[0]) if arguments else COURSE
    pack(folder)
    return 0


def pack(folder, site=SITE, with_slides=True):
    """Write both archives into ``folder``; raises CannotPack where the book is not built."""
    if not (site / "index.html").is_file():
        raise CannotPack(f"{site} holds no book: run `make book` first")
    shutil.rmtree(folder, ignore_errors=True)
    say("assignments")
    assignments.main([str(folder / "assignments")])
    if with_slides:
        say("slides")
        if slides.main([str(folder / "slides")]):
            raise CannotPack("The slides could not be built.")
        slides.main([str(folder / "slides"), "--pdf"])  # without Chromium it says so: no PDF
    student = {**common(site), **for_students(folder)}
    teacher = {**common(site), **for_teachers(folder)}
    for name, files in (("student", student), ("instructor", teacher)):
        write_zip(folder / f"{name}.zip", name, files)
        say(f"{folder / name}.zip: {len(files)} files")


def say(what):
    print(f"course: {what}", flush=True)


# ---- what goes in: {name in the archive: bytes} -----------------------------------------


def common(site):
    """The book as built, the chapters as notebooks, what to install, the licences."""
    files = {f"book/{name}": path.read_bytes() for name, path in files_of(site) if kept(name)}
    files |= notebooks("chapters", lambda stem: "exercises" not in stem)
    files |= {name: (ROOT / name).read_bytes() for name in LICENCES}
    files["requirements.txt"] = requirements().encode()
    return files


def for_students(folder):
    sheets = notebooks("exercises", lambda stem: "exercises" in stem, without_solutions)
    handed_out = inside("assignments", folder / "assignments" / "student")
    return {**sheets, **handed_out, "README.md": readme("student")}


def for_teachers(folder):
    files = notebooks("exercises", lambda stem: "exercises" in stem)
    files |= inside("assignments", folder / "assignments")
    for name, path in files_of(folder / "assignments" / "source"):
        files[f"nbgrader/source/{path.stem}/{name}"] = path.read_bytes()
    files["nbgrader/nbgrader_config.py"] = (TEACHING / "handouts/nbgrader_config.py").read_bytes()
    for name in ("grade.py", "rubric.md"):
        files[f"assignments/{name}"] = (TEACHING / "assignments" / name).read_bytes()
    files |= inside("slides", folder / "slides")
    for plan in [TEACHING / "lecture.md", *sorted(TEACHING.glob("session-*.md"))]:
        files[f"live/{plan.stem}.ipynb"] = live_notebook(plan.read_text(encoding="utf-8"))
    return {**files, "README.md": readme("instructor")}


def live_notebook(plan):
    """The cells that a plan has typed in class, ready to run; each below what the plan says first."""
    title = plan.splitlines()[0]
    cells = [
        nbformat.v4.new_markdown_cell(f"{title}\n\nThe live derivation, as planned.", id="title")
    ]
    for number, (before, code) in enumerate(TYPED.findall(plan), 1):
        step = before.strip().rpartition("\n\n")[2]
        cells += [
            nbformat.v4.new_markdown_cell(step, id=f"step-{number}"),
            nbformat.v4.new_code_cell(code.rstrip("\n"), id=f"code-{number}"),
        ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    opening = colab.writing_cell(colab.companions(notebook))
    cells.insert(1, nbformat.v4.new_code_cell(opening, metadata=colab.FOLDED, id="the-checker"))
    return as_bytes(notebook)


def inside(name, folder):
    """The files of a folder, in a folder of that name."""
    return {f"{name}/{inner}": path.read_bytes() for inner, path in files_of(folder)}


def files_of(folder):
    """(name within the folder, path) of each file, in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.relative_to(folder).as_posix(), path) for path in paths]


def kept(name):
    return not any(name == out or name.startswith(f"{out}/") for out in LEFT_OUT)


def readme(name):
    return (TEACHING / "handouts" / f"README-{name}.md").read_bytes()


def requirements():
    """The pins of the book for what its notebooks import, and a program that opens notebooks."""
    pins = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), re.M))
    return "\n".join([*(f"{name}=={pins[name]}" for name in PINNED), OPENS_NOTEBOOKS, ""])


def notebooks(name, wanted, change=lambda notebook: notebook):
    """Copies that run alone of the notebooks whose stem is wanted, each changed."""
    files, site = {}, site_address(ROOT)
    for path in sorted(colab.NOTEBOOKS.glob("*.ipynb")):
        if wanted(path.stem):
            copy = change(nbformat.reads(colab.colab_copy(path, site), as_version=4))
            files[f"{name}/{path.name}"] = as_bytes(copy)
    return files


def as_bytes(notebook):
    return (nbformat.writes(notebook).rstrip("\n") + "\n").encode()


def without_solutions(sheet):
    """An exercise sheet as a student gets it: the folded text and the folded code are gone."""
    kept = []
    for cell in sheet.cells:
        if "hide-cell" in cell.metadata.get("tags", []):
            continue
        if cell.cell_type == "markdown":
            cell.source = FOLDED_ANSWER.sub("\n\n", cell.source).strip()
        kept += [cell] if cell.source else []
    sheet.cells = kept
    for count, cell in enumerate((c for c in kept if c.cell_type == "code"), 1):
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    return sheet


def write_zip(path, root, files):
    """An archive with one folder; its bytes depend on the files alone."""
    with whole(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{root}/{name}", EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
