"""Draw and vary a model's inputs, convert inputs and outputs to a common form, and check both."""

from __future__ import annotations

import copy
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._pytree import tree_map

from ..models.guessing import NoInputs, inputs_of_pytorch, places_of, problem_of, suitable_inputs

#: The names under which transformers returns intermediate results, which are not compared.
INNER = re.compile(r"(^|_)(hidden_states|attentions|past_key_values)$|^loss$|^cache_params$")

#: A sum of float32 numbers that differs from 1 by less than this counts as 1.
ALIKE = 1e-5


class WrongInputs(ValueError):
    """The model does not run on the given inputs, or its outputs on them cannot be judged."""


def as_call(model: Any, inputs: Any) -> tuple[tuple, dict]:
    """(positional inputs, named inputs), drawn if ``inputs`` is None.  Raises WrongInputs."""
    if inputs is None:
        inputs = inputs_of_pytorch(model)
    if inputs is None:
        if not hasattr(model, "main_input_name"):
            raise WrongInputs(f"cannot guess the inputs of {type(model).__name__}: give inputs")
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
        f"inputs must be a dict, a tuple or a tensor, not {type(inputs).__name__}; "
        'for instance {"input_ids": ids}'
    )


def in_float64(call: tuple) -> tuple:
    """The inputs on the CPU, with real numbers in float64 and weights that again sum to one."""
    return tree_map(_doubled, placed(call, "cpu"))


def _doubled(value):
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    value = value.detach().double()
    return value / value.sum(-1, keepdim=True) if _are_weights(value) else value


def _are_weights(value):
    """Whether a tensor has several rows that each sum to one, up to the rounding of float32."""
    sums = value.double().sum(-1) if value.dim() > 1 else torch.zeros(1)
    return sums.numel() > 1 and bool((sums - 1).abs().max() <= ALIKE)


def fresh(call: tuple) -> tuple:
    """Copies of the inputs, without autograd history, because a run may extend a cache."""
    detached = lambda tensor, memo: tensor.detach().clone()
    with patch.object(torch.Tensor, "__deepcopy__", detached):  # which refuses computed tensors
        return copy.deepcopy(call)


def placed(call, device, dtype=None):
    """A copy of the inputs on a device, with floating-point tensors in ``dtype`` if given."""
    move = lambda x: x.to(device, dtype if x.is_floating_point() else None)
    return tree_map(lambda x: move(x) if isinstance(x, torch.Tensor) else x, fresh(call))


def tensors(outputs: Any) -> list[torch.Tensor]:
    """Everything that a model returns, as a flat list of tensors of real numbers.

    Integers and booleans, such as indices, are converted to float64.  Intermediate states,
    attention weights and caches of a transformers output are left out.
    """
    if type(outputs).__module__ == "numpy":
        outputs = torch.as_tensor(outputs)
    if isinstance(outputs, torch.Tensor):
        outputs = outputs.to_dense() if outputs.layout != torch.strided else outputs
        if outputs.is_complex():  # autograd needs a new tensor, not a view
            return [1 * torch.view_as_real(outputs.resolve_conj())]
        return [outputs if outputs.is_floating_point() else outputs.double()]
    if hasattr(outputs, "to_tuple"):
        inside: Iterable = [v for name, v in outputs.items() if not INNER.search(name)]
    elif hasattr(outputs, "items"):
        inside = outputs.values()
    elif isinstance(outputs, Iterable) and not isinstance(outputs, str):
        inside = outputs
    else:
        library = type(outputs).__module__.startswith("transformers.")
        inside = () if library else getattr(outputs, "__dict__", {}).values()
    return [tensor for value in inside for tensor in tensors(value)]


def first_line(problem):
    """The first line of an error message, and the second if the first ends in a colon.

    A message of one word, such as a missing key, is preceded by the error's type.
    """
    lines = [*str(problem).strip().splitlines(), "", ""]
    text = " ".join(line.strip() for line in lines[: 1 + lines[0].endswith(":")])
    return text if " " in text else f"{type(problem).__name__} {text}".strip()


def demand_runs(model: Any, call: tuple, times: int = 2) -> None:
    """Raise WrongInputs unless the model runs and returns finite numbers, the same in every run."""
    found, name = [], type(model).__name__
    for _ in range(times):
        args, kwargs = fresh(call)
        if problem := problem_of(model, args, kwargs, keep=lambda out: found.append(tensors(out))):
            raise WrongInputs(
                f"{name} does not run on these inputs: {first_line(problem)}"
            ) from problem
    first, *again = found
    if not first:
        raise WrongInputs(f"{name} returns no tensor of numbers")
    if not all(t.numel() for t in first):
        raise WrongInputs(f"{name} returns an empty tensor on these inputs")
    if not all(t.isfinite().all() for t in first):
        raise WrongInputs(f"{name} returns infinite numbers, or NaN, on these inputs")
    if not all(torch.equal(a, b) for one in again for a, b in zip(first, one, strict=True)):
        raise WrongInputs(
            f"{name} returns different numbers on a second run: it draws random numbers in eval "
            "mode, so no bias can be judged"
        )


# --- other inputs like those given ------------------------------------------------------------


def variations(model: Any, call: tuple, seed: int = 0) -> Iterator[tuple]:
    """Yield the given inputs, and then, without end, inputs with other tokens or pixels."""
    try:
        words = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except (AttributeError, NotImplementedError):
        words = None
    places = torch.tensor(sorted(places_of(model)), dtype=torch.long)
    positional, named = call
    yield call
    for i in itertools.count(seed + 1):
        vary = functools.partial(
            _varied, generator=torch.Generator().manual_seed(i), words=words, places=places
        )
        yield (
            tuple(vary("", value) for value in positional),
            {n: vary(n, v) for n, v in named.items()},
        )


def _is_kept(name, value):
    """Whether an input stays as given: it is a mask, weights, or integers that are not tokens."""
    if "mask" in name or not value.is_floating_point():
        words = value.dtype == torch.long and (name.endswith("input_ids") or not name)
        return "mask" in name or not words
    two = value.numel() > 2 and len(value.unique()) <= 2  # two values: probably a mask
    return two or not value.isfinite().all() or _are_weights(value)


def kept(call: tuple) -> list[str]:
    """The names of tensors that stay as given; "input 1" is the first positional one."""
    inputs = [(f"input {i}", "", x) for i, x in enumerate(call[0], 1)]
    inputs += [(name, name, x) for name, x in call[1].items()]
    return [said for said, name, x in inputs if isinstance(x, torch.Tensor) and _is_kept(name, x)]


def _varied(name, value, generator, words, places):
    """Other numbers or tokens of the same shape; masks and image positions stay as they are."""
    if not isinstance(value, torch.Tensor) or _is_kept(name, value):
        return value
    if value.is_floating_point():
        return torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
    low, high = int(value.min()), int(value.max()) + 1
    if high - low < 4 and words and words > high:  # too little variety, for example only zeros
        low, high = 0, words
    other = torch.randint(low, high, value.shape, generator=generator).to(value.device)
    held = torch.isin(torch.stack([value, other]), places.to(value.device)).any(0)
    other[held] = value[held]
    other[..., -1:] = value[..., -1:]  # some models read the state at the end token
    return other
