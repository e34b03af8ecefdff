"""`pip install .[audit]` in an empty environment, and then the command, on files alone."""

import os
import shutil
import subprocess
import venv

import pytest
from files import ROOT
from redundancy.zoo import quiet, tiny

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The path of the command in an environment that holds what pip brought and nothing else."""
    place = tmp_path_factory.mktemp("installed")
    source = place / "source"  # pip leaves a folder in what it builds from
    shutil.copytree(
        ROOT / "notebooks", source / "notebooks", ignore=shutil.ignore_patterns("*.ipynb")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    venv.create(place / "venv", with_pip=True)
    bin = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    install = [bin / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{source}[audit]"], check=True)
    return bin / "bias-audit"


def test_the_command_on_a_configuration_and_on_a_folder(command, tmp_path):
    with quiet():
        tiny("gpt2").save_pretrained(tmp_path / "folder")
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    for name in ("folder", "folder/config.json"):
        done = subprocess.run(
            [command, name], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "can go: softmax ignores it" in done.stdout
