"""Whatever the record of deliberate mistakes did not notice has a reason."""

import json

from mutants.mistakes import KINDS, mutants_of
from mutants_page import RECORD


def test_whatever_the_record_did_not_notice_has_a_reason():
    for part, there in json.loads(RECORD.read_text(encoding="utf-8")).items():
        assert {*there["made"]} <= {*KINDS}, part
        assert len(there["survivors"]) <= sum(there["made"].values()) / 10, part
        assert all(one["why"].endswith(".") for one in there["survivors"]), part


def test_what_says_nothing_is_left_alone_and_the_rest_is_not():
    """Words, seeds, what loses its sign or has no order: any other is as good."""
    left = "'''a - b'''\nnormal(8, seed=1)\n(a - b).abs()\nattempt(-x, ...)\nerror(a, b)"
    made = [m.after for m in mutants_of(f"{left}\nassert p and q") if "deleted" not in m.kind]
    assert made == ["(a + b).abs()", "a.abs()", "(-b).abs()", "assert not (p and q)"]
