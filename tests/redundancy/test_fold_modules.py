"""On modules that belong to no family, `fold` moves biases and merges BatchNorms into maps."""

import copy

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import fold
from redundancy.fold import CannotFold, NotEqual, moving
from shared_models import *

WIDE = 6
IMAGE, SOUND, ROWS = normal(2, 3, 8, 8), normal(2, d, 7), normal(3, d)
FUSE = {"move": (), "fuse": True}


def random_with_statistics(model):
    """The model with random numbers, also in the running statistics of its BatchNorms."""
    model = randomised(model)
    for i, module in enumerate(model.modules()):
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.copy_(normal(*module.running_mean.shape, seed=i))
            module.running_var.copy_(normal(*module.running_var.shape, seed=i + 1).exp())
    return model


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn, self.out = kind(d, k, batch_first=True), nn.Linear(k, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(d, k), nn.Linear(d, k)

    def forward(self, x):
        return torch.relu(self.one(x) + self.other(x.tanh()))


class ResNetBlock(nn.Module):
    """A basic block of a ResNet, whose shortcut is a convolution with its own norm."""

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


def chain(*layers):
    return lambda: nn.Sequential(*layers)


#: {title: (model, input, options of fold, zeroed numbers, maps into which a norm is merged)}
FOLDED = {
    # b_ih and b_hh are added in all four gates of an LSTM, but in only two of a GRU's three gates
    "LSTM": (lambda: Recurrent(nn.LSTM), normal(2, 5, d), {}, 4 * k, set()),
    "GRU": (lambda: Recurrent(nn.GRU), normal(2, 5, d), {}, 2 * k, set()),
    # a convolution's bias goes into the running mean, which BatchNorm subtracts
    "convolutions": (
        chain(nn.Conv1d(d, 6, 3), nn.BatchNorm1d(6), nn.ReLU(),
              nn.Conv1d(6, k, 1, bias=False), nn.BatchNorm1d(k), nn.ReLU()), SOUND, {}, 6, set()),
    # a GroupNorm with one group for each channel cancels the whole bias before it
    "group norm": (chain(nn.Conv1d(d, k, 1), nn.GroupNorm(k, k), nn.ReLU()), SOUND, {}, k, set()),
    # where the outputs of two maps are added, one bias can go into the other
    "a sum": (Sum, ROWS, {}, k, set()),
    "a block of a ResNet": (ResNetBlock, IMAGE, FUSE, 0, {"conv1", "conv2", "shortcut.0"}),
    # merging the norms of both branches leaves two biases, one of which then absorbs the other
    "the same block, all moves": (
        ResNetBlock, IMAGE, {"fuse": True}, WIDE, {"conv1", "conv2", "shortcut.0"}),
    "a linear map": (chain(nn.Linear(d, k), nn.BatchNorm1d(k), nn.Tanh()), ROWS, FUSE, 0, {"0"}),
    "features are channels": (lambda: Turned(True), normal(2, WIDE, WIDE), FUSE, 0, {"linear"}),
    "depthwise": (
        chain(nn.Conv1d(d, d, 3, groups=d, bias=False), nn.BatchNorm1d(d)), SOUND, FUSE, 0, {"0"}),
    "transposed": (chain(nn.ConvTranspose1d(d, k, 3), nn.BatchNorm1d(k)), SOUND, FUSE, 0, {"0"}),
    "no gain": (
        chain(nn.Conv1d(d, k, 3), nn.BatchNorm1d(k, affine=False)), SOUND, FUSE, 0, {"0"}),
}  # fmt: skip


@pytest.mark.parametrize("what", FOLDED)
def test_a_module_is_folded(what):
    make, x, given, zeros, maps = FOLDED[what]
    model = random_with_statistics(make())
    before = copy.deepcopy(model.state_dict())
    result = fold(model, x, **given, remove=True)
    norms = [row for row in result.moved if row.constant == "norm"]
    assert sum(row.zeros for row in result.moved) == zeros, str(result)
    assert {row.text.split()[1].rstrip(",") for row in norms} == maps and not result.refused
    assert not (maps and any("BatchNorm" in type(m).__name__ for m in result.model.modules()))
    if what == "the same block, all moves":
        convolutions = [result.model.get_submodule(name) for name in maps]
        assert [m.bias is None for m in convolutions].count(True) == 1
    for seed in (8, 9):
        x = normal(*x.shape, seed=seed)
        assert (result.model(x) - model(x)).abs().max() <= result.bound * model(x).abs().max()
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())


#: {title: (model, input, words in the reason why the norm stays)}
STAYS = {
    "tokens are channels": (lambda: Turned(False), normal(2, WIDE, WIDE), "something else depends"),
    "read by something else": (lambda: Shared(False), SOUND, "something else depends on"),
    "used twice": (lambda: Shared(True), SOUND, "used only once"),
    "something between": (
        chain(nn.Conv1d(d, k, 1), nn.ReLU(), nn.BatchNorm1d(k)), SOUND, "directly before it"),
    "an input before": (chain(nn.BatchNorm1d(d), nn.Conv1d(d, k, 1)), SOUND, "directly before it"),
    "a class of its own": (
        chain(nn.Conv1d(d, k, 1), ClampedNorm(k)), SOUND, "class is not PyTorch's"),
    "in groups, transposed": (
        chain(nn.ConvTranspose1d(d, k, 3, groups=2), nn.BatchNorm1d(k)), SOUND, "groups"),
    "in training": (ResNetBlock, IMAGE, "from the batch"),
}  # fmt: skip


@pytest.mark.parametrize("what", STAYS)
def test_a_norm_that_cannot_be_merged_stays_with_a_reason(what):
    make, x, words = STAYS[what]
    model = random_with_statistics(make()).train(what == "in training")
    result = fold(model, x, **FUSE)
    assert not result.moved and words in result.refused[0].text
    assert not changed(model, result.model)


def test_a_merged_norm_that_something_else_reads_is_caught_by_the_comparison(monkeypatch):
    monkeypatch.setattr(moving, "changes_nothing", lambda *given: True)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(random_with_statistics(Shared(False)), SOUND, **FUSE)


class Reticent(Watched):
    """A block whose `state_dict` lacks the attention's tensors and holds a dict as extra state."""

    def state_dict(self, *args, **kwargs):
        return {n: v for n, v in super().state_dict(*args, **kwargs).items() if "attn" not in n}

    def get_extra_state(self):
        return {"version": 1}


def test_fold_moves_parameters_that_state_dict_leaves_out():
    model, x = randomised(Reticent()), {"x": normal(2, 5, d)}
    result = fold(model, x)
    assert not result.model.attn.k_proj.bias.any() and not result.model.attn.v_proj.bias.any()
    assert apart(result.model, model, x) <= result.bound


class Idle(nn.Module):
    """A module with a matrix that is idle unless ``use`` is true."""

    def __init__(self):
        super().__init__()
        self.map, self.idle = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, use: bool = False):
        return self.idle(self.map(x)) if use else self.map(x).softmax(-1)


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_a_scripted_model_is_folded_unless_a_matrix_in_it_is_idle():
    model = torch.jit.script(randomised(nn.Sequential(nn.Linear(d, k), nn.GroupNorm(k, k))))
    assert not fold(model, ROWS).model.state_dict()["0.bias"].any()
    with pytest.raises(CannotFold, match="idle.weight is not used .* fold before scripting"):
        fold(torch.jit.script(randomised(Idle())), ROWS)
