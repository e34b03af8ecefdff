"""Which directions of an attention layer's biases are redundant, and why, before any number.

    for prediction in predict(model, inputs):       # a float64 copy, see `precision`
        prediction.dimension, prediction.why        # None where the architecture is unknown

The model runs once for each bias.  PyTorch records, for gradients, the operations that the bias
passes (`record`), and each of them is looked up in what the book has proved:

    key      S: softmax ignores a constant in a row of scores (Theorems 3.1 to 3.3), so the
             directions that are the same at every key are redundant: all, or those that rotary
             positions leave alone (5.4), or, behind a LayerNorm of the keys, its mean (7.1)
    value    R: rows of weights sum to one number (4.1), so b_V moves into b_O (4.3); without
             b_O it takes the place of b_O, and only what W_O does not show is redundant
    query    reweights the keys (4.5): nothing is redundant, but its mean behind a LayerNorm
    output   its mean, if nothing but LayerNorms reads the stream (8.1 to 8.3)

No parameter's value is read, but for a factor that is one number.  An operation that no
theorem speaks of is not guessed at: the prediction then says which it is, and no dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from .layers import find_attention
from .precision import double_precision, plain_kernels
from .record import LINEAR, MOVES, PARTS, Record

NORMALISERS = {"Softmax", "SafeSoftmax", "Sigmoid"}
#: The products of queries and keys, and of weights and values.
WEIGHED = {"Bmm", "Baddbmm"}
NO_GRADIENT = "no gradient passes the layer: it is not run, or by operations of its own"
ONE_KEY = "the inputs have one key only, and one key has all the weight: give more"
#: Operations that leave the axes of the scores as they are.
STILL = {"Alias", "Clone", "ToCopy", "Copy", "Expand", "Contiguous", "Slice", "Select"}


class Unknown(Exception):
    """An operation stands where no theorem of the book speaks of it; says which."""


class Lost(Exception):
    """S or R is lost, and the sentence says why: nothing is redundant."""


@dataclass(frozen=True)
class Prediction:
    """What is predicted for one bias of one layer.

    ``dimension`` counts the redundant directions, None where the architecture is unknown;
    ``directions`` is a basis of them, (dimension x size), where it does not depend on weights;
    ``why`` are sentences.
    """

    layer: str
    role: str
    size: int
    dimension: int | None
    why: tuple[str, ...]
    directions: torch.Tensor | None = None


# --- one run of the model ---------------------------------------------------------------------


def run(model, inputs, shifts):
    """What the model returns when some of its biases are shifted: {projection: vector}."""
    values = {}
    for projection, shift in shifts.items():
        whole = values.get(projection.bias_name, projection.biases.parameter)
        moved = whole.view(-1).index_add(0, projection.rows.to(shift.device), shift)
        values[projection.bias_name] = moved.view_as(whole)
    positional, named = inputs
    with double_precision(), plain_kernels():
        return torch.func.functional_call(model, values, positional, named)


def tensors(outputs):
    """The numbers that a model returns: not its attention weights, hidden states or caches."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if hasattr(outputs, "items"):
        hidden = ("hidden_states", "attentions", "past_key_values", "loss")
        outputs = [v for k, v in outputs.items() if not k.endswith(hidden)]
    return [t for t in outputs if isinstance(t, torch.Tensor) and t.is_floating_point()]


def record_of(model, inputs, projections, module=None):
    """The `Record` from a bias to the first output of a module's call, or to those of the model.

    More than one projection: their biases move by the same vector.  None where the inputs do
    not reach the module.
    """
    projections = projections if isinstance(projections, tuple) else (projections,)
    place = projections[0].biases.parameter.device
    shift = torch.zeros(projections[0].size, dtype=torch.float64, device=place, requires_grad=True)
    caught = []
    hook = module and module.register_forward_hook(lambda m, args, out: caught.append(out))
    try:
        found = run(model, inputs, dict.fromkeys(projections, shift))
    finally:
        if hook:
            hook.remove()
    calls = [tensors(found)] if module is None else [_first_tensor(out) for out in caught]
    for outputs in ([t for t in call if t.requires_grad] for call in calls):
        record = Record(outputs, shift) if outputs else None
        if record is not None and record.ends:
            return record
    return None


def _first_tensor(outputs):
    """The first tensor of what a module returns, however deep it is wrapped; a list of it."""
    while not isinstance(outputs, torch.Tensor):
        if not outputs:
            return []
        outputs = next(iter(outputs.values() if hasattr(outputs, "values") else outputs))
    return [outputs]


def predict(model, inputs, layers=None, absent=frozenset()):
    """A Prediction for every bias of every attention layer, by (layer, role).

    ``model`` is a float64 copy in which every projection has a bias (`precision.generic_copy`),
    ``absent`` the names of those that the model itself does not have, ``inputs`` a pair
    (tuple, dict).
    """
    layers = find_attention(model) if layers is None else layers
    calls = _calls(model, inputs, layers)
    return {
        (layer.name, prediction.role): prediction
        for layer in layers
        for prediction in predict_layer(model, layer, inputs, absent, calls)
    }


def _calls(model, inputs, layers):
    """How often each layer, and the module of each of its maps, is called in one run."""
    modules = {p.weights.module for layer in layers for p in layer.projections.values()}
    calls = dict.fromkeys(modules | {layer.module for layer in layers}, 0)

    def count(module, *_):
        calls[module] += 1

    hooks = [module.register_forward_hook(count) for module in calls]
    try:
        run(model, inputs, {})
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _demand_no_other_use(layer, projection, calls):
    """Raises Unknown where a map is called more often, or less often, than its layer."""
    own, whole = calls.get(projection.weights.module), calls.get(layer.module)
    if own and whole and own != whole:
        raise Unknown(f"the map of the {projection.role} is called outside of its layer, or twice")


def predict_layer(model, layer, inputs, absent=frozenset(), calls=None):
    """The predictions for one layer: query, key, value, and output where there is one.

    Where `add_bias_kv` appends a key and a value, also for "bias_k" moved with the key bias, and
    "bias_v" with the value bias.
    """
    keys = record_of(model, inputs, layer.key, layer.module)
    shown = _attempt(layer, "output", lambda: predict_output(model, layer, inputs))
    foldable = layer.output is not None and layer.output.bias_name not in absent

    def value(*moved):
        return predict_value(model, layer, inputs, keys, shown, foldable, moved)

    asked = {
        "query": lambda: predict_query(model, layer, inputs, keys),
        "key": lambda: predict_key(layer, keys),
        "value": lambda: value(layer.value),
    }
    if layer.appended:
        together = record_of(model, inputs, (layer.key, layer.appended["key"]), layer.module)
        asked["bias_k"] = lambda: predict_key(layer, together)
        asked["bias_v"] = lambda: value(layer.value, layer.appended["value"])

    def unless_used(role, ask):
        together = ("value", "output") if role in ("value", "bias_v") else (role,)
        for projection in (layer.projections.get(r) for r in together):
            if projection is not None:
                _demand_no_other_use(layer, projection, calls or {})
        return ask()

    found = [_attempt(layer, role, partial(unless_used, role, ask)) for role, ask in asked.items()]
    return found + ([shown] if layer.output else [])


def _attempt(layer, role, ask):
    projection = layer.projections.get({"bias_k": "key", "bias_v": "value"}.get(role, role))
    size = projection.size if projection else 0
    try:
        dimension, why, *directions = ask()
    except Lost as reason:
        return Prediction(layer.name, role, size, 0, (str(reason),))
    except Unknown as reason:
        return Prediction(layer.name, role, size, None, (str(reason),))
    return Prediction(layer.name, role, size, dimension, tuple(why), *directions)


# --- keys: S ----------------------------------------------------------------------------------


def predict_key(layer, record):
    """S, and what stands between the key bias and the scores."""
    paths = _score_paths(record)
    for path in paths:
        _demand_s(path)
    found = [_same_at_every_token(layer, record, p.product, "key", p.axis) for p in paths]
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
    if record is None:
        raise Unknown(NO_GRADIENT)
    found = [s for s in record if s.name in NORMALISERS]
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


def _demand_s(path):
    """Raises Lost where a constant added to a row of scores is seen in the weights."""
    axis, weights = path.axis, path.normaliser
    if weights.name == "Sigmoid":
        raise Lost("sigmoid: each weight sees its own score, so a constant in a row is seen")
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
            others = [s for _, s, _ in step.reads if s.name not in ("Max", "Amax")]
            if len(others) > 1:
                raise Unknown("two sets of scores that depend on the keys are added")
        elif step.name not in ("Max", "Amax"):
            axis = _moved_axis(step, before, axis)
    if _signed(weights.saved("dim") or 0) not in (axis, len(weights.shape) + axis):
        raise Lost("softmax does not run over the keys")


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
        if not _unseen(step.saved("self") <= step.saved("other"), step, weights):
            raise Lost("scores are cut off from below, and softmax still sees those: they stay")
        return
    factor = _factor(step)
    if factor is None or factor.numel() == 1 or factor.ndim < -axis or factor.shape[axis] == 1:
        return
    if not _unseen(factor != 1, step, weights):
        raise Unknown("the scores are multiplied by numbers that differ from key to key")


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
        dims = [_signed(step.saved(f"dim{i}")) for i in (0, 1)] if step.name == "Transpose" else []
        dims = [d if d < 0 else d - len(shape) for d in dims] or [-1, -2]
        return dims[1 - dims.index(axis)] if axis in dims else axis
    if step.name == "Permute":
        dims = [_signed(d) % len(old) for d in step.saved("dims")]
        return dims.index(len(old) + axis) - len(dims)
    tail = len(old) + axis, len(shape) + axis
    if step.name in MOVES and min(tail) >= 0 and old[tail[0] :] == shape[tail[1] :]:
        return axis
    raise Unknown(f"an operation between scores and weights that is not known: {step}")


def _signed(number):
    return number - 2**64 if number >= 2**63 else number


# --- what is the same at every token ----------------------------------------------------------


def _same_at_every_token(layer, record, product, role, token_axis):
    """A basis of the directions in which the bias is the same at every token, and why."""
    _, operand, which = product.reads[0]
    path = record.behind(operand)
    bent = [s for s in path if s.name not in MOVES | LINEAR or _is_quadratic(s)]
    size = len(record.bias)
    if bent:
        return _behind_a_norm(layer, path, bent, size, role)
    moved = record.jacobian(operand, which).movedim(token_axis - 1, 0)
    rows = (moved - moved[:1]).reshape(-1, size)
    cut = 1e-9 * moved.abs().max()
    if cut < 1e-18:
        return torch.eye(size).to(rows), [f"the bias is taken off every {role} again"]
    if rows.norm() <= cut:  # no singular value is longer than all of them together
        return torch.eye(size).to(rows), [f"the same vector is added to every {role}"]
    values, right = torch.linalg.svd(rows, full_matrices=True)[1:]
    rank = int((values > cut).sum())
    if rank == 0:
        return right, [f"the same vector is added to every {role}"]
    if rank == size and any(map(_appends, path)):
        return right[rank:], [f"an extra {role} is appended that does not have the bias"]
    k = size // layer.key_value_heads
    turned, rest = divmod(rank, layer.key_value_heads)
    what = f"{turned} of {k} dimensions per head" if not rest else f"{rank} of {size} dimensions"
    factors = [_factor(s) for s in path if s.name == "Mul"]
    if not any(f is not None and f.ndim > 1 and f.numel() > f.shape[-1] for f in factors):
        return right[rank:], [f"the bias differs from {role} to {role} in {what}"]
    return right[rank:], [f"rotary positions turn {what}, differently at every token"]


def _appends(step):
    """Whether something that does not depend on the bias is put beside what does."""
    read = sum(s.shapes[which].numel() for _, s, which in step.reads)
    return step.name in ("Cat", "ConstantPadNd") and step.shape.numel() > read


def _is_quadratic(step):
    return step.name in ("Mul", "Div", "Bmm", "Mm", "Baddbmm") and len(step.reads) > 1


def _behind_a_norm(layer, path, bent, size, role):
    """The directions that a norm of the queries or keys erases: the mean, where it centres."""
    width = _centred_width(path, bent)
    names = {s.name for s in bent}
    if width is None:
        if not names <= NORM_STEPS:
            raise Unknown(f"an operation on the {role} that is not known: {_odd(bent)}")
        kind = "RMSNorm" if "Rsqrt" in names or "FusedRmsNorm" in names else "division by length"
        return torch.zeros(0, size), [f"{kind} of every {role} bends the bias"]
    if size % width:
        raise Unknown(f"a LayerNorm over {width} numbers of the {role}")
    erased = torch.eye(size // width).repeat_interleave(width, 1).double() / width**0.5
    each = "each head" if width < size else "the whole vector"
    return erased, [f"LayerNorm of every {role} erases the mean of {each}, and bends the rest"]


#: What an RMSNorm, a LayerNorm or a division by length is made of.
NORM_STEPS = {
    *("Pow", "Mean", "Rsqrt", "Sqrt", "Mul", "Div", "Add", "Sub", "FusedRmsNorm", "Square"),
    *("LinalgVectorNorm", "Norm", "ClampMin", "Clamp", "Reciprocal", "NativeLayerNorm", "Var"),
}


def _centred_width(path, bent):
    """Over how many numbers a LayerNorm centres, native or written out; None for other norms."""
    first = bent[0]
    if first.name == "NativeLayerNorm":
        return first.saved("normalized_shape")[-1] if _only_moves(path, first) else None
    for step in path:
        if step.name == "Sub" and len(step.reads) == 2 and step.reads[1][1].name == "Mean":
            return step.shape[-1] if _only_moves(path, step) else None
    return None


def _only_moves(path, step):
    """Whether nothing but moves (and the step's own mean) stands before it on the path."""
    before = path[: path.index(step)]
    return all(s.name in MOVES | {"AccumulateGrad", "Mean", "Addmm", "Add"} for s in before)


def _odd(steps):
    """The names of the operations that are neither moves nor linear."""
    names = {s.name for s in steps if s.name not in MOVES | LINEAR | {"AccumulateGrad"}}
    return ", ".join(sorted(names)) or "linear operations only"


# --- values: R --------------------------------------------------------------------------------


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


# --- queries ----------------------------------------------------------------------------------


def predict_query(model, layer, inputs, keys):
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
    if bent:
        kept, why = _behind_a_norm(layer, path, bent, layer.query.size, "query")
        return len(kept), why, kept
    if normalisers[0].name != "Sigmoid" and _over_queries(record):
        raise Unknown("softmax runs over the queries")
    if layer.key.weight().shape[1] <= layer.head_dim:
        raise Unknown("keys are made from so few numbers that they may not span a head")
    if _keys_are_centred(keys):
        raise Unknown("a LayerNorm of the keys alone: they do not span a head")
    return 0, ["the query bias adds another number to the score of every key"], None


def _keys_are_centred(record):
    """Whether a LayerNorm of the keys stands before the product that makes the scores."""
    normalisers = [] if record is None else [s for s in record if s.name in NORMALISERS]
    before = record.until(set(normalisers)) if normalisers else []
    product = next((s for s in before if s.name in WEIGHED), None)
    path = record.behind(product) if product else []
    bent = [s for s in path if s.name not in MOVES | LINEAR or _is_quadratic(s)]
    return bool(bent) and _centred_width(path, bent) is not None


def _over_queries(record):
    """Whether the query bias is what softmax ignores, because it runs over the queries."""
    try:
        for path in _score_paths(record):
            _demand_s(path)
    except (Unknown, Lost):
        return False
    return True


# --- outputs: where the mean of the stream goes -----------------------------------------------


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


#: Operations after which a number added to every entry is still added to every entry.
ALIKE = {
    "Mean",
    "AvgPool2D",
    "AvgPool3D",
    "AdaptiveAvgPool2D",
    "MaxPool2DWithIndices",
    "Max",
    "Amax",
}
#: Operations that do see such a number.
SEE = {
    *("Mm", "Bmm", "Baddbmm", "Convolution", "Pow", "Square", "FusedRmsNorm", "LinalgVectorNorm"),
    *("Norm", "Gelu", "Relu", "Silu", "Tanh", "Sigmoid", "Softplus", "Elu", "LeakyRelu", "Sum"),
    *("ConstantPadNd", "Where", "MaskedFill"),
}


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
