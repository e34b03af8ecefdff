"""Make this process the imagined processor.

Python runs this file when it starts with this folder on its path: in kernels, in the process from
which they are forked, in the ranks of chapter 16, and in the processes that run tests.
"""

import os

from imagined import OtherProcessor

OtherProcessor(int(os.environ["IMAGINED_PROCESSOR"])).__enter__()
