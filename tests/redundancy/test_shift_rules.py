"""On published modules, the rules of the shift calculus agree with the Jacobian and with finite moves."""

import copy
from itertools import count, islice

import pytest
import torch
from architectures import ARCHITECTURES
from architectures.cases import GAINS, drawn
from redundancy.fold.equality import BOUND
from redundancy.measure.nullity import Jacobian, gradients
from redundancy.measure.precision import double_precision
from redundancy.shift.following import follow
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

#: A rank is computed from LEAST inputs, then from twice as many, and so on, at most DOUBLINGS
#: times in all.  With fewer than LEAST inputs, some units would never turn on.
LEAST, DOUBLINGS = 16, 5
#: The number of batches from which running statistics are computed.
BATCHES = 8
#: A change in an output counts as seen if it exceeds this share of the output's largest number.
SEEN = 1e-3
#: The first seed for inputs that neither `follow` nor the Jacobian has used.
OTHER = 1000


def generic(case):
    """A module in float64, with random parameters and with running statistics from its inputs."""
    module = case.build().double()
    for seed, (name, tensor) in enumerate(module.named_parameters()):
        values = drawn(1000 * case.seed + seed, *tensor.shape)
        if tensor.dim() == 1 and GAINS.search(name):
            values = 0.5 + values.abs()
        else:  # scaled so that every unit is on for some inputs and off for others
            values /= tensor[0].numel() ** 0.5 if tensor.dim() > 1 else 2
        tensor.data.copy_(values)
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:  # with random statistics some units would never be on
        norm.momentum = None
    for seed in range(BATCHES) if norms else ():
        with torch.no_grad():
            module.train()(*case.inputs(OTHER + seed))
    return module.train(case.mode == "train")


def run(case, module, seed):
    """Return the floating-point outputs at a seed's inputs, and restore the module's buffers."""
    kept = [(m, name, b.clone()) for m in module.modules()
            for name, b in m.named_buffers(recurse=False)]  # fmt: skip
    torch.manual_seed(seed)
    inputs = case.inputs(seed)
    with double_precision(), sdpa_kernel(SDPBackend.MATH):
        found = module(*copy.deepcopy(inputs))
    for owner, name, before in kept:  # not overwritten, as autograd may need the old tensor
        setattr(owner, name, before)
    return [t for t in tree_leaves(found) if isinstance(t, torch.Tensor) and t.is_floating_point()]


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
    before = [run(case, module, OTHER + i) for i in range(2)]
    for name, t in move.items():
        parameters[name].data += t.view_as(parameters[name])
    after = [run(case, module, OTHER + i) for i in range(2)]
    apart = [(a - b).abs().max() / b.abs().max()
             for a, b in zip(tree_leaves(after), tree_leaves(before), strict=True)]  # fmt: skip
    return max(apart).item() / (1 + max(t.norm().item() for t in move.values()))


def measured(case):
    """The Jacobian's nullity in all added parameters; twice as many inputs must not change it."""
    module = case.plain(generic(case))
    shapes = {name: p.shape for name, p in case.added(module).items()}
    size, seeds, last = sum(s.numel() for s in shapes.values()), count(), None
    rows = torch.zeros(0, size, dtype=torch.float64)
    for inputs in (LEAST * 2**doubling for doubling in range(DOUBLINGS)):
        for seed in islice(seeds, max(LEAST, inputs // 2)):
            outputs = torch.cat([o.flatten() for o in run(case, module, seed)])
            more = gradients(outputs, case.added(module).values(), torch.eye(len(outputs)).double())
            rows = torch.cat([rows, more])
        found = Jacobian(torch.linalg.qr(rows, mode="r").R, shapes).nullity().dimension
        if found == last and len(rows) > 1.25 * size:
            return found
        last = found
    raise AssertionError(f"the nullity is not settled after {inputs} inputs: {last}")


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
