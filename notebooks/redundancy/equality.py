"""Whether two models are equal: their outputs compared in float64, and in their own dtype.

What a comparison in float64 may find is bounded by

    relative error <= 1e-12 (1 + |t|),    t the longest shift that was moved,

because a shift is added in one place and taken away in another: the numbers between are longer
by |t|, and their last digits are lost.  Inputs can only show the way through the code that they
take; `other_ways` therefore adds some: longer ones, padding, the states of an encoder, and each
argument left out that can be.
"""

from __future__ import annotations

import copy
import inspect
import random
import re
import tempfile
from collections.abc import Mapping

import torch
from torch import nn

from .guessing import NoInputs, suitable_inputs
from .inputs import within
from .zoo import quiet

#: Bound on the relative error in float64, for each unit of (1 + |t|).
BOUND = 1e-12
#: By what factor rounding in a model's own dtype may grow, and what is harmless anyway.
LOSS, HARMLESS = 10, 1e-4
#: How many runs are compared where a model draws random numbers: in training mode.
DRAWS = 8
#: Outputs that are no outputs: states on the way, which differ between equal models.
INNER = re.compile(r"past_key_values|hidden_states$|attentions$|cache")


class CannotFold(ValueError):
    """The model, or what was asked of it, is nothing that can be worked on; says why."""


class NotEqual(ArithmeticError):
    """The outputs changed, so no model is returned; says by how much."""


def demand_equal(found, expected, batches, longest):
    """(error, bound) of two models in float64 at some inputs; raises NotEqual beyond the bound."""
    bound = BOUND * (1 + longest)
    seeds = range(DRAWS if expected.training else 1)
    errors = (difference(found, expected, batch, seed) for batch in batches for seed in seeds)
    error = max(errors, key=_worst)
    if not error <= bound:
        raise NotEqual(
            f"the outputs of {type(expected).__name__} changed: relative error {error:.1e} in "
            f"float64, where rounding explains {bound:.1e}. No model is returned"
        )
    return error, bound


def demand_rounding(found, given, expected, inputs):
    """The errors (before, after) of two models in their own dtype, against float64.

    ``expected`` are the `outputs` in float64.  Raises NotEqual where rounding costs too much.
    """
    dtype = next(given.parameters()).dtype
    if dtype == torch.float64:
        return 0.0, 0.0
    inputs = as_dtype(inputs, dtype)
    before, after = (_largest(_outputs_of_copy(one, inputs), expected) for one in (given, found))
    if not after <= max(LOSS * before, HARMLESS):
        raise NotEqual(
            f"equal in float64, but in {str(dtype).removeprefix('torch.')} the new model has an "
            f"error of {after:.1e} and the one given {before:.1e}: do this in float32 or float64, "
            "or move fewer constants; the query bias and a bias put into a weight cost most"
        )
    return before, after


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
                    f"{name} would not come back: from_pretrained makes what the configuration of "
                    f"{kind} says, which has no word for it. Save the state_dict, or fold without it"
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


def demand_runs(model, batches):
    """Raises CannotFold where the model does not run on its inputs, or is another one after."""
    modules = dict(model.named_modules())
    for batch in batches:
        try:
            outputs(model, batch)
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise CannotFold(f"the model does not run on these inputs: {reason}") from error
    for name, module in model.named_modules():
        if modules.get(name) is not module:
            raise CannotFold(
                f"{name} is another module after a run: the model changes itself to suit its "
                "inputs. Set it to what it shall be, then fold"
            )


def difference(model, other, inputs, seed=0):
    """The largest relative difference of two models' outputs: max |a - b| / max |b|, per tensor.

    Both run with the same random numbers, so that a dropout drops the same.
    """
    found, expected = outputs(model, inputs, seed), outputs(other, inputs, seed)
    if found.keys() != expected.keys() or not expected:
        raise CannotFold(f"there are no outputs to compare: {[*expected]} and {[*found]}")
    return _largest(found, expected)


@torch.no_grad()
def outputs(model, inputs, seed=0):
    """Every floating-point output of a model by name, in float64; inner states left out."""
    state = random.getstate()
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            random.seed(seed)
            return dict(_named("", model(**inputs)))
    finally:
        random.setstate(state)


def _named(name, made):
    """(name, tensor in float64) for every output in tensors, dictionaries, tuples and lists."""
    if isinstance(made, torch.Tensor):
        if made.is_floating_point() and made.numel():
            yield name or "output", made.double()
        return
    inside = made.items() if isinstance(made, Mapping) else ()
    if isinstance(made, tuple | list):
        inside = enumerate(made)
    for part, value in inside:
        if not INNER.search(str(part)):
            yield from _named(f"{name}.{part}" if name else str(part), value)


def _outputs_of_copy(model, inputs):
    """The outputs of a model; in training, of a copy: a run would change what a BatchNorm tracks."""
    return outputs(copy.deepcopy(model) if model.training else model, inputs)


def batches_for(model, inputs, words=None):
    """The inputs given, or two batches of random ones; a list of dicts, in float64.

    The first is small: the record of every bias on its way is made with it.  ``words`` bounds the
    vocabulary that is drawn from.
    """
    if inputs is None:
        if not hasattr(model, "config"):
            raise CannotFold("give inputs: they can only be drawn for a model of transformers")
        try:
            drawn = [suitable_inputs(model, batch=1, tokens=5), suitable_inputs(model, seed=1)]
            drawn = [within(batch, words) if words else batch for batch in drawn]
        except NoInputs as reason:
            raise CannotFold(str(reason)) from None
    elif isinstance(inputs, Mapping):
        drawn = [dict(inputs)]
    else:
        raise CannotFold("inputs is a dict of keyword arguments of the model")
    device = next((parameter.device for parameter in model.parameters()), None)
    return [as_dtype(batch, torch.float64, device) for batch in drawn]


def other_ways(model, batches):
    """More inputs, made from those given, that may take another way; only those that run."""
    batch, found = batches[-1], []
    accepted = inspect.signature(model.forward).parameters
    ids = batch.get("input_ids")
    if isinstance(ids, torch.Tensor) and ids.ndim == 2:
        longer = {n: torch.cat([v] * 3, 1) for n, v in batch.items() if _is_like(v, ids)}
        found.append(batch | longer)
        if "attention_mask" in accepted and ids.shape[1] > 2:
            padded = torch.ones_like(ids)
            padded[0, -2:] = 0  # on the right, where every query still sees a key
            found.append(batch | {"attention_mask": padded})
    width = getattr(getattr(model, "config", None), "hidden_size", None)
    if "encoder_hidden_states" in accepted and ids is not None and isinstance(width, int):
        generator = torch.Generator().manual_seed(0)
        states = torch.randn(len(ids), 4, width, generator=generator, dtype=torch.float64)
        found.append(batch | {"encoder_hidden_states": states.to(ids.device)})
    found += [{n: v for n, v in batch.items() if n != left} for left in batch if len(batch) > 1]
    return [one for one in found if _runs(model, one)]


def _is_like(value, ids):
    return isinstance(value, torch.Tensor) and value.shape == ids.shape


def _runs(model, batch):
    try:
        made = outputs(model, batch)
    except Exception:  # these inputs are our own idea: where they do not suit, they are dropped
        return False
    return bool(made) and all(value.isfinite().all() for value in made.values())


def as_dtype(inputs, dtype, device=None):
    """The same inputs with floating-point ones in a dtype, and all tensors on a device."""

    def moved(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device or value.device, dtype if value.is_floating_point() else None)

    return {name: moved(value) for name, value in inputs.items()}


def in_float64(model, words=None):
    """A deep copy in float64; its experts in plain PyTorch, whose fast kernels have no float64.

    ``words`` cuts tables of words that nothing but an embedding reads.  No parameter is there
    twice on the way.
    """
    memo = dict(_in_float64(model, words))
    copied = copy.deepcopy(model, memo).double()
    for module in copied.modules():
        if words and isinstance(module, nn.Embedding):
            module.num_embeddings = len(module.weight)
    if _experts(model):
        copied.set_experts_implementation("eager")
    return copied


def _in_float64(model, words):
    """(id of a parameter, the same in float64) for all parameters."""
    holders = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            holders.setdefault(id(parameter), []).append(isinstance(module, nn.Embedding))
    for parameter in model.parameters():
        value = parameter.detach()
        if words and all(holders[id(parameter)]):
            value = value[:words]
        # .to copies where the dtype changes, and only there
        value = value.clone() if value.dtype == torch.float64 else value.double()
        yield id(parameter), nn.Parameter(value, requires_grad=parameter.requires_grad)


def sharing_matrices(model):
    """A copy of a model that has vectors of its own, and the same matrices."""
    memo = {id(p): p for p in model.parameters() if p.squeeze().ndim > 1}
    return copy.deepcopy(model, memo)


def constants_of(changed, model):
    """{name: values} of the parameters of a changed model that are new, or are not what they were."""
    before = dict(model.named_parameters(remove_duplicate=False))
    return {
        name: value.detach()
        for name, value in changed.named_parameters(remove_duplicate=False)
        if name not in before
        or (value is not before[name] and not torch.equal(value, before[name]))
    }


def with_constants(model, constants):
    """A copy of a model with other ``constants`` in float64, rounded to its own dtypes.

    The copy has never run, so that it carries no state of the runs that the other went through.
    A new bias takes the dtype and the device of the weight beside it.
    """
    made = copy.deepcopy(model)
    given = dict(made.named_parameters(remove_duplicate=False))
    for name, value in constants.items():
        if name in given:
            given[name].data.copy_(value)
        else:
            path, _, attribute = name.rpartition(".")
            beside = given.get(name.removesuffix("bias") + "weight", next(iter(given.values())))
            new = nn.Parameter(value.to(beside), requires_grad=beside.requires_grad)
            setattr(made.get_submodule(path), attribute, new)
    return made


def _experts(model):
    """What a mixture of experts computes with; None where there is none to choose."""
    return getattr(getattr(model, "config", None), "_experts_implementation", None)


def _largest(found, expected):
    shares = [(found[n] - b).abs().max() / (b.abs().max() or 1) for n, b in expected.items()]
    return torch.stack(shares).max().item()  # hands a NaN on, unlike Python's max


def _worst(error):
    return float("inf") if error != error else error
