"""On small modules that once misled `audit`, its counts equal those worked out by hand."""

from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit
from torch import nn


class Made(nn.Module):
    """A module with the given parts, whose forward calls ``function(module, *inputs)``."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs, **named):
        return self.function(self, *inputs, **named)


def x(*shape, seed=0):
    return normal(*shape, seed=seed, dtype=torch.float32)


@dataclass
class Both:
    weights: torch.Tensor
    scores: torch.Tensor


def returned(how):
    """Return (a module that computes ``how(scores, softmax(scores))``, the module's inputs)."""
    return Made(lambda m, x: how(z := m.a(x), z.softmax(-1)), a=nn.Linear(4, 3)), (x(5, 4),)


OUTPUTS = {
    "the weights alone": (lambda z, w: w, 1),
    "a loss": (lambda z, w: {"weights": w, "reg_loss": z.square().mean()}, 0),
    "hidden states": (lambda z, w: {"weights": w, "text_hidden_states": z}, 0),
    "a dataclass": (lambda z, w: (w, Both(w, z)), 0),
    "a distribution": (lambda z, w: torch.distributions.Normal(z, 1.0), 0),
    "complex numbers": (lambda z, w: (w, torch.fft.fft(z)), 0),
    "a choice": (lambda z, w: (w, z.sum(-1) > 0), 0),
    "an object": (lambda z, w: (w, SimpleNamespace(scores=z)), 0),
    "a deque": (lambda z, w: deque([w, z]), 0),
    "a sparse tensor": (lambda z, w: (w, z.to_sparse()), 0),
}


@pytest.mark.parametrize("form", OUTPUTS)
def test_every_form_of_output_counts(form):
    how, alone = OUTPUTS[form]
    report = audit(*returned(how))
    assert report.row("a.bias").alone == alone and not report.disagreements, str(report)


CANCELLED = {
    "a difference of neighbours": lambda y: y.diff(dim=0),
    "less the mean": lambda y: y - y.mean(0),
    "less the median": lambda y: y - y.median(0).values,
    "a covariance": lambda y: y.T.cov(),
    "a covariance, written out": lambda y: y.T @ y / len(y) - y.mean(0)[:, None] * y.mean(0),
    "distances": lambda y: torch.cdist(y, y[:2]),
}


@pytest.mark.parametrize("what", CANCELLED)
def test_a_bias_that_differences_cancel_is_redundant(what):
    report = audit(Made(lambda m, x: CANCELLED[what](m.a(x)), a=nn.Linear(4, 3)), x(5, 4))
    row = report.row("a.bias")
    assert (row.alone, row.measured, report.redundant) == (3, (3, 3), 3)
    assert not report.disagreements and row.answer == "can go: no operation depends on it"


@pytest.mark.parametrize("size, alone", [(1.0, 0), (3e-7, 0), (0.0, 1)])
def test_a_direction_with_a_small_effect_does_not_go_alone(size, alone):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight.data = torch.tensor([[1.0, 0.0], [0.0, size]])
    report = audit(model, x(4, 2), weights="own")
    assert report.row("0.bias").alone == alone and not report.disagreements, str(report)


def test_long_chains_of_linear_maps_are_counted():
    """In a chain of eight linear maps, the first seven biases can go into the eighth."""
    chain = [nn.Linear(16, 16) for _ in range(8)]
    report = audit(nn.Sequential(*chain, nn.ReLU(), nn.Linear(16, 3)), x(4, 16))
    assert report.redundant == 7 * 16 and not report.disagreements, str(report)


def position(m, x):
    return m.norm(m.a(x) + m.table(torch.arange(5)))


def test_an_embedding_table_is_left_out_and_named():
    """In LN(x W + b + P), the norm cancels the mean of b."""
    model = Made(position, a=nn.Linear(3, 4), norm=nn.LayerNorm(4), table=nn.Embedding(5, 4))
    report = audit(model, x(2, 5, 3))
    assert report.redundant == 1 and "table.weight" not in {row.name for row in report.rows}
    assert any("left out" in note and "table.weight" in note for note in report.notes)


def test_weights_among_the_inputs_are_not_varied():
    """The rows of the given adjacency matrix still sum to 1, so one bias absorbs the other."""
    model = Made(lambda m, x, a: a @ m.a(x) + m.bias, a=nn.Linear(3, 4), bias=nn.Parameter(x(4)))
    adjacency = x(6, 6).softmax(-1)
    report = audit(model, (x(6, 3), adjacency))
    assert report.row("a.bias").into == ("bias",) and report.redundant == 4
    assert any("input 2 stayed as given" in note for note in report.notes)
    free = audit(model, (x(6, 3), x(6, 6)))
    assert free.redundant == 0 and not free.disagreements


def test_a_tensor_kept_as_an_attribute_is_converted_to_float64():
    model = Made(lambda m, x: x.float() @ m.made.float() + m.bias, bias=nn.Parameter(x(3)))
    model.made = x(4, 3)
    assert audit(model, x(2, 4)).row("bias").alone == 0


def test_a_part_that_did_not_run_is_named():
    def run(m, text, image=None):
        return m.text(text) if image is None else m.text(text) + m.image(image)

    model = Made(run, text=nn.Linear(3, 4, bias=False), image=nn.Linear(3, 4))
    assert audit(model, x(2, 3)).notes[-1] == "not used on these inputs: image.bias"


def test_an_array_among_the_outputs_prevents_the_verdict_agree():
    model, inputs = returned(lambda z, w: (w, z.detach().numpy()))
    assert audit(model, inputs).row("a.bias").verdict in ("unknown", "DISAGREE")


def test_a_parameter_that_is_scaled_before_it_is_added_is_named():
    model = Made(lambda m, x: F.layer_norm(x + m.c * m.g, (4,)),
                 c=nn.Parameter(x(4)), g=nn.Parameter(x(4)))  # fmt: skip
    note = audit(model, x(2, 4)).notes[-1]
    assert note.startswith("left out, because") and note.endswith(": c and g")


def test_whole_numbers_that_are_not_varied_are_named():
    model = Made(lambda m, x, kind: torch.where(kind[:, None] == 1, m.a(x) + m.c, m.a(x)),
                 a=nn.Linear(3, 4), c=nn.Parameter(x(4)))  # fmt: skip
    report = audit(model, {"x": x(5, 3), "kind": torch.zeros(5, dtype=torch.long)})
    assert report.row("c").answer == "can go: no operation depends on it"
    assert any("kind stayed as given" in note for note in report.notes)


def test_a_condition_that_rounding_hides_is_still_imposed():
    """tanh depends on all of b, but float64 hides the last number, which is scaled by 1e-11."""
    scale = torch.tensor([1.0, 1.0, 1.0, 1e-11])
    model = Made(lambda m, x: (x + m.b * scale).tanh(), b=nn.Parameter(x(4)))
    report = audit(model, x(6, 4))
    assert report.redundant <= 1 and report.row("b").verdict in ("unknown", "UNCLEAR")


def test_a_model_on_which_autograd_fails_is_checked_by_moves():
    def squared(m, x):
        h = m.a(x)
        h.mul_(h)
        return m.b(h - h.mean(-1, keepdim=True))

    report = audit(Made(squared, a=nn.Linear(3, 4), b=nn.Linear(4, 2)), x(5, 3))
    assert any("autograd fails" in note for note in report.notes) and not report.disagreements


def test_a_model_that_counts_its_runs_is_left_alone():
    def counted(m, x):
        m.runs += 1
        return m.a(x)

    model = Made(counted, a=nn.Linear(3, 4))
    model.register_buffer("runs", torch.zeros(()))
    audit(model, x(5, 3))
    assert model.runs == 0


def test_a_bias_beside_an_operation_without_a_rule_is_unknown():
    grid = torch.rand(2, 3, 3, 2, generator=torch.Generator().manual_seed(0)) - 0.5
    model = Made(lambda m, x: F.grid_sample(m.c(x), grid.to(x), align_corners=False) + m.d,
                 c=nn.Conv2d(1, 1, 1), d=nn.Parameter(x(1)))  # fmt: skip
    report = audit(model, x(2, 1, 5, 5))
    assert {row.verdict for row in report.rows} == {"unknown"}, str(report)


@pytest.mark.parametrize("part", ["flava_image_model", "csm_depth_decoder_model"])
def test_a_part_of_a_model_is_audited_as_well(part):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    report = audit(CONFIG_MAPPING[part](), inject=True)
    assert report.rows and not report.disagreements
