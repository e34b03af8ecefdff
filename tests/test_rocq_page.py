"""The page on Rocq shows the theorems that the files prove, as the book states them."""

import re
from pathlib import Path

import pytest
from register import read_register, slugify

from rocq import ROOT, read_project, theorems

PAGE = (ROOT / "book" / "rocq.md").read_text(encoding="utf-8")
BOOK = {entry.label: entry for entry in read_register(ROOT / "notebooks")}
FILES = read_project(ROOT / "rocq")[1]
NUMBERED = {number: (name, path) for path in FILES for name, number in theorems(path) if number}

each_theorem = pytest.mark.parametrize("label", NUMBERED)


def section(label):
    found = re.search(rf"^### {label} · .*?(?=^#|\Z)", PAGE, re.M | re.S)
    assert found, f"the page has no section on {label}"
    return found[0]


def spaceless(formula):
    return re.sub(r"\s|\\,", "", formula)


def test_the_core_is_there():
    core = {f"Theorem {n}" for n in ("1.3", "1.4", "1.5", "3.1", "3.2", "7.1")}
    assert core <= set(NUMBERED)


@each_theorem
def test_it_has_the_name_that_the_book_gives_it(label):
    assert NUMBERED[label][0].replace("_", "-") == slugify(BOOK[label].name)


@each_theorem
def test_the_page_has_the_formulas_of_the_book(label):
    shown = re.findall(r"\$\$(.+?)\$\$", section(label), re.S)
    stated = spaceless(BOOK[label].statement)
    assert shown and all(spaceless(formula) in stated for formula in shown)


@each_theorem
def test_the_page_links_the_book_and_shows_the_file(label):
    entry, (name, path) = BOOK[label], NUMBERED[label]
    assert f"(../notebooks/{entry.notebook.name}#{entry.slug})" in section(label)
    kind = label.split()[0]
    assert f"{{literalinclude}} ../rocq/{path.name}\n" in section(label)
    assert f":start-at: {kind} {name}\n" in section(label)


def test_the_page_shows_nothing_else():
    labels = re.findall(r"^### ((?:Theorem|Lemma) [\d.]+)", PAGE, re.M)
    assert sorted(labels) == sorted(NUMBERED) and Path("rocq") == FILES[0].parent.relative_to(ROOT)
