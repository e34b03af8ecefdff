"""A pytest plugin, ``-p tests.processors.in_tests``: tests, too, run on the imagined processor.

It is the one whose seed stands in the environment; without a seed there is none.
"""

import os

import pytest

from .other_processor import OtherProcessor


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if "IMAGINED_PROCESSOR" not in os.environ or not isinstance(item, pytest.Function):
        return (yield)  # a cell: its kernel is perturbed, not this process
    with OtherProcessor(int(os.environ["IMAGINED_PROCESSOR"])):
        return (yield)
