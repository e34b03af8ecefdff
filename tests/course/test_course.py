"""The archives of the course are complete, and students get no solutions."""

import ast
import re
import subprocess
import sys
import zipfile
from fnmatch import fnmatch

import nbformat
import pytest
from browser import demand_means

from tools.cells import has_tag
from tools.course import archives

SOLVED = re.compile(r"BEGIN SOLUTION|HIDDEN TESTS|<summary>Solution")
GRADER = "assignments/grade.py"
LINK_TO_A_PLAN = re.compile(r'href="(?:[\w./]*/)?((?:lecture|grading|session-\d).html)')
cells = lambda data: nbformat.reads(data.decode(), as_version=4).cells
in_folder = lambda files, top: {n: data for n, data in files.items() if n.startswith(f"{top}/")}


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """{"student" or "instructor": {file name: bytes}}; other tests cover the slides."""
    folder, files = tmp_path_factory.mktemp("course"), {}
    archives.pack(folder)
    for root in ("student", "instructor"):
        with zipfile.ZipFile(folder / f"{root}.zip") as archive:
            names = archive.namelist()
            files[root] = {name.removeprefix(f"{root}/"): archive.read(name) for name in names}
    return files


def test_a_student_gets_every_question_and_no_solution(packed):
    student, teacher = packed["student"], packed["instructor"]
    questions = lambda data: re.findall(r'"### Exercise [^"\\]+', data.decode())
    sheets, solved = in_folder(student, "exercises"), in_folder(teacher, "exercises")
    assert sheets.keys() == solved.keys() and len(sheets) >= 15
    for name, data in solved.items():
        assert questions(sheets[name]) == questions(data) != [], name
        assert any(has_tag(cell, "hide-cell") for cell in cells(data)), name
    assignments = in_folder(student, "assignments")
    assert not any("solution" in name or "source/" in name for name in assignments)
    for name, data in (sheets | assignments).items():
        for cell in cells(data):
            assert not SOLVED.search(cell.source) and not has_tag(cell, "hide-cell"), name


def test_a_student_gets_notes_in_the_place_of_plans(packed):
    """A plan writes *Expect:* before each answer."""
    told = {who: b"".join(files.values()).count(b"Expect:") for who, files in packed.items()}
    assert told["student"] == 0 and told["instructor"] >= 10
    student = in_folder(packed["student"], "book")
    pages = [data.decode() for name, data in student.items() if name.endswith(".html")]
    plans = {plan for page in pages for plan in LINK_TO_A_PLAN.findall(page)}
    assert len(plans) == 6
    for plan in plans:
        assert archives.NOTE in student[f"book/book/teaching/{plan}"].decode(), plan


def test_students_get_no_file_that_contains_a_plan():
    menu = '<li><a href="../{0}">{0}</a></li>\n<li><a href="../notebooks.zip">all</a></li>'
    pdf = archives.PDF
    files = {"book/page.html": menu.format(pdf).encode(), f"book/{pdf}": b"%PDF"}
    kept = b'\n<li><a href="../notebooks.zip">all</a></li>'
    assert archives.students_book(files) == {"book/page.html": kept}


def test_cells_to_type_in_class_are_ready_to_run(packed):
    live = in_folder(packed["instructor"], "live")
    assert len(live) == 5
    for name, data in live.items():
        plan = (archives.TEACHING / f"{name[5:-6]}.md").read_text(encoding="utf-8")
        opening, *code = [cell.source for cell in cells(data) if cell.cell_type == "code"]
        assert "tarfile" in opening
        assert len(code) == plan.count("```python") and all(source in plan for source in code)


def test_requirements_contain_all_that_notebooks_import(packed):
    files = packed["instructor"]  # these include the student's files
    there = set(re.findall(r"^([\w-]+)[=>]", files["requirements.txt"].decode(), re.M))
    there |= sys.stdlib_module_names | {"derivation", "redundancy", "context_parallel"}
    for name in files:
        for cell in cells(files[name]) if re.fullmatch(r"(?!book/).+\.ipynb", name) else ():
            code = cell.source if cell.cell_type == "code" else ""
            assert {*archives.colab.imported(ast.parse(code))} <= there, name


def test_the_readme_names_the_folders_and_files_of_the_archive(packed):
    for who, files in packed.items():
        readme = files["README.md"].decode()
        there = {name.partition("/")[0] for name in files if "/" in name}
        there |= {"slides"} if who == "instructor" else set()
        assert set(re.findall(r"^\| `(\w+)/` \|", readme, re.M)) == there
        assert {*re.findall(r"`((?:book|assignments)/[\w./-]+\.\w+)`", readme)} <= files.keys()
        assert {"book/notebooks/03-exercises.html", "book/_static/style.css"} <= files.keys()


def test_the_archive_grades_without_a_network(packed, tmp_path):
    """The files that the Containerfile copies are all that grading needs."""
    files = packed["instructor"]
    recipe = files["assignments/Containerfile"].decode()
    copied = re.findall(r"^COPY (\S+) /", recipe, re.M)
    assert copied == ["requirements.txt", "assignments/*.py", "assignments/source"]
    for name, data in files.items():
        if fnmatch(name, copied[1]) or name.startswith((copied[2], "assignments/solution")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    assert ast.literal_eval(re.search(r"^ENTRYPOINT (.+)$", recipe, re.M)[1])[1] == f"/{GRADER}"
    said = re.search(rf"^\.venv/bin/python ({GRADER} .+)$", files["README.md"].decode(), re.M)[1]
    cut_off = ["unshare", "--map-root-user", "--net"]
    there = subprocess.run([*cut_off, "true"]).returncode == 0
    command = [*(cut_off if there else []), sys.executable, *said.split()]
    command += ["assignments/solution/sheet-03.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    totals = re.findall(r"total +(\d+) of (\d+)", done.stdout)
    assert len(totals) == 2 and all(got == of for got, of in totals), done.stdout
    demand_means(there, "no namespaces without a network here")


def test_the_guides_container_keeps_the_rights_that_the_grader_uses():
    """As root, the container may become nobody, and end what nobody started."""
    guide = (archives.TEACHING / "grading.md").read_text(encoding="utf-8")
    assert "--network none" in guide and "--cap-drop ALL" in guide
    assert re.findall(r"--cap-add (\w+)", guide) == ["SETUID", "SETGID", "SETPCAP", "KILL"]
