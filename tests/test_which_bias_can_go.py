"""The decision page says what theorems and measurements say, and the code it gives does it."""

import re
from types import SimpleNamespace

import pytest
import torch
from cells import printed
from files import ROOT, read_notebook
from register import read_register
from torch import nn

PAGE = (ROOT / "book/which-bias-can-go.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^###? (.+?)\n(.*?)(?=^###? |\Z)", PAGE, re.M | re.S))
GROUPS = ["Attention", "Before a norm", "Behind a norm, and in a block"]
AUDIT = ROOT / "notebooks/13-an-audit-of-real-models.ipynb"


def anchor(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower().replace("(", "").replace(")", "")).strip("-")


def test_each_section_stands_in_the_table_and_rests_on_something():
    sections = [title for title in SECTIONS if title not in GROUPS]
    linked = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    for title in sections[: sections.index("Parallel block") + 1]:
        assert anchor(title) in linked, f"the table does not lead to “{title}”"
        assert "```python" in SECTIONS[title], f"“{title}” does not say what to write"
        assert "../notebooks/" in SECTIONS[title], f"“{title}” rests on nothing"
    assert linked == {anchor(title) for title in sections} - {"what-can-go-does-not-say"}


def test_a_theorem_is_linked_by_its_own_number():
    slugs = {entry.number: entry.slug for entry in read_register(ROOT / "notebooks")}
    cited = re.findall(r"(?:Theorem|Lemma) ([\d.]+)\]\([^)#]*#([\w-]+)\)", PAGE)
    assert len(cited) > 30
    assert [pair for pair in cited if slugs.get(pair[0]) != pair[1]] == []


def found_by_the_audit():
    """For each architecture of the map: how much of b_K and b_V is redundant, and why."""
    cell = next(c for c in read_notebook(AUDIT).cells if "groups.setdefault" in c.source)
    found, facts = {}, None
    for line in printed(cell).splitlines():
        if line.startswith(" "):
            found |= dict.fromkeys(line.split(), facts)
        else:
            counts = re.findall(r"(\d+) of (\d+)", line[:40])[1:3]
            facts = [*(how_much(*map(int, count)) for count in counts), line[40:].strip()]
    return found


def how_much(count, size):
    return "none" if count == 0 else "all" if count == size else "part"


def test_the_architectures_are_those_of_the_audit():
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE, re.M)
    assert {name: rest.split(" | ") for name, rest in rows} == found_by_the_audit()
    assert len(rows) == 49 and "Forty-nine" in PAGE


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
