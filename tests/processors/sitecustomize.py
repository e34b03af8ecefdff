"""Make this process the imagined processor.

Python runs this at its start where this folder is on its path: so a kernel gets it, or the process
that kernels are forked from, the ranks of chapter 16, and whoever runs tests.
"""

import os

from imagined import OtherProcessor

OtherProcessor(int(os.environ["IMAGINED_PROCESSOR"])).__enter__()
