"""Each floor of the checker imports only the floors below it; no module imports a private name."""

import ast
from pathlib import Path

import derivation
import pytest

ROOT = Path(derivation.__file__).parent
#: From the ground up.  What stands beside the folders (``checks``, ``versions``) is no floor.
FLOORS = ["kernel", "printing", "language", "refuting", "proving"]


def imports_of(path):
    """Yield (the module's path below ``derivation``, the imported names) for each relative import."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            here = path.relative_to(ROOT).parts[: -node.level]
            yield (
                (*here, *filter(None, (node.module or "").split("."))),
                [a.name for a in node.names],
            )


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_imports_nothing_from_a_floor_above_it(floor):
    paths = sorted((ROOT / floor).glob("*.py"))
    assert len(paths) > 2
    allowed = {*FLOORS[: FLOORS.index(floor) + 1], "versions"}
    for path in paths:
        for module, _ in imports_of(path):
            assert module[0] in allowed, f"{path.name} imports {'.'.join(module)}"


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_no_module_imports_a_private_name_of_another(package):
    for path in (ROOT.parent / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:  # PyTorch's are not ours to rename
                assert not [a.name for a in node.names if a.name.startswith("_")], path.name
