"""`python -m tools rocq` refuses unproved theorems, and files that _CoqProject does not name."""

import shutil
import subprocess

import pytest

from tools.__main__ import main

HEADER = "From mathcomp Require Import all_ssreflect.\n"
PROVED = "Lemma commutes (a b : nat) : a + b = b + a. Proof. exact: addnC. Qed.\n"
FALSE = "Lemma wrong (a : nat) : a = 0.\n"
#: {name that Rocq prints: an invalid proof of the lemma FALSE}
WAYS = {
    "wrong": f"{FALSE}Proof. Admitted.\n",
    "any": f"Axiom any : forall a : nat, a = 0.\n{FALSE}Proof. exact: any. Qed.\n",
    "loop": "Unset Guard Checking.\nFixpoint loop (a : nat) : False := loop a.\n"
    f"{FALSE}Proof. by case: (loop a). Qed.\n",
}


def finds_mathcomp():
    command = ["coqtop", "-q", "-batch", "-require-import", "mathcomp.algebra.all_algebra"]
    return shutil.which("coqc") and not subprocess.run(command, capture_output=True).returncode


@pytest.fixture
def check(tmp_path, capsys):
    """A function that runs the tool on one file; it returns (exit status, output, error output)."""

    def of(text, listed="Small.v"):
        folder = tmp_path / "rocq"
        folder.mkdir()
        (folder / "_CoqProject").write_text(f"-Q . Bias\n{listed}\n", encoding="utf-8")
        (folder / "Small.v").write_text(HEADER + text, encoding="utf-8")
        return main("rocq", str(folder), str(tmp_path / "into")), *capsys.readouterr()

    return of


@pytest.mark.skipif(not finds_mathcomp(), reason="no coqc here, or no MathComp: see book/rocq.md")
@pytest.mark.parametrize("name", WAYS)
def test_rocq_names_what_is_not_proved(check, name):
    status, said, complaint = check(PROVED + WAYS[name])
    assert status == 1 and "commutes: no axioms" in said
    assert "NOT PROVED" in said and name in said
    assert "rest on more than Rocq itself" in complaint


def test_a_file_that_would_not_be_compiled_is_named(check):
    status, _, complaint = check(PROVED, listed="")
    assert status == 1 and complaint.endswith("does not name Small.v.\n")
