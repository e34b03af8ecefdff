"""A disk that is full and a checkout that is read-only: one sentence, and nothing half-written."""

import re

import pytest
from namespaces import needed, script

pytestmark = needed
#: Mount a small disk on the folder $1 with what is there, fill it, then run the rest and look.
FULL = """
folder=$1; shift
mkdir -p "$folder"; cp -R "$folder" ../before
mount -t tmpfs -o size=$ROOM tmpfs "$folder"; cp -R ../before/. "$folder"
"$@" || echo "status $?"
echo; echo in the folder:; cd "$folder"; find . -type f -size +0
"""
READ_ONLY = 'mount --bind . .; mount -o remount,bind,ro .; cd "$PWD"; "$@"'


def run(checkout, *command):
    process = checkout.start(*command)
    said = process.communicate(timeout=300)[0]
    return process.returncode, said


def on_a_full_disk(checkout, folder, room, *command, its_own_words=False):
    """(what was said, the files that are in the folder afterwards)"""
    found = run(checkout, *script(FULL.replace("$ROOM", room)), folder, *command)[1]
    assert "status" in found, found
    assert its_own_words or "Traceback" not in found, found  # Sphinx's words are its own
    said, _, files = found.partition("\nin the folder:\n")
    return said, set(files.split())


def test_notebooks(checkout):
    checkout.notebook("three", "print('a' * 60_000)", "")
    said, files = on_a_full_disk(checkout, "notebooks", "600k", "sh", "-c", FILL + "make notebooks")
    assert re.search(r"three\.ipynb cannot be written: no space left on device; what was", said), (
        said
    )
    assert "./three.ipynb" in files and not [name for name in files if ".ipynb." in name]


#: Leaves 32 kB on the disk of notebooks/.
FILL = """
head -c 100m /dev/zero > notebooks/filler 2> /dev/null || true
truncate -s -32k notebooks/filler
"""


def test_copies_for_colab(checkout):
    checkout.notebook("three", "import derivation", "")
    said, files = on_a_full_disk(checkout, "_build", "100k", "make", "colab")
    assert re.search(r"colab/notebooks/three\.ipynb cannot be written: no space left", said), said
    assert files == set()  # nor a draft of it


def test_the_book(checkout):
    said, files = on_a_full_disk(checkout, "_build", "3m", "make", "book", its_own_words=True)
    assert re.search(r"Only [\d.]+ MB are left on the disk of \S+_build: the book needs more", said)
    assert files == set()


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "bare"])
@pytest.mark.parametrize("target", ["test", "book", "pdf"])
def test_a_read_only_checkout(checkout, target, installed):
    if not installed:
        (checkout.folder / ".venv").unlink()
    status, said = run(checkout, *script(READ_ONLY), "make", target)
    assert status != 0 and "Traceback" not in said
    sentence = f"{checkout.folder} cannot be written, and `make` keeps its work there: copy the"
    assert said.count(sentence) == 1, said
