"""The register reads theorems from notebooks, and refuses parts that do not agree."""

import nbformat
import pytest

from tools.files import Fault
from tools.site.register import check_evidence, read_clauses, read_register, read_statements

HEADING = "### Theorem 3.2 · The key bias cancels"
BOX = """\
> **Theorem 3.2 (The key bias cancels).** For every $m$,
> $a = b$.
>
> *Needs:* softmax over the keys;
> the same $b$ on every key.
>
> *Evidence:*
>
> - the two sides: *by hand*, they are the same on every page"""
SUMMARY = """\
## Summary

| theorem | hypotheses | proved for | measured against | breaks when |
|---|---|---|---|---|
"""
ROW = (
    "| [3.2](#the-key-bias-cancels) The key bias cancels | softmax | every $m, n, d$ "
    r"| `nn.MultiheadAttention` | $\|b\|$ differs |"
)
#: What a page prints; a clause is refused if its evidence is not in it.
PAGE = """\
Theorem 3.2 (The key bias cancels):
  = softmax(Q Kᵀ)                                               -- shift invariance
the running mean, step:
  = (1 - m) r[t]                                                -- definition of r
without the mask, line 1 is not justified.
  Claimed: x = y
"""


def write(folder, *cells, name="03-a-claim.ipynb"):
    markdown = [nbformat.v4.new_markdown_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=markdown), folder / name)
    return folder


def test_a_theorem_is_read_whole(tmp_path):
    write(tmp_path, "# 3 · A claim", f"{HEADING}\n\n{BOX}", SUMMARY + ROW)
    [theorem] = read_register(tmp_path)
    assert theorem.evidence[0].mark == "by hand" and theorem.slug == "the-key-bias-cancels"
    assert (theorem.chapter, theorem.label) == ("3 · A claim", "Theorem 3.2")
    assert theorem.statement == "For every $m$,\n$a = b$."
    assert theorem.needs == "softmax over the keys;\nthe same $b$ on every key."
    assert theorem.facts["breaks when"] == "$|b|$ differs"


@pytest.mark.parametrize(
    "cells, complaint",
    [
        ([HEADING, BOX, SUMMARY], r"1 boxes make the row of the summary “\[3.2.*; it is there 0×"),
        ([HEADING, SUMMARY + ROW], "0 boxes make the heading “### Theorem 3.2 ·"),
        ([HEADING, BOX, SUMMARY + ROW + " more |"], "not five cells"),
        ([HEADING, BOX, SUMMARY.replace("proved", "true") + ROW], "needs the columns"),
        ([HEADING, BOX.replace("*Needs:*", "Needs"), SUMMARY + ROW], "a box without “.Needs"),
        ([HEADING, BOX.replace("*by hand*", "proved"), SUMMARY + ROW], "is not marked as"),
        ([HEADING, BOX.replace("*by hand*", "*checked*"), SUMMARY + ROW], "quotes no evidence"),
        (["> **Remark 3.3 (One).** For every $m$, $a = b$."], r"no derivation of Remark 3.3 \(One"),
    ],
)
def test_disagreement_is_refused(tmp_path, cells, complaint):
    with pytest.raises(Fault, match=complaint):
        read_register(write(tmp_path, *cells))


def test_a_name_is_used_once_in_the_book(tmp_path):
    for number in "34":
        cells = [cell.replace("3.2", f"{number}.2") for cell in (HEADING, BOX, SUMMARY + ROW)]
        write(tmp_path, *cells, name=f"{number}.ipynb")
    with pytest.raises(Fault, match="“the-key-bias-cancels” is of 2 theorems"):
        read_statements(tmp_path)


@pytest.mark.parametrize(
    "bullet, why",
    [
        ("all: *checked*, “Theorem 3.3”", "does not print"),
        ("what was claimed: *checked*, “Claimed: x = y”", "does not print"),
        ("half of it: *checked*, “Theorem 3.2” and “the running variance”", "does not print"),
        ("only if: *by hand*, it is obvious", "does not say how"),
        ("speed: *measured*, “faster”", "does not print"),
    ],
)
def test_evidence_that_is_missing_is_refused(bullet, why):
    with pytest.raises(Fault, match=why):
        check_evidence(read_clauses(f"- {bullet}"), PAGE, elsewhere=["Theorem 1.1"])
