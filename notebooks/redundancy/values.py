"""What becomes of a value bias and of an output bias: the weighted sum, W_O, and who reads the stream."""

from __future__ import annotations

import torch

from .kinds import (
    ALIKE,
    LINEAR,
    MOVES,
    NORM_STEPS,
    PARTS,
    SEE,
    WEIGHED,
    Lost,
    Unknown,
)
from .record import record_of
from .scores import (
    NO_GRADIENT,
    _appends,
    _centred_width,
    _factor,
    _is_quadratic,
    _moved_axis,
    _normalisers,
    _odd,
    _same_at_every_token,
    _signed,
)


def predict_value(model, layer, inputs, keys, shown, foldable, moved):
    """R, what stands between weights and W_O, and whether there is a b_O to move into."""
    record = None
    if layer.output is not None:
        record = record_of(model, inputs, moved, layer.output.weights.module)
    record = record or record_of(model, inputs, moved, layer.module)
    if record is None:
        raise Unknown(NO_GRADIENT)
    products = [s for s in record if s.name in WEIGHED]
    if not products or any(len(s.reads) > 1 for s in products):
        raise Unknown("the values do not meet the weights in a product")
    if record.ends & set(record.until(set(products))):
        raise Unknown("the values reach the output by a way that does not go through the weights")
    for weights in _normalisers(keys):
        _demand_r(keys, weights, {s.shape for s in products})
    for product in products:
        place = product.places[0] - (product.name == "Baddbmm")
        kept, why = _same_at_every_token(layer, record, product, "value", (-1, -2)[place])
        if len(kept) == 0:
            raise Lost(why[0])
        if len(products) == 1 and len(kept) < layer.value.size:
            raise Unknown("some values are the same at every token, some are not: " + why[0])
    return _from_weights_to_output(layer, record, products, shown, foldable)


def _demand_r(record, weights, shapes):
    """Raises Lost where the rows of the weights do not sum to one number.

    ``shapes`` are those of the products of weights and values, by which these are recognised.
    """
    if weights.name == "Sigmoid":
        if any(s.name == "Div" and len(s.reads) > 1 for s in record.until(set(), start=weights)):
            raise Unknown("sigmoid, and then a division by something that depends on the keys")
        raise Lost("sigmoid: the rows of the weights do not sum to one number")
    after = [s for s in record.until(set(), start=weights) if s is not weights]
    stop = next((i for i, s in enumerate(after) if s.name in WEIGHED), None)
    if stop is None or after[stop].shape not in shapes:
        raise Unknown("something other than the values meets the weights")
    axis = _signed(weights.saved("dim") or 0)
    axis = axis if axis < 0 else axis - len(weights.shape)
    for step in after[:stop]:
        before = step.reads[0][1]
        if step.name in PARTS and step.shape[-1] != before.shape[-1]:
            raise Lost("a sink takes a share of every row: the weights do not sum to one number")
        if step.name not in MOVES:
            raise Unknown(f"an operation on the weights that is not known: {step.name}")
        axis = _moved_axis(step, before, axis)
    if axis != (-1, -2)[after[stop].places[0] - (after[stop].name == "Baddbmm")]:
        raise Lost("softmax does not run over the keys: the rows do not sum to one number")


def _from_weights_to_output(layer, record, products, shown, foldable):
    """What becomes of the averaged value bias on its way through W_O."""
    first = record.steps.index(products[0])
    after = set(record.until(set(), start=products[0])) - set(products)
    steps = [s for s in record.steps[first:] if s in after]
    projected = next((i for i, s in enumerate(steps) if s.name in ("Addmm", "Mm")), None)
    before = steps if projected is None else steps[:projected]
    why = ["R: rows of weights sum to one, so b_V leaves attention as it is"]
    bent = [s for s in before if s.name not in MOVES | LINEAR or _is_quadratic(s)]
    if bent:
        width = _centred_width(before, bent)
        if width is None and {s.name for s in bent} <= NORM_STEPS:
            return 0, ["a norm before W_O bends the value bias"], None
        if width is None:
            raise Unknown(f"an operation before W_O that is not known: {_odd(bent)}")
        erased = max(1, layer.key_value_heads * layer.value_dim // width)
        return erased, [*why, "a LayerNorm before W_O erases its mean, and bends the rest"], None
    if len(products) > 1:
        raise Unknown("the values are weighed in more than one place")
    axes = {}
    for step in before:
        axes[step] = axis = _token_axis(step, axes, products[0])
        if step.name in ("Mul", "Div") and _is_gate(_factor(step), step, axis):
            return 0, ["a gate multiplies the heads, differently at every token"], None
    if layer.output is None:
        raise Unknown("no output projection was found, so it is not known where b_V would go")
    return _fold(layer, why, shown, foldable)


def _token_axis(step, axes, product):
    """Where the tokens are, counted from the end, in what a step behind the product made."""
    old = step.reads[0][1]
    axis = axes.get(old, -2 if old is product else None)
    if step is product or axis is None:
        return -2 if step is product else None
    try:
        return _moved_axis(step, old, axis) if step.name in MOVES else axis
    except Unknown:
        place = len(old.shape) + axis + 1  # behind the tokens, heads may be laid side by side
        return place - 1 - len(step.shape) if step.shape[:place] == old.shape[:place] else None


def _is_gate(factor, step, axis):
    """Whether a factor differs from token to token, or from one text to another."""
    if factor is None or factor.numel() == 1:
        return False
    if axis is None:
        raise Unknown("a factor between weights and W_O, and it is not known where the tokens are")
    texts = factor.ndim == len(step.shape) > 2 and factor.shape[0] > 1
    return texts or (factor.ndim >= -axis and factor.shape[axis] > 1)


def _fold(layer, why, shown, foldable):
    """b_V into b_O, or, where there is none, what W_O does not show."""
    size, out = layer.value.size, layer.output.size
    if foldable:
        return size, [*why, "W_O b_V moves into b_O"], None
    if shown.dimension is None and size >= out:
        raise Unknown("it is not known whether the mean of the output is seen: " + shown.why[0])
    seen = out - (shown.dimension or 0)
    why.append("there is no b_O, so b_V takes its place")
    if size > seen:
        why.append(f"W_O shows {seen} of its {size} directions")
    return max(0, size - seen), why, None


def predict_output(model, layer, inputs):
    """Only LayerNorms read the stream: the mean of b_O is not seen; otherwise all of it is."""
    if layer.output is None:
        raise Unknown("no output projection was found")
    record = record_of(model, inputs, layer.output)
    if record is None:
        raise Unknown(NO_GRADIENT)
    shift = {record.steps[0]: 1.0}  # every entry of what a step made moves by this times c
    free, seen = True, []
    for step in record.steps[1:]:
        if free and len({s for s, _ in record.readers[step.reads[0][1]]}) > 1:
            free = False
        shift[step] = None if any(shift[s] is None for _, s, _ in step.reads) else _shift(
            step, shift, free)  # fmt: skip
        if shift[step] is None and any(shift[s] is not None for _, s, _ in step.reads):
            seen.append(step)
    if all(shift[end] == 0 for end in record.ends):
        ones = torch.ones(1, layer.output.size).double() / layer.output.size**0.5
        return 1, ["only LayerNorms read what b_O is added to: its mean is erased"], ones
    if any(_takes_features(step) for step in record if shift[step]):
        raise Unknown("parts of the stream are read apart")
    maps = ("Addmm", "Mm")
    if seen and all(s.name in maps for s in seen):
        if sum(s.shape[-1] for s in seen) < layer.output.size:
            raise Unknown("a linear map to fewer numbers is all that reads the stream")
    return 0, [_who_sees(seen[0] if seen else None)], None


def _takes_features(step):
    """Whether a step hands on some features of every token, and not others."""
    return step.name in PARTS and step.shape[-1] != step.reads[0][1].shape[-1]


def _shift(step, shift, free):
    """By how much every entry of an output moves if those of the inputs do; None if not alike."""
    moved = [shift[s] for _, s, _ in step.reads]
    if all(m == 0 for m in moved) or step.name in ("NativeLayerNorm", "Var", "Std"):
        return 0.0
    if step.name in SEE:
        return None
    if step.name in MOVES - {"ConstantPadNd"} or (
        step.name in ALIKE and not any(step.saved("padding") or ())
    ):
        if len(set(moved)) > 1 or _appends(step):
            raise Unknown("parts of the stream are read apart")
        return moved[0]
    if step.name == "Add":
        return sum(moved)
    if step.name == "Sub" and len(moved) == 2:
        return moved[0] - moved[1]
    if step.name in ("Sub", "Rsub"):
        return moved[0] if step.places == (0,) else -moved[0]
    if step.name == "Addmm":
        by_matrix = [m for m, place in zip(moved, step.places, strict=True) if place]
        return moved[0] if not any(by_matrix) else None
    if step.name in ("Mul", "Div"):
        return _scaled(step, moved, free)
    raise Unknown(f"it is not known what {step.name} makes of the stream")


def _scaled(step, moved, free):
    """The shift behind a factor; a factor for each channel may be undone while there is one way."""
    if len(moved) > 1:
        return None
    factor = _factor(step)
    number = (
        step.saved("other") if factor is None else factor.item() if factor.numel() == 1 else None
    )
    if isinstance(number, int | float):
        return moved[0] * (number if step.name == "Mul" else 1 / number)
    alone = factor is None or factor.numel() == factor.shape[-1]
    return moved[0] if free and alone else None


def _who_sees(step):
    """Who reads the stream and sees its mean."""
    if step is None:
        return "the stream is an output of the model: nothing is erased"
    if step.name in ("Pow", "FusedRmsNorm", "Square"):
        return "an RMSNorm reads the stream: it does not centre, so nothing is erased"
    if step.name in ("Addmm", "Mm", "Bmm", "Convolution"):
        return "a linear map reads the stream before any LayerNorm: nothing is erased"
    return f"{step.name} reads the stream before any LayerNorm: nothing is erased"
