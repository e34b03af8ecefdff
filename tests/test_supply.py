"""What a reader runs fetches no code: the notebooks, what they import, and the grader."""

import re

from files import ROOT, read_notebook

MODULES = [*ROOT.glob("notebooks/**/*.py"), *ROOT.glob("book/**/grade.py")]
#: What would fetch something, or run it in a shell.
FETCHES = re.compile(
    r"^\s*(?:import|from)\s.*\b(aiohttp|ftplib|http|httpx|huggingface_hub|pip|requests|urllib)\b"
    r"|^\s*[!%]|\btorch\.hub\b|\btrust_remote_code=(?!False)",
    re.M,
)


def test_what_a_reader_runs_fetches_no_code():
    sheets = list(ROOT.glob("notebooks/*.ipynb"))
    assert len(MODULES) > 20 and len(sheets) > 50
    code = [path.read_text(encoding="utf-8") for path in MODULES]
    for path in sheets:
        code += [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert list(filter(FETCHES.search, code)) == []
    for found in ("import json, urllib.request", "!pip install it", "f(trust_remote_code=True)"):
        assert FETCHES.search(found)
