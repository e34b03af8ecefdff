"""The page on Rocq shows the theorems that the files prove, as the book states them."""

import re

import pytest

from tools.records.rocq import ROOT, read_project, theorems
from tools.site.register import read_statements

PAGE = (ROOT / "book" / "rocq.md").read_text(encoding="utf-8")
BOOK = {entry.label: entry for entry in read_statements(ROOT / "notebooks").values()}
FILES = read_project(ROOT / "rocq")[1]
NUMBERED = {number: (name, path) for path in FILES for name, number in theorems(path) if number}


def test_the_page_shows_exactly_the_theorems_that_are_proved():
    assert {f"Theorem {n}" for n in ("1.3", "1.4", "1.5", "3.1", "3.2", "7.1")} <= set(NUMBERED)
    labels = re.findall(r"^### ((?:Theorem|Lemma|Remark) [\d.]+)", PAGE, re.M)
    assert sorted(labels) == sorted(NUMBERED)


@pytest.mark.parametrize("label", NUMBERED)
def test_a_section_matches_the_book_and_the_file(label):
    entry, (name, path) = BOOK[label], NUMBERED[label]
    assert name.replace("_", "-") == entry.slug
    section = re.search(rf"^### {label} · .*?(?=^#|\Z)", PAGE, re.M | re.S)[0]
    spaceless = lambda formula: re.sub(r"\s|\\,", "", formula)
    shown = re.findall(r"\$\$(.+?)\$\$", section, re.S)
    assert shown and all(spaceless(one) in spaceless(entry.statement) for one in shown)
    assert f"(../notebooks/{entry.notebook.name}#{entry.slug})" in section
    assert f"{{literalinclude}} ../rocq/{path.name}\n" in section
    assert f":start-at: {label.split()[0]} {name}\n" in section
