"""The README's snippet does what the README says, and its links lead somewhere."""

import re
import subprocess
import sys

from tools.files import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def fenced(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_the_snippet_prints_what_is_shown():
    run = subprocess.run(
        [sys.executable, "-c", fenced("python")[0]], cwd=ROOT / "notebooks",
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.stderr == "" and run.stdout == fenced("text")[0]


def test_every_link_leads_to_a_file():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 10
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing
