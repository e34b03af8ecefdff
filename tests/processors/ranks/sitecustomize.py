"""Run by Python at its start, where this folder is on its path: the ranks of chapter 14.

They are processes of their own, which IPython does not start.  Any other process is left alone.
"""

import os
import sys

if "IMAGINED_PROCESSOR" in os.environ and any("context_parallel" in arg for arg in sys.orig_argv):
    import runpy
    from pathlib import Path

    runpy.run_path(str(Path(__file__).parents[1] / "start_up.py"))
