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


def imports_of(path):
    """Yield (path of the module below the package, imported name, local name), relative ones only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            here = path.relative_to(ROOT.parent).parts[1 : -node.level]
            module = [*here, *filter(None, (node.module or "").split("."))]
            yield from ((module, a.name, a.asname or a.name) for a in node.names)


def uses_of_rooms(path):
    """Yield (room, name) for each name that a module takes from another room."""
    for module, name, local in imports_of(path):
        if module and module[0] in ROOMS and module[0] != path.parent.name:
            yield ".".join(module), name
        elif not module and name in ROOMS:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == local:
                    yield name, node.attr


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda p: f"{p.parent.name}.{p.stem}"
)
def test_a_module_uses_only_public_names_of_the_rooms_below(path):
    own = path.parent.name
    below = ROOMS[: ROOMS.index(own)] if own in ROOMS else ROOMS
    for room, name in uses_of_rooms(path):
        assert room in below and name in PUBLIC[room], f"{name} of {room}"
    for module, name, _ in imports_of(path):
        assert module or name in below, f"{name} stands beside the rooms"


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_no_module_imports_a_private_name_of_another(package):
    for path in (ROOT.parent / package).rglob("*.py"):
        assert not [name for _, name, _ in imports_of(path) if name.startswith("_")], path


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_the_public_functions_of_every_room_have_types(package):
    rooms = [path.parent.name for path in (ROOT.parent / package).glob("*/__init__.py")]
    assert len(rooms) >= 5
    for room in (importlib.import_module(f"{package}.{room}") for room in rooms):
        for function in filter(inspect.isfunction, (getattr(room, n, None) for n in room.__all__)):
            untyped = {*inspect.signature(function).parameters, "return"} - {
                *function.__annotations__
            }
            assert not untyped, (room.__name__, function.__name__)


def test_the_front_of_the_kernel_holds_no_code_but_imports():
    tree = ast.parse((ROOT / "kernel/__init__.py").read_text(encoding="utf-8"))
    assert {*map(type, tree.body)} == {ast.Expr, ast.ImportFrom, ast.Assign}
