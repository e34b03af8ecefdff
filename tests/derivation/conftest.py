"""A fixture for tests of the checker; the letters that they share are in `shared_letters`."""

import pytest
from derivation import proofs


@pytest.fixture
def without_torch(monkeypatch):
    """Skip the runs in torch, so that only the kernel or the notation can refuse a line."""
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
