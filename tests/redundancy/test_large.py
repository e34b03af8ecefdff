"""What is carried over from a small model to a large one is what the large one's Jacobian says."""

import pytest
import torch
from redundancy import audit, auditing, fold, folding, large, shrinking
from redundancy.large import lean_copy
from redundancy.precision import with_every_bias_random
from redundancy.zoo import some_inputs, tiny
from shared_models import apart

#: wider than the smallest, so that something is carried over: all, nothing, a share, means, W_O
WIDER = {
    "gpt2": {"n_embd": 48, "n_head": 3},
    "phi": {"hidden_size": 96, "num_attention_heads": 4, "num_key_value_heads": 4,
            "head_dim": 24, "partial_rotary_factor": 0.5},
    "llama": {"attention_bias": True, "hidden_size": 64, "head_dim": 16},
    "mpt": {"d_model": 64, "n_heads": 4},
    "t5": {"d_kv": 16, "d_model": 32},
    "persimmon": {"hidden_size": 64},
    "gemma2": {"attention_bias": True},
}  # fmt: skip


@pytest.fixture
def as_large(monkeypatch):
    """Every model counts as large, and none as small enough to stay."""

    def set_up():
        monkeypatch.setattr(large, "LARGE", 0)
        monkeypatch.setattr(shrinking, "SMALL_ENOUGH", 0)

    return set_up


@pytest.mark.parametrize("kind", WIDER)
def test_the_same_as_by_the_jacobian(kind, as_large):
    model = tiny(kind, **WIDER[kind])
    whole = audit(model)
    as_large()
    moved = audit(model)
    told = [[(r.layer, r.role, r.size, r.measured, r.verdict, r.could_go, r.alone, r.why) for r in report.rows]
            for report in (whole, moved)]  # fmt: skip
    assert told[0] == told[1], f"{whole}\n{moved}"
    assert "ranks were counted on a small model" in moved.notes[0]


def test_finite_moves_find_what_the_small_model_got_wrong(as_large, monkeypatch):
    """A control in both directions: too much is called redundant, and too little."""
    right = large.carried

    def all_of_it(found, layer, small):
        made = right(found, layer, small)
        return made if made.role != "query" else large.replace(
            made, dimension=made.size, directions=torch.eye(made.size).double())  # fmt: skip

    def none_of_it(found, layer, small):
        made = right(found, layer, small)
        return made if made.role != "key" else large.replace(made, dimension=0)

    as_large()
    for wrong, role in ((all_of_it, "query"), (none_of_it, "key")):
        monkeypatch.setattr(large, "carried", wrong)
        rows = audit(tiny("gpt2", **WIDER["gpt2"])).rows
        assert {r.verdict for r in rows if r.role == role} == {"DISAGREE"}
        assert {r.verdict for r in rows if r.role != role} == {"agree"}


@pytest.mark.parametrize("kind", ["gpt2", "phi", "llama"])
def test_folded_the_same(kind, as_large):
    model = with_every_bias_random(tiny(kind, **WIDER[kind]))
    whole = fold(model)
    as_large()
    result = fold(model)
    assert result.rows == whole.rows and result.error <= result.bound
    assert apart(result.model, model, some_inputs(model, seed=4)) < 1e-5  # float32 rounds b_O


def test_what_has_no_small_model_is_audited_whole(as_large, monkeypatch, capfd):
    as_large()
    monkeypatch.setattr(shrinking, "PLANS", ())
    assert not audit(tiny("gpt2", n_layer=1)).disagreements
    assert "its whole Jacobian may take long" in capfd.readouterr().err


def test_a_lean_copy_holds_every_number_once():
    model = tiny("gpt2", vocab_size=900)
    copied = lean_copy(model, 512)
    assert copied.wte.weight.shape == (512, 32) and copied.wte.num_embeddings == 512
    assert copied.wte.weight.dtype == torch.float64 and model.wte.weight.shape == (900, 32)
    assert torch.equal(copied.h[0].attn.c_attn.weight, model.h[0].attn.c_attn.weight.double())


@pytest.mark.nightly
def test_gpt2_small_within_two_gigabytes_and_a_minute():
    """Seconds of the processor, so that what else runs does not count; two cores halve them."""
    import audit_cost

    for work in ("audit", "fold"):
        found = audit_cost.measured("small", work)
        assert found["peak"] < 2 and found["processor"] < 120, (work, found)


def test_folding_uses_what_was_carried_over(as_large, monkeypatch):
    as_large()
    monkeypatch.setattr(folding.Surgeon, "predict", lambda *_: pytest.fail("it ran at random"))
    fold(with_every_bias_random(tiny("gpt2", **WIDER["gpt2"])))
    assert auditing.is_large is large.is_large
