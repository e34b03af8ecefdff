"""Compile the proofs in `rocq/`, and ask Rocq which axioms each theorem rests on.

    python tools/rocq.py [FOLDER [INTO]]

Everything is written into INTO, `_build/rocq`: the sources stay clean.  What decides is
`Print Assumptions`, Rocq's own account of all that a finished proof uses.  It has to say
"Closed under the global context" for every theorem and lemma.
"""

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL = "apt install coq libcoq-mathcomp-ssreflect libcoq-mathcomp-algebra"

CLOSED = "Closed under the global context"
STATEMENT = re.compile(r"^\s*(?:Theorem|Lemma|Corollary|Proposition|Fact|Remark)\s+([\w']+)", re.M)
#: The book's number opens the comment before a theorem.
NUMBERED = re.compile(r"\(\*\*\s*((?:Theorem|Lemma) \d+\.\d+)\b(?:(?!\*\)).)*\*\)\s*\Z", re.S)
#: Each of these leaves something unproved.  `Variable` does so outside of a section only.
UNPROVED = re.compile(
    r"\b(Axioms?|Parameters?|Conjectures?|Admitted|admit|Abort|give_up|Hypothes[ie]s)\b"
)
#: MathComp 1 loads with warnings about itself.
QUIET = ["-q", "-w", "-all"]


class Wrong(Exception):
    """What is wrong, in words for the person who ran this."""


def main(folder=ROOT / "rocq", into=ROOT / "_build" / "rocq"):
    folder, into = Path(folder), Path(into)
    options, files = read_project(folder)
    for path in files:
        refuse_unproved(path)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    require_mathcomp(into)
    for path in files:
        shutil.copy(path, into)
        run_rocq(into, options, path.name)
    stated = {name: number for path in files for name, number in theorems(path)}
    if not stated:
        raise Wrong(f"No file in {folder}/ states a theorem.")
    found = assumptions(into, options, [path.stem for path in files], stated)
    for name, account in found.items():
        verdict = "no axioms" if account == CLOSED else f"NOT PROVED\n{account}"
        print(f"{stated[name] or '':12} {name}: {verdict}")
    open_ones = [name for name, account in found.items() if account != CLOSED]
    if open_ones:
        raise Wrong(f"These rest on more than Rocq itself: {', '.join(open_ones)}.")
    print(f"Rocq {version()} accepts {len(found)} theorems and lemmas. None uses an axiom.")


def read_project(folder):
    """The options and the files, in the order of compilation, that `_CoqProject` names."""
    words = (folder / "_CoqProject").read_text(encoding="utf-8").split()
    files = [folder / word for word in words if word.endswith(".v")]
    unlisted = set(folder.glob("*.v")) - set(files)
    if unlisted:
        names = ", ".join(sorted(path.name for path in unlisted))
        raise Wrong(f"{folder}/_CoqProject does not name {names}.")
    return [word for word in words if not word.endswith(".v")], files


def refuse_unproved(path):
    found = UNPROVED.search(without_comments(path.read_text(encoding="utf-8")))
    if found:
        raise Wrong(f"{path.name} says {found[0]}: something in it is left without a proof.")


def without_comments(text):
    """Rocq's comments nest."""
    kept, depth = [], 0
    for piece in re.split(r"(\(\*|\*\))", text):
        depth += {"(*": 1, "*)": -1}.get(piece, 0)
        kept += [piece] if depth == 0 and piece != "*)" else []
    return "".join(kept)


def theorems(path):
    """(name, number in the book or None) of each theorem and lemma of a file."""
    text = path.read_text(encoding="utf-8")
    named = set(STATEMENT.findall(without_comments(text)))
    for found in STATEMENT.finditer(text):
        if found[1] in named:
            number = NUMBERED.search(text[: found.start()])
            yield found[1], number and number[1]


def require_mathcomp(into):
    if not shutil.which("coqc"):
        raise Wrong(f"There is no coqc here: install Rocq and MathComp, as in: {INSTALL}")
    probe = into / "Probe.v"
    probe.write_text("From mathcomp Require Import all_ssreflect all_algebra.\n", encoding="utf-8")
    if coqc(into, [], probe.name).returncode:
        raise Wrong(f"coqc does not find MathComp here: install it, as in: {INSTALL}")


def assumptions(into, options, modules, names):
    """What Rocq says that each theorem rests on."""
    lines = [f"From Bias Require Import {' '.join(modules)}."]
    for name in names:
        lines += [f'Goal True. idtac "about {name}". Abort.', f"Print Assumptions {name}."]
    lines += ['Goal True. idtac "about ". Abort.', ""]
    (into / "Assumptions.v").write_text("\n".join(lines), encoding="utf-8")
    said = run_rocq(into, options, "Assumptions.v")
    titles = list(re.finditer(r"^about (\S*) *$", said, re.M))
    return {one[1]: said[one.end() : next_.start()].strip() for one, next_ in pairwise(titles)}


def run_rocq(into, options, name):
    run = coqc(into, options, name)
    if run.returncode:
        raise Wrong(f"{run.stderr.strip()}\nRocq does not accept {name}.")
    return run.stdout


def coqc(into, options, name):
    command = ["coqc", *QUIET, *options, name]
    return subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)


def version():
    command = ["coqc", "--print-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.split()[0]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Wrong as wrong:
        sys.exit(str(wrong))
