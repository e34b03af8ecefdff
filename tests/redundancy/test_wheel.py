"""After `pip install .[audit]` in an empty environment, the command and a user's program work."""

import os
import shutil
import subprocess
import venv

import pytest
from redundancy.models.tiny import quiet, tiny

from tools.files import ROOT

#: The comparison of attention with a copy whose key bias differs.
PROGRAM = """
import copy
import torch
from redundancy import compare

layer = torch.nn.MultiheadAttention(8, 2)
other = copy.deepcopy(layer)
other.in_proj_bias.data[8:16] = 1
print(compare(layer, other, 3 * [torch.randn(5, 2, 8)]))
"""


@pytest.mark.nightly
def test_the_installed_command_and_a_program_work(tmp_path):
    source = tmp_path / "source"  # a copy, because pip adds a build folder to the source
    shutil.copytree(ROOT / "notebooks", source / "notebooks")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    venv.create(tmp_path / "venv", with_pip=True)
    bin = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    install = [bin / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{source}[audit]"], check=True)
    with quiet():
        tiny("gpt2").save_pretrained(tmp_path / "folder")
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}

    def said(*words):
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for name in ("folder", "folder/config.json"):
        assert "b_K: can go: softmax cancels it [3.1]" in said(bin / "bias-audit", name)
    compared = said(bin / "python", "program.py")
    assert "no output depends on them (softmax cancels it [3.1])" in compared
