"""What becomes of a value bias and of an output bias: the weighted sum, W_O, and who reads the stream."""

from __future__ import annotations

import math

import torch

from .by_hand import WITH_SINK
from .kinds import (
    ALIKE,
    LINEAR,
    MOVES,
    PARTS,
    REWRITES,
    SEE,
    WEIGHED,
    Lost,
    Unknown,
)
from .record import NO_GRADIENT, record_of, whole
from .scores import (
    _appends,
    _erased,
    _factor,
    _is_quadratic,
    _moved_axis,
    _normalisers,
    _odd,
    _same_at_every_token,
    _seen,
    _signed,
)

#: The shift of a stream in which the entries of one token move alike, and other tokens otherwise.
EACH = math.nan


def predict_value(model, layer, inputs, keys, shown, foldable, moved):
    """R, what stands between weights and W_O, and whether there is a b_O to move into."""
    record = None
    if layer.output is not None:
        record = record_of(model, inputs, moved, layer.output.weights.module)
    record = whole(record or record_of(model, inputs, moved, layer.module))
    products = [s for s in record if s.name in WEIGHED and not _is_map(s, layer)]
    if not products or any(len(s.reads) > 1 for s in products):
        raise Unknown("the values do not meet the weights in a product")
    if record.ends & set(record.until(set(products))):
        raise Unknown("the values reach the output by a way that does not go through the weights")
    for weights in _normalisers(keys):
        _demand_r(keys, weights, {s.shape for s in products})
    for product in products:
        place = product.places[0] - (product.name == "Baddbmm")
        axis, weights = (-1, -2)[place], product.saved(("mat2", "self")[place])
        read = record.used(product).any(-3 - axis, keepdim=True)
        seen = None if weights is None else _seen(read & (weights != 0), -3 - axis)
        kept, why = _same_at_every_token(layer, record, product, "value", axis, seen)
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
    if weights.name == WITH_SINK:
        raise Lost("a sink takes a share of every row: the weights do not sum to one number")
    after = [s for s in record.until(set(), start=weights) if s is not weights]
    stop = next((i for i, s in enumerate(after) if s.name in WEIGHED), None)
    if stop is None or after[stop].shape not in shapes:
        raise Unknown("something other than the values meets the weights")
    axis = _signed(weights.saved("dim") or 0)
    axis = axis if axis < 0 else axis - len(weights.shape)
    for step in after[:stop]:
        before = step.reads[0][1]
        last = axis if len(step.shape) == len(before.shape) else -1
        if step.name in PARTS and step.shape[last] != before.shape[last]:
            raise Lost("a sink takes a share of every row: the weights do not sum to one number")
        if step.name not in MOVES:
            raise Unknown(f"an operation on the weights that is not known: {step.name}")
        axis = _moved_axis(step, before, axis)
    if axis != (-1, -2)[after[stop].places[0] - (after[stop].name == "Baddbmm")]:
        raise Lost("softmax does not run over the keys: the rows do not sum to one number")


def _is_map(step, layer):
    """Whether a step is a linear map: of a slice, PyTorch makes a product of each text with W_O."""
    other = step.saved("mat2") if step.name == "Bmm" and step.places == (0,) else None
    if other is None or layer.output is None:
        return step.name in ("Addmm", "Mm")
    places = [t.untyped_storage()._cdata for t in (other, layer.output.weights.parameter)]
    return places[0] == places[1]


def _from_weights_to_output(layer, record, products, shown, foldable):
    """What becomes of the averaged value bias on its way through W_O."""
    first = record.steps.index(products[0])
    after = set(record.until(set(), start=products[0])) - set(products)
    steps = [s for s in record.steps[first:] if s in after]
    maps = [i for i, s in enumerate(steps) if _is_map(s, layer)]
    last = maps[-1 if layer.output else 0] if maps else len(steps)
    before = steps[:last]
    why = ["R: rows of weights sum to one, so b_V leaves attention as it is"]
    bent = [s for s in before if s.name not in MOVES | LINEAR or _is_quadratic(s)]
    if bent:
        erased = _erased(record, before, bent)
        if erased is None:
            raise Unknown(f"an operation before W_O that is not known: {_odd(bent)}")
        if len(erased) == 0:
            return 0, ["a norm before W_O bends the value bias"], None
        why.append("a LayerNorm before W_O erases its mean, and bends the rest")
        return len(erased), why, None
    if len(products) > 1:
        raise Unknown("the values are weighed in more than one place")
    if layer.output and len(maps) > 1:
        raise Unknown("another linear map stands between the weights and W_O")
    axes = {}
    for step in before:
        if step.name in REWRITES:
            raise Unknown(f"{step.name} between weights and W_O: other tokens may lose the bias")
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
    """Only LayerNorms read the stream: the mean of b_O is not seen; otherwise all of it is.

    Where one linear map stands between, what it makes of b_O is asked about.
    """
    if layer.output is None:
        raise Unknown("no output projection was found")
    record = record_of(model, inputs, layer.output)
    if record is None:
        raise Unknown(NO_GRADIENT)
    maps = _maps_alone(record)
    shift, seen = _shifts(record, maps[-1] if maps else record.steps[0])
    erased = all(shift[end] == 0 for end in record.ends)
    if erased:
        _demand_shown(record, shift)
        why = "only LayerNorms read what b_O is added to: its mean is erased"
    else:
        _demand_read_whole(record, layer, shift, seen)
        why = _who_sees(seen[0] if seen else None)
    left = int(erased)
    for step in reversed(maps):
        left = max(0, _read(step) - (step.shape[-1] - left))
    if maps:
        return left, [why, "a linear map stands between, and counts what it takes to that"], None
    ones = torch.ones(1, layer.output.size).double() / layer.output.size**0.5
    return left, [why], ones if erased else None


def _read(step):
    """How many numbers of each token a linear map reads."""
    return step.reads[0][1].shape[-1]


def _maps_alone(record):
    """The linear maps, one after the other, through which all that is seen of a bias goes."""
    step, maps = record.steps[0], []
    while len(readers := {s for s, _ in record.readers[step]}) == 1:
        (step,) = readers
        if step.name == "Mm" or (step.name == "Addmm" and step.places != (0,)):
            maps.append(step)
        elif not (step.name in MOVES or step.name in ("Add", "Addmm") and len(step.reads) == 1):
            break
    return maps


def _shifts(record, start):
    """By how much every entry of what each step made moves if those of ``start`` move by 1.

    None where they do not move alike; the second part are the steps at which this happens.
    """
    shift, free, seen = {start: 1.0}, True, []
    for step in record.until(set(), start)[1:]:
        if free and len({s for s, _ in record.readers[step.reads[0][1]]}) > 1:
            free = False
        before = [shift[s] for _, s, _ in step.reads]
        shift[step] = None if None in before else _shift(step, shift, free)
        if shift[step] is None and any(b is not None for b in before):
            seen.append(step)
    return shift, seen


def _demand_shown(record, shift):
    """Raises Unknown where something that no gradient shows reads the stream before its norm."""
    for hidden in record.hidden:
        step = record.made.get(hidden.node)
        if step is None or shift.get(step, 1.0) != 0:
            raise Unknown(f"{hidden.name} reads the stream, and no gradient shows what it sees")


def _demand_read_whole(record, layer, shift, seen):
    """Raises Unknown where those who see the stream may each see a part of it only."""
    if any(_takes_features(step) for step in record if shift.get(step)):
        raise Unknown("parts of the stream are read apart")
    if seen and all(s.name in ("Addmm", "Mm") for s in seen):
        if sum(s.shape[-1] for s in seen) < layer.output.size:
            raise Unknown("a linear map to fewer numbers is all that reads the stream")


def _takes_features(step):
    """Whether a step hands on some features of every token, and not others."""
    return step.name in PARTS and step.shape[-1] != step.reads[0][1].shape[-1]


def _shift_of_each(step):
    """The same where the entries of a token move alike, but those of two tokens need not."""
    if step.name == "NativeLayerNorm" and len(step.saved("normalized_shape")) == 1:
        return 0.0
    if step.name == "Add" or (
        step.name in MOVES - REWRITES and _moved_axis(step, step.reads[0][1], -1) == -1
    ):
        return EACH
    raise Unknown("parts of the stream are read apart")


def _leaves_some(step):
    """Whether a step writes what does not depend on the bias into what does, or beside it."""
    written = step.name in REWRITES - {"Gather"} and len(step.reads) < 2
    return written and bool(step.reads[0][1].reads)  # the bias itself is written into its parameter


def _shift(step, shift, free):
    """By how much every entry of an output moves if those of the inputs do; None if not alike."""
    moved = [shift[s] for _, s, _ in step.reads]
    if all(m == 0 for m in moved):
        return 0.0
    if any(map(math.isnan, moved)):
        return _shift_of_each(step)
    if step.name in ("NativeLayerNorm", "Var", "Std"):
        return 0.0
    if step.name == "Convolution" and step.places == (2,):  # its own bias, which it adds
        return moved[0]
    if step.name in SEE:
        return None
    if step.name in MOVES - {"ConstantPadNd"} or (
        step.name in ALIKE and not any(step.saved("padding") or ())
    ):
        if len(set(moved)) > 1 or _appends(step) or _leaves_some(step):
            if step.name == "Cat" and _signed(step.saved("dim")) not in (-1, len(step.shape) - 1):
                return EACH
            raise Unknown("parts of the stream are read apart")
        return moved[0]
    weight = step.saved("alpha") or 1  # torch.add(x, y, alpha=2) is x + 2 y
    if step.name in ("Add", "Sub") and len(moved) == 2:
        return moved[0] + moved[1] * (weight if step.name == "Add" else -weight)
    if step.name == "Add":
        return moved[0] * (weight if step.places == (1,) else 1)
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
