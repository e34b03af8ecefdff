"""The decision page says what theorems and measurements say, and the code it gives does it."""

import re
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from docutils.nodes import make_id
from files import ROOT, read_notebook
from redundancy.layers import find_attention
from redundancy.precision import generic_copy
from redundancy.predict import predict
from redundancy.reasons import reason_for
from redundancy.zoo import some_inputs, tiny
from register import read_register
from torch import nn

PAGE = (ROOT / "book/which-bias-can-go.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^###? (.+?)\n(.*?)(?=^###? |\Z)", PAGE, re.M | re.S))
GROUPS = ["Attention", "Before a norm", "Behind a norm, and in a block"]
AUDIT = ROOT / "notebooks/13-an-audit-of-real-models.ipynb"


def test_each_section_stands_in_the_table_and_rests_on_something():
    sections = [title for title in SECTIONS if title not in GROUPS]
    linked = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    for title in sections[: sections.index("Parallel block") + 1]:
        assert make_id(title) in linked, f"the table does not lead to “{title}”"
        assert "```python" in SECTIONS[title], f"“{title}” does not say what to write"
        assert "../notebooks/" in SECTIONS[title], f"“{title}” rests on nothing"
    assert linked == {make_id(title) for title in sections} - {"what-can-go-does-not-say"}


def test_a_theorem_is_linked_by_its_own_number():
    slugs = {entry.number: entry.slug for entry in read_register(ROOT / "notebooks")}
    cited = re.findall(r"(?:Theorem|Lemma) ([\d.]+)\]\([^)#]*#([\w-]+)\)", PAGE)
    assert len(cited) > 30
    assert [pair for pair in cited if slugs.get(pair[0]) != pair[1]] == []


MODELS = {
    name: rest.split(" | ") for name, rest in re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE, re.M)
}


def test_the_architectures_are_those_of_the_audit():
    cell = next(c for c in read_notebook(AUDIT).cells if "groups.setdefault" in c.source)
    named = re.findall(r"`(.+?)`", cell.outputs[-1].data["text/markdown"])
    assert sorted(MODELS) == sorted(named)
    assert len(MODELS) == 49 and "Forty-nine" in PAGE


#: How the page calls the part of a head that turns, by the share of the key bias that can go.
TURNED = {0: "all", Fraction(1, 2): "half", Fraction(3, 4): "a quarter"}
#: What the page says of a value bias, by the last of the reasons that the audit predicts from.
VALUES = {
    "W_O b_V moves into b_O": "it moves into $b_O$",
    "there is no b_O, so b_V takes its place": "there is no $b_O$",
    "W_O shows 31 of its 32 directions": "no $b_O$, but one direction is not seen",
    "a sink takes a share of every row: the weights do not sum to one number": (
        "the sink takes a share of the weights"
    ),
    "a norm before W_O bends the value bias": "a norm before $W_O$ bends it",
}


def how_much(bias):
    return "part" if 0 < bias.dimension < bias.size else "all" if bias.dimension else "none"


@pytest.mark.parametrize("name", MODELS)
def test_what_can_go_and_why_is_what_the_audit_predicts(name):
    relative = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}  # as in chapter 13
    model = tiny(name, **relative) if name.startswith("deberta") else tiny(name)
    copied = generic_copy(model)
    new = set(dict(copied.named_parameters())) - set(dict(model.named_parameters()))
    first = find_attention(copied)[:1]
    found = predict(copied, ((), some_inputs(copied)), first, absent=new)
    key, value = (found[first[0].name, role] for role in ("key", "value"))
    why = reason_for(key.why).words
    if why == "rotary positions turn it":
        why = f"RoPE turns {TURNED[Fraction(key.dimension, key.size)]} of each head"
    assert MODELS[name] == [how_much(key), why, how_much(value), VALUES[value.why[-1]]]


def test_a_section_begins_with_what_the_table_says():
    rows = re.findall(r"^\| \[[^]]+\]\(#([\w-]+)\) \| (.+) \| (.+) \|$", PAGE, re.M)
    sections = {make_id(title): text for title, text in SECTIONS.items()}
    said = re.compile(r"\s*\*\*Can go:\*\* (.+)\. \*\*Stays:\*\* (.+)\.\n")
    begun = {name: match.groups() for name, text in sections.items() if (match := said.match(text))}
    assert begun == {name: (goes, stays) for name, goes, stays in rows if name in begun}
    assert len(begun) == 20


def code(title):
    return re.search(r"```python\n(.*?)```", SECTIONS[title], re.S)[1]


def test_the_recipe_initialises_each_third_by_itself():
    layer = SimpleNamespace(qkv=nn.Linear(64, 192))
    bound = (6 / 128) ** 0.5  # Xavier's for 64 × 64; for the fused matrix it is half the variance
    nn.init.xavier_uniform_(layer.qkv.weight)
    assert layer.qkv.weight.abs().max() <= bound / 2**0.5 * (1 + 2**-20)
    exec(code("A fused Q, K, V projection, from scratch"), {"self": layer, "nn": nn})
    assert not layer.qkv.bias.any()
    for third in layer.qkv.weight.chunk(3):  # 4,096 numbers: one lies beyond 0.9 of the bound
        assert 0.9 * bound < third.abs().max() <= bound * (1 + 2**-20)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_bias_moves_into_frozen_batch_norm_and_in_training_is_gone(mode):
    conv, bn = nn.Conv2d(3, 4, 3, dtype=torch.float64), nn.BatchNorm2d(4, dtype=torch.float64)
    bn.running_mean.normal_()
    x = torch.randn(5, 3, 6, 6, dtype=torch.float64)
    outputs = [getattr(bn, mode)()(conv(x))]
    exec(code("Before frozen BatchNorm"), {"conv": conv, "bn": bn})
    outputs.append(bn(conv(x)))
    # Some hundred roundings of numbers below a hundred, divided by deviations above 1/100.
    assert (outputs[0] - outputs[1]).abs().max() < 1e-10
    assert conv.bias is None
