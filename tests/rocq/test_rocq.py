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
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def check(tmp_path):
    """What the tool says of one file."""

    def of(text, **environment):
        folder = tmp_path / "rocq"
        folder.mkdir()
        (folder / "_CoqProject").write_text("-Q . Bias\nSmall.v\n", encoding="utf-8")
        (folder / "Small.v").write_text(HEADER + text, encoding="utf-8")
        return run(folder, tmp_path / "into", **environment)

    return of


@needs_rocq
def test_a_proof_is_accepted(check):
    done = check(PROVED)
    assert done.returncode == 0 and "commutes: no axioms" in done.stdout and not done.stderr


@needs_rocq
def test_every_proof_of_the_book_is_accepted_and_the_sources_stay_clean(tmp_path):
    folder = ROOT / "rocq"
    before = sorted(folder.iterdir())
    done = run(folder, tmp_path / "into")
    assert done.returncode == 0 and "None uses an axiom" in done.stdout
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("unproved", "word"),
    [
        (FALSE + "Proof. Admitted.\n", "Admitted"),
        ("Axiom wrong : forall a : nat, a = 0.\n", "Axiom"),
        ("Parameter wrong : forall a : nat, a = 0.\n", "Parameter"),
        ("(* said (* twice *) *) Axiom wrong : forall a : nat, a = 0.\n", "Axiom"),
    ],
    ids=["Admitted", "Axiom", "Parameter", "behind a comment"],
)
def test_a_word_that_leaves_something_unproved_is_refused(check, unproved, word):
    done = check(PROVED + unproved)
    assert done.returncode == 1
    assert done.stderr == f"Small.v says {word}: something in it is left without a proof.\n"


@needs_rocq
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Variable silent : forall a : nat, a = 0.\n" + FALSE + "Proof. exact: silent. Qed.\n",
         "silent"),
        ("From Coq Require Import Classical.\n"
         "Lemma middle (P : Prop) : P \\/ ~ P. Proof. exact: classic. Qed.\n", "classic"),
        ("Unset Guard Checking.\nFixpoint loop (a : nat) : False := loop a.\n"
         + FALSE + "Proof. by case: (loop a). Qed.\n", "loop"),
    ],
    ids=["a variable outside a section", "an axiom of a library", "a loop for a proof"],
)  # fmt: skip
def test_what_no_word_betrays_rocq_names_itself(check, text, name):
    done = check(PROVED + text)
    assert done.returncode == 1 and "commutes: no axioms" in done.stdout
    assert "NOT PROVED" in done.stdout and name in done.stdout
    assert "rest on more than Rocq itself" in done.stderr and "Traceback" not in done.stderr


@needs_rocq
def test_a_proof_that_fails_is_named(check):
    done = check(PROVED + FALSE + "Proof. by []. Qed.\n")
    assert done.returncode == 1 and "Rocq does not accept Small.v" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_would_not_be_compiled_is_named(check, tmp_path):
    (tmp_path / "rocq").mkdir()
    (tmp_path / "rocq" / "_CoqProject").write_text("-Q . Bias\n", encoding="utf-8")
    (tmp_path / "rocq" / "Forgotten.v").write_text(PROVED, encoding="utf-8")
    done = run(tmp_path / "rocq", tmp_path / "into")
    assert done.returncode == 1 and done.stderr.endswith("does not name Forgotten.v.\n")


def test_without_coqc_it_says_what_to_install(check, tmp_path):
    done = check(PROVED, PATH=str(tmp_path))
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("There is no coqc here") and done.stderr.count("\n") == 1
    assert "coq libcoq-mathcomp-ssreflect libcoq-mathcomp-algebra" in done.stderr


def test_without_mathcomp_it_says_what_to_install(check, tmp_path):
    coqc = tmp_path / "coqc"
    coqc.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    coqc.chmod(0o755)
    done = check(PROVED, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1 and done.stderr.startswith("coqc does not find MathComp")
    assert done.stderr.count("\n") == 1
