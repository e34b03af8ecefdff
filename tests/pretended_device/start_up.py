"""Run by IPython before the first cell (PYTHONSTARTUP): the kernel's machine has the device."""


def _start_up():
    import os
    import sys
    from pathlib import Path

    root = str(Path(__file__).resolve().parents[2])
    sys.path.append(root)
    from tests.pretended_device.device import install
    from tests.pretended_device.kernels import Operations

    sys.path.remove(root)
    install()

    def note(result):
        with open(os.environ["DEVICE_LOG"], "a") as log:
            log.write(f"{Operations.count}\n")
        Operations.count = 0

    get_ipython().events.register("post_run_cell", note)  # noqa: F821


_start_up()
del _start_up
