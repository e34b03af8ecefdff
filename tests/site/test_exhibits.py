"""What the exhibits compute is what PyTorch's own modules compute, and they answer to keys.

The formulas run in Chromium, without the book around them, in float64 as here.  Both sides round
fewer than a hundred operations on numbers below ten: 1e-12 is far above what that can leave.
"""

import json
from pathlib import Path

import pytest
import torch
from browser import chromium, faults_of, needs_chromium, served
from torch import nn

pytestmark = needs_chromium
STATIC = Path(__file__).resolve().parents[2] / "book" / "static"
CLOSE = 1e-12
EXHIBITS = ["three-biases", "drag-tokens", "bias-before-norm"]
EXHIBITS += ["through-a-block", "fused-or-separate", "large-key-bias"]
PAGE = "<script src='exhibits/load.js' defer></script>" + "".join(
    f"<div data-exhibit='{name}'></div>" for name in EXHIBITS
)


@pytest.fixture(scope="module")
def page():
    with served(STATIC) as address, chromium() as browser:
        page = browser.new_page()
        faults = faults_of(page, address)
        page.route(f"{address}/all.html", lambda r: r.fulfill(body=PAGE, content_type="text/html"))
        page.goto(f"{address}/all.html")
        page.wait_for_function("document.querySelectorAll('[data-exhibit] .said').length === 6")
        yield page
        assert not faults


def computed(page, formula, *given):
    """What a formula of the page gives, as a tensor, or a dict of tensors."""
    found = page.evaluate(f"formulas.{formula}({', '.join(map(json.dumps, given))})")
    if isinstance(found, dict):
        return {name: torch.tensor(x, dtype=torch.float64) for name, x in found.items()}
    return torch.tensor(found, dtype=torch.float64)


def same(a, b):
    return torch.allclose(a, b.detach(), rtol=0, atol=CLOSE)


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def head(width):
    """Weights and biases by role, and the module that has them."""
    W = {role: drawn(width, width) for role in "qkvo"}
    b = {role: drawn(width) for role in "qkvo"}
    module = nn.MultiheadAttention(width, 1, batch_first=True, dtype=torch.float64)
    fill_attention(module, W, b)
    return W, b, module


def fill_attention(module, W, b):
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([W[role] for role in "qkv"]))
        module.in_proj_bias.copy_(torch.cat([b[role] for role in "qkv"]))
        module.out_proj.weight.copy_(W["o"])
        module.out_proj.bias.copy_(b["o"])


def plain(tensors):
    return {name: x.tolist() for name, x in tensors.items()}


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_the_module(page, causal):
    X, (W, b, module) = drawn(4, 2), head(2)
    mask = torch.ones(4, 4, dtype=torch.bool).triu(1) if causal else None
    output, weights = module(X[None], X[None], X[None], attn_mask=mask)
    shown = computed(page, "attention", X.tolist(), plain(W), plain(b), causal)
    assert same(shown["weights"], weights[0]) and same(shown["output"], output[0])
    without = computed(page, "attention", X.tolist(), plain(W), plain(b), not causal)
    assert not same(without["output"], output[0])


@pytest.mark.parametrize("name, norm", [
    ("batch", nn.BatchNorm1d(3)), ("layer", nn.LayerNorm(3)), ("rms", nn.RMSNorm(3, eps=1e-5)),
])  # fmt: skip
def test_each_norm_is_that_of_the_module(page, name, norm):
    X = drawn(4, 3)
    assert same(computed(page, f"norms.{name}", X.tolist()), norm.double().train()(X))
    others = {"batch", "layer", "rms"} - {name}
    for other in others:
        assert not same(computed(page, f"norms.{other}", X.tolist()), norm(X))


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_block_is_that_of_the_module(page, norm_first):
    X, (W, b, _) = drawn(3, 4), head(4)
    W, b = W | {"first": drawn(4, 4), "second": drawn(4, 4)}, b | {"second": drawn(4)}
    layer = nn.TransformerEncoderLayer(
        4, 1, 4, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    fill_attention(layer.self_attn, W, b)
    with torch.no_grad():
        layer.linear1.weight.copy_(W["first"])
        layer.linear1.bias.zero_()
        layer.linear2.weight.copy_(W["second"])
        layer.linear2.bias.copy_(b["second"])
    output = layer(X[None])[0]
    shown = computed(page, "block", X.tolist(), plain(W), plain(b), norm_first)
    assert same(shown["network"], output)
    end = nn.functional.layer_norm(output, [4]) if norm_first else output
    assert same(shown["end"], end)
    assert not same(shown["attention"], output)


@pytest.mark.parametrize("rows", [(512, 512), (512, 128), (1536, 1536)])
def test_the_deviation_is_that_of_xaviers_bounds(page, rows):
    """Each matrix has the variance a²/3 of torch's uniform numbers between -a and a."""
    variances = []
    for o in rows:
        fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(torch.empty(o, 512))
        variances.append(2 / (fan_in + fan_out))
    # A query and a key have the width 512 times these variances for tokens of unit variance.
    expected = (512 * variances[0] * 512 * variances[1]) ** 0.5
    assert abs(float(computed(page, "deviation", 512, *rows)) - expected) <= CLOSE


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_numbers_are_rounded_as_a_tensor_holds_them(page, dtype):
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 2**-24, 3 * 2**-25])
    x = torch.cat([drawn(200) * 10 ** (4 * drawn(200)).clamp(-8, 4), ties.double(), -ties.double()])
    held = x.to(getattr(torch, dtype)).double()
    shown = page.evaluate(f"{json.dumps(x.tolist())}.map((y) => formulas.rounded(y, '{dtype}'))")
    shown = torch.tensor([float(y) for y in shown], dtype=torch.float64)
    assert torch.equal(shown, held)
    assert (dtype == "float64") == torch.equal(shown, x)


def said(page, name):
    return page.locator(f"[data-exhibit={name}] .said").inner_text()


def moved(page, name):
    """The plots of an exhibit that say so, by their titles."""
    heads = page.locator(f"[data-exhibit={name}] .plot.moved .name").all_inner_texts()
    return [head.split("\n")[0] for head in heads]


def test_a_slider_moves_by_key_and_shows_its_theorem(page):
    biases = page.locator("[data-exhibit=three-biases]")
    for label, expected in {
        "key bias": ["Scores"], "query bias": ["Scores", "Weights", "Output"], "value bias": ["Output"]
    }.items():  # fmt: skip
        biases.get_by_label(label).focus()
        page.keyboard.press("ArrowRight")
        assert moved(page, "three-biases") == expected
        biases.get_by_role("button", name="Reset").click()
        assert moved(page, "three-biases") == []


def test_a_token_moves_by_key_and_by_hand(page):
    tokens = page.locator("[data-exhibit=drag-tokens]")
    tokens.locator(".chip").nth(1).focus()
    page.keyboard.press("ArrowLeft")
    assert tokens.locator(".chip").all_inner_texts() == ["2", "1", "3", "4"]
    assert moved(page, "drag-tokens") == [] and "equivariant" in said(page, "drag-tokens")
    tokens.get_by_label("causal").check()
    assert moved(page, "drag-tokens") == ["Output 2", "Output 1"]
    first, last = (tokens.locator(".chip").nth(i).bounding_box() for i in (0, 3))
    page.mouse.move(first["x"] + 10, first["y"] + 10)
    page.mouse.down()
    page.mouse.move(last["x"] + 40, last["y"] + 10, steps=4)
    page.mouse.up()
    assert tokens.locator(".chip").all_inner_texts() == ["1", "3", "4", "2"]


def test_a_norm_erases_what_its_theorem_says(page):
    norms = page.locator("[data-exhibit=bias-before-norm]")
    norms.get_by_label("on all features").fill("1")
    assert moved(page, "bias-before-norm") == ["RMSNorm"]
    norms.get_by_label("on feature 1 only").fill("1")
    assert moved(page, "bias-before-norm") == ["LayerNorm", "RMSNorm"]


def test_a_constant_is_followed_to_the_end(page):
    block = page.locator("[data-exhibit=through-a-block]")
    block.get_by_label("added to b_O").fill("1")
    assert moved(page, "through-a-block") == ["after attention", "after network"]
    block.get_by_label("post-norm").check()
    assert moved(page, "through-a-block") == []
    block.get_by_label("feature 1").check()
    assert moved(page, "through-a-block") == ["after attention", "after network"]


def test_a_fused_start_and_a_large_bias_say_what_they_cost(page):
    fused = page.locator("[data-exhibit=fused-or-separate]")
    assert "deviation 1.00" in said(page, "fused-or-separate")
    fused.get_by_label("the fused matrix").check()
    assert "deviation 0.50" in said(page, "fused-or-separate")
    large = page.locator("[data-exhibit=large-key-bias]")
    large.get_by_label("key bias").fill("4")
    assert "Weights" in moved(page, "large-key-bias")
