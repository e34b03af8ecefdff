"""The workflows run what the README says, from pinned actions, with no right they do not need."""

import re
from pathlib import Path

import nightly
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


@each_workflow
def test_every_action_is_pinned_to_a_commit(path):
    used = [step["uses"] for job in jobs(path).values() for step in job["steps"] if "uses" in step]
    assert used and all(PINNED.fullmatch(action) for action in used)


@each_workflow
def test_a_job_may_read_and_no_more_unless_it_publishes(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    granted = {name: job.get("permissions", {}) for name, job in jobs(path).items()}
    writing = {name for name, rights in granted.items() if "write" in rights.values()}
    assert writing <= {"deploy", "copies", "release"}
    assert "secrets." not in path.read_text(encoding="utf-8")


@each_workflow
def test_its_make_targets_exist(path):
    for job in jobs(path).values():
        for step in job["steps"]:
            for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
                assert target in TARGETS, target


def test_ci_runs_what_the_readme_says():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    stages = re.findall(r"^stage \d+ make (.+)$", script, re.M)
    assert stages == ["test", "book", "test-site"]


def test_every_stage_of_the_night_has_a_job():
    [nights] = [path for path in WORKFLOWS if path.stem == "nightly"]
    assert jobs(nights)["stage"]["strategy"]["matrix"]["stage"] == list(nightly.STAGES)
