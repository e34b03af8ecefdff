"""`as_rms_norm` on models that chapter 14 does not centre; the outputs are the same."""

import pytest
from redundancy import as_rms_norm
from redundancy.equality import CannotFold
from shared_models import *


@pytest.mark.parametrize("kind", ["opt", "phi", "gpt_neox", "gptj"])
def test_pre_norm_models_become_rms_norm_models(kind):
    result = as_rms_norm(random_model(kind))
    assert apart(result.model, random_model(kind)) <= result.bound < EQUAL


def with_an_idle_norm():
    model = language_model()
    model.idle = nn.LayerNorm(32).double()
    return model


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (with_an_idle_norm, "idle runs more than once, or not at all"),
        (lambda: nn.Linear(2, 2), "give inputs"),
        (lambda: "a name", "a model is needed"),
    ],
)
def test_what_cannot_be_centred_is_refused(model, words):
    with pytest.raises(CannotFold, match=words):
        as_rms_norm(model())
