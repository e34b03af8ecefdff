"""The decision page agrees with theorems and measurements, and its code does what it says."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from redundancy.models.defaults import NAMES, line
from redundancy.what_can_go import GROUPS
from redundancy.what_can_go.theorems import LINKS
from torch import nn
from transformers import AutoConfig, AutoModel

from tools.files import ROOT, read_notebook
from tools.records import answers
from tools.site.register import read_statements

PAGE = (ROOT / "book/which-bias-can-go.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^###? (.+?)\n(.*?)(?=^###? |\Z)", PAGE, re.M | re.S))


def test_the_pages_print_the_table_word_for_word(monkeypatch):
    assert answers.of_page() == PAGE
    assert answers.of_page(answers.FIRST) == answers.FIRST.read_text(encoding="utf-8")
    chapter = read_notebook(answers.CHAPTER)
    assert answers.of_chapter() == chapter
    assert any(answers.MARKED.search(cell.source) for cell in chapter.cells)
    row = answers.ROWS["Cross-attention"]  # control: another answer
    changed = replace(row, text=row.text.replace("b_K | all ", "b_K | the mean "))
    monkeypatch.setitem(answers.ROWS, row.title, changed)
    assert answers.of_page() != PAGE


def test_each_group_and_each_section_is_printed_with_its_conditions():
    *rows, _ = re.findall(r"^### (.+)$", PAGE, re.M)  # the last one is a recipe
    printed = {mark[1] for mark in answers.MARKED.findall(PAGE)}
    assert {f"group {name}" for name in GROUPS} <= printed and len(rows) > 20
    for title in rows:
        row = answers.ROWS[title.replace("`", "")]
        marks = {m[1] for m in answers.MARKED.findall(SECTIONS[title])}
        assert marks == {f"line {row.title}"} | ({f"not {row.title}"} if row.breaks else set())


def test_a_theorem_is_linked_by_its_own_number():
    entries = read_statements(ROOT / "notebooks").items()
    places = {number: f"{entry.notebook.name}#{entry.slug}" for number, entry in entries}
    cited = {*re.findall(r"(\d+\.\d+)\]\(\.\./notebooks/([^)]+)\)", PAGE)}
    assert {*LINKS} <= {number for number, _ in cited} and cited <= {*places.items()}


def test_the_architectures_are_those_of_chapter_13():
    assert re.findall(r"^\| `(.+?)` \|", PAGE, re.M) == sorted(NAMES) and len(NAMES) == 49


@pytest.mark.parametrize("name", NAMES)
def test_an_architecture_s_row_agrees_with_the_prediction_for_its_default(name):
    assert line(name) in PAGE.splitlines()


#: {model on the first page: its name in `transformers`, where that differs}
NAMED = {"Gemma 3": "gemma3_text", "GPT-2": "gpt2"}
LINEAR = re.compile(r"att.*(c_attn|proj|query|key|value|dense)|convolution$")


@pytest.mark.parametrize(("models", "biases"), [asked[:2] for asked in answers.ASKED])
def test_a_model_on_the_first_page_has_these_biases_by_default(models, biases):
    for model in models.split(", "):
        config = AutoConfig.for_model(NAMED.get(model, re.sub(r"\W", "_", model.lower())))
        config.num_hidden_layers = 1
        with torch.device("meta"):
            modules = AutoModel.from_config(config).named_modules()
        layers = [m for name, m in modules if LINEAR.search(name) and hasattr(m, "weight")]
        has = [layer.bias is not None for layer in layers]
        assert len(has) >= 2 and all(has) == (biases == "all")
        assert any(has) == (not biases.startswith("none"))


def code(title):
    """The pieces of code in a section of the page."""
    return re.findall(r"```python\n(.*?)```", SECTIONS[title], re.S)


@pytest.mark.parametrize("g", [4, 2])
@pytest.mark.parametrize("axis", [0, 1], ids=["Linear", "Conv1D"])
def test_the_recipe_initialises_each_part_by_itself(axis, g):
    sizes = [64, 16 * g, 16 * g]
    layer = SimpleNamespace(qkv=nn.Linear(64, sum(sizes)))
    without_key_bias, recipe = code("A fused Q, K, V projection")
    given = {"self": layer, "nn": nn, "h": 4, "g": g, "d_head": 16}
    exec(without_key_bias, given)
    kept, gone, also_kept = layer.qkv.bias.split(sizes)
    assert not gone.any() and kept.all() and also_kept.all()
    if axis:  # GPT-2's layer, whose weight is inputs × outputs
        layer.qkv.weight = nn.Parameter(layer.qkv.weight.T.contiguous())
        recipe = recipe.replace(".split(parts)", ".split(parts, dim=1)")
    exec(recipe, given)
    assert not layer.qkv.bias.any()
    for part in layer.qkv.weight.split(sizes, axis):  # of 2,000 uniform numbers or more
        bound = (6 / sum(part.shape)) ** 0.5
        assert 0.9 * bound < part.abs().max() <= bound * (1 + 2**-20)


def test_the_recipe_carries_a_bias_in_the_weights():
    norm, linear = nn.LayerNorm(8).double(), nn.Linear(8, 12).double()
    norm.bias.data.normal_()
    norm.requires_grad_(False), linear.requires_grad_(False)
    x = 3 * torch.randn(5, 8, dtype=torch.float64)
    before, weight = linear(norm(x)), linear.weight.clone()
    (recipe,) = code("A LayerNorm with a shift before any linear map")
    exec(recipe, {"norm": norm, "linear": linear, "torch": torch})
    # the bound allows 100 roundings of products of new weights and outputs of the norm below ten
    bound = 2**-53 * 100 * 10 * linear.weight.abs().sum(1).max()
    assert not linear.bias.any() and (linear(norm(x)) - before).abs().max() < bound < 1e-9
    linear.weight.copy_(weight)  # control: the old weight, without the bias
    assert (linear(norm(x)) - before).abs().max() > 1e-2


def test_an_appended_key_takes_the_key_bias_and_cannot_be_deleted():
    attn = nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True).double().eval()
    for parameter in attn.parameters():
        parameter.data.normal_()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    before = attn(x, x, x)[0]
    exec(code("An extra key and value")[0], {"attn": attn, "d": 8})
    # the bound allows 300 roundings of numbers below a hundred
    assert (attn(x, x, x)[0] - before).abs().max() < 2**-53 * 300 * 100 * before.abs().max()
    attn.bias_k = attn.bias_v = None
    assert (attn(x, x, x)[0] - before).abs().max() > 1e-2


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_bias_goes_into_a_batch_norm_in_evaluation_and_is_cancelled_in_training(mode):
    conv, bn = nn.Conv2d(3, 4, 3, dtype=torch.float64), nn.BatchNorm2d(4, dtype=torch.float64)
    bn.running_mean.normal_()
    x = torch.randn(5, 3, 6, 6, dtype=torch.float64)
    outputs = [getattr(bn, mode)()(conv(x))]
    exec(code("Before frozen BatchNorm")[0], {"conv": conv, "bn": bn})
    outputs.append(bn(conv(x)))
    # 1e-10 exceeds 100 roundings of numbers below 100, divided by deviations above 1/100.
    assert (outputs[0] - outputs[1]).abs().max() < 1e-10
    assert conv.bias is None
