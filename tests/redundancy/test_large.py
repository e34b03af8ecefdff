"""What is carried over from a small model to a large one is what the large one's Jacobian says."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch
from redundancy import audit, fold, large, shrinking
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


def taken(work):
    """Gigabytes and seconds of the processor for GPT-2 small, in this process."""
    import resource

    from transformers import GPT2Config, GPT2Model

    work(GPT2Model(GPT2Config()).eval())
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_maxrss / 1e6, used.ru_utime + used.ru_stime


@pytest.mark.nightly
@pytest.mark.parametrize("work", [audit, fold])
def test_gpt2_small_within_two_gigabytes_and_a_minute(work):
    """Seconds of the processor, so that what else runs does not count; two cores halve them."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        gigabytes, seconds = fresh.submit(taken, work).result()
    print(f"{work.__name__}: {gigabytes:.2f} GB, {seconds:.0f} s")  # chapter 13b quotes them
    assert gigabytes < 2 and seconds < 120
