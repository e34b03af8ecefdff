"""The rooms of the checker stand one above another; those of both libraries have public names."""

import ast
import importlib
import inspect
from pathlib import Path

import derivation
import pytest

ROOT = Path(derivation.__file__).parent
#: From the ground up.  What stands beside the folders (``checks``, ``versions``) is no room.
ROOMS = ["kernel", "printing", "language", "refuting", "proving"]
PUBLIC = {room: importlib.import_module(f"derivation.{room}").__all__ for room in ROOMS}
tree_of = lambda path: ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path):
    """Yield (level, module, imported name, local name) of the relative imports of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from ((node.level, node.module, a.name, a.asname or a.name) for a in node.names)


def test_a_module_uses_only_public_names_of_the_rooms_below():
    for path in ROOT.rglob("*.py"):
        own = path.parent.name
        below, outside = (ROOMS[: ROOMS.index(own)], 2) if own in ROOMS else (ROOMS, 1)
        for level, module, name, local in imports_of(path):
            if level == outside and module != "versions":
                names, room = [name], module or name
                if not module:  # as in `from .. import kernel as k`
                    parts = [x for x in ast.walk(tree_of(path)) if isinstance(x, ast.Attribute)]
                    names = [x.attr for x in parts if getattr(x.value, "id", "") == local]
                assert room in below and {*names} <= {*PUBLIC[room]}, (path, room, names)


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_no_module_imports_a_private_name_of_another(package):
    for path in (ROOT.parent / package).rglob("*.py"):
        assert not [name for *_, name, _ in imports_of(path) if name.startswith("_")], path


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_the_public_functions_of_every_room_have_types(package):
    rooms = [path.parent.name for path in (ROOT.parent / package).glob("*/__init__.py")]
    assert len(rooms) >= 5
    for room in (importlib.import_module(f"{package}.{room}") for room in rooms):
        for function in filter(inspect.isfunction, (getattr(room, n, None) for n in room.__all__)):
            named = {*inspect.signature(function).parameters, "return"}
            assert named <= {*function.__annotations__}, (room.__name__, function.__name__)


def test_the_front_of_the_kernel_holds_no_code_but_imports():
    kinds = {type(node) for node in tree_of(ROOT / "kernel/__init__.py").body}
    assert kinds == {ast.Expr, ast.ImportFrom, ast.Assign}
