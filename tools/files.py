"""Files of this project: read with a sentence where they are broken, written whole or not at all.

Every tool that writes goes through ``write`` or ``whole``: the text is put beside its place, and
takes it only when all of it is there.  A full disk or Ctrl-C leaves what was there before.
"""

import errno
import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path

#: A system that will not take a file: full, read-only, or not ours.  Anything else is a mistake
#: of the program, and keeps its traceback.
REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)( |$)", re.M)


class Fault(Exception):
    """What is wrong and what to do, in a sentence for the one who called."""


def in_a_sentence(main):
    """A tool's main: a Fault, or a file that cannot be written, becomes a sentence and status 1."""

    @wraps(main)
    def said_plainly(*arguments):
        try:
            return main(*arguments)
        except KeyboardInterrupt:
            print("Stopped; nothing is half-written.", file=sys.stderr)
            return 130
        except Fault as fault:
            said = str(fault)
        except OSError as error:
            said = cannot_write(error.filename or "A file", error)
        print(said, file=sys.stderr)
        return 1

    return said_plainly


def cannot_write(path, error):
    """What a user is told; a mistake of the program is raised again."""
    if error.errno not in REFUSALS:
        raise error
    return f"{shown(path)} cannot be written: {error.strerror.lower()}."


def shown(path):
    """A path as someone in this folder would type it."""
    path = Path(path)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


# ---- writing ------------------------------------------------------------------------


def write(path, text):
    """Write a text, or bytes, whole or not at all; Fault says why not."""
    with whole(path) as draft:
        if isinstance(text, bytes):
            draft.write_bytes(text)
        else:
            draft.write_text(text, encoding="utf-8")


@contextmanager
def whole(path):
    """A place to write what takes the path's place afterwards; Fault where there is no room."""
    path = Path(os.path.realpath(path))  # of a link, the file it leads to
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise Fault(f"{cannot_write(path, error)[:-1]}; what was there is unchanged.") from None
    finally:
        with suppress(OSError):
            draft.unlink()


# ---- reading ------------------------------------------------------------------------


def read_notebook(path):
    """The notebook in a file; Fault names the file where there is none."""
    import nbformat  # here: `make` asks for the text alone before each of its targets

    return nbformat.reads(notebook_text(path), as_version=4)


def notebook_text(path):
    """The text of a notebook; Fault says what the file holds instead."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        notebook = json.loads(text)
    except UnicodeDecodeError:
        raise Fault(f"{shown(path)} is no notebook: it is not text in UTF-8.") from None
    except ValueError as error:
        raise Fault(f"{shown(path)} is no notebook: {instead_of_json(text, error)}.") from None
    if not isinstance(notebook, dict) or not {"cells", "metadata", "nbformat"} <= set(notebook):
        raise Fault(f"{shown(path)} is no notebook: it is JSON without cells.")
    return text


def instead_of_json(text, error):
    conflict = CONFLICT.search(text)
    if not text.strip():
        return "it is empty"
    if conflict:
        line = text.count("\n", 0, conflict.start()) + 1
        return f"line {line} is the mark of a git conflict, to be settled first"
    return f"it is not JSON from line {error.lineno} on ({error.msg.lower()})"
