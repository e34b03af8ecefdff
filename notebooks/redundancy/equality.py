"""Whether two models are equal: their outputs compared in float64, and in their own dtype.

What a comparison in float64 may find is bounded by

    relative error <= 1e-12 (1 + |t|),    t the longest move that was made,

because what is added in one place is taken away in another: the numbers between are longer by |t|,
and their last digits are lost.  Inputs can only show the way through the code that they take;
`other_ways` therefore adds some: longer ones, padding, the states of an encoder, and each
argument left out that can be.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import random
import tempfile

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from .inputs import as_call, first_line, in_float64, tensors
from .steps import chance_is_fair, idle_matrices_see, runs
from .subject import Subject, exactly, unwrapped
from .zoo import quiet

#: Bound on the relative error in float64, for each unit of (1 + |t|).
BOUND = 1e-12
#: By what factor rounding in a model's own dtype may grow, and what is harmless anyway.
LOSS, HARMLESS = 10, 1e-4
#: How many runs are compared where a model draws random numbers: in training mode.
DRAWS = 8


class CannotFold(ValueError):
    """The model, or what was asked of it, is nothing that can be worked on; says why."""


class NotEqual(ArithmeticError):
    """The outputs changed, so no model is returned; says by how much."""


class Bench:
    """A model, a copy of it in float64 (``before``), and another (``after``) that is changed.

    ``calls`` are the inputs at which the two are compared: the ones ``given``, and others.
    ``rows`` is the account, ``longest`` the length of the longest move that was made.
    """

    def __init__(self, model, inputs, inject=False):
        try:
            self.model = unwrapped(model)
            if not any(True for _ in self.model.parameters()):
                raise ValueError(f"{type(self.model).__name__} has no parameters")
            self.given = [in_float64(as_call(self.model, inputs))]
            self.given = tree_map(
                lambda t: t.cpu() if isinstance(t, torch.Tensor) else t, self.given
            )
            self.before = Subject(self.model, self.model.training, inject=inject, own=True)
            self.before.model.cpu()
            self.before.renew()
        except (ValueError, TypeError) as reason:  # quantised, on the meta device, no inputs
            raise CannotFold(str(reason)) from None
        self.rows, self.longest = [], 0.0
        with exactly(), torch.no_grad():
            self._demand_runs()
            self.calls = [*self.given, *other_ways(self.before, self.given[0])]
        self.after = self.before.twin()

    def _demand_runs(self):
        """Raises CannotFold where the model does not run on its inputs, or is another one after."""
        modules = dict(self.before.model.named_modules())
        try:
            self.before.run(self.given[0])
        except Exception as problem:
            reason = f"the model does not run on these inputs: {first_line(problem)}"
            raise CannotFold(reason) from problem
        for name, module in self.before.model.named_modules():
            if modules.get(name) is not module:
                raise CannotFold(
                    f"{name} is another module after a run: the model changes itself to suit its "
                    "inputs. Set it to what it shall be, then fold"
                )

    @contextlib.contextmanager
    def open(self):
        """Work on ``after`` is done while this lasts."""
        fair = chance_is_fair(self.after.model)
        with exactly(), torch.no_grad(), fair, idle_matrices_see(self.after, self.calls):
            yield

    def error(self):
        """(error, bound) of the two models in float64; raises NotEqual beyond the bound."""
        bound, worst = BOUND * (1 + self.longest), torch.zeros(())
        seeds = range(DRAWS if self.before.training else 1)
        with exactly(), torch.no_grad():
            for call, seed in itertools.product(self.calls, seeds):
                found, expected = (_drawn(s, call, seed) for s in (self.after, self.before))
                worst = torch.maximum(worst, apart(found, expected))
        if not worst <= bound:
            raise NotEqual(
                f"the outputs of {type(self.model).__name__} changed: relative error {worst:.1e} "
                f"in float64, where rounding explains {bound:.1e}. No model is returned"
            )
        return worst.item(), bound

    def made(self):
        """A copy of the model given, with the modules and numbers of ``after``, in its own dtypes.

        The copy has never run, so that it carries no state of the runs of the others.
        """
        made, beside = copy.deepcopy(self.model), next(self.model.parameters())
        modules = dict(self.before.model.named_modules())
        for path, module in self.after.model.named_modules():
            if type(module) is not type(modules[path]):
                like = next(made.get_submodule(path).parameters(), beside)
                made.set_submodule(path, copy.deepcopy(module).to(like))
        before, there = state_of(self.before.model), state_of(made)
        for name, value in state_of(self.after.model).items():
            if name in before and torch.equal(value, before[name]):
                continue
            if name in there:
                there[name].data.copy_(value)
            else:
                path, _, attribute = name.rpartition(".")
                like = there.get(name.removesuffix("bias") + "weight", beside)
                new = nn.Parameter(value.to(like), requires_grad=like.requires_grad)
                setattr(made.get_submodule(path), attribute, new)
        return made

    def rounding(self, made):
        """The errors (of the model given, of the one made) in their own dtype, against float64.

        Raises NotEqual where rounding costs too much.
        """
        with exactly(), torch.no_grad():
            expected = self.before.run(self.given[0])
        dtype = next(self.model.parameters()).dtype
        if dtype == torch.float64:
            return 0.0, 0.0
        before, after = (
            apart(_outputs_of_copy(one, self.given[0], dtype), expected).item()
            for one in (self.model, made)
        )
        if not after <= max(LOSS * before, HARMLESS):
            raise NotEqual(
                f"equal in float64, but in {str(dtype).removeprefix('torch.')} the new model has "
                f"an error of {after:.1e} and the one given {before:.1e}: do this in float32 or "
                "float64, or move fewer biases; a query bias and one put into a weight cost most"
            )
        return before, after


def state_of(model):
    """{name: numbers} of all parameters and buffers, tied ones under each name."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return parameters | dict(model.named_buffers(remove_duplicate=False))


def demand_loads_again(model):
    """Raises CannotFold unless a checkpoint of the model is loaded as the same model."""
    kind = type(model).__name__
    if not hasattr(model, "save_pretrained"):
        raise CannotFold(f"{kind} is no model of transformers: save its state_dict instead")
    with tempfile.TemporaryDirectory() as folder, quiet():
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder)
    for one, other in ((model, again), (again, model)):
        there = _parts(other)
        for name, part in _parts(one).items():
            if name not in there and _is_zero_bias(name, part):
                continue  # a bias that was taken out comes back as zero
            if name not in there or not _same(part, there[name]):
                raise CannotFold(
                    f"{name} would not come back: from_pretrained makes what the configuration "
                    f"of {kind} says, which has no word for it. Save the state_dict, or fold "
                    "without it"
                )


def _parts(model):
    """The classes of a model's modules, and its tensors, by name."""
    return {f"the class of {n}": type(m) for n, m in model.named_modules()} | model.state_dict()


def _is_zero_bias(name, part):
    return name.endswith("bias") and isinstance(part, torch.Tensor) and not part.any()


def _same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one.cpu(), other.to(one.dtype).cpu())
    return one is other


def _drawn(subject, call, seed):
    """What a subject returns for a seed of all that draws random numbers, Python as well."""
    state = random.getstate()
    random.seed(seed)
    try:
        return subject.run(call, seed=seed)
    finally:
        random.setstate(state)


@torch.no_grad()
def _outputs_of_copy(model, call, dtype):
    """What a model returns; in training, a copy of it: a run changes what a BatchNorm tracks."""
    model = copy.deepcopy(model) if model.training else model
    like = next(model.parameters())
    move = lambda t: t.to(like.device, dtype if t.is_floating_point() else None)
    args, kwargs = tree_map(lambda t: move(t) if isinstance(t, torch.Tensor) else t, call)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        random.seed(0)
        return tensors(model(*args, **kwargs))


def apart(found, expected):
    """The largest relative difference of two models' outputs: max |a - b| / max |b|, per tensor."""
    if len(found) != len(expected) or not expected:
        raise CannotFold(f"there are no outputs to compare: {len(found)} and {len(expected)}")
    pairs = zip(found, expected, strict=True)
    shares = [(a.cpu() - b).abs().max() / (b.abs().max() or 1) for a, b in pairs if b.numel()]
    return torch.stack(shares).max()  # hands a NaN on, unlike Python's max


def difference(model, other, inputs):
    """The largest relative difference of what two models return, both in float64."""
    call = in_float64(as_call(model, inputs))
    with exactly(), torch.no_grad():
        return apart(*(Subject(m, own=True).run(call) for m in (model, other))).item()


def other_ways(subject, call):
    """More inputs, made from those given, that may take another way; only those that run."""
    found = [
        ((), named) for named in _other_arguments(subject.model, _by_name(subject.model, call))
    ]
    for first in [t for t in tree_leaves(call) if isinstance(t, torch.Tensor) and t.dim()][:1]:
        axes = range(0 if first.is_floating_point() else 1, first.dim())
        found += [_longer(call, axis, first.shape[axis]) for axis in axes]
    return [one for one in found if runs(subject, one)]


def _longer(call, axis, size):
    """Inputs of which all that has this size along an axis is there twice."""
    twice = lambda t: isinstance(t, torch.Tensor) and t.dim() > axis and t.shape[axis] == size
    return tree_map(lambda t: torch.cat([t, t], axis) if twice(t) else t, call)


def _by_name(model, call):
    """{argument: value}; empty where the signature does not say."""
    try:
        signature = inspect.signature(model.forward)
        bound = signature.bind(*call[0], **call[1]).arguments
    except (TypeError, ValueError):
        return {}
    kinds = {name: signature.parameters[name].kind for name in bound}
    rest = next((n for n, kind in kinds.items() if kind == inspect.Parameter.VAR_KEYWORD), None)
    named = bound.pop(rest, {}) | bound
    return named if all(k is not inspect.Parameter.VAR_POSITIONAL for k in kinds.values()) else {}


def _other_arguments(model, batch):
    """The inputs with padding, with the states of an encoder, and each without one argument."""
    accepted = inspect.signature(model.forward).parameters if batch else ()
    ids, config = batch.get("input_ids"), getattr(model, "config", None)
    width = getattr(config, "hidden_size", None)
    if isinstance(ids, torch.Tensor) and ids.ndim == 2:
        if "attention_mask" in accepted and ids.shape[1] > 2:
            padded = torch.ones_like(ids)
            padded[0, -2:] = 0  # on the right, where every query still sees a key
            yield batch | {"attention_mask": padded}
        if "encoder_hidden_states" in accepted and isinstance(width, int):
            generator = torch.Generator().manual_seed(0)
            states = torch.randn(len(ids), 4, width, generator=generator, dtype=torch.float64)
            yield batch | {"encoder_hidden_states": states}
    if len(batch) > 1:
        yield from ({n: v for n, v in batch.items() if n != left} for left in batch)
