"""Build the book with jupyter-book, strictly: one build at a time, whole or not at all.

    python tools/build_book.py                # the site, into _build/html
    python tools/build_book.py singlehtml     # one page, from which the PDF is printed

Sphinx reads again what has changed, and nothing else: the warnings of what it has read are
forgotten with the build that gave them.  So a build that does not come to its end takes away what
was read, and its pages; and where it was killed before it could, the next one does.
"""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import live_assets
from alone import BUILD, alone
from files import in_a_sentence

ROOT = Path(__file__).resolve().parent.parent
JUPYTER_BOOK = Path(sys.executable).with_name("jupyter-book")
#: There from the beginning of a build to its good end.
UNFINISHED = BUILD / ".unfinished"
ROOM = 100e6  # bytes that the pages and what Sphinx remembers of them may take


@in_a_sentence
def main(builder="html"):
    BUILD.mkdir(exist_ok=True)
    with alone("build of the book") as held:
        if UNFINISHED.exists():
            forget()
        # Sphinx never overwrites a style sheet that it has copied, and leaves old pages behind.
        remove(BUILD / builder)
        UNFINISHED.touch()
        try:
            return build(builder, held)
        finally:
            if UNFINISHED.exists():
                forget()


def build(builder, held):
    if builder == "html":
        live_assets.main()
    custom = [] if builder == "html" else ["--builder", "custom", "--custom-builder", builder]
    command = [JUPYTER_BOOK, "build", ROOT, *custom, "-W", "-n", "--keep-going"]
    code = subprocess.run(command, check=False, pass_fds=held).returncode
    if code == 0:
        UNFINISHED.unlink()
        return 0
    free = shutil.disk_usage(BUILD).free
    if free < ROOM:
        print(f"Only {free / 1e6:.1f} MB are left on the disk of {BUILD}: the book needs more.")
    return code


def forget():
    """Take away the pages and all that Sphinx remembers; what else was built stays."""
    for name in ("html", "singlehtml", "jupyter_execute", ".doctrees"):
        remove(BUILD / name)
    UNFINISHED.unlink(missing_ok=True)


def remove(folder):
    if folder.exists():
        shutil.rmtree(folder)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    sys.exit(main(*sys.argv[1:]))
