"""The register reads what the notebooks say, and refuses what does not agree."""

import json

import pytest
from register import RegisterError, read_register, slugify

HEADING = "### Theorem 3.2 · The key bias cancels"
BOX = """\
> **Theorem 3.2 (The key bias cancels).** For every $m$,
> $a = b$.
>
> Row by row.
>
> *Needs:* softmax over the keys;
> the same $b$ on every key.
>
> *Evidence:*
>
> - the two sides: *by hand*, they are the same on every page"""
COLUMNS = "| theorem | hypotheses | proved for | measured against | breaks when |\n" + (
    "|---|---|---|---|---|"
)
ROW = (
    "| [3.2](#the-key-bias-cancels) The key bias cancels | softmax | every $m, n, d$ "
    r"| `nn.MultiheadAttention` | $\|b\|$ differs |"
)


def write(folder, *cells, name="03-a-claim.ipynb"):
    markdown = [{"cell_type": "markdown", "metadata": {}, "source": cell} for cell in cells]
    (folder / name).write_text(json.dumps({"cells": markdown}), encoding="utf-8")


def summary(*rows, columns=COLUMNS):
    return "\n".join(["## Summary", "", columns, *rows])


def refusal(folder):
    with pytest.raises(RegisterError) as refused:
        read_register(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_theorem_is_read_whole(tmp_path):
    write(tmp_path, "# 3 · A claim", f"{HEADING}\n\n{BOX}", summary(ROW))
    [theorem] = read_register(tmp_path)
    assert theorem.label == "Theorem 3.2"
    assert (theorem.number, theorem.kind) == ("3.2", "Theorem")
    assert theorem.name == "The key bias cancels"
    assert theorem.slug == "the-key-bias-cancels"
    assert theorem.statement == "For every $m$,\n$a = b$.\n\nRow by row."
    assert theorem.needs == "softmax over the keys;\nthe same $b$ on every key."
    assert [clause.mark for clause in theorem.evidence] == ["by hand"]
    assert theorem.hypotheses == "softmax"
    assert theorem.proved_for == "every $m, n, d$"
    assert theorem.measured_against == "`nn.MultiheadAttention`"
    assert theorem.breaks_when == "$|b|$ differs"
    assert theorem.notebook == tmp_path / "03-a-claim.ipynb"
    assert theorem.chapter == "3 · A claim"


def test_a_notebook_without_theorems_needs_no_summary(tmp_path):
    write(tmp_path, "# A page of prose", "> **Note.** Nothing is claimed.")
    assert read_register(tmp_path) == []


def test_a_definition_needs_no_row(tmp_path):
    definition = "### Definition 3.2 · A key\n\n> **Definition 3.2 (A key).** A row."
    write(tmp_path, definition, HEADING, BOX, summary(ROW))
    assert [theorem.label for theorem in read_register(tmp_path)] == ["Theorem 3.2"]


def test_what_stands_in_a_code_fence_is_an_example(tmp_path):
    write(tmp_path, f"```\n{HEADING}\n\n{BOX}\n```")
    assert read_register(tmp_path) == []


@pytest.mark.parametrize(
    "cells, complaint",
    [
        ([HEADING, BOX, summary()], "has no row in the summary"),
        ([HEADING, BOX], "has no row in the summary"),
        ([summary(ROW)], "states no such theorem"),
        ([HEADING, summary(ROW)], "has no statement"),
        ([BOX, summary(ROW)], "has no heading"),
        ([HEADING, BOX, summary(ROW, ROW)], "two rows for 3.2"),
        ([HEADING, BOX, summary(ROW.replace("cancels |", "goes |"))], "“The key bias goes"),
        ([HEADING, BOX, summary(ROW.replace("#the", "#a"))], "#the-key-bias-cancels"),
        ([HEADING, BOX, summary(ROW + " more |")], "four more cells"),
        ([HEADING, BOX, summary(ROW, columns="| theorem |\n|---|")], "with the columns"),
        ([HEADING + " not", BOX, summary(ROW)], "cancels not” in its heading"),
        (
            [HEADING, BOX.split("\n> *Needs", maxsplit=1)[0], summary(ROW)],
            "does not say what it needs",
        ),
        (
            [HEADING, BOX.split("\n>\n> *Evidence", maxsplit=1)[0], summary(ROW)],
            "does not say what its clauses rest on",
        ),
        ([HEADING, BOX.replace("*by hand*", "proved"), summary(ROW)], "has no mark"),
        ([HEADING, BOX.replace("*by hand*", "*checked*"), summary(ROW)], "quotes no evidence"),
        ([HEADING, BOX, BOX, summary(ROW)], "uses “3.2”, which"),
    ],
)
def test_disagreement_is_refused_in_one_sentence(tmp_path, cells, complaint):
    write(tmp_path, *cells)
    assert complaint in refusal(tmp_path)


def test_a_number_is_used_once_in_the_book(tmp_path):
    write(tmp_path, HEADING, BOX, summary(ROW), name="03-a.ipynb")
    write(tmp_path, HEADING, BOX, summary(ROW), name="04-b.ipynb")
    assert "“3.2”, which Theorem 3.2 (The key bias cancels) in 03-a" in refusal(tmp_path)


def test_a_name_is_used_once_in_the_book(tmp_path):
    write(tmp_path, HEADING, BOX, summary(ROW), name="03-a.ipynb")
    renumbered = (text.replace("3.2", "4.1") for text in (HEADING, BOX, summary(ROW)))
    write(tmp_path, *renumbered, name="04-b.ipynb")
    assert "“the-key-bias-cancels”, which" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name, slug",
    [
        ("The key bias cancels", "the-key-bias-cancels"),
        ("A mask's fully -inf row", "a-mask-s-fully-inf-row"),
        ("QK-norm (per head)", "qk-norm-per-head"),
    ],
)
def test_the_anchor_is_made_from_the_name(name, slug):
    assert slugify(name) == slug
