"""A pytest plugin, ``-p tests.pretended_device.plugin``: nbval's kernels have the pretended device.

A notebook has to print there what is stored.  After its last cell one more test asks whether the
device was used: in each notebook that calls ``start()``, and in each cell that calls ``judge`` or
``control``.  Where it was not, ``unused.yml`` says why; a reason that is not needed fails as well.
"""

import ast
import os
import tempfile
from pathlib import Path

import nbval.plugin
import pytest
import yaml

HERE = Path(__file__).parent
REASONS = yaml.safe_load((HERE / "unused.yml").read_text(encoding="utf-8"))
MEASURE = {"judge", "control"}


def pytest_configure(config):
    config.device_logs = tempfile.TemporaryDirectory(prefix="device-")
    os.environ["PYTHONSTARTUP"] = str(HERE / "start_up.py")


def pytest_unconfigure(config):
    config.device_logs.cleanup()


def pytest_collection_modifyitems(items):
    """One test more for each notebook, after the last of its cells."""
    cells = nbval.plugin.IPyNbCell
    last = {item.parent: place for place, item in enumerate(items) if isinstance(item, cells)}
    for notebook, place in sorted(last.items(), key=lambda entry: -entry[1]):
        items.insert(place + 1, DeviceWasUsed.from_parent(notebook, name="the device was used"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A kernel starts before the first cell of its notebook, and is told where to count."""
    os.environ["DEVICE_LOG"] = str(log_of(item))


def log_of(item):
    return Path(item.config.device_logs.name, f"{item.path.stem}.txt")


class DeviceWasUsed(pytest.Item):
    """The last test of a notebook."""

    def runtest(self):
        counts = [int(line) for line in log_of(self).read_text().split()]
        cells = [cell for cell in self.parent.nb.cells if cell.cell_type == "code"]
        assert len(counts) == len(cells), f"{len(counts)} of {len(cells)} cells were counted"
        wrong = complaints(cells, counts, REASONS.get(self.path.stem, {}))
        assert not wrong, "\n".join(wrong)

    def repr_failure(self, excinfo):
        return str(excinfo.value)

    def reportinfo(self):
        return self.path, None, self.name


def complaints(cells, counts, reasons):
    """What is wrong with these counts of operations, one for each cell, given these reasons."""
    idle = {place for place, counted in places(cells, counts) if not any(counted)}
    unexplained, unneeded = sorted(idle - reasons.keys()), sorted(reasons.keys() - idle)
    found = [
        f"{at}: nothing ran on the device, and unused.yml says no reason" for at in unexplained
    ]
    return found + [f"{at}: unused.yml gives a reason that is not needed" for at in unneeded]


def places(cells, counts):
    """Where the device has to be used, each with the counts of its cells.

    The cell that calls ``start()`` does not count: there the device is tried out.
    """
    for number, cell in enumerate(cells):
        if "start" in calls(cell):
            yield "notebook", counts[number + 1 :]
        if MEASURE & calls(cell):
            yield cell.id, [counts[number]]


def calls(cell):
    """The names of the functions that a cell calls."""
    nodes = ast.walk(ast.parse(cell.source))
    return {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
