"""Code that readers run never downloads code; workflows use pinned actions and few permissions."""

import re

import yaml

from tools.files import ROOT, read_notebook

MODULES = [*ROOT.glob("notebooks/**/*.py"), *ROOT.glob("book/**/grade.py")]
WORKFLOWS = [*ROOT.glob(".github/workflows/*.yml")]
#: Imports and arguments that fetch files or code, and shell commands.
FETCHES = re.compile(
    r"^\s*(?:import|from)\s.*\b(aiohttp|ftplib|http|httpx|huggingface_hub|pip|requests|urllib)\b"
    r"|^\s*[!%]|\btorch\.hub\b|\btrust_remote_code=(?!False)",
    re.M,
)


def test_no_code_that_a_reader_runs_fetches_code():
    sheets = list(ROOT.glob("notebooks/*.ipynb"))
    assert len(MODULES) > 20 and len(sheets) > 50
    code = [path.read_text(encoding="utf-8") for path in MODULES]
    for path in sheets:
        code += [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert list(filter(FETCHES.search, code)) == []


def test_actions_are_pinned_and_permissions_are_few():
    assert WORKFLOWS
    for text in [path.read_text(encoding="utf-8") for path in WORKFLOWS]:
        read = yaml.safe_load(text)
        assert read["permissions"] == {"contents": "read"} and "secrets." not in text
        for name, job in read["jobs"].items():
            rights = job.get("permissions", {}).values()
            assert "write" not in rights or name in {"deploy", "copies", "release"}
            for action in [step["uses"] for step in job["steps"] if "uses" in step]:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
