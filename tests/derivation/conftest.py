"""What the tests of the checker share; their letters are in `shared_letters`."""

import pytest
from derivation import proofs


@pytest.fixture
def without_torch(monkeypatch):
    """What refuses is the kernel, or the notation in front of it, and not a run in torch."""
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
