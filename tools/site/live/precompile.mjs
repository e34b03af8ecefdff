// Compiles the Python files in a zip archive, in the very Python that will read them.
//
//     node precompile.mjs sources.zip compiled.zip
//
// A browser would otherwise compile them at each first run, which takes it seconds. Docstrings
// go, since nobody reads them there; assertions stay.
import { readFileSync, writeFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const python = await loadPyodide();
python.runPython(`
import ast, zipfile
from importlib._bootstrap_external import _code_to_timestamp_pyc

def without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), node.body[0])]
    return tree

def compiled(name, source):
    tree = without_docstrings(ast.parse(source, name))
    return bytes(_code_to_timestamp_pyc(compile(tree, name, "exec", dont_inherit=True)))

def precompile():
    with zipfile.ZipFile("/sources.zip") as sources, zipfile.ZipFile("/compiled.zip", "w") as out:
        for name in sources.namelist():
            content = sources.read(name)
            if name.endswith(".py"):
                name, content = name + "c", compiled(name, content)
            # always the same date: the same sources make the same archive
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            out.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
`);

const [sources, compiled] = process.argv.slice(2);
python.FS.writeFile("/sources.zip", readFileSync(sources));
python.runPython("precompile()");
writeFileSync(compiled, python.FS.readFile("/compiled.zip"));
