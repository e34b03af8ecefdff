"""On small modules, the rules of the shift calculus agree with the Jacobian and with finite moves."""

from itertools import count

import pytest
import torch
from architectures import ARCHITECTURES
from redundancy.fold.equality import BOUND
from redundancy.measure.nullity import jacobian
from redundancy.measure.precision import (
    double_precision,
    with_every_bias_random,
    with_every_weight_random,
)
from redundancy.shift.following import follow
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

#: How many inputs form a batch; more batches are drawn until the Jacobian's rank no longer grows.
MANY = 4
#: The number of batches from which running statistics are computed.
BATCHES = 8
#: A change in an output counts as seen if it exceeds this share of the output's largest number.
SEEN = 1e-3
#: The first seed for inputs that neither `follow` nor the Jacobian has used.
OTHER = 1000


def generic(case):
    """A module in float64, with random parameters and with running statistics from its inputs."""
    torch.manual_seed(case.seed)
    module = case.build().double()
    with_every_bias_random(with_every_weight_random(module, case.seed), case.seed)
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:  # with random statistics some units would never be on
        norm.momentum = None
    for seed in range(BATCHES) if norms else ():
        with torch.no_grad():
            module.train()(*case.inputs(OTHER + seed))
    return module.train(case.mode == "train")


def run(case, module, seed, values=None):
    """Return the floating-point outputs at a seed's inputs, and restore the module's buffers."""
    kept = [(m, name, b.clone()) for m in module.modules()
            for name, b in m.named_buffers(recurse=False)]  # fmt: skip
    torch.manual_seed(seed)
    inputs = case.inputs(seed)
    with double_precision(), sdpa_kernel(SDPBackend.MATH):
        found = functional_call(module, values, inputs) if values else module(*inputs)
    for owner, name, before in kept:  # not overwritten, as autograd may need the old tensor
        setattr(owner, name, before)
    return [t for t in tree_leaves(found) if t.is_floating_point()]


def predicted(case):
    """Follow shifts through the case's module; return (the `Following`, the module)."""
    module = generic(case)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    with torch.no_grad():
        runs = (lambda seed=seed: run(case, module, seed) for seed in count())
        return follow(runs, case.added(module)), module


def moved(case, mode, module):
    """How much outputs at new inputs change after a move along all directions predicted to be free.

    The change is divided by the output's largest number and by 1 + the length of the move.
    """
    move, parameters = mode.moves.drawn(0), case.added(module)
    before = [t for i in range(2) for t in run(case, module, OTHER + i)]
    for name, t in move.items():
        parameters[name].data += t.view_as(parameters[name])
    after = [t for i in range(2) for t in run(case, module, OTHER + i)]
    apart = [(a - b).abs().max() / b.abs().max() for a, b in zip(after, before, strict=True)]
    return max(apart).item() / (1 + max(t.norm().item() for t in move.values()))


def measured(case):
    """The Jacobian's nullity in all added parameters."""
    module = case.plain(generic(case))

    def outputs(values, batch):
        seeds = range(MANY * batch, MANY * (batch + 1))
        return torch.cat([t.flatten() for seed in seeds for t in run(case, module, seed, values)])

    return jacobian(outputs, lambda batch: (batch,), case.added(module)).nullity().dimension


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Use one thread, which is faster for small matrices."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by PyTorch's compiler
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("title", ARCHITECTURES)
def test_the_calculus_finds_what_the_jacobian_measures(title):
    case = ARCHITECTURES[title]
    mode, module = predicted(case)
    unknown = [event.words for event in mode.labels if event.kind == "unknown"] or mode.unclear
    if case.unknown:  # the calculus must give up, or a move must change outputs
        assert unknown or moved(case, mode, module) > SEEN
    else:
        assert not unknown
        assert len(mode.moves) == (case.redundant if case.finds is None else case.finds)
        assert moved(case, mode, module) < BOUND
    assert measured(case) == (case.redundant if case.counts is None else case.counts)
