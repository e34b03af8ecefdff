"""A fixture for the tests of the checker, which share the letters in `shared_letters`."""

import pytest
from derivation.proving import proofs


@pytest.fixture
def without_torch(monkeypatch):
    """Skip the runs in torch, so that only the kernel or the notation can refuse a line."""
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
