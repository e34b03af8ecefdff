"""Every test draws the same random numbers, alone or after others, in whatever order."""

import random
import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    random.seed(0)
    if torch := sys.modules.get("torch"):  # most tests do without it
        torch.manual_seed(0)
