"""Each layer of the checker imports only earlier ones; folders of both libraries list public names."""

import ast
import importlib
import inspect
from pathlib import Path

import derivation
import pytest

ROOT = Path(derivation.__file__).parent
#: The layers, from the trusted one upwards; ``checks`` and ``versions`` belong to none.
LAYERS = ["kernel", "printing", "language", "refuting", "proving"]
PUBLIC = {layer: importlib.import_module(f"derivation.{layer}").__all__ for layer in LAYERS}
tree_of = lambda path: ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path):
    """Yield (level, module, imported name, local name) of the relative imports of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from ((node.level, node.module, a.name, a.asname or a.name) for a in node.names)


def test_a_module_uses_only_public_names_of_earlier_layers():
    for path in ROOT.rglob("*.py"):
        own = path.parent.name
        below, outside = (LAYERS[: LAYERS.index(own)], 2) if own in LAYERS else (LAYERS, 1)
        for level, module, name, local in imports_of(path):
            if level == outside and module != "versions":
                names, layer = [name], module or name
                if not module:  # as in `from .. import kernel as k`
                    parts = [x for x in ast.walk(tree_of(path)) if isinstance(x, ast.Attribute)]
                    names = [x.attr for x in parts if getattr(x.value, "id", "") == local]
                assert layer in below and {*names} <= {*PUBLIC[layer]}, (path, layer, names)


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_no_module_imports_a_private_name_of_another(package):
    for path in (ROOT.parent / package).rglob("*.py"):
        assert not [name for *_, name, _ in imports_of(path) if name.startswith("_")], path


@pytest.mark.parametrize("package", ["derivation", "redundancy"])
def test_the_public_functions_of_every_folder_have_type_annotations(package):
    folders = [path.parent.name for path in (ROOT.parent / package).glob("*/__init__.py")]
    assert len(folders) >= 5
    for folder in (importlib.import_module(f"{package}.{name}") for name in folders):
        for function in filter(
            inspect.isfunction, (getattr(folder, n, None) for n in folder.__all__)
        ):
            named = {*inspect.signature(function).parameters, "return"}
            assert named <= {*function.__annotations__}, (folder.__name__, function.__name__)


def test_the_init_of_the_kernel_only_imports_and_lists_names():
    kinds = {type(node) for node in tree_of(ROOT / "kernel/__init__.py").body}
    assert kinds == {ast.Expr, ast.ImportFrom, ast.Assign}
