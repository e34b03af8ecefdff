"""What a model is run on: given in any form, or drawn; and what may be wrong with it, in a sentence."""

from __future__ import annotations

import torch

from .guessing import NoInputs, experts_in_plain_pytorch, inputs_of_pytorch, suitable_inputs
from .record import tensors


class WrongInputs(ValueError):
    """The model does not run on the inputs given, or cannot be judged on them."""


def as_call(model, inputs):
    """Positional and named inputs, whatever form they were given in."""
    if inputs is None:
        inputs = inputs_of_pytorch(model)
    if inputs is None:
        if not hasattr(model, "main_input_name"):
            raise WrongInputs(f"give inputs: it is not known what {type(model).__name__} takes")
        try:
            inputs = suitable_inputs(model)
        except NoInputs as reason:
            raise WrongInputs(str(reason)) from None
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if hasattr(inputs, "items"):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    raise WrongInputs(
        f"inputs are a dict, a tuple or a tensor, not {type(inputs).__name__}: "
        'say {"input_ids": ids}, for instance'
    )


def in_float64(inputs):
    positional, named = inputs
    return tuple(map(_wide, positional)), {name: _wide(value) for name, value in named.items()}


def _wide(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().double() if value.is_floating_point() else value.clone()


def first_line(problem):
    """The first line of what an error says."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def some_inputs_within(model, words):
    """Short random inputs for a large model, their words among the first few of its vocabulary."""
    try:
        return within(suitable_inputs(model, tokens=6), words)
    except NoInputs as reason:
        raise WrongInputs(str(reason)) from None


def within(inputs, words):
    """A dict of inputs with all words among the first few of the vocabulary."""
    return {
        name: value % words if value.dtype == torch.long and "mask" not in name else value
        for name, value in inputs.items()
    }


def words_in(inputs, least):
    """How many rows of a table of words these inputs need, and at least so many."""
    ids = [t for t in (*inputs[0], *inputs[1].values()) if isinstance(t, torch.Tensor)]
    largest = [int(t.max()) + 1 for t in ids if t.dtype == torch.long and t.numel()]
    return max(least, *largest, 0)


def demand_runs(model, inputs, times=2):
    """Raises WrongInputs unless the model runs, the same way each time, and returns finite numbers."""
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad(), experts_in_plain_pytorch(model):
            model.eval()
            first, *again = (tensors(model(*inputs[0], **inputs[1])) for _ in range(times))
    except Exception as problem:
        raise WrongInputs(
            f"{type(model).__name__} does not run on these inputs: {first_line(problem)}"
        ) from problem
    finally:
        for module, training in modes.items():
            module.training = training
    if not first:
        raise WrongInputs(f"{type(model).__name__} returns no tensor of numbers")
    if not all(t.numel() for t in first):
        raise WrongInputs(f"{type(model).__name__} returns nothing on these inputs: they are empty")
    if not all(t.isfinite().all() for t in first):
        raise WrongInputs(
            f"{type(model).__name__} returns infinite numbers, or NaN, on these inputs"
        )
    if not all(torch.equal(a, b) for one in again for a, b in zip(first, one, strict=True)):
        raise WrongInputs(
            f"{type(model).__name__} returns other numbers when it runs again: it draws random "
            "numbers in eval mode, and no bias can be judged"
        )
