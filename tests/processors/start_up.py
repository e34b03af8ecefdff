"""Run by IPython before a notebook (PYTHONSTARTUP): the kernel becomes the imagined processor."""


def _install():
    import os
    import sys
    from pathlib import Path

    root = str(Path(__file__).resolve().parents[2])
    sys.path.append(root)
    from tests.processors.other_processor import install

    sys.path.remove(root)
    install(int(os.environ["IMAGINED_PROCESSOR"]))


_install()
del _install
