"""Compile the proofs in `rocq/`, and ask Rocq which axioms each theorem rests on.

    python -m tools rocq [FOLDER [INTO]]

Everything is written into INTO, by default `_build/rocq`, so the sources stay clean.  Rocq's
command `Print Assumptions` decides: it lists everything that a finished proof rests on, such as an
axiom, a variable without a value, or an admitted proof, and it has to print "Closed under the
global context" for every theorem and lemma.
"""

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

from tools.files import ROOT, Fault, demand

CLOSED = "Closed under the global context"
STATEMENT = re.compile(r"^\s*(?:Theorem|Lemma|Corollary|Proposition|Fact|Remark)\s+([\w']+)", re.M)
#: A comment that precedes a theorem and begins with its number in the book.
NUMBERED = re.compile(
    r"\(\*\*\s*((?:Theorem|Lemma|Remark) \d+\.\d+)\b(?:(?!\*\)).)*\*\)\s*\Z", re.S
)
#: Without these options, MathComp 1 prints warnings about itself when it loads.
QUIET = ["-q", "-w", "-all"]


def main(folder=ROOT / "rocq", into=ROOT / "_build" / "rocq"):
    into = Path(into)
    options, files = read_project(Path(folder))
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for path in files:
        shutil.copy(path, into)
        coqc(into, *options, path.name)
    stated = {name: number for path in files for name, number in theorems(path)}
    found = assumptions(into, options, [path.stem for path in files], stated)
    for name, account in found.items():
        verdict = "no axioms" if account == CLOSED else f"NOT PROVED\n{account}"
        print(f"{stated[name] or '':12} {name}: {verdict}")
    open_ones = [name for name, account in found.items() if account != CLOSED]
    demand(found and not open_ones, f"These rest on more than Rocq itself: {', '.join(open_ones)}")
    version = coqc(into, "--print-version").split()[0]
    print(f"Rocq {version} accepts {len(found)} theorems and lemmas. None uses an axiom.")


def read_project(folder):
    """The options and the files, in compilation order, that `_CoqProject` names."""
    words = (folder / "_CoqProject").read_text(encoding="utf-8").split()
    files = [folder / word for word in words if word.endswith(".v")]
    for path in folder.glob("*.v"):
        demand(path in files, f"{folder}/_CoqProject does not name {path.name}")
    return [word for word in words if not word.endswith(".v")], files


def theorems(path):
    """Yield (name, number in the book or None) for each theorem and lemma of a file."""
    text = path.read_text(encoding="utf-8")
    for found in STATEMENT.finditer(text):
        number = NUMBERED.search(text[: found.start()])
        yield found[1], number and number[1]


def assumptions(into, options, modules, names):
    """{theorem: the axioms that it rests on, as Rocq prints them}."""
    lines = [f"From Bias Require Import {' '.join(modules)}."]
    for name in names:
        lines += [f'Goal True. idtac "about {name}". Abort.', f"Print Assumptions {name}."]
    lines += ['Goal True. idtac "about ". Abort.', ""]
    (into / "Assumptions.v").write_text("\n".join(lines), encoding="utf-8")
    said = coqc(into, *options, "Assumptions.v")
    titles = list(re.finditer(r"^about (\S*) *$", said, re.M))
    return {one[1]: said[one.end() : next_.start()].strip() for one, next_ in pairwise(titles)}


def coqc(into, *arguments):
    """Run coqc and return what it prints; raises Fault with coqc's error message."""
    done = subprocess.run(["coqc", *QUIET, *arguments], cwd=into, capture_output=True, text=True)
    if done.returncode:
        raise Fault(f"{done.stderr.strip()}\nRocq does not accept {arguments[-1]}.")
    return done.stdout
