"""Imports run one way: libraries, then tools, then tests."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("notebooks/derivation", "notebooks/redundancy")


def names(folder):
    """The modules of a folder, as they are imported there."""
    return {path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
            for path in (ROOT / folder).rglob("*.py")} - {"__init__"}  # fmt: skip


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


LATER = {
    **dict.fromkeys(LIBRARIES, names("tools") | names("tests") | {"tests"}),
    "notebooks/derivation": names("tools") | names("tests") | {"tests", "redundancy"},
    "tools": names("tests") - names("tools") | {"tests"},
}


@pytest.mark.parametrize("folder", LATER)
def test_nothing_imports_what_comes_after_it(folder):
    paths = list((ROOT / folder).rglob("*.py"))
    assert len(paths) > 10
    wrong = [(path.name, name) for path in paths for name in imported(path)
             if name in LATER[folder]]  # fmt: skip
    assert not wrong


def test_an_import_of_a_test_would_be_seen(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    from tests.judge import judged\nimport os, tests")
    assert sorted(imported(tmp_path / "a.py")) == ["os", "tests", "tests"]
