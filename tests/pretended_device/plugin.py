"""A pytest plugin, ``-p tests.pretended_device.plugin``: nbval's kernels have the pretended device.

A notebook has to print there what is stored.  After its last cell one more test asks whether the
device was used: in each notebook that calls ``start()``, and in each cell that calls ``judge`` or
``control``.
"""

import ast
import os
import tempfile
from pathlib import Path

import nbval.plugin
import pytest

START_UP = Path(__file__).with_name("start_up.py")
#: Notebooks in which nothing runs on the device: two small measurements that stay on the CPU, and
#: models that transformers makes there (``on_the_device`` has them on the device).
ON_THE_CPU = {
    "00-exercises",
    "13-an-audit-of-real-models",
    "13-exercises",
    "13b-what-an-audit-finds",
    "14-the-bias-folded-away",
    "14-exercises",
}


def pytest_configure(config):
    config.device_logs = tempfile.TemporaryDirectory(prefix="device-")
    os.environ["PYTHONSTARTUP"] = str(START_UP)


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
        idle = [place for place, counted in places(cells, counts) if not any(counted)]
        assert idle == ["the notebook"] * (self.path.stem in ON_THE_CPU), (
            f"nothing ran on the device in {idle}; where that is meant, ON_THE_CPU says so"
        )

    def repr_failure(self, excinfo):
        return str(excinfo.value)

    def reportinfo(self):
        return self.path, None, self.name


def places(cells, counts):
    """Where the device has to be used, each with the counts of its cells.

    The cell that calls ``start()`` does not count: there the device is tried out.
    """
    for number, cell in enumerate(cells):
        nodes = [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Call)]
        called = {ast.unparse(node.func) for node in nodes}
        if "start" in called:
            yield "the notebook", counts[number + 1 :]
        if called & {"judge", "control"}:
            yield cell.id, [counts[number]]
