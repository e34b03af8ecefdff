"""The archives that a teacher hands out hold what they promise, and no solution for a student."""

import ast
import json
import re
import subprocess
import sys
import zipfile

import course
import pytest

HIDDEN = re.compile(r"BEGIN SOLUTION|HIDDEN TESTS|<summary>Solution")


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """{"student": {name: bytes}, "instructor": …}, without the slides, which have their own tests."""
    folder = tmp_path_factory.mktemp("course")
    course.pack(folder, with_slides=False)
    return {name: unzipped(folder / f"{name}.zip", name) for name in ("student", "instructor")}


def unzipped(path, root):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert all(name.startswith(f"{root}/") and ".." not in name for name in names)
        return {name.removeprefix(f"{root}/"): archive.read(name) for name in names}


def cells(data):
    for cell in json.loads(data)["cells"]:
        yield cell, "".join(cell["source"])


def in_folder(files, folder):
    return {n: data for n, data in files.items() if n.startswith(f"{folder}/")}


def test_a_student_gets_no_solution(packed):
    files = packed["student"]
    for name, data in (in_folder(files, "exercises") | in_folder(files, "assignments")).items():
        for cell, source in cells(data):
            assert not HIDDEN.search(source), name
            assert "hide-cell" not in cell["metadata"].get("tags", []), name
    assert not any(
        "solution" in name or "source/" in name for name in in_folder(files, "assignments")
    )


def test_a_teacher_gets_every_solution(packed):
    files = packed["instructor"]
    for n in range(1, 5):
        for kind in ("source", "student", "solution"):
            assert f"assignments/{kind}/part-{n}.ipynb" in files
        assert f"nbgrader/source/part-{n}/part-{n}.ipynb" in files
    sheets = in_folder(files, "exercises")
    assert len(sheets) >= 15
    for name, data in sheets.items():
        assert any("hide-cell" in cell["metadata"].get("tags", []) for cell, _ in cells(data)), name
    assert {"assignments/grade.py", "assignments/rubric.md", "README.md", "LICENSE"} <= set(files)


def test_what_is_typed_in_class_is_ready_to_run(packed):
    live = in_folder(packed["instructor"], "live")
    assert len(live) == 5
    for name, data in live.items():
        plan = (course.TEACHING / f"{name[5:-6]}.md").read_text(encoding="utf-8")
        _, opening, *rest = cells(data)
        assert "derivation/proofs.py" in opening[1]
        code = [source for cell, source in rest if cell["cell_type"] == "code"]
        assert len(code) == plan.count("```python") and all(source in plan for source in code)


def test_a_sheet_without_solutions_keeps_every_question(packed):
    full, bare = (in_folder(packed[who], "exercises") for who in ("instructor", "student"))
    assert full.keys() == bare.keys()
    for name in full:
        questions = [
            [re.findall(r"^### Exercise .+$", source, re.M) for _, source in cells(version[name])]
            for version in (full, bare)
        ]
        assert sum(questions[0], []) == sum(questions[1], []) != [], name


@pytest.mark.parametrize("who", ["student", "instructor"])
def test_what_notebooks_import_can_be_installed_from_the_requirements(packed, who):
    files = packed[who]
    named = set(re.findall(r"^([\w-]+)[=>]", files["requirements.txt"].decode(), re.M))
    own = {"derivation", "redundancy", "context_parallel"}
    for name, data in files.items():
        if name.endswith(".ipynb") and not name.startswith("book/"):
            imported = set()
            for cell, source in cells(data):
                if cell["cell_type"] == "code":
                    imported |= set(course.colab.imported(ast.parse(source)))
            missing = imported - set(sys.stdlib_module_names) - own - named
            assert not missing, f"{name} imports {missing}"


@pytest.mark.parametrize("who", ["student", "instructor"])
def test_the_readme_speaks_of_what_is_there(packed, who):
    files = packed[who]
    readme = files["README.md"].decode()
    folders = set(re.findall(r"^\| `(\w+)/` \|", readme, re.M))
    there = {name.partition("/")[0] for name in files if "/" in name}
    there |= {"slides"} if who == "instructor" else set()
    assert folders == there
    for path in re.findall(r"`((?:book|assignments)/[\w./-]+\.\w+)`", readme):
        assert path in files, path


def test_the_book_inside_needs_nothing_that_was_left_out(packed):
    files = packed["student"]
    page = files["book/notebooks/03-exercises.html"].decode()
    assert "book/book/index.html" in files and "book/_static/style.css" in files
    assert "Exercise 3A" in page


def test_packing_twice_gives_the_same_bytes(tmp_path, packed):
    course.pack(tmp_path, with_slides=False)
    again = {name: unzipped(tmp_path / f"{name}.zip", name) for name in packed}
    assert again == packed


def test_the_instructors_readme_grades_a_notebook(packed, tmp_path):
    """Its own command, with the interpreter of the tests in place of a new environment."""
    for name, data in packed["instructor"].items():
        if name.startswith("assignments/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    readme = packed["instructor"]["README.md"].decode()
    command = re.search(r"^\.venv/bin/python (assignments/grade\.py .+)$", readme, re.M)[1]
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b(\d+) of \1\b", done.stdout), done.stdout


def test_a_book_that_is_not_built_is_said_to_be_missing(tmp_path):
    with pytest.raises(course.CannotPack, match="run `make book` first"):
        course.pack(tmp_path / "out", site=tmp_path / "nowhere")
