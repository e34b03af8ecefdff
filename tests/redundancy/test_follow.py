"""The calculus of shifts against the Jacobian and a finite move, on modules as projects write them."""

import copy
from itertools import count, islice

import pytest
import torch
from architectures import ARCHITECTURES
from architectures.cases import GAINS, drawn
from redundancy.fold.equality import BOUND
from redundancy.nullity import Jacobian
from redundancy.precision import double_precision
from redundancy.shift.following import follow
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

#: The least number of inputs for a rank, and how often it may be doubled; fewer leave units dead.
LEAST, DOUBLINGS = 16, 5
#: Running statistics are those of so many inputs.
BATCHES = 8
#: What changes the outputs by more than this share of the largest number is seen.
SEEN = 1e-3
#: Seeds of inputs that are drawn for nothing else.
OTHER = 1000


def generic(case):
    """The module in float64, every parameter drawn at random, and running statistics of inputs."""
    module = case.build().double()
    for seed, (name, tensor) in enumerate(module.named_parameters()):
        values = drawn(1000 * case.seed + seed, *tensor.shape)
        if tensor.dim() == 1 and GAINS.search(name):
            values = 0.5 + values.abs()
        else:  # biases so small that every unit is on for some inputs and off for others
            values /= tensor[0].numel() ** 0.5 if tensor.dim() > 1 else 2
        tensor.data.copy_(values)
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:  # random statistics would leave units dead
        norm.momentum = None
    for seed in range(BATCHES) if norms else ():
        with torch.no_grad():
            module.train()(*case.inputs(OTHER + seed))
    return module.train(case.mode == "train")


def run(case, module, seed):
    """The tensors that the module returns; it leaves the buffers of the module as they are."""
    kept = [(m, name, b.clone()) for m in module.modules()
            for name, b in m.named_buffers(recurse=False)]  # fmt: skip
    torch.manual_seed(seed)
    inputs = case.inputs(seed)
    with double_precision(), sdpa_kernel(SDPBackend.MATH):
        found = module(*copy.deepcopy(inputs))
    for owner, name, before in kept:  # not written into: autograd may need what is there
        setattr(owner, name, before)
    return [t for t in tree_leaves(found) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def predicted(case):
    """(the `Following` of a module, the module)."""
    module = generic(case)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    with torch.no_grad():
        runs = (lambda seed=seed: run(case, module, seed) for seed in count())
        return follow(runs, case.added(module)), module


def moved(case, mode, module):
    """How far a finite move of what is predicted to be free changes the outputs, by other inputs.

    Relative to the largest number of each output, and to a unit of the move.
    """
    basis, parameters = mode.moves.basis(), case.added(module)
    groups = dict.fromkeys(group for parts in basis.values() for group in parts)
    t = {group: drawn(i, group.size) for i, group in enumerate(groups)}
    before = [run(case, module, OTHER + i) for i in range(2)]
    for name, parts in basis.items():
        for group, matrix in parts.items():
            parameters[name].data += (matrix @ t[group]).view_as(parameters[name])
    after = [run(case, module, OTHER + i) for i in range(2)]
    apart = [(a - b).abs().max() / b.abs().max()
             for a, b in zip(tree_leaves(after), tree_leaves(before), strict=True)]  # fmt: skip
    return max(apart).item() / (1 + max([0.0, *(v.norm().item() for v in t.values())]))


def measured(case):
    """The nullity of the Jacobian by all added parameters, once twice as many inputs confirm it."""
    module = case.plain(generic(case))
    shapes = {name: p.shape for name, p in case.added(module).items()}
    size, seeds, last = sum(s.numel() for s in shapes.values()), count(), None
    rows = torch.zeros(0, size, dtype=torch.float64)
    for inputs in (LEAST * 2**doubling for doubling in range(DOUBLINGS)):
        for seed in islice(seeds, max(LEAST, inputs // 2)):
            more = derivatives(run(case, module, seed), list(case.added(module).values()))
            rows = torch.cat([rows, more])
        found = Jacobian(torch.linalg.qr(rows, mode="r").R, shapes).nullity().dimension
        if found == last and len(rows) > 1.25 * size:
            return found
        last = found
    raise AssertionError(f"the nullity is not settled after {inputs} inputs: {last}")


def derivatives(outputs, parameters):
    """The rows of the Jacobian: (numbers of the outputs x numbers of the parameters)."""
    flat = torch.cat([o.flatten() for o in outputs])
    options, rows = {"allow_unused": True, "retain_graph": True}, torch.eye(len(flat)).double()
    try:
        found = torch.autograd.grad(flat, parameters, rows, is_grads_batched=True, **options)
    except RuntimeError:  # without a batched derivative, compute it row by row
        each = [torch.autograd.grad(flat, parameters, row, **options) for row in rows]
        found = [
            None if parts[0] is None else torch.stack(parts) for parts in zip(*each, strict=True)
        ]
    return torch.cat([p.new_zeros(len(flat), p.numel()) if f is None else f.flatten(1)
                      for f, p in zip(found, parameters, strict=True)], 1)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Matrices as small as these are faster without a second one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own compiler and scripts
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("title", ARCHITECTURES)
def test_what_is_followed_is_what_is_measured(title):
    case = ARCHITECTURES[title]
    mode, module = predicted(case)
    unknown = [event.words for event in mode.labels if event.kind == "unknown"] or mode.unclear
    if case.unknown:  # it says so, or leaves PyTorch and a finite move contradicts it
        assert unknown or moved(case, mode, module) > SEEN
    else:
        assert not unknown
        assert len(mode.moves) == (case.redundant if case.finds is None else case.finds)
        assert moved(case, mode, module) < BOUND
    assert measured(case) == (case.redundant if case.counts is None else case.counts)
