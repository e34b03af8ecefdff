"""`python tools/rocq.py` refuses what is not proved, and says in a sentence what is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HEADER = "From mathcomp Require Import all_ssreflect.\n"
PROVED = "Lemma commutes (a b : nat) : a + b = b + a. Proof. exact: addnC. Qed.\n"
FALSE = "Lemma wrong (a : nat) : a = 0.\n"
IS_WRONG = FALSE + "Proof. exact: {}. Qed.\n"


def finds_mathcomp():
    if not shutil.which("coqc"):
        return False
    command = ["coqtop", "-q", "-batch", "-require-import", "mathcomp.algebra.all_algebra"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_rocq = pytest.mark.skipif(
    not finds_mathcomp(), reason="no coqc here, or no MathComp: see book/rocq.md"
)


def run(folder, into, **environment):
    command = [sys.executable, ROOT / "tools" / "rocq.py", folder, into]
    env = {**os.environ, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def check(tmp_path):
    """What the tool says of one file."""

    def of(text, listed="Small.v", **environment):
        folder = tmp_path / "rocq"
        folder.mkdir()
        (folder / "_CoqProject").write_text(f"-Q . Bias\n{listed}\n", encoding="utf-8")
        (folder / "Small.v").write_text(HEADER + text, encoding="utf-8")
        return run(folder, tmp_path / "into", **environment)

    return of


@needs_rocq
def test_every_proof_of_the_book_is_accepted_and_the_sources_stay_clean(tmp_path):
    folder = ROOT / "rocq"
    before = sorted(folder.iterdir())
    done = run(folder, tmp_path / "into")
    assert done.returncode == 0 and "None uses an axiom" in done.stdout and not done.stderr
    assert sorted(folder.iterdir()) == before


UNPROVED = {
    "nothing is proved": (FALSE + "Proof. Admitted.\n", "wrong"),
    "an axiom": ("Axiom any : forall a : nat, a = 0.\n" + IS_WRONG.format("any"), "any"),
    "a parameter": ("Parameter any : forall a : nat, a = 0.\n" + IS_WRONG.format("any"), "any"),
    "behind a comment": (
        "(* said (* twice *) *) Axiom any : forall a : nat, a = 0.\n" + IS_WRONG.format("any"),
        "any",
    ),
    "a variable outside a section": (
        "Variable any : forall a : nat, a = 0.\n" + IS_WRONG.format("any"),
        "any",
    ),
    "an axiom of a library": (
        "From Coq Require Import Classical.\n"
        "Lemma middle (P : Prop) : P \\/ ~ P. Proof. exact: classic. Qed.\n",
        "classic",
    ),
    "a loop for a proof": (
        "Unset Guard Checking.\nFixpoint loop (a : nat) : False := loop a.\n"
        + FALSE + "Proof. by case: (loop a). Qed.\n",
        "loop",
    ),
}  # fmt: skip


@needs_rocq
@pytest.mark.parametrize("kind", UNPROVED)
def test_what_is_not_proved_rocq_names_itself(check, kind):
    text, name = UNPROVED[kind]
    done = check(PROVED + text)
    assert done.returncode == 1 and "commutes: no axioms" in done.stdout
    assert "NOT PROVED" in done.stdout and name in done.stdout
    assert "rest on more than Rocq itself" in done.stderr


@needs_rocq
@pytest.mark.parametrize("text", ["Proof. by []. Qed.\n", "Proof. Abort.\n"])
def test_a_proof_that_fails_or_is_given_up_is_refused(check, text):
    done = check(PROVED + FALSE + text)
    assert done.returncode == 1 and "Rocq does not accept" in done.stderr


def test_a_file_that_would_not_be_compiled_is_named(check):
    done = check(PROVED, listed="")
    assert done.returncode == 1 and done.stderr.endswith("does not name Small.v.\n")


COQC = {
    "no coqc": "",
    "no MathComp": "#!/bin/sh\necho 'Cannot find a path bound to mathcomp' >&2\nexit 1\n",
}


@pytest.mark.parametrize("missing", COQC)
def test_it_says_what_to_install(check, tmp_path, missing):
    if COQC[missing]:
        (tmp_path / "coqc").write_text(COQC[missing], encoding="utf-8")
        (tmp_path / "coqc").chmod(0o755)
    done = check(PROVED, PATH=f"{tmp_path}:/bin" if COQC[missing] else str(tmp_path))
    assert done.returncode == 1 and not done.stdout
    assert "apt install coq libcoq-mathcomp-ssreflect libcoq-mathcomp-algebra" in done.stderr
