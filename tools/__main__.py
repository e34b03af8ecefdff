"""The commands that make what belongs to the book; `make` calls those that one usually needs.

python -m tools                      # lists the commands
python -m tools COMMAND …            # runs one
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature

from tools.files import NOTEBOOKS, ROOT, Fault, demand, in_a_sentence

#: {command: the module whose `main` it calls with the arguments behind it}
COMMANDS = {
    "execute-notebooks": "tools.execute_notebooks",
    "colab": "tools.colab",
    "release": "tools.release",
    "live-assets": "tools.site.live_assets",
    "print-pdf": "tools.site.print_pdf",
    "course": "tools.course.archives",
    "assignments": "tools.course.assignments",
    "slides": "tools.course.slides",
    "answers": "tools.records.answers",
    "atlas-cost": "tools.records.atlas_cost",
    "gpu-record": "tools.records.gpu_record",
    "rocq": "tools.records.rocq",
}


@in_a_sentence
def main(command: str = "", *arguments: str) -> int:
    """Run a command and return its exit status, or list all commands."""
    if command in COMMANDS:
        sys.path.insert(0, str(NOTEBOOKS))  # for `derivation` and `redundancy`
        return run(import_module(COMMANDS[command]).main, *arguments)
    demand(not command, f"There is no command {command}; `python -m tools` lists those there are")
    print("python -m tools COMMAND …\n")
    for name, module in COMMANDS.items():
        print(f"  {name:18} {first_sentence(module)}")
    return 0


def run(command: Callable, *arguments: str) -> int:
    """Call a command; raises Fault if it takes no such arguments."""
    try:
        signature(command).bind(*arguments)
    except TypeError as wrong:
        raise Fault(f"These arguments do not fit: {wrong}.") from None
    return command(*arguments) or 0


def first_sentence(module: str) -> str:
    """The first line of a module's docstring, read without importing the module."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
