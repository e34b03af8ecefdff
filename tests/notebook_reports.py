"""A pytest plugin, ``-p tests.notebook_reports``: two faults of a notebook get a sentence.

nbval waits the whole cell timeout for a kernel that has died, and shows its own stack where a
file is no notebook.  Here the death is noticed within a second, and the sentence names the
notebook and the cell.  It makes no difference how the kernels are started.
"""

import time
from queue import Empty

import nbval.plugin
import pytest

SECONDS_BETWEEN_LOOKS = 0.5
#: The notebooks that take longest begin, or one worker would be left with them at the end.
LONGEST = ("12-an-audit", "14-", "11g", "11b", "01b", "11e")


class KernelDied(Exception):
    """The process that runs the cells is gone."""


class WatchedKernel(nbval.plugin.RunningKernel):
    """nbval's kernel, which is looked at while a message is awaited."""

    def get_message(self, stream, timeout=None):
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        dead = False
        while True:
            left = end - time.monotonic()
            try:
                return super().get_message(stream, max(0, min(left, SECONDS_BETWEEN_LOOKS)))
            except Empty:
                if dead:
                    raise KernelDied from None
                if left <= SECONDS_BETWEEN_LOOKS:
                    raise
                dead = not self.is_alive()  # what it said before it died is read all the same


def pytest_configure():
    nbval.plugin.RunningKernel = WatchedKernel


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.path.name.startswith(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except KernelDied:
        item.parent.timed_out = True  # by which nbval expects the cells after it to fail
        first = next(iter(item.cell.source.splitlines()), "")
        item.raise_cell_error(f"the kernel died in {item.parent.path.name}, in “{first}”")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.failed and isinstance(collector, nbval.plugin.IPyNbFile):
        from files import Fault, notebook_text  # of tools/, which pytest.ini adds to the path

        try:
            notebook_text(collector.path)
        except Fault as fault:
            report.longrepr = str(fault)
    return report
