"""Every deliberate mistake that no test noticed has a reason in the record."""

import json

from mutants.mistakes import KINDS, mutants_of

from tools.site.mutants_page import RECORD


def test_every_unnoticed_mistake_has_a_reason():
    for part, there in json.loads(RECORD.read_text(encoding="utf-8")).items():
        assert {*there["made"]} <= {*KINDS}, part
        assert len(there["survivors"]) <= sum(there["made"].values()) / 10, part
        assert all(one["why"].endswith(".") for one in there["survivors"]), part


def test_only_code_that_makes_a_difference_is_mutated():
    """No mutant changes strings, seeds, signs inside abs, or arguments that may be swapped."""
    left = "'''a - b'''\nnormal(8, seed=1)\n(a - b).abs()\nattempt(-x, ...)\nerror(a, b)"
    made = [m.after for m in mutants_of(f"{left}\nassert p and q") if "deleted" not in m.kind]
    assert made == ["(a + b).abs()", "a.abs()", "(-b).abs()", "assert not (p and q)"]
