"""The command `bias-audit` reads configurations and checkpoints of any size."""

from unittest.mock import Mock

import pytest
from redundancy.audit.checking import Check
from redundancy.audit.command import main
from redundancy.measure.measurement import Measurement
from redundancy.measure.nullity import UnclearRank
from redundancy.models.tiny import quiet, tiny
from redundancy.shift.null_space import Unclear
from shared_models import config


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
    "absent biases, too": (["port", "--inject"], 0, "self_attn.k_proj.bias (2 times)", ""),
    "no name": (["nowhere"], 2, "", "no configuration can be loaded from 'nowhere'"),
    "no configuration": (["list.json"], 2, "", "no configuration can be loaded from 'list.json'"),
}  # fmt: skip


@pytest.mark.parametrize("what", COMMANDS)
def test_the_command_prints_its_answer_and_sets_the_exit_status(what, folder, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    arguments, status, said, warned = COMMANDS[what]
    assert main(arguments) == status
    out, err = capfd.readouterr()
    assert said in out and (warned in err if warned else err == ""), (out, err)
    assert status != 2 or (len(err.splitlines()) == 1 and not out)


def test_an_unclear_verdict_or_rank_sets_the_exit_status(folder, capfd, monkeypatch):
    words, command = "too near the cut", [str(folder / "weights")]
    monkeypatch.setattr(Check, "_verdict", Mock(side_effect=Unclear(words)))
    assert main(command) == 1
    out, err = capfd.readouterr()
    assert f"bias-audit: h.0.ln_1.bias: UNCLEAR: {words}" in err and "0 of them can go" in out
    monkeypatch.setattr(Measurement, "basis", Mock(side_effect=UnclearRank(words)))
    assert main(command) == 2
    assert capfd.readouterr() == ("", f"bias-audit: {words}\n")
