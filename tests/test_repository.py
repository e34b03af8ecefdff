"""The README, the layers of the code, its supply, the commands and a release keep their promises."""

import ast
import errno
import hashlib
import os
import re
import subprocess
import sys
import tomllib

import nbformat
import pytest
import yaml
from derivation import versions
from small_notebooks import written

from tools import execute_notebooks, files, release
from tools.__main__ import COMMANDS, first_sentence, main
from tools.colab import imported
from tools.files import NOTEBOOKS, ROOT, read_notebook

README = (ROOT / "README.md").read_text(encoding="utf-8")
#: The names of the modules of the tests.
TESTS = {path.stem for path in ROOT.glob("tests/**/*.py")} | {"tests"}
LATER = {
    "notebooks/derivation": TESTS | {"tools", "redundancy"},
    "notebooks/redundancy": TESTS | {"tools"},
    "tools": TESTS,
}

#: Imports and arguments that fetch files or code, and shell commands.
FETCHES = re.compile(
    r"^\s*(?:import|from)\s.*\b(aiohttp|ftplib|http|httpx|huggingface_hub|pip|requests|urllib)\b"
    r"|^\s*[!%]|\btorch\.hub\b|\btrust_remote_code=(?!False)",
    re.M,
)
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
assert WORKFLOWS, "without a workflow, the test below would be skipped"


def test_the_snippet_of_the_readme_prints_what_is_shown():
    snippet, shown = (
        re.search(rf"```{language}\n(.*?)```", README, re.S)[1] for language in ("python", "text")
    )
    command = [sys.executable, "-c", snippet]
    run = subprocess.run(command, cwd=NOTEBOOKS, capture_output=True, text=True)
    assert run.stderr == "" and run.stdout == shown


def test_every_link_of_the_readme_leads_to_a_file():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 10
    assert [x for x in links if "://" not in x and not (ROOT / x).exists()] == []


@pytest.mark.parametrize("folder", LATER)
def test_nothing_imports_a_later_layer(folder):
    paths = list((ROOT / folder).rglob("*.py"))
    assert len(paths) > 10
    for path in paths:
        found = {*imported(ast.parse(path.read_text(encoding="utf-8")))}
        assert not found & LATER[folder], path


def test_no_code_that_a_reader_runs_fetches_code():
    modules = [*NOTEBOOKS.rglob("*.py"), *ROOT.glob("book/**/grade.py")]
    sheets = list(NOTEBOOKS.glob("*.ipynb"))
    assert len(modules) > 20 and len(sheets) > 50
    code = [path.read_text(encoding="utf-8") for path in modules]
    for path in sheets:
        code += [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert list(filter(FETCHES.search, code)) == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_permissions_are_few(workflow):
    text = workflow.read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    assert read["permissions"] == {"contents": "read"} and "secrets." not in text
    for name, job in read["jobs"].items():
        rights = job.get("permissions", {}).values()
        assert "write" not in rights or name in {"deploy", "copies", "release"}
        for action in [step["uses"] for step in job["steps"] if "uses" in step]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action


def test_the_list_of_commands_names_each_and_what_it_does(capsys):
    assert main() == 0
    said = capsys.readouterr().out
    for name, module in COMMANDS.items():
        assert f"  {name} " in said and first_sentence(module) in said


@pytest.mark.parametrize(
    "given, complaint",
    [
        (["nothing"], "no command nothing"),
        (["rocq", "a", "b", "c"], "too many"),
        (["execute-notebooks", "03.ipynb"], "03.ipynb is no notebook: no JSON from line 2"),
    ],
)
def test_what_cannot_be_run_is_refused(given, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "03.ipynb").write_text("{\n<<<<<<< HEAD\n")
    assert main(*given) == 1
    assert complaint in capsys.readouterr().err


def test_a_full_disk_leaves_a_notebook_as_it_was(tmp_path, monkeypatch, capsys):
    def half_of_it(path, content):
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    path = tmp_path / "03.ipynb"
    before = written(path, "print(1)")
    monkeypatch.setattr(files.Path, "write_bytes", half_of_it)
    printed = nbformat.v4.new_output("stream", text="1\n")
    run = lambda found, *_: found.cells[0].outputs.append(printed)
    monkeypatch.setattr(execute_notebooks, "run", run)
    assert main("execute-notebooks", str(path)) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == before and os.listdir(tmp_path) == ["03.ipynb"]


def test_versions_and_pins_of_the_packages_agree_with_the_book():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    grouped = set().union(*project["dependency-groups"].values())
    project = project["project"]
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", pins, re.M))
    assert project["version"] == release.version()
    assert grouped | {"sympy", "torch", "transformers"} == set(pinned)
    asked = [*project["dependencies"], *project["optional-dependencies"]["audit"]]
    oldest = dict(re.findall(r"(\w+)>=([\d.]+)", " ".join(asked)))
    for name, version in versions.OLDEST.items():
        assert tuple(map(int, oldest[name].split("."))) == version
        assert tuple(map(int, pinned[name].split(".")[:2])) in versions.TRIED[name]


def test_every_archive_of_a_release_has_its_checksum(tmp_path, monkeypatch):
    for name in ("html/index.html", "book.pdf", "student.zip", "instructor.zip"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    places = {"SITE": tmp_path / "html", "PDF": tmp_path / "book.pdf", "COURSE": tmp_path}
    for name, value in (places | {"copies": lambda site: {"03.ipynb": b"{}"}}).items():
        monkeypatch.setattr(release, name, value)
    for folder in ("out", "again"):  # the same contents give the same bytes
        release.archive(tmp_path / folder, "1.2")
    lines = (tmp_path / "out" / "SHA256SUMS").read_text()
    assert lines == (tmp_path / "again" / "SHA256SUMS").read_text()
    sums = dict(reversed(line.split("  ")) for line in lines.splitlines())
    ends = ("-html.zip", "-notebooks.zip", ".pdf", "-student.zip", "-instructor.zip")
    assert set(sums) == {f"where-did-the-bias-go-1.2{end}" for end in ends}
    for name, expected in sums.items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == expected
