"""Read and write the project's files: errors become sentences, and no file is half-written."""

import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"


class Fault(Exception):
    """An error whose message is a sentence for the user: what is wrong, and what to do."""


def demand(held: object, complaint: str) -> None:
    """Raise a Fault with this complaint unless the condition holds."""
    if not held:
        raise Fault(f"{complaint}.")


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Put ``place`` before the message of a Fault, as in `03-a-claim.ipynb: …`."""
    try:
        yield
    except Fault as fault:
        raise Fault(f"{place}: {fault}") from None


def in_a_sentence(main: Callable[..., int]) -> Callable[..., int]:
    """Make a tool's main print a Fault or OSError as a sentence and return exit status 1."""

    @wraps(main)
    def said_plainly(*arguments):
        try:
            return main(*arguments)
        except KeyboardInterrupt:
            print("Stopped; nothing is half-written.", file=sys.stderr)
            return 130
        except (Fault, OSError) as wrong:
            print(wrong, file=sys.stderr)
            return 1

    return said_plainly


def write(path: Path, text: str | bytes) -> None:
    """Write text or bytes completely or not at all."""
    with whole(path) as draft:
        draft.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces ``path`` unless an error occurs."""
    draft = Path(path).with_name(f".{Path(path).name}.{os.getpid()}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def as_text(notebook: nbformat.NotebookNode) -> str:
    """A notebook as the text of its file."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def write_zip(path: Path, root: str, files: dict[str, bytes]) -> None:
    """Write {name: bytes} as an archive, in the folder ``root``; equal files give equal bytes."""
    with whole(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{root}/{name}".lstrip("/"))  # without the current date
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a notebook; raises Fault with the line at which the file stops being JSON."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        json.loads(text)
    except ValueError as error:
        line = error.lineno
        raise Fault(
            f"{path} is no notebook: no JSON from line {line} on; is it a git conflict?"
        ) from None
    return nbformat.reads(text, as_version=4)
