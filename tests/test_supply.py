"""What a reader runs fetches no code: the notebooks, what they import, and the grader."""

import ast
import re
from pathlib import Path

import pytest
from files import read_notebook

ROOT = Path(__file__).resolve().parent.parent
FETCHING = {"aiohttp", "ftplib", "http", "httpx", "huggingface_hub", "pip", "requests", "urllib"}
MODULES = [*ROOT.glob("notebooks/**/*.py"), *ROOT.glob("book/**/grade.py")]


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


def test_what_a_reader_runs_fetches_no_code():
    sheets = list(ROOT.glob("notebooks/*.ipynb"))
    assert len(MODULES) > 20 and len(sheets) > 50
    code = [path.read_text(encoding="utf-8") for path in MODULES]
    for path in sheets:
        code += [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert [each for each in code if fetched_by(each)] == []


@pytest.mark.parametrize(
    "code, found",
    [
        ("from urllib.request import urlopen", {"urllib"}),
        ("!pip install that", {"!pip install that"}),
        ("torch.hub.load('a', 'b')", {"torch.hub"}),
        ("AutoModel.from_pretrained(name, trust_remote_code=True)", {"trust_remote_code"}),
        ("AutoModel.from_pretrained(name, trust_remote_code=False)", set()),
    ],
)
def test_what_fetches_code_would_be_found(code, found):
    assert fetched_by(code) == found
