"""IPython runs this file before a notebook (PYTHONSTARTUP), to give its kernel the device.

If a cell still measures on the CPU, an additional line is printed, so that its output differs.
"""


def _start_up():
    import re
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).parent))
    from device import Operations, install

    sys.path.pop()
    install()

    def complain(result):
        measures = re.search(r"\b(judge|control)\(", result.info.raw_cell)
        if measures and not Operations.count:
            print("Nothing ran on the device.")
        Operations.count = 0

    get_ipython().events.register("post_run_cell", complain)  # noqa: F821


_start_up()
del _start_up
