"""What the project is made of: no secret, no code fetched when it runs, generated files marked."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECRET = re.compile(
    r"BEGIN [A-Z ]*PRIVATE KEY|\bgh[pousr]_\w{36}|\bgithub_pat_\w{22}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bhf_[A-Za-z]{34}\b|\bpypi-[\w-]{40}|\bnpm_\w{36}"
    r"|(?i:password|passwd|secret|api_?key|token)[\"']?\s*[:=]\s*[\"'][\w+/-]{16,}[\"']"
)
FETCHING = {"aiohttp", "ftplib", "http", "httpx", "huggingface_hub", "pip", "requests", "urllib"}
#: What a command writes, apart from the outputs of notebooks.
GENERATED = re.compile(
    r".*/records/.*\.json|constraints\.txt|.*/package-lock\.json|.*/social-card\.png"
)


def git(*words):
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True)


@pytest.fixture(scope="module")
def tracked():
    return git("ls-files", "-z").split("\0")[:-1]


def texts(names):
    """(name, text) of each file that is text and was not written elsewhere."""
    for name in names:
        if not name.startswith(("book/static/mathjax/", "book/teaching/slides/reveal/")):
            try:
                yield name, (ROOT / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def test_there_is_no_secret(tracked):
    looked_at = dict(texts(tracked))
    assert {"Makefile", ".ci/run", "_config.yml"} <= looked_at.keys()
    assert [(n, found[0]) for n, text in looked_at.items() if (found := SECRET.search(text))] == []


def test_a_secret_would_be_found():
    for text in ("ghp_" + 36 * "a", "BEGIN RSA " + "PRIVATE KEY", 'api_key = "' + 20 * "x" + '"'):
        assert SECRET.search(f"before {text} after")


def fetched_by(code):
    """What a piece of Python would fetch, or run in a shell, by the words that do it."""
    if shell := re.search(r"^\s*[!%].*", code, re.M):
        return {shell[0].strip()}
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names} & FETCHING
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module.split(".")[0]} & FETCHING
        elif isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
            found |= set() if getattr(node.value, "value", True) is False else {node.arg}
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.hub":
            found.add("torch.hub")
    return found


def test_what_a_reader_runs_fetches_no_code(tracked):
    modules = [n for n in tracked if re.match(r"notebooks/.*\.py$|.*/grade\.py$", n)]
    sheets = [n for n in tracked if n.endswith(".ipynb")]
    assert len(modules) > 20 and len(sheets) > 50
    for name, text in texts(modules + sheets):
        cells = json.loads(text)["cells"] if name in sheets else ()
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        for each in code if name in sheets else [text]:
            assert fetched_by(each) == set(), name


@pytest.mark.parametrize(
    "code, found",
    [
        ("from urllib.request import urlopen", {"urllib"}),
        ("import numpy, requests", {"requests"}),
        ("!pip install that", {"!pip install that"}),
        ("torch.hub.load('a', 'b')", {"torch.hub"}),
        ("AutoModel.from_pretrained(name, trust_remote_code=True)", {"trust_remote_code"}),
        ("AutoModel.from_pretrained(name, trust_remote_code=False)", set()),
    ],
)
def test_what_fetches_code_would_be_found(code, found):
    assert fetched_by(code) == found


def test_generated_files_are_marked_and_no_others(tracked):
    marks = git("check-attr", "linguist-generated", "--", *tracked).splitlines()
    marked = {line.split(":")[0] for line in marks if line.endswith(": set")}
    assert marked == {name for name in tracked if GENERATED.fullmatch(name)} and len(marked) > 4
