"""What becomes of a key bias and of a query bias: the way to the scores, and the softmax over them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .by_hand import OFF_BY_ONE
from .kinds import (
    LENGTHS,
    LINEAR,
    MOVES,
    NORM_STEPS,
    NORMALISERS,
    REWRITES,
    STILL,
    WEIGHED,
    Lost,
    Unknown,
    signed,
)
from .record import CHUNK, record_of, whole
from .variations import variations

#: What rounding may leave of a zero in a Jacobian, relative to its largest entry.
NOTHING = 1e-9
#: A share of the sum of exponentials; below it, what is added may be lost in rounding.
GUARD = 1e-4
ONE_KEY = "the inputs have one key only, and one key has all the weight: give more"


def predict_key(layer, record):
    """S, and what stands between the key bias and the scores."""
    paths = _score_paths(record)
    for path in paths:
        _demand_s(path)
    found = [
        _same_at_every_token(layer, record, p.product, "key", p.axis, _seen_in(record, p))
        for p in paths
    ]
    (kept, why), others = found[0], found[1:]
    if any(len(other) != len(kept) for other, _ in others):
        raise Unknown("the keys make scores in two places, and differently")
    return len(kept), ["S: softmax ignores a constant in a row of scores", *why], kept


@dataclass
class Path:
    """From keys to weights: the product that makes the scores, what follows, the normaliser."""

    product: object
    axis: int  # of the keys, in the product's output, counted from the end
    between: list
    normaliser: object


def _normalisers(record):
    """The softmax (or sigmoid) that the keys reach; a few models have two."""
    found = [s for s in whole(record) if s.name in NORMALISERS]
    if not found:
        raise Unknown(f"there is no softmax behind the keys, but {_odd(record)}")
    return found


def _score_paths(record):
    """One `Path` for each softmax that the keys reach."""
    normalisers = _normalisers(record)
    before = record.until(set(normalisers))
    if record.ends & set(before):
        raise Unknown("the keys reach the output by a way that does not go through softmax")
    return [_score_path(record, before, one) for one in normalisers]


def _score_path(record, before, normaliser):
    behind = set(record.behind(normaliser))
    products = [s for s in before if s.name in WEIGHED and s in behind]
    if any(len(s.reads) > 1 for s in products):
        raise Unknown("the key bias is in the queries too")
    if len(products) > 1 and any(s.name == "Gather" for s in behind):
        raise Lost(
            "the keys also meet a table of relative positions, so the key bias adds another "
            "number to every score"
        )
    if len(products) != 1 or normaliser not in before:
        raise Unknown("the keys make scores in more than one place")
    (product,) = products
    place = product.places[0] - (product.name == "Baddbmm")
    if product.shape[(-2, -1)[place]] < 2:
        raise Unknown(ONE_KEY)
    between = [s for s in record.until({normaliser}, start=product)
               if s in behind and s is not product and s is not normaliser]  # fmt: skip
    return Path(product, (-2, -1)[place], between, normaliser)


def demand_no_guard(weights):
    """Raises Unknown where what is added to the sum of exponentials is there against 0/0 only."""
    added = weights.saved("added")
    if added is not None and (added < GUARD).any():
        raise Unknown("a small number is added to the sum of exponentials")


def _demand_s(path):
    """Raises Lost where a constant added to a row of scores is seen in the weights."""
    axis, weights = path.axis, path.normaliser
    if weights.name == "Sigmoid":
        raise Lost("sigmoid: each weight sees its own score, so a constant in a row is seen")
    demand_no_guard(weights)
    if weights.name == OFF_BY_ONE:
        raise Lost(
            "a sink: what is added to the sum of exponentials stays, and no key's score is it"
        )
    for step in path.between:
        before = step.reads[0][1]
        if step.name == "Tanh":
            raise Lost("a soft cap bends the scores before softmax, so a constant is seen")
        if step.name in ("Cat", "ConstantPadNd"):
            if step.shape[axis] > before.shape[axis]:
                raise Lost("a sink: a logit that is no key's stands in the row and stays")
        elif step.name in ("MaskedFill", "Where", "Mul", "Div", "Maximum"):
            _demand_same_for_all_keys(step, axis, weights)
        elif step.name in ("Add", "Sub", "Rsub"):
            others = [s for _, s, _ in step.reads if not _is_one_for_all_keys(s, axis)]
            if len(others) > 1:
                raise Unknown("two sets of scores that depend on the keys are added")
        elif not _is_one_for_all_keys(step, axis):
            axis = _moved_axis(step, before, axis)
    if signed(weights.saved("dim") or 0) not in (axis, len(weights.shape) + axis):
        raise Lost("softmax does not run over the keys")


def _is_one_for_all_keys(step, axis):
    """Whether a step took the largest score of a row: softmax ignores it, whatever it is."""
    return step.name in ("Max", "Amax") and (len(step.shape) < -axis or step.shape[axis] == 1)


def _demand_same_for_all_keys(step, axis, weights):
    """Raises Lost, or Unknown, where a mask or a factor treats keys that are seen differently."""
    if step.name in ("MaskedFill", "Where"):
        mask = step.saved("mask" if step.name == "MaskedFill" else "condition")
        if mask is None:
            raise Unknown("a mask that was not recorded")
        replaced = mask if step.name == "MaskedFill" or step.places[0] == 2 else ~mask
        if not _unseen(replaced, step, weights):
            raise Lost("a finite mask replaces scores that softmax still sees: these stay")
        return
    if step.name == "Maximum":
        _demand_far_below(step, axis, weights)
        return
    factor = _factor(step)
    if factor is None or factor.numel() == 1 or factor.ndim < -axis or factor.shape[axis] == 1:
        return
    if not _unseen(factor != 1, step, weights):
        raise Unknown("the scores are multiplied by numbers that differ from key to key")


def _demand_far_below(step, axis, weights):
    """Raises Lost, or Unknown, where scores are cut off at a number that softmax sees."""
    scores, least = step.saved("self"), step.saved("other")
    if not _unseen(scores <= least, step, weights):
        raise Lost("scores are cut off from below, and softmax still sees those: they stay")
    if (least - scores.amax(axis, keepdim=True)).exp().any():
        raise Unknown("scores are cut off from below: none here, but others may be")


def _factor(step):
    """The tensor that a step multiplies or divides by; None if it is a plain number."""
    if len(step.reads) > 1:
        raise Unknown(f"a product of two things that depend on the bias: {step}")
    other = step.saved("self" if step.places[0] == 1 else "other")
    return other if isinstance(other, torch.Tensor) else None


def _unseen(places, step, weights):
    """Whether the weights are zero wherever ``places``, of the shape of the step, is true."""
    result = weights.saved("result")
    try:
        return not result[places.expand(step.shape).reshape(result.shape)].any()
    except (RuntimeError, TypeError):
        raise Unknown("a mask of another shape than the weights") from None


def _moved_axis(step, before, axis):
    """Where an axis, counted from the end, is after a step that only moves."""
    shape, old = step.shape, before.shape
    if step.name in STILL and len(shape) == len(old):
        return axis
    if step.name in ("Transpose", "T"):
        dims = [signed(step.saved(f"dim{i}")) for i in (0, 1)] if step.name == "Transpose" else []
        dims = [d if d < 0 else d - len(shape) for d in dims] or [-1, -2]
        return dims[1 - dims.index(axis)] if axis in dims else axis
    if step.name == "Permute":
        dims = [signed(d) % len(old) for d in step.saved("dims")]
        return dims.index(len(old) + axis) - len(dims)
    if step.name == "Unsqueeze":
        new = signed(step.saved("dim")) % len(shape)
        return axis - 1 if new > len(old) + axis else axis
    place = len(old) + axis
    if _is_view(step) and old[place] > 1:
        for new, size in enumerate(shape):
            if size == old[place] and math.prod(shape[:new]) == math.prod(old[:place]):
                return new - len(shape)
    tail = place, len(shape) + axis
    if (
        step.name in MOVES - REWRITES - {"AsStrided"}
        and min(tail) >= 0
        and old[tail[0] :] == shape[tail[1] :]
    ):
        return axis
    raise Unknown(f"an operation between scores and weights that is not known: {step}")


def _is_view(step):
    """Whether a step gives the same numbers, in the same order, another shape."""
    if step.name == "AsStrided":
        shape = torch.empty(step.saved("size"), device="meta")
        same = shape.numel() == step.reads[0][1].shape.numel()
        return same and tuple(step.saved("stride")) == shape.stride()
    return step.name in ("View", "UnsafeView", "ReshapeAlias")


def _seen(seen, axis):
    """Which keys any query sees, (keys, matrices, 1, 1), of who sees whom in matrices."""
    return seen.any(-3 - axis).T[..., None, None]


def _seen_in(record, path):
    """Which keys have a weight for a query that is read, where weights lie as the scores do."""
    result, shape = path.normaliser.saved("result"), path.product.shape
    for step in path.between:
        moves = step.name in MOVES - STILL and not _is_view(step)
        if moves or step.shape[-2:] != shape[-2:]:
            return None
    if result.numel() != shape.numel():
        return None
    read = record.used(path.normaliser).any(path.axis, keepdim=True)
    return _seen((read & (result != 0)).reshape(shape), path.axis)


def _same_at_every_token(layer, record, product, role, token_axis, seen=None):
    """A basis of the directions in which the bias is the same at every token seen, and why."""
    _, operand, which = product.reads[0]
    path = record.behind(operand)
    bent = [s for s in path if s.name not in MOVES | LINEAR or _is_quadratic(s)]
    size = len(record.bias)
    if bent:
        return _behind_a_norm(record, path, bent, role)
    moved = record.jacobian(operand, which).movedim(token_axis - 1, 0)
    scale = moved.abs().max()
    if NOTHING * scale < 1e-18:
        return torch.eye(size).to(moved), [f"the bias is taken off every {role} again"]
    if seen is None:
        seen = torch.ones(operand.shapes[which][token_axis], 1, 1, 1)
    seen = seen.to(moved)
    mean = (seen * moved).sum(0) / seen.sum(0).clamp(min=1)
    kept = _unmoved(seen * (moved - mean), scale)
    rank = size - len(kept)
    if rank == 0:
        return kept, [f"the same vector is added to every {role}"]
    if rank == size and any(map(_appends, path)):
        return kept, [f"an extra {role} is appended that does not have the bias"]
    k = size // layer.key_value_heads
    turned, rest = divmod(rank, layer.key_value_heads)
    what = f"{turned} of {k} dimensions per head" if not rest else f"{rank} of {size} dimensions"
    factors = [_factor(s) for s in path if s.name == "Mul"]
    if not any(f is not None and f.ndim > 1 and f.numel() > f.shape[-1] for f in factors):
        return kept, [f"the bias differs from {role} to {role} in {what}"]
    return kept, [f"rotary positions turn {what}, differently at every token"]


def _unmoved(jacobian, scale):
    """A basis of the shifts that a Jacobian (…, shifts) maps to nothing, beside a scale."""
    size = jacobian.shape[-1]
    rows, cut = jacobian.reshape(-1, size), NOTHING * scale
    if rows.norm() <= cut:  # no singular value is longer than all of them together
        return torch.eye(size).to(rows)
    if len(rows) > size:  # the triangle has the same singular values and the same null space
        rows = torch.linalg.qr(rows, mode="r").R
    values, right = torch.linalg.svd(rows, full_matrices=True)[1:]
    return right[int((values > cut).sum()) :]


def _appends(step):
    """Whether something that does not depend on the bias is put beside what does."""
    read = sum(s.shapes[which].numel() for _, s, which in step.reads)
    return step.name in ("Cat", "ConstantPadNd") and step.shape.numel() > read


def _is_quadratic(step):
    return step.name in ("Mul", "Div", "Bmm", "Mm", "Baddbmm") and len(step.reads) > 1


def _behind_a_norm(record, path, bent, role):
    """The directions that a norm of the queries or keys erases: the mean, where it centres."""
    erased = _erased(record, path, bent)
    if erased is None:
        raise Unknown(f"an operation on the {role} that is not known: {_odd(bent)}")
    if len(erased) == 0:
        names = {s.name for s in bent}
        kind = "RMSNorm" if "Rsqrt" in names or "FusedRmsNorm" in names else "division by length"
        return erased, [f"{kind} of every {role} bends the bias"]
    if len(erased) == len(record.bias):
        return erased, [f"the bias is taken off every {role} again"]
    if not are_means(erased):
        return erased, [f"centring erases {len(erased)} directions of every {role}"]
    each = "each head" if len(erased) > 1 else "the whole vector"
    return erased, [f"LayerNorm of every {role} erases the mean of {each}, and bends the rest"]


def are_means(basis):
    """Whether a basis spans the means of as many parts of a vector, one after the other."""
    width = basis.shape[1] // len(basis)
    means = torch.eye(len(basis)).to(basis).repeat_interleave(width, 1) / width**0.5
    return means.shape == basis.shape and torch.allclose(means @ basis.T @ basis, means)


def _erased(record, path, bent):
    """A basis of the shifts that a norm takes away before it bends the rest; None for no norm.

    They are those that nothing sees which does not depend on the bias in a linear way.
    """
    if not _is_norm(path, bent):
        return None
    curved, seen = set(), {}
    for step in path:
        if step in bent or any(before in curved for _, before, _ in step.reads):
            curved.add(step)
            axes = _centres(step)
            if step not in bent and any(s not in curved for _, s, _ in step.reads):
                raise Unknown("a norm of a part only, or of some of what is added up")
            seen |= {(s, which, axes): None for _, s, which in step.reads if s not in curved}
    moved = torch.cat([_less_mean(record.jacobian(s, w), axes) for s, w, axes in seen])
    return _unmoved(moved, max(1.0, moved.abs().max()))


def _centres(step):
    """The axes over which a step takes off the mean, counted from the end."""
    if step.name == "NativeLayerNorm":
        return tuple(range(-len(step.saved("normalized_shape")), 0))
    if step.name not in ("Var", "Std"):
        return ()
    rank = len(step.reads[0][1].shape)
    axes = step.saved("dim")
    return tuple(signed(d) % rank - rank for d in (range(rank) if axes is None else axes))


def _less_mean(jacobian, axes):
    """The rows of a Jacobian (…, shifts) of what is left when the mean over some axes is taken off."""
    mean = jacobian.mean([a - 1 for a in axes], keepdim=True) if axes else 0
    return (jacobian - mean).flatten(0, -2)


def _is_norm(path, bent):
    """Whether a vector is divided by its own length: a clamp then bounds that one number only."""
    clamped = [s for s in path if s.name.startswith("Clamp") and s.shape[-1] != 1]
    return {s.name for s in bent} <= NORM_STEPS and not LENGTHS.isdisjoint(
        s.name for s in path) and not clamped  # fmt: skip


def _odd(steps):
    """The names of the operations that are neither moves nor linear."""
    names = {s.name for s in steps if s.name not in MOVES | LINEAR | {"AccumulateGrad"}}
    return ", ".join(sorted(names)) or "linear operations only"


def predict_query(model, layer, inputs):
    """The query bias reweights the keys; only what a LayerNorm of the queries erases is not seen."""
    record = record_of(model, inputs, layer.query, layer.module)
    normalisers = _normalisers(record)
    products = [s for s in record.until(set(normalisers)) if s.name in WEIGHED]
    if not products or any(len(s.reads) > 1 for s in products):
        raise Unknown("the queries do not meet the keys in a product")
    if products[0].shape[-1] < 2:
        raise Unknown(ONE_KEY)
    path = record.behind(products[0].reads[0][1])
    bent = [s for s in path if s.name not in MOVES | LINEAR or _is_quadratic(s)]
    bent = [s for s in bent if not _pools_alike(record, s)]
    if bent:
        scored = {s for s in normalisers if any(b.name in WEIGHED for b in record.behind(s))}
        if record.ends & set(record.until(scored)):
            raise Unknown("what the queries' map makes does not go through softmax alone: a gate")
        kept, why = _behind_a_norm(record, path, bent, "query")
        return len(kept), why, kept
    if normalisers[0].name != "Sigmoid" and _over_queries(record):
        raise Unknown("softmax runs over the queries")
    spanned = _spanned(model, layer, inputs)
    if spanned < layer.query.size:
        raise Unknown(f"the keys span {spanned} of {layer.query.size} dimensions at these inputs")
    return 0, ["the query bias adds another number to the score of every key"], None


def _pools_alike(record, step):
    """Whether a maximum is over tokens that the bias moves alike: it moves with them then."""
    axes = step.saved("dim") if step.name in ("Max", "Amax") else None
    if axes is None:
        return False
    moved = record.jacobian(*step.reads[0][1:])
    axes = [signed(a) for a in (axes if isinstance(axes, tuple) else (axes,))]
    axes = [a - 1 if a < 0 else a for a in axes]  # the last one counts the bias
    apart = (moved - moved.mean(axes, keepdim=True)).abs().max()
    return bool(axes) and bool(apart <= NOTHING * moved.abs().max())


def _spanned(model, layer, inputs):
    """In how many directions a query bias moves scores apart; more inputs until it is no more."""
    rows, found = [], [-1]
    for batch in variations(model, inputs):
        try:
            record = record_of(model, batch, layer.query, layer.module)
            rows += [_apart(record, normaliser) for normaliser in _normalisers(record)]
        except Exception:  # whatever a model raises that runs on the inputs given only
            return found[-1]
        moved = torch.cat(rows)
        found.append(layer.query.size - len(_unmoved(moved, max(1.0, moved.abs().max()))))
        if found[-1] in (found[-2], layer.query.size):
            return found[-1]


def _apart(record, normaliser):
    """Mixtures of the derivatives of the scores that are seen, each less their mean over keys."""
    _, scores, which = normaliser.reads[0]
    result = normaliser.saved("result")
    seen, generator = (result != 0).to(result), torch.Generator().manual_seed(0)
    axis = signed(normaliser.saved("dim") or 0) if normaliser.name != "Sigmoid" else None
    rows, wanted = [], len(record.bias) * 5 // 4 + 1
    for start in range(0, wanted, CHUNK):
        some = min(CHUNK, wanted - start)
        drawn = torch.randn(some, *result.shape, dtype=torch.float64, generator=generator)
        drawn = seen * drawn.to(result)
        if axis is not None:
            axis = axis if axis < 0 else axis - result.ndim
            count = seen.sum(axis, keepdim=True).clamp(min=1)
            drawn -= seen * drawn.sum(axis, keepdim=True) / count
        rows.append(record.pull_back_all(scores, which, drawn))
    return torch.cat(rows)


def _over_queries(record):
    """Whether the query bias is what softmax ignores, because it runs over the queries."""
    try:
        for path in _score_paths(record):
            _demand_s(path)
    except (Unknown, Lost):
        return False
    return True
