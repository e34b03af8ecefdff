"""Every deliberate mistake that no test noticed has a reason in the record."""

import json

from mutants.mistakes import KINDS

from tools.site.mutants_page import RECORD


def test_every_unnoticed_mistake_has_a_reason():
    for part, there in json.loads(RECORD.read_text(encoding="utf-8")).items():
        survivors, made = there["survivors"], there["made"]
        assert {*made} <= {*KINDS} and len(survivors) <= sum(made.values()) / 10, part
        assert all(one["why"].endswith(".") for one in survivors), part
