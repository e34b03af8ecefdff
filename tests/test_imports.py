"""Libraries import neither tools nor tests, and tools import no tests."""

import ast

import pytest

from tools.colab import imported
from tools.files import ROOT


def names(folder):
    """The names by which the modules and packages of a folder are imported."""
    paths = (path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.py"))
    return {path.parts[0].removesuffix(".py") for path in paths} - {"__init__"}


#: Modules of the tests, except folders named after the library that they test.
TESTS = names("tests") - {"derivation", "redundancy"} | {"tests"}
LATER = {
    "notebooks/derivation": TESTS | {"tools", "redundancy"},
    "notebooks/redundancy": TESTS | {"tools"},
    "tools": TESTS,
}


@pytest.mark.parametrize("folder", LATER)
def test_nothing_imports_a_later_layer(folder):
    paths = list((ROOT / folder).rglob("*.py"))
    assert len(paths) > 10
    wrong = [(path.name, name) for path in paths
             for name in imported(ast.parse(path.read_text(encoding="utf-8")))
             if name in LATER[folder]]  # fmt: skip
    assert not wrong
