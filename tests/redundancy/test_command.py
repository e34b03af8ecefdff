"""The command `bias-audit` reads configurations and checkpoints of any size."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from redundancy import audit
from redundancy.audit.checking import Check
from redundancy.audit.command import main
from redundancy.models.tiny import quiet, tiny
from redundancy.shift.null_space import Unclear
from shared_models import config

#: {architecture: (fields at a published size, which bias of the first layer can go: all, half, the mean, none)}
CONFIGS = {
    "gpt2": ({"n_embd": 1600, "n_head": 25, "n_layer": 48}, {"b_K": "all", "b_V": "all", "b_O": "mean"}),
    "llama": (
        {"hidden_size": 16384, "num_attention_heads": 128, "num_key_value_heads": 8,
         "num_hidden_layers": 126, "attention_bias": True, "head_dim": 128},
        {"b_K": "none", "b_V": "all", "b_O": "none"}),
    "phi": ({}, {"b_K": "half", "b_V": "all", "b_O": "mean"}),
    "opt": ({"word_embed_proj_dim": 512, "hidden_size": 1024, "num_attention_heads": 16},
            {"b_K": "all", "b_V": "all", "b_O": "mean"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_configuration_of_any_size(kind):
    given, expected = CONFIGS[kind]
    report = audit(config(kind, **given))
    assert not report.disagreements and report.shrunk and "Shrunk: " in report.notes[-1]
    rows = {bias: report.row(bias) for bias in expected}
    counts = {bias: row.together if bias == "b_V" else row.alone for bias, row in rows.items()}
    share = lambda size: {0: "none", 1: "mean", size / 2: "half", size: "all"}
    shares = {bias: share(rows[bias].size).get(count) for bias, count in counts.items()}
    assert shares == expected, str(report)


# --- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with configurations, a checkpoint, and a file that holds no configuration."""
    place = tmp_path_factory.mktemp("models")
    with quiet():
        config("llama").save_pretrained(place / "port")
        config("gpt2").save_pretrained(place / "large")
        tiny("gpt2", n_layer=1, initializer_range=0.3).save_pretrained(place / "weights")
    (place / "list.json").write_text("[1, 2]")
    return place


#: {title: (arguments, exit status, words in the output, words in the error stream)}
COMMANDS = {
    "a file": (["large/config.json"], 0, "b_K: can go: softmax cancels it [3.1]", ""),
    # In shrunk GPT-2, each of two layers of width d = 16 has 4 d numbers in attention, 5 d in the MLP
    # and 2 d in norms; a last norm has d.  In each layer b_K (d), b_V (d), two β (2 d) and the means
    # of b_O and b_2 are redundant.  Alone, b_K can go, and one direction each of b_V, b_O and b_2.
    "a folder": (["large"], 0, "132 of 368 numbers are redundant; 38 of them can go while all others", ""),
    "weights": (["weights", "--weights"], 0, "in evaluation: 384 numbers in biases and shifts", ""),
    "in training": (["weights", "--training"], 0, "in training: ", ""),
    "absent biases, too": (["port", "--inject"], 0, "k_proj.bias", ""),
    "no name": (["nowhere"], 2, "", "no configuration can be loaded from 'nowhere'"),
    "no configuration": (["list.json"], 2, "", "no configuration can be loaded from 'list.json'"),
}  # fmt: skip


@pytest.mark.parametrize("what", COMMANDS)
def test_the_command(what, folder, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    arguments, status, said, warned = COMMANDS[what]
    assert main(arguments) == status
    out, err = capfd.readouterr()
    assert said in out and (warned in err if warned else err == ""), (out, err)
    assert status != 2 or (len(err.splitlines()) == 1 and not out)


def test_a_disagreement_sets_the_exit_status(folder, capfd, monkeypatch):
    def unclear(*_):
        raise Unclear("too near the cut")

    monkeypatch.setattr(Check, "_verdict", unclear)
    assert main([str(folder / "weights")]) == 1
    assert "bias-audit: h.0.ln_1.bias: UNCLEAR: too near the cut" in capfd.readouterr().err
