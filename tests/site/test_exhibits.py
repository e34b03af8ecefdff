"""The exhibits compute what PyTorch's own modules compute, and can be used with the keyboard.

The formulas run in Chromium, without the rest of the book, in float64 like PyTorch here.  Both
round fewer than a hundred operations on numbers below ten, so errors are far below 1e-12.
"""

import json

import pytest
import torch
from browser import served, visited
from torch import nn

from tools.files import ROOT

CLOSE = 1e-12

AFTER = ["after attention", "after network"]
#: Steps in order: (exhibit, control, its new value, plots then marked as moved, or words then said).
STEPS = [
    ("three-biases", "key bias", "1", ["Scores"]),
    ("three-biases", "key bias", "0", []),
    ("three-biases", "query bias", "1", ["Scores", "Weights", "Output"]),
    ("three-biases", "query bias", "0", []),
    ("three-biases", "value bias", "1", ["Output"]),
    ("bias-before-norm", "on all features", "1", ["RMSNorm"]),
    ("bias-before-norm", "on feature 1 only", "1", ["LayerNorm", "RMSNorm"]),
    ("through-a-block", "added to b_O", "1", AFTER),
    ("through-a-block", "post-norm", "", []),
    ("through-a-block", "feature 1", "", AFTER),
    ("large-key-bias", "key bias", "4", ["Keys, less the bias", "Weights"]),
    ("groups-of-a-norm", "on channel 1", "1", ["GroupNorm, two groups", "LayerNorm"]),
    ("groups-of-a-norm", "on channel 2", "1", ["LayerNorm"]),
    ("groups-of-a-norm", "on channels 3, 4", "1", []),
    ("shift-for-query-bias", "shift t", "1", ["Scores", "Output"]),
    ("shift-for-query-bias", "b_O − W_O W_V t", "", ["Scores"]),
    ("correlated-tokens", "cosine of tokens", "0.5", ["Scores of eight keys", "Weights"]),
    ("depth-of-a-stream", "blocks N", "12", "ends at 25"),
    ("depth-of-a-stream", "divided by √(2N)", "", "ends at 2,"),
    ("fused-or-separate", "each by itself", "", "deviation 1.00"),
    ("fused-or-separate", "the fused matrix", "", "deviation 0.50"),
]
EXHIBITS = {"drag-tokens", *(name for name, *_ in STEPS)}
PAGE = "<meta charset='utf-8'><script src='exhibits/load.js' defer></script>" + "".join(
    f"<div data-exhibit='{name}'></div>" for name in EXHIBITS
)
f64 = {"dtype": torch.float64}
drawn = lambda *shape: torch.randn(*shape, **f64)
same = lambda a, b: torch.allclose(torch.tensor(a, **f64), b.detach(), rtol=0, atol=CLOSE)
said = lambda page, name: page.locator(f"[data-exhibit={name}] .said").inner_text()


@pytest.fixture(scope="module")
def page(browser):
    with served(ROOT / "book" / "static") as address, browser.new_context() as context:
        answer = {"body": PAGE, "content_type": "text/html"}
        context.route(f"{address}/all.html", lambda route: route.fulfill(**answer))
        page = visited(context, f"{address}/all.html", address)
        there = "document.querySelectorAll('[data-exhibit] .said').length"
        page.wait_for_function(f"{there} === {len(EXHIBITS)}")
        yield page
        assert not page.faults


def computed(page, formula, *given):
    """Evaluate a formula of tensors in the page; return an array, or a dict of arrays."""
    given = (json.dumps(x, default=torch.Tensor.tolist) for x in given)
    return page.evaluate(f"formulas.{formula}({', '.join(given)})")


def test_each_norm_is_that_of_the_module(page):
    X = drawn(4, 3)
    norms = {"batch": nn.BatchNorm1d(3), "layer": nn.LayerNorm(3), "rms": nn.RMSNorm(3, eps=1e-5)}
    for name, norm in norms.items():
        assert same(computed(page, f"norms.{name}", X), norm.double().train()(X)), name
    for groups in (1, 2, 4):
        expected = nn.GroupNorm(groups, 4).double()(X[None])[0]
        assert same(computed(page, "groupNorm", X, groups), expected), groups


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_attention_and_the_block_are_those_of_the_module(page, norm_first, causal):
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first} | f64
    layer = nn.TransformerEncoderLayer(4, 1, 4, **options)
    attention, X = layer.self_attn, drawn(3, 4)
    nn.init.zeros_(layer.linear1.bias)
    for bias in (attention.in_proj_bias, attention.out_proj.bias):
        nn.init.normal_(bias)
    W = dict(zip("qkvo", [*attention.in_proj_weight.chunk(3), attention.out_proj.weight]))
    b = dict(zip("qkvo", [*attention.in_proj_bias.chunk(3), attention.out_proj.bias]))
    mask = torch.ones(3, 3, dtype=torch.bool).triu(1) if causal else None
    output, weights = attention(X[None], X[None], X[None], attn_mask=mask)
    shown = computed(page, "attention", X, W, b, causal)
    assert same(shown["weights"], weights[0]) and same(shown["output"], output[0])
    W |= {"first": layer.linear1.weight, "second": layer.linear2.weight}
    b |= {"second": layer.linear2.bias}
    output = layer(X[None])[0]
    shown = computed(page, "block", X, W, b, norm_first)
    end = nn.functional.layer_norm(output, [4]) if norm_first else output
    assert same(shown["network"], output) and same(shown["end"], end)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_numbers_are_rounded_like_the_entries_of_a_tensor(page, dtype):
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 2**-24, 3 * 2**-25])
    x = torch.cat([drawn(200) * 10 ** (4 * drawn(200)).clamp(-8, 4), ties.double(), -ties.double()])
    shown = page.evaluate("([x, t]) => x.map(y => formulas.rounded(y, t))", [x.tolist(), dtype])
    shown = torch.tensor([float(y) for y in shown], **f64)
    assert torch.equal(shown, x.to(getattr(torch, dtype)).double())


def moved(page, name):
    """The titles of an exhibit's plots that are marked as moved."""
    heads = page.locator(f"[data-exhibit={name}] .plot.moved .name").all_inner_texts()
    return [head.split("\n")[0] for head in heads]


def test_a_control_has_the_effect_that_its_theorem_says(page):
    for name, label, value, effect in STEPS:
        control = page.locator(f"[data-exhibit={name}]").get_by_label(label)
        control.fill(value) if value else control.check()
        seen = said(page, name) if isinstance(effect, str) else moved(page, name)
        right = effect in seen if isinstance(effect, str) else effect == seen
        assert right, f"{name}: {label} at {value} gives {seen}"


def test_a_token_moves_by_key_and_by_hand(page):
    tokens = page.locator("[data-exhibit=drag-tokens]")
    chips = tokens.locator(".chip")
    chips.nth(1).focus()
    page.keyboard.press("ArrowLeft")
    assert chips.all_inner_texts() == ["2", "1", "3", "4"]
    assert moved(page, "drag-tokens") == [] and "equivariant" in said(page, "drag-tokens")
    tokens.get_by_label("causal").check()
    assert moved(page, "drag-tokens") == ["Output 2", "Output 1"]
    chips.first.drag_to(chips.last, target_position={"x": 30, "y": 10})
    assert chips.all_inner_texts() == ["1", "3", "4", "2"]
