"""In evaluation, `fold(model, fuse=True)` merges a BatchNorm into the map before the norm."""

import copy

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import fold
from redundancy.fold import NotEqual, moving
from shared_models import *

WIDE = 6


def with_statistics(model):
    model = randomised(model)
    for i, module in enumerate(model.modules()):
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.copy_(normal(*module.running_mean.shape, seed=i))
            module.running_var.copy_(normal(*module.running_var.shape, seed=i + 1).exp())
    return model


class Block(nn.Module):
    """A basic ResNet block whose shortcut is a convolution with its own norm."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, WIDE, 3, 2, 1, bias=False), nn.BatchNorm2d(WIDE)
        self.conv2, self.bn2 = nn.Conv2d(WIDE, WIDE, 3, 1, 1, bias=False), nn.BatchNorm2d(WIDE)
        self.shortcut = nn.Sequential(nn.Conv2d(3, WIDE, 1, 2, bias=False), nn.BatchNorm2d(WIDE))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x)).mean((2, 3))


class Turned(nn.Module):
    """A linear map, then a BatchNorm whose channels are features if ``turn``, else tokens."""

    def __init__(self, turn):
        super().__init__()
        self.turn, self.linear, self.norm = turn, nn.Linear(WIDE, WIDE), nn.BatchNorm1d(WIDE)

    def forward(self, x):
        y = self.linear(x)
        return F.relu(self.norm(y.mT if self.turn else y))


class Shared(nn.Module):
    """A convolution, run once per norm if ``twice``; otherwise one run feeds a norm and a tanh."""

    def __init__(self, twice):
        super().__init__()
        self.conv, self.one, self.other = nn.Conv1d(d, k, 1), nn.BatchNorm1d(k), nn.BatchNorm1d(k)
        self.twice = twice

    def forward(self, x):
        y = self.conv(x)
        return F.relu(self.one(y)) + (self.other(self.conv(-x)) if self.twice else y.tanh())


class ClampedNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x).clamp(-50, 50)


IMAGE, SOUND = normal(2, 3, 8, 8), normal(2, d, 7)

#: {title: (model, input, names of the maps into which a norm is merged)}
FUSED = {
    "a basic block": (Block, IMAGE, {"conv1", "conv2", "shortcut.0"}),
    "a linear map": (
        lambda: nn.Sequential(nn.Linear(d, k), nn.BatchNorm1d(k), nn.Tanh()), normal(5, d), {"0"}),
    "features are channels": (lambda: Turned(True), normal(2, WIDE, WIDE), {"linear"}),
    "depthwise": (
        lambda: nn.Sequential(nn.Conv1d(d, d, 3, groups=d, bias=False), nn.BatchNorm1d(d)),
        SOUND, {"0"}),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose1d(d, k, 3), nn.BatchNorm1d(k)), SOUND, {"0"}),
    "no gain": (
        lambda: nn.Sequential(nn.Conv1d(d, k, 3), nn.BatchNorm1d(k, affine=False)), SOUND, {"0"}),
}  # fmt: skip


@pytest.mark.parametrize("what", FUSED)
def test_a_norm_goes_into_the_map_before(what):
    make, x, maps = FUSED[what]
    model = with_statistics(make())
    before = copy.deepcopy(model.state_dict())
    result = fold(model, x, move=(), fuse=True)
    assert {row.text.split()[1].rstrip(",") for row in result.moved} == maps and not result.refused
    assert not any("BatchNorm" in type(m).__name__ for m in result.model.modules())
    other = normal(*x.shape, seed=9)
    assert (result.model(other) - model(other)).abs().max() <= result.bound * model(
        other
    ).abs().max()
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())


def activated():
    return nn.Sequential(nn.Conv1d(d, k, 1), nn.ReLU(), nn.BatchNorm1d(k))


#: {title: (model, input, words in the reason why the norm stays)}
STAYS = {
    "tokens are channels": (lambda: Turned(False), normal(2, WIDE, WIDE), "something else depends"),
    "read by something else": (lambda: Shared(False), SOUND, "something else depends on"),
    "used twice": (lambda: Shared(True), SOUND, "used only once"),
    "something between": (activated, SOUND, "directly before it"),
    "an input before": (
        lambda: nn.Sequential(nn.BatchNorm1d(d), nn.Conv1d(d, k, 1)), SOUND, "directly before it"),
    "a class of its own": (
        lambda: nn.Sequential(nn.Conv1d(d, k, 1), ClampedNorm(k)), SOUND, "class is not PyTorch's"),
    "in groups, transposed": (
        lambda: nn.Sequential(nn.ConvTranspose1d(d, k, 3, groups=2), nn.BatchNorm1d(k)),
        SOUND, "groups"),
}  # fmt: skip


@pytest.mark.parametrize("what", STAYS)
def test_a_norm_that_cannot_be_merged_stays_with_a_reason(what):
    make, x, words = STAYS[what]
    model = with_statistics(make())
    result = fold(model, x, move=(), fuse=True)
    assert not result.moved and words in result.refused[0].text
    assert not changed(model, result.model)


def test_a_norm_in_training_stays():
    model = with_statistics(Block()).train()
    result = fold(model, IMAGE, move=(), fuse=True)
    assert not result.moved and all("from the batch" in row.text for row in result.refused)


def test_a_fault_is_caught_by_the_comparison(monkeypatch):
    monkeypatch.setattr(moving, "changes_nothing", lambda *given: True)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(with_statistics(Shared(False)), SOUND, move=(), fuse=True)


def test_a_bias_made_by_merging_is_folded_and_removed():
    """Merging the norms of two branches leaves two biases, one of which then absorbs the other."""
    result = fold(with_statistics(Block()), IMAGE, fuse=True, remove=True)
    assert sum(row.zeros for row in result.moved) == WIDE
    assert sum(m.bias is None for m in result.model.modules() if isinstance(m, nn.Conv2d)) == 1
