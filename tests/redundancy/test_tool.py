"""The command `bias-audit` reads configurations, folders, users' functions and earlier reports."""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from redundancy import audit
from redundancy.audit.command import main
from redundancy.audit.expecting import differences
from redundancy.models.tiny import quiet, tiny
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

MODELS = """
import torch
from torch import nn

def layer():
    return nn.TransformerEncoderLayer(8, 2, 16)

def norm():
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), torch.randn(5, 3)

def batch():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), torch.randn(5, 3)

def silent():
    return norm()[0]

def wrong():
    return norm()[0], torch.randn(5, 2)

def asks(width):
    return norm()

def broken():
    return nothing

def number():
    return 3

model = layer()
"""
#: In shrunk GPT-2, each of two layers of width d = 16 has 4 d numbers in attention, 5 d in the MLP
#: and 2 d in norms; a last norm has d.  In each layer b_K (d), b_V (d), two β (2 d) and the means
#: of b_O and b_2 are redundant.  Alone, b_K can go, and one direction each of b_V, b_O and b_2.
GPT2 = {"numbers": 23 * 16, "redundant": {"alone": 2 * (16 + 3), "together": 4 * (2 * 16 + 1)}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with configurations, a checkpoint, Python files, and files that hold no model."""
    place = tmp_path_factory.mktemp("models")
    with quiet():
        config("llama", attention_bias=True).save_pretrained(place / "original")
        config("llama").save_pretrained(place / "port")
        config("gpt2").save_pretrained(place / "large")
        tiny("gpt2", n_layer=1, initializer_range=0.3).save_pretrained(place / "weights")
    (place / "made.py").write_text(MODELS)
    (place / "empty").mkdir()
    (place / "torn.py").write_text("def make(:\n")
    (place / "list.json").write_text("[1, 2]")
    return place


def former(place, name, capfd):
    """Write the command's report on a folder in ``place`` to a file, unless the file exists."""
    file = place / f"{name}.json"
    if not file.exists():
        main([name, "--json"])
        file.write_text(capfd.readouterr().out)


#: {title: (arguments, exit status, words in the output, words in the error stream)}
COMMANDS = {
    "a file": (["large/config.json"], 0, "b_K: can go: softmax cancels it [3.1]", ""),
    "a folder": (["large"], 0, "132 of 368 numbers are redundant; 38 of them can go while all others", ""),
    "json": (["large", "--json"], 0, '"verdict": "agree"', ""),
    "weights": (["weights", "--weights"], 0, "in evaluation: 384 numbers in biases and shifts", ""),
    "absent biases, too": (["port", "--inject"], 0, "k_proj.bias", ""),
    "a file's function": (["made.py:layer"], 0, "b_K: can go: softmax cancels it [3.1]", ""),
    "a module's function": (["made:layer"], 0, "b_K: can go: softmax cancels it [3.1]", ""),
    "a model, no function": (["made:model"], 0, "b_K: can go: softmax cancels it [3.1]", ""),
    "a model and inputs": (["made.py:norm"], 0, "1 of 4 can go: LayerNorm cancels only the mean [7.1]", ""),
    "in evaluation": (["made.py:batch"], 0, "0.bias: can go into 1.bias", ""),
    "in training": (["made.py:batch", "--training"], 0, "0.bias: can go: BatchNorm cancels it [6.1]", ""),
    "as expected": (["original", "--expect", "original.json"], 0, "b_K", ""),
    "a port": (["port", "--expect", "original.json"], 1, "",
               "layers.*.self_attn.k_proj.bias (key), 2 times: earlier, nothing could go"),
    "a bias more": (["original", "--expect", "port.json"], 1, "b_K",
                    "layers.*.self_attn.o_proj.bias (output), 2 times: earlier, no such bias; now, "),
    "another mode": (["original", "--training", "--expect", "original.json"], 1, "",
                     "the earlier report is for evaluation, this one for training"),
    "no file": (["nowhere.json"], 2, "", "nowhere.json is neither a file nor a folder"),
    "no name": (["nowhere"], 2, "", "no configuration can be loaded from 'nowhere'"),
    "no configuration": (["list.json"], 2, "", "no configuration can be loaded from 'list.json'"),
    "no function named": (["made.py:"], 2, "", "name the function that makes the model, as in made.py:make"),
    "no such function": (["made.py:nope"], 2, "", "made.py has no function that is called nope"),
    "no program": (["nope.py:make"], 2, "", "nope.py is no file"),
    "no Python": (["torn.py:make"], 2, "", "torn.py fails: SyntaxError"),
    "needs inputs": (["made:silent"], 2, "",
                     "cannot guess the inputs of Sequential: give inputs; let the function return (model, inputs)"),
    "inputs that do not suit": (["made:wrong"], 2, "", "Sequential does not run on these inputs: mat1"),
    "needs arguments": (["made:asks"], 2, "", "made:asks fails: TypeError: asks() missing 1 required"),
    "its own mistake": (["made:broken"], 2, "", "made.py: NameError: name 'nothing' is not defined"),
    "no model": (["made:number"], 2, "", "made:number returns a value of the type int: let it return a model"),
    "no report": (["large", "--expect", "large/config.json"], 2, "", "config.json is no report"),
    "no file of a report": (["large", "--expect", "nowhere"], 2, "", "No such file or directory: 'nowhere'"),
}  # fmt: skip


@pytest.mark.parametrize("what", COMMANDS)
def test_the_command(what, folder, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    arguments, status, said, warned = COMMANDS[what]
    for name in ("original", "port"):
        if f"{name}.json" in arguments:
            former(folder, name, capfd)
    assert main(arguments) == status
    out, err = capfd.readouterr()
    assert said in out and (warned in err if warned else err == ""), (out, err)
    assert status != 2 or (len(err.splitlines()) == 1 and not out)
    if "--json" in arguments:
        found = json.loads(out)
        assert {name: found[name] for name in GPT2} == GPT2


# --- differences from an earlier report


def report(**rows):
    """A report as if read from JSON, with a row "layers.0.{name}.bias" for each {name: fields}."""
    plain = {"part": "", "size": 8, "alone": 0, "together": 0, "into": [], "verdict": "agree",
             "injected": False}  # fmt: skip
    made = [plain | {"name": f"layers.0.{name}.bias"} | given for name, given in rows.items()]
    return {"mode": "evaluation", "rows": made}


ALL = {"part": "key", "alone": 8, "together": 8}
#: {title: (earlier report, this report, words for the difference, or None if there is none)}
DIFFERENT = {
    "nothing": (report(a=ALL), report(a=ALL), None),
    "lost, and redundant": (report(a=ALL), report(), "a.bias (key): earlier, all could go alone"),
    "lost, and absorbed": (report(a={"together": 8}), report(), "nothing could go alone and all with"),
    "lost in part": (report(a={"together": 1}), report(), "a part with others; now, no such bias"),
    "once unknown": (report(a={"verdict": "unknown"}), report(), "earlier, the verdict was unknown"),
    "injected": (report(a={}), report(a={"injected": True}), "now, no such bias"),
    "another answer": (report(a=ALL), report(a={"part": "key"}), "8 could go alone .* now, 0 could go"),
    "fewer of as many": (report(a={"alone": 4}), report(a={"alone": 2}), "4 could .* now, 2 could"),
    "half of another size": (report(a={"alone": 4}), report(a={"alone": 8, "size": 16}), None),
    "all of another size": (report(a={"alone": 8}), report(a={"alone": 16, "size": 16}), None),
    "no longer all": (report(a={"alone": 8}), report(a={"alone": 8, "size": 16}), "all .* a part"),
    "no longer known": (report(a={}), report(a={"verdict": "DISAGREE"}), "now, the verdict was DISAGREE"),
}  # fmt: skip


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_from_an_earlier_report_is_described(what):
    before, now, said = DIFFERENT[what]
    found = differences(before, now)
    assert len(found) == (said is not None)
    assert not said or all(part in found[0] for part in said.split(" .* ")), found


def test_layers_with_the_same_difference_share_a_sentence():
    before = report(a={}, b={})
    before["rows"] += [row | {"name": row["name"].replace("0", "1")} for row in before["rows"]]
    lost = [said.partition(":")[0] for said in differences(before, report(b={}))]
    assert lost == ["layers.*.a.bias, 2 times", "layers.*.b.bias"]
