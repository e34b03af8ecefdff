"""Deliberate mistakes in the checker are the ones they say they are, and its tests notice them."""

import json
import subprocess
import sys

import pytest
from mutants import checker, record
from mutants.record import ROOT

#: What `make test` tries of `make nightly ONLY=mutants`: so many mistakes in these, on one quick file of tests.
MISTAKES, MODULES, QUICK = 200, ["kernel.rules"], "derivation/kernel"

#: (source, texts that are made of it beside what the operators of the notebooks make)
DECIDED = [
    ("if f(x):\n    y", ["if (not (f(x))):\n    y"]),
    ("y = a if f(x) else b", ["y = a if (not (f(x))) else b"]),
    ("[x for x in y if x.even]", ["[x for x in y if (not (x.even))]"]),
    ("def f():\n    return True", ["def f():\n    return False"]),
    ("all(x)", ["any(x)"]),
    ("a and b", ["a or b"]),
    ("a or b", ["a and b"]),
    ("a < b", ["a <= b"]),
    ("a >= b", ["a > b"]),
    ("if a == b:\n    y", []),
]

#: What only prints or words a refusal: none of these has a mutant.
LEFT = [
    "class A:\n    def __repr__(self):\n        return self.a + self.b",
    "def _show_sum(x, y):\n    return x + y",
    "class A:\n    def show(self):\n        return self.x + 1",
]

REFUSAL = """
def f(x, y):
    names = ", ".join(x - y)
    seen = x - y
    if seen:
        raise ValueError(f"{names}: {x + y}", g(x, y), names + seen)
"""


def sources(piece):
    return {mutant.source for mutant in checker.mutants_of(piece)}


@pytest.mark.parametrize("source, expected", DECIDED)
def test_decisions_are_turned(source, expected):
    text = checker.Text(source)
    made = [
        text.edited(kind, edit).source
        for node in text.nodes
        for kind, edit in checker.decisions(node, text)
    ]
    assert made == expected
    assert set(expected) <= sources(source)


@pytest.mark.parametrize("source", LEFT)
def test_what_only_prints_is_left(source):
    assert not sources(source)


def test_a_refusal_is_deleted_and_not_reworded():
    made = sources(REFUSAL)
    assert (
        REFUSAL.replace('raise ValueError(f"{names}: {x + y}", g(x, y), names + seen)', "pass")
        in made
    )
    assert REFUSAL.replace("seen = x - y", "seen = x + y") in made
    assert not any("names + seen)" in s and REFUSAL.split("\n")[2] not in s for s in made)
    assert not any("raise" in s and REFUSAL.split("\n")[5] not in s for s in made)


def test_all_kinds_have_their_turn_and_long_modules_more():
    modules = set(checker.modules())
    assert {"kernel.sums", "alarm"} < modules and not {"display", "kernel.__init__"} & modules
    drawn = checker.drawn(960, "any", ["kernel.normal", "kernel.conditions"])
    alone = checker.drawn(960, "any", ["kernel.conditions"])
    assert drawn["kernel.conditions"] == alone["kernel.conditions"]
    (possible, mutants), (_, fewer) = drawn["kernel.normal"], drawn["kernel.conditions"]
    assert possible > 10 * len(mutants) and 40 < len(mutants) > 3 * len(fewer) > 20
    assert len({mutant.kind for mutant in mutants}) >= 7


@pytest.mark.nightly
def test_the_tests_of_the_checker_notice_what_is_drawn():
    """A small part of ``make nightly ONLY=mutants``: one quick file of tests, which alone notices many."""
    code = f"""
import json, sys
sys.path[:0] = {[str(ROOT / folder) for folder in ("tests", "notebooks", "tools")]}
from mutants import checker
drawn = checker.drawn({MISTAKES}, "suite", {MODULES})
tried = list(checker.tried({MODULES}, drawn, {{"alone": ("{QUICK}",)}}))
print("found", json.dumps(tried))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.rpartition("found ")[2])
    assert [name for name, _, _ in found] == MODULES
    assert not any(complaint for *_, complaint in found), found
    tried = record.summed(record.totals({name: entry for name, entry, _ in found}).values())
    assert sum(tried.values()) >= 4 and record.rate(tried) >= 0.4, found


def test_every_reason_fits_the_checker_as_it_is():
    for name, entries in record.reasons().get("checker", {}).items():
        where = checker.pieces(name)
        assert list(record.stale(entries, where, checker.mutants_of)) == [], name
        assert all(entry["why"].strip().endswith(".") for entry in entries), name
