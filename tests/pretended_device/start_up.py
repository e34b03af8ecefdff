"""Run by IPython before the first cell (PYTHONSTARTUP): the kernel's machine has the device."""


def _start_up():
    import os
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).parent))
    from device import Operations, install

    sys.path.pop()
    install()

    def note(result):
        with open(os.environ["DEVICE_LOG"], "a") as log:
            log.write(f"{Operations.count}\n")
        Operations.count = 0

    get_ipython().events.register("post_run_cell", note)  # noqa: F821


_start_up()
del _start_up
