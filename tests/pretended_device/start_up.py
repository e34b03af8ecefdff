"""IPython runs this file before a notebook (PYTHONSTARTUP), to give its kernel the device."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from device import install_in  # noqa: E402

sys.path.pop()
install_in(get_ipython())  # noqa: F821
del install_in, sys, Path
