"""Other inputs like those given: other words, other pixels, the same masks."""

from __future__ import annotations

import itertools

import torch


def variations(model, inputs, seed=0):
    """The inputs given, and then others like them without end: other tokens, other pixels."""
    try:
        words = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except (AttributeError, NotImplementedError):
        words = None
    positional, named = inputs
    yield inputs
    for i in itertools.count(seed + 1):
        generator = torch.Generator().manual_seed(i)
        yield (
            tuple(_varied("", value, generator, words) for value in positional),
            {name: _varied(name, value, generator, words) for name, value in named.items()},
        )


def _varied(name, value, generator, words=None):
    """Other numbers, or other tokens, of the same shape; masks stay as they are."""
    if not isinstance(value, torch.Tensor) or "mask" in name:
        return value
    if value.is_floating_point():
        if not value.isfinite().all() or (value.numel() > 2 and len(value.unique()) == 2):
            return value  # a mask that is not called one
        return torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
    if value.dtype == torch.long and (name.endswith("input_ids") or not name):
        low, high = int(value.min()), int(value.max()) + 1
        if high - low < 4 and words and words > high:  # too little variety: zeros, for instance
            low, high = 0, words
        other = torch.randint(low, high, value.shape, generator=generator).to(value.device)
        other[..., -1:] = value[..., -1:]  # some models read from the last token, the end
        return other
    return value
