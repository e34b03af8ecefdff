"""The workflows run what the README says, from pinned actions, with no right they do not need."""

import re

import pytest
import yaml
from files import ROOT

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
WORKFLOWS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_rights_are_few_and_make_targets_exist(name):
    text, read = WORKFLOWS[name], yaml.safe_load(WORKFLOWS[name])
    assert read["permissions"] == {"contents": "read"} and "secrets." not in text
    for job, told in read["jobs"].items():
        if "write" in told.get("permissions", {}).values():
            assert job in {"deploy", "copies", "release"}, f"{job} publishes nothing, and may write"
        for step in told["steps"]:
            action = step.get("uses", "run")
            assert action == "run" or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
            assert set(re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))) <= TARGETS
