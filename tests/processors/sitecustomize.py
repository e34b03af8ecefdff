"""Make this process the imagined processor.

Python runs this file at its start if this folder is on its path.  That applies to kernels, to the
process that kernels are forked from, to the ranks of chapter 16, and to processes that run tests.
"""

import os

from imagined import OtherProcessor

OtherProcessor(int(os.environ["IMAGINED_PROCESSOR"])).__enter__()
