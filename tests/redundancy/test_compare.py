"""In any layout, `compare` finds where two models' numbers differ, and whether that matters."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from architectures.cases import made
from derivation.checks import normal, tolerance
from redundancy.compare import CannotCompare, compare
from redundancy.fold.one_move import OneMove
from redundancy.measure.inputs import WrongInputs
from redundancy.measure.precision import CannotRead
from redundancy.models.tiny import tiny
from shared_models import random_model
from torch import nn

d, h, k = 12, 3, 4
draw = lambda seed, *shape: normal(*shape, dtype=torch.float32, seed=seed)
X = draw(1, 2, 5, d)
#: The largest rounding error of a projection, scores, softmax, weighted values and W_O in float32.
ROUNDED = tolerance(torch.float32, (d, k, 5, 5, d))


def numbers():
    """The weights w and biases b of queries, keys and values by head, W_O as wo, and b_O as bo."""
    return {
        "w": draw(2, 3, h, k, d) / 2, "b": draw(3, 3, h, k),
        "wo": draw(4, d, h * k) / 3, "bo": draw(5, d),
    }  # fmt: skip


def parameter(tensor):
    return nn.Parameter(tensor.contiguous(), requires_grad=False)


def linear(weight, bias):
    made = nn.Linear(*weight.T.shape)
    made.weight, made.bias = parameter(weight), parameter(bias)
    return made


def attended(q, keys, v):
    """The joined heads of attention, from queries, keys and values (batch x token x head x k)."""
    q, keys, v = (part.transpose(1, 2) for part in (q, keys, v))
    return F.scaled_dot_product_attention(q, keys, v).transpose(1, 2).flatten(-2)


class Fused(nn.Module):
    """Attention whose queries, keys and values share one matrix, stored transposed."""

    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.w, self.b = parameter(w.reshape(-1, d).T), parameter(b.flatten())
        self.wo, self.bo = parameter(wo.T), parameter(bo)

    def forward(self, x):
        parts = (x @ self.w + self.b).unflatten(-1, (3, h, k)).unbind(-3)
        return attended(*parts) @ self.wo + self.bo


class Separate(nn.Module):
    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.a, self.b, self.c = (linear(u.flatten(0, 1), c.flatten()) for u, c in zip(w, b))
        self.out = linear(wo, bo)

    def forward(self, states):
        parts = (part(states).unflatten(-1, (h, k)) for part in (self.a, self.b, self.c))
        return self.out(attended(*parts))


@made(lambda w, b, wo, bo: {
    "mixed": linear(w.transpose(0, 1).reshape(-1, d), b.transpose(0, 1).flatten()),
    "out": linear(wo, bo)})  # fmt: skip
def head_by_head(self, x):
    """Attention with one matrix that holds the query, key and value rows of each head in turn."""
    return self.out(attended(*self.mixed(x).unflatten(-1, (h, 3 * k)).chunk(3, -1)))


@made(lambda w, b, wo, bo: {"w": parameter(w.transpose(-1, -2)), "b": parameter(b),
                            "wo": parameter(wo.view(d, h, k)), "bo": parameter(bo)})  # fmt: skip
def einsum(self, x):
    """Attention whose parameters belong to no submodule and have an axis for the heads."""
    q, keys, v = (torch.einsum("btd,hdk->bthk", x, w) + b for w, b in zip(self.w, self.b))
    weights = (torch.einsum("bthk,bshk->bhts", q, keys) / math.sqrt(k)).softmax(-1)
    return torch.einsum("bhts,bshk,dhk->btd", weights, v, self.wo) + self.bo


def apart(one, other, x=X):
    """The largest relative difference between outputs in float64, computed without `compare`."""
    found, expected = (copy.deepcopy(m).double()(x.double()) for m in (one, other))
    return ((found - expected).abs().max() / expected.abs().max()).item()


def told(found):
    """{part of attention or name of a parameter: whether the difference there counts}."""
    place = lambda t: (
        t.what.split(" of ")[0].split(" differ")[0] if "attention" in t.place else t.place
    )
    return {place(t).removeprefix("the "): t.counts for t in found.differences}


@pytest.mark.parametrize("layout", [Separate, head_by_head, einsum])
def test_another_layout_is_ignored_and_a_changed_number_reported(layout):
    original, port = Fused(**numbers()), layout(**numbers())
    found = compare(original, port, X)
    assert found.same and not found.differences, str(found)
    assert max(found.apart.values()) < ROUNDED
    wrong = numbers()
    wrong["w"][1, 2, 3, 4] += 1  # one weight of a key
    wrong["b"][2, 0, 1] += 1  # one bias of a value
    found = compare(original, layout(**wrong), X)
    assert told(found) == {"key weights": True, "value biases": True}, str(found)
    assert all(d.size == pytest.approx(1, abs=ROUNDED) for d in found.differences)


# --- changes that a port may make to the numbers


def changed(**how):
    """`numbers()`, in which each function in ``how`` computes a new entry from all the old ones."""
    return numbers() | {name: function(**numbers()) for name, function in how.items()}


def fold(w, b, wo, bo, sign=1):
    return bo + sign * wo @ b[2].flatten()


def with_part(part, value):
    """The biases in which all numbers of one part (0: query, 1: key, 2: value) are ``value``."""
    return lambda b, **_: b.index_fill(0, torch.tensor([part]), value)


swap = lambda t: t[[1, 0, 2]]
WEIGHTS = dict.fromkeys(["query weights", "key weights", "value weights", "output weights"], False)
BIASES = dict.fromkeys(["query biases", "key biases", "value biases"], False)
#: {title: (the port's numbers, {difference: whether it counts}, words in the report)}
PORTS = {
    "b_Q as zeros": (changed(b=with_part(0, 0)), {"query biases": True}, "outputs depend on them"),
    "b_K uninitialised": (
        changed(b=with_part(1, 1e30)), {"key biases": True}, "wrong by 1 times the spread"),
    "b_K of ten": (changed(b=with_part(1, 10)), {"key biases": False}, "softmax cancels it [3.1]"),
    "halves swapped": (
        changed(w=lambda w, **_: swap(w), b=lambda b, **_: swap(b)),
        {"query weights": True, "query biases": True, "key weights": True, "key biases": False},
        "the query weights of the second model are the key weights of the first model"),
    "only the bias interleaved": (
        changed(b=lambda b, **_: b.transpose(0, 1).reshape(3, h, k)),
        BIASES | {"query biases": True, "value biases": True}, "same numbers in another order"),
    "b_V in b_O": (
        changed(b=with_part(2, 0), bo=fold), {"value biases": False, "output biases": False},
        "the output biases make up for it"),
    "b_V in b_O with the other sign": (
        changed(b=with_part(2, 0), bo=lambda **n: fold(**n, sign=-1)),
        {"value biases": True, "output biases": True}, "outputs depend on them"),
    "heads in another order": (
        changed(w=lambda w, **_: w.flip(1), b=lambda b, **_: b.flip(1),
                wo=lambda wo, **_: wo.view(d, h, k).flip(1).flatten(1)),
        WEIGHTS | BIASES, "these outputs differ by no more than rounding"),
}  # fmt: skip


@pytest.mark.parametrize("what", PORTS)
def test_differences_of_a_port_are_found_and_judged(what):
    given, expected, sentence = PORTS[what]
    original, port = Fused(**numbers()), head_by_head(**given)
    found = compare(original, port, X)
    assert told(found) == expected and sentence in str(found), str(found)
    seen = apart(original, port)
    assert found.same == (seen < ROUNDED) and not ROUNDED < seen < 100 * ROUNDED
    if "uninitialised" not in what:  # rounding destroys the digits of huge scores
        assert found.apart["float64"] == pytest.approx(seen, rel=1e-6, abs=1e-12)
    assert sorted(told(compare(port, original, X)).values()) == sorted(expected.values())


def test_a_difference_that_no_rule_notices_is_still_measured(monkeypatch):
    """Here the calculus wrongly lets every move pass, so only the measured outputs object."""
    monkeypatch.setattr(OneMove, "see", lambda *ignored, **also: None)
    found = compare(Fused(**numbers()), head_by_head(**changed(b=with_part(0, 0))), X)
    assert told(found) == {"query biases": True}, str(found)


@pytest.mark.parametrize(("part", "zero", "counts"), [
    ("a", False, True), ("b", False, False), ("c", False, True), ("a", True, False)])  # fmt: skip
def test_a_missing_bias_counts_only_if_outputs_depend_on_it(part, zero, counts):
    """A lost query or value bias (a, c) counts, unless it was zero; a lost key bias (b) does not."""
    given = changed(b=lambda b, **_: 0 * b) if zero else numbers()
    original, port = Separate(**given), Separate(**given)
    port.get_submodule(part).bias = None
    for one, other, which in ((original, port, "first"), (port, original, "second")):
        (only,) = compare(one, other, X).differences
        assert only.what.startswith(f"only the {which} model has") and only.counts == counts
    assert counts == (apart(original, port) > ROUNDED)


def test_a_bias_may_cost_digits_in_bfloat16_and_rounding_to_bfloat16_is_no_difference():
    """Rounding changes scores of several hundred by more than one (Theorem 15.4)."""
    original, port = Separate(**numbers()), head_by_head(**numbers()).bfloat16()
    assert not compare(original, port, X).differences
    port.mixed.weight[0, 0] *= 1 + 2**-5  # four units in the last place
    assert told(compare(original, port, X)) == {"query weights": True}
    original = original.bfloat16()
    for size, same in ((300, False), (1, True)):
        port = Separate(**changed(b=with_part(1, size))).bfloat16()
        found = compare(original, port, X.bfloat16())
        assert found.same == same and found.apart["float64"] < 1e-10
        assert (found.apart["bfloat16"] < 10 * found.rounding) == same


# --- other modules


B_O = "encoder.layer.0.attention.output.dense.bias"
GAIN = "encoder.layer.0.output.LayerNorm.weight"
WORDS = {"gpt2": {"input_ids": torch.tensor([[3, 5, 7, 5]])}}


def plus(name, numbers):
    """Add 1/2 to some numbers of one parameter."""
    return lambda model: model.get_parameter(name).data[numbers].add_(0.5)


def another_gelu(model):
    model.encoder.layer[0].intermediate.intermediate_act_fn = nn.GELU(approximate="tanh")


def without_unrotated_keys(model):
    model.layers[0].self_attn.k_proj.bias.data.view(-1, 8)[:, 4:] = 0


#: {title: (architecture, what changes in the port, whether models count as the same, reported words)}
MODELS = {
    "the mean of BERT's b_O": ("bert", plus(B_O, ...), True, "LayerNorm cancels it [7.1]"),
    "one number of BERT's b_O": ("bert", plus(B_O, 0), False, "depend on them"),
    "a gain of BERT": ("bert", plus(GAIN, 0), False, f"{GAIN}: the numbers differ"),
    "BERT's GELU": ("bert", another_gelu, False, "use them differently"),
    "Phi without what is not turned": ("phi", without_unrotated_keys, True, "cancels it [3.1]"),
    "a word that occurs": ("gpt2", plus("wte.weight", (7, 0)), False, "outputs depend on them"),
    "another word": ("gpt2", plus("wte.weight", (9, 0)), False, "these inputs do not use them"),
}


@pytest.mark.parametrize("what", MODELS)
def test_changes_of_a_transformers_model_are_judged(what):
    kind, change, same, sentence = MODELS[what]
    model = random_model(kind, num_hidden_layers=1)
    port = copy.deepcopy(model)
    change(port)
    found = compare(model, port, WORDS.get(kind))
    assert found.same == same and sentence in str(found), str(found)


def test_running_statistics_of_a_batch_norm_are_compared_too():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    moved, lost, scaled = (copy.deepcopy(model) for _ in range(3))
    moved[1].running_mean -= moved[0].bias.data
    for port in (moved, lost):
        port[0].bias.data.zero_()
    scaled[1].running_var *= 2
    found = [compare(model, port, draw(7, 2, 3, 6, 6)) for port in (moved, lost, scaled)]
    assert [f.same for f in found] == [True, False, False]
    assert "make up for it" in str(found[0]) and found[2].differences[0].place == "1.running_var"


# --- models that cannot be compared, and what `compare` does not change


@pytest.mark.parametrize(("given", "words"), [
    ({"num_hidden_layers": 1}, "has 2 attention layers and the second model 1"),
    ({"num_attention_heads": 2}, "a head of attention layer 1 has the shape 8 .* and 16"),
    ({"intermediate_size": 48}, "intermediate.dense.bias has the shape 64 .* and 48"),
])  # fmt: skip
def test_models_of_different_sizes_are_refused(given, words):
    with pytest.raises(CannotCompare, match=words):
        compare(tiny("bert"), tiny("bert", **given))


def test_models_with_different_numbers_of_biases_are_refused():
    one = nn.Linear(4, 4)
    with pytest.raises(CannotCompare, match="has 1 biases outside attention and .* 2"):
        compare(nn.Sequential(one), nn.Sequential(one, nn.Linear(4, 4)), draw(1, 2, 4))


def test_unsuitable_inputs_are_refused():
    original = Separate(**numbers())
    for inputs in (None, {"x": X}):  # the argument is called states
        with pytest.raises(WrongInputs):
            compare(original, Separate(**numbers()), inputs)
    assert compare(original, Fused(**numbers()), {"states": X}).same  # there, by position
    with pytest.raises(CannotRead, match="holds NaN"):
        compare(original, Fused(**changed(b=with_part(1, math.nan))), X)


def test_compare_changes_no_weight_and_no_mode():
    one, other = (nn.Sequential(Separate(**numbers()), nn.Dropout(0.5)) for _ in range(2))
    other.eval()
    before = copy.deepcopy(one.state_dict())
    assert compare(one, other, X).same and one.training and not other.training
    assert all(torch.equal(t, one.state_dict()[n]) for n, t in before.items())
    assert one[0].a.weight.dtype == torch.float32
