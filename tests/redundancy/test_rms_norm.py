"""`as_rms_norm`: a LayerNorm becomes an RMSNorm, and the outputs are the same."""

import copy

import pytest
import torch
from redundancy import as_rms_norm
from redundancy.equality import HARMLESS, LOSS, CannotFold
from shared_models import *


def test_an_untied_gpt_2_becomes_an_rms_norm_model():
    model = language_model()
    result = as_rms_norm(model)
    assert apart(result.model, model) <= result.bound < EQUAL
    norms = {
        name: type(m).__name__ for name, m in result.model.named_modules() if "Norm" in str(type(m))
    }
    assert norms.pop("transformer.ln_f") == "ShiftedRMSNorm" and {*norms.values()} == {"RMSNorm"}
    with_head = as_rms_norm(model, add_bias=True).model
    assert {type(m) for n, m in with_head.named_modules() if "ln_" in n} == {nn.RMSNorm}


@pytest.mark.parametrize("kind", ["opt", "phi", "gpt_neox", "gptj"])
def test_other_pre_norm_models_can_be_centred_too(kind):
    result = as_rms_norm(random_model(kind))
    assert apart(result.model, random_model(kind)) <= result.bound < EQUAL


def with_an_idle_norm():
    model = language_model()
    model.idle = nn.LayerNorm(32).double()
    return model


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: language_model(tied=True), "lm_head.weight is tied"),
        (lambda: random_model("bert"), "embeddings.LayerNorm wrote"),
        (with_an_idle_norm, "idle runs more than once, or not at all"),
        (lambda: nn.Linear(2, 2), "give inputs"),
        (lambda: "a name", "a model is needed"),
    ],
)
def test_what_cannot_be_centred_is_refused(model, words):
    with pytest.raises(CannotFold, match=words):
        as_rms_norm(model())


def test_the_rms_norm_model_has_the_dtype_of_the_model_given():
    result = as_rms_norm(copy.deepcopy(random_model("opt")).bfloat16())
    assert {p.dtype for p in result.model.parameters()} == {torch.bfloat16}
    assert result.rounding[1] <= max(LOSS * result.rounding[0], HARMLESS)


def test_rms_norm_alone_is_another_model():
    model = language_model()
    spoilt = copy.deepcopy(model)
    for block in spoilt.transformer.h:
        rms = nn.RMSNorm(32, eps=block.ln_1.eps).double()
        rms.weight = block.ln_1.weight
        block.ln_1 = rms
    assert apart(spoilt, model) > 1e-3
