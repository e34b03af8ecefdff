"""Make this process the imagined processor, if it runs a notebook or is a rank of chapter 14.

IPython runs this before a notebook (PYTHONSTARTUP).  Python runs it at its start where this folder
is on its path: so the ranks get it, which IPython does not start.  Others are left alone.
"""

import os
import sys
from pathlib import Path

if "get_ipython" in globals() or any("context_parallel" in word for word in sys.orig_argv):
    sys.path.append(str(Path(__file__).parents[1]))
    from imagined import OtherProcessor

    sys.path.pop()
    OtherProcessor(int(os.environ["IMAGINED_PROCESSOR"])).__enter__()
