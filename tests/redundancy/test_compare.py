"""In any layout, `compare` finds where two models' numbers differ, and whether that matters."""

import copy
import math
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal, tolerance
from redundancy.comparing import CannotCompare, compare
from redundancy.measure.inputs import WrongInputs
from redundancy.measure.precision import (
    CannotRead,
    with_every_bias_random,
    with_every_weight_random,
)
from redundancy.models.tiny import some_inputs, tiny
from torch import nn

d, h, k = 12, 3, 4
draw = lambda seed, *shape: normal(*shape, dtype=torch.float32, seed=seed)
X = draw(1, 2, 5, d)
#: How many terms the sums have in a projection, scores, softmax, weighted values and W_O.
SUMS = (d, k, 5, 5, d)
#: The largest rounding error in float32; differences that tests make are at least 100 times larger.
ROUNDED = tolerance(torch.float32, SUMS)


def numbers():
    """The weights w and biases b of queries, keys and values by head, W_O as wo, and b_O as bo."""
    return {
        "w": draw(2, 3, h, k, d) / 2, "b": draw(3, 3, h, k),
        "wo": draw(4, d, h * k) / 3, "bo": draw(5, d),
    }  # fmt: skip


def parameter(tensor):
    return nn.Parameter(tensor.contiguous(), requires_grad=False)


def linear(weight, bias, kind=nn.Linear, *more):
    made = kind(weight.shape[1], len(weight), *more)
    made.weight, made.bias = parameter(weight.reshape(made.weight.shape)), parameter(bias)
    return made


def heads(x):
    return x.unflatten(-1, (h, k)).transpose(1, 2)


def join(x):
    return x.transpose(1, 2).flatten(-2)


class Fused(nn.Module):
    """Attention whose queries, keys and values share one matrix, stored transposed."""

    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.w, self.b = parameter(w.reshape(-1, d).T), parameter(b.flatten())
        self.wo, self.bo = parameter(wo.T), parameter(bo)

    def forward(self, x):
        q, keys, v = map(heads, (x @ self.w + self.b).chunk(3, -1))
        return join((q @ keys.mT / math.sqrt(k)).softmax(-1) @ v) @ self.wo + self.bo


class Separate(nn.Module):
    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.a, self.b, self.c = (linear(u.flatten(0, 1), c.flatten()) for u, c in zip(w, b))
        self.out = linear(wo, bo)

    def forward(self, states):
        q, keys, v = (heads(part(states)) for part in (self.a, self.b, self.c))
        return self.out(join(F.scaled_dot_product_attention(q, keys, v)))


class HeadByHead(nn.Module):
    """Attention with one matrix that holds the query, key and value rows of each head in turn."""

    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.mixed = linear(w.transpose(0, 1).reshape(-1, d), b.transpose(0, 1).flatten())
        self.out = linear(wo, bo)

    def forward(self, x):
        mixed = self.mixed(x).unflatten(-1, (h, 3 * k)).transpose(1, 2)
        return self.out(join(F.scaled_dot_product_attention(*mixed.chunk(3, -1))))


class Einsum(nn.Module):
    """Attention whose parameters belong to no submodule and have an axis for the heads."""

    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.w, self.b = parameter(w.transpose(-1, -2)), parameter(b)
        self.wo, self.bo = parameter(wo.view(d, h, k)), parameter(bo)

    def forward(self, x):
        q, keys, v = (torch.einsum("btd,hdk->bthk", x, w) + b for w, b in zip(self.w, self.b))
        weights = (torch.einsum("bthk,bshk->bhts", q, keys) / math.sqrt(k)).softmax(-1)
        return torch.einsum("bhts,bshk,dhk->btd", weights, v, self.wo) + self.bo


class Torchs(nn.MultiheadAttention):
    def __init__(self, w, b, wo, bo):
        super().__init__(d, h, batch_first=True)
        self.in_proj_weight, self.in_proj_bias = parameter(w.reshape(-1, d)), parameter(b.flatten())
        self.out_proj.weight, self.out_proj.bias = parameter(wo), parameter(bo)

    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Convolved(nn.Module):
    """Attention whose maps are 1 x 1 convolutions, with the channels first."""

    def __init__(self, w, b, wo, bo):
        super().__init__()
        self.mixed = linear(w.reshape(-1, d), b.flatten(), nn.Conv1d, 1)
        self.out = linear(wo, bo, nn.Conv1d, 1)

    def forward(self, x):
        q, keys, v = (part.unflatten(1, (h, k)) for part in self.mixed(x.mT).chunk(3, 1))
        weights = (torch.einsum("bhkt,bhks->bhts", q, keys) / math.sqrt(k)).softmax(-1)
        return self.out(torch.einsum("bhts,bhks->bhkt", weights, v).flatten(1, 2)).mT


LAYOUTS = (Fused, Separate, HeadByHead, Einsum, Torchs, Convolved)


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_no_difference_but_a_changed_number_is(layout):
    original, port = Fused(**numbers()), layout(**numbers())
    assert apart(original, port) < 1e-14
    found = compare(original, port, X)
    assert found.same and not found.differences, str(found)
    assert "All numbers are the same" in str(found) and max(found.apart.values()) < ROUNDED
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


def without(*parts):
    keep = torch.tensor([float(part not in parts) for part in ("query", "key", "value")])
    return lambda b, **_: b * keep[:, None, None]


def filled(value):
    return lambda b, **_: torch.stack([b[0], torch.full_like(b[1], value), b[2]])


swap = lambda t: t[[1, 0, 2]]
#: {title: (the port's numbers, {difference: whether it counts}, words in the report)}
PORTS = {
    "a key bias loaded as zeros": (
        changed(b=without("key")), {"key biases": False},
        "): no output depends on them (softmax cancels it [3.1])"),
    "a query bias loaded as zeros": (
        changed(b=without("query")), {"query biases": True}, "outputs depend on them"),
    "an uninitialised key bias": (
        changed(b=filled(1e30)), {"key biases": True}, "outputs may be wrong by 1 times the spread"),
    "a key bias of ten": (
        changed(b=filled(10)), {"key biases": False}, "no output depends on them (softmax cancels it"),
    "halves swapped": (
        changed(w=lambda w, **_: swap(w), b=lambda b, **_: swap(b)),
        {"query weights": True, "query biases": True, "key weights": True, "key biases": False},
        "the query weights of the second model are the key weights of the first model"),
    "halves of the bias swapped": (
        changed(b=lambda b, **_: swap(b)), {"query biases": True, "key biases": False},
        "the query biases of the second model are the key biases of the first model"),
    "only the bias interleaved": (
        changed(b=lambda b, **_: b.transpose(0, 1).reshape(3, h, k)),
        {"query biases": True, "key biases": False, "value biases": True},
        "the value biases differ, and are the same numbers in another order"),
    "b_V in b_O": (
        changed(b=without("value"), bo=fold), {"value biases": False, "output biases": False},
        "the output biases make up for it"),
    "b_V in b_O with the other sign": (
        changed(b=without("value"), bo=lambda **n: fold(**n, sign=-1)),
        {"value biases": True, "output biases": True}, "outputs depend on them"),
    "b_V in b_O, and b_Q lost": (
        changed(b=without("value", "query"), bo=fold),
        {"query biases": True, "value biases": False, "output biases": False},
        "the value biases make up for it"),
    "b_V lost": (changed(b=without("value")), {"value biases": True}, "outputs depend on them"),
    "other weights": (
        changed(w=lambda w, **_: w * torch.tensor([1, 1, 2.0])[:, None, None, None]),
        {"value weights": True}, "outputs depend on them"),
    "heads in another order": (
        changed(w=lambda w, **_: w.flip(1), b=lambda b, **_: b.flip(1),
                wo=lambda wo, **_: wo.view(d, h, k).flip(1).flatten(1)),
        dict.fromkeys([f"{p} {n}" for p in ("query", "key", "value") for n in ("weights", "biases")]
                      + ["output weights"], False), "these outputs differ by no more than rounding"),
}  # fmt: skip


@pytest.mark.parametrize("what", PORTS)
def test_a_port_beside_its_original(what):
    given, expected, sentence = PORTS[what]
    original, port = Fused(**numbers()), HeadByHead(**given)
    found = compare(original, port, X)
    assert told(found) == expected and sentence in str(found), str(found)
    seen = apart(original, port)
    assert found.same == (seen < ROUNDED) and not ROUNDED < seen < 100 * ROUNDED
    if "uninitialised" not in what:  # rounding destroys the digits of huge scores
        assert found.apart["float64"] == pytest.approx(seen, rel=1e-6, abs=1e-12)
    again = compare(port, original, X)
    assert sorted(told(again).values()) == sorted(told(found).values())


ZERO = "they are zero here; if they were not, outputs would depend on them"
ALL = "no output depends on them"


@pytest.mark.parametrize(("part", "zero", "counts", "seen"), [
    ("query", False, True, "outputs depend on them"), ("query", True, False, ZERO),
    ("key", False, False, ALL + " (softmax cancels it [3.1])"), ("key", True, False, ALL),
    ("value", False, True, "outputs depend on them"), ("value", True, False, ZERO),
])  # fmt: skip
def test_a_bias_that_only_one_model_has(part, zero, counts, seen):
    given = changed(b=lambda b, **_: 0 * b) if zero else numbers()
    original, port = Separate(**given), Separate(**given)
    port.get_submodule(dict(query="a", key="b", value="c")[part]).bias = None
    for one, other, which in ((original, port, "first"), (port, original, "second")):
        (only,) = compare(one, other, X).differences
        assert only.what == f"only the {which} model has {part} biases"
        assert only.seen == seen and only.counts == counts and (only.size == 0) == zero
    assert counts == (apart(original, port) > ROUNDED)


def test_a_key_bias_that_costs_digits_in_its_own_dtype_only():
    """In bfloat16, rounding changes scores of several hundred by more than one (Theorem 15.4)."""
    original = Separate(**numbers()).bfloat16()
    port = Separate(**changed(b=filled(300))).bfloat16()
    found = compare(original, port, X.bfloat16())
    assert not found.same and "which bfloat16 rounds by" in str(found)
    assert found.apart["float64"] < 1e-10 and found.apart["bfloat16"] > 10 * found.rounding
    assert compare(original, Separate(**changed(b=filled(1))).bfloat16(), X.bfloat16()).same


def test_a_port_in_another_dtype():
    """Rounding to bfloat16 does not count as a difference; four units in the last place do."""
    original, port = Separate(**numbers()), HeadByHead(**numbers()).bfloat16()
    found = compare(original, port, X)
    assert found.same and not found.differences and found.apart["float64"] < 1e-12
    port.mixed.weight[0, 0] *= 1 + 2**-5
    assert told(compare(original, port, X)) == {"query weights": True}


# --- models of transformers


def random_model(kind, **given):
    return with_every_bias_random(with_every_weight_random(tiny(kind, **given)))


def projections(model, name):
    return [m for n, m in model.named_modules() if n.endswith(name)]


def lose(name):
    def change(model):
        for module in projections(model, name):
            module.bias = None

    return change


def add(place, numbers, amount):
    """A change that adds an amount to some numbers of one parameter."""

    def change(model):
        model.get_parameter(place).data[numbers] += amount

    return change


def zero_unturned(model):
    """Zero the part of Phi's key bias that is not rotated: the second half of each head."""
    for linear in projections(model, "k_proj"):
        linear.bias.data.view(-1, 8)[:, 4:] = 0


def fold_gpt2(model):
    for layer in projections(model, ".attn"):
        values = layer.c_attn.bias.data[-32:]
        layer.c_proj.bias.data += values @ layer.c_proj.weight.data
        values.zero_()


def other_activation(model):
    model.encoder.layer[0].intermediate.intermediate_act_fn = nn.GELU(approximate="tanh")


def gain_moved(model):
    for layer in model.layers:
        layer.post_attention_layernorm.weight.data *= 2
        for name in ("gate_proj", "up_proj"):
            layer.mlp.get_submodule(name).weight.data /= 2


B_O = "encoder.layer.0.attention.output.dense.bias"
#: {title: (architecture, configuration, change, whether models count as the same, reported words)}
MODELS = {
    "BERT without b_K": ("bert", {}, lose("key"), True, "first model has key biases"),
    "BERT's b_O and its mean": ("bert", {}, add(B_O, slice(None), 0.5), True, "LayerNorm cancels it [7.1]"),
    "one number of BERT's b_O": ("bert", {}, add(B_O, 0, 0.5), False, "outputs depend on them"),
    "BERT's GELU": ("bert", {}, other_activation, False, "the numbers agree, but the models use them differently"),
    "BERT without a b_2": ("bert", {}, lose("layer.1.output.dense"), False,
                           "encoder.layer.1.output.dense.bias: only the first model has biases"),
    "GPT-2 with b_V in b_O": ("gpt2", {}, fold_gpt2, True, "the output biases make up for it"),
    "Phi without b_K": ("phi", {}, lose("k_proj"), False, "first model has key biases"),
    "Phi without what is not turned": ("phi", {}, zero_unturned, True, "softmax cancels it [3.1]"),
    "Llama without b_K": ("llama", {"attention_bias": True}, lose("k_proj"), False, "key biases"),
    "Llama's gain in its readers": ("llama", {}, gain_moved, True, "these outputs differ by no more than rounding"),
}  # fmt: skip


@pytest.mark.parametrize("what", MODELS)
def test_a_model_of_transformers(what):
    kind, given, change, same, sentence = MODELS[what]
    model = random_model(kind, **given)
    port = copy.deepcopy(model)
    change(port)
    found = compare(model, port)
    assert found.same == same and sentence in str(found), str(found)
    inputs = some_inputs(model, seed=3)
    one, other = (copy.deepcopy(m).double()(**inputs)[0] for m in (model, port))
    rounded = tolerance(torch.float32, 2 * (32, 8, 7, 7, 32, 64, 32))  # like SUMS, for two layers
    assert ((one - other).abs().max() < rounded * one.abs().max()) == same
    assert not compare(model, copy.deepcopy(model)).differences


def test_one_changed_gain_among_equal_gains_is_found():
    model, name = tiny("bert"), "encoder.layer.1.output.LayerNorm.weight"
    port = copy.deepcopy(model)
    add(name, 0, 1)(port)
    assert told(compare(model, port)) == {name: True}


@pytest.mark.parametrize(("word", "said"), [
    (7, "outputs depend on them"), (9, "these inputs do not use them")])  # fmt: skip
def test_a_difference_that_the_inputs_do_not_use_is_reported(word, said):
    model = random_model("gpt2")
    port = copy.deepcopy(model)
    add("wte.weight", (word, 0), 1)(port)
    found = compare(model, port, {"input_ids": torch.tensor([[3, 5, 7, 5]])})
    assert not found.same and said in str(found) and "wte.weight: the numbers differ" in str(found)


def test_the_statistics_of_a_batch_norm_are_numbers_too():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    x = draw(7, 2, 3, 6, 6)
    moved, lost, scaled = (copy.deepcopy(model) for _ in range(3))
    moved[1].running_mean -= moved[0].bias.data
    for port in (moved, lost):
        port[0].bias.data.zero_()
    scaled[1].running_var *= 2
    found = [compare(model, port, x) for port in (moved, lost, scaled)]
    assert [f.same for f in found] == [True, False, False]
    assert "0.bias: the biases differ" in str(found[0]) and "make up for it" in str(found[0])
    assert found[2].differences[0].place == "1.running_var"


# --- models that cannot be compared, and what `compare` does not change


REFUSED = {
    "layers": ({"num_hidden_layers": 1}, "has 2 layers of attention and the second model 1"),
    "heads": ({"num_attention_heads": 2}, "a head of attention layer 1 has the width 8 .* and 16"),
    "width": ({"hidden_size": 16}, "a head of attention layer 1 has the width 8 .* and 4"),
    "MLP": (
        {"intermediate_size": 48},
        "intermediate.dense.weight has the width 64 x 32 .* and 48 x 32",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_models_of_other_sizes_get_a_sentence(what):
    given, words = REFUSED[what]
    with pytest.raises(CannotCompare, match=words):
        compare(tiny("bert"), tiny("bert", **given))


def test_missing_or_unsuitable_inputs_are_refused():
    with pytest.raises(WrongInputs, match="give inputs"):
        compare(Fused(**numbers()), Separate(**numbers()))
    with pytest.raises(WrongInputs, match="Separate does not run on these inputs"):
        compare(Separate(**numbers()), Separate(**numbers()), {"x": X})
    assert compare(
        Separate(**numbers()), Fused(**numbers()), {"states": X}
    ).apart  # Fused calls its argument x, so the inputs are passed by position
    with pytest.raises(CannotRead, match="b holds NaN"):
        compare(Separate(**numbers()), Fused(**changed(b=filled(math.nan))), X)


def test_compare_changes_no_weight_and_no_mode():
    one, other = (nn.Sequential(Separate(**numbers()), nn.Dropout(0.5)) for _ in range(2))
    one.train(), other.eval()
    before = copy.deepcopy(one.state_dict())
    assert compare(one, other, X).same and one.training and not other.training
    assert all(torch.equal(t, one.state_dict()[n]) for n, t in before.items())
    assert one[0].a.weight.dtype == torch.float32 and "a.bias" in one[0].state_dict()
