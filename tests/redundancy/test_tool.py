"""What people type: a configuration, a folder, the command, and two models beside each other."""

import copy
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from redundancy import audit, compare, fold
from redundancy.command import main
from redundancy.layers import find_attention
from redundancy.precision import with_every_bias_random
from redundancy.shrinking import CannotShrink, shrink, signature
from redundancy.zoo import quiet, tiny
from shared_models import apart

ALL, HALF, NONE, MEAN = "all", "half", "none", "mean"
#: a configuration at the size it is published in, what is kept, and what can go of b_K, b_V, b_O
CONFIGS = {
    "gpt2": ({"n_embd": 1600, "n_head": 25, "n_layer": 48}, {}, (ALL, ALL, MEAN)),
    "llama": (
        {"hidden_size": 16384, "num_attention_heads": 128, "num_key_value_heads": 8,
         "num_hidden_layers": 126, "attention_bias": True, "head_dim": 128},
        {"num_key_value_heads": 2}, (NONE, ALL, NONE)),
    "phi": ({}, {}, (HALF, ALL, MEAN)),
    "qwen2": ({}, {}, (NONE, NONE, None)),
    "deepseek_v3": ({"attention_bias": True}, {"first_k_dense_replace": 3}, (None, None, NONE)),
    "opt": ({"word_embed_proj_dim": 512, "hidden_size": 1024, "num_attention_heads": 16}, {},
            (ALL, ALL, MEAN)),
}  # fmt: skip


def config(kind, **given):
    with quiet():
        from transformers import AutoConfig

        return AutoConfig.for_model(kind, **given)


def share(row):
    if row.verdict == "absent":
        return None
    if row.measured in (0, row.size):
        return ALL if row.measured else NONE
    return MEAN if row.measured == 1 else HALF if 2 * row.measured == row.size else "part"


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_configuration_of_any_size(kind):
    given, kept, expected = CONFIGS[kind]
    asked = config(kind, **given)
    report = audit(asked)
    assert not report.disagreements and report.shrunk
    small = shrink(asked).model.config
    assert all(getattr(small, name) == value for name, value in kept.items())
    found = tuple(share(report.row(role)) for role in ("key", "value", "output"))
    assert found == expected, str(report)
    assert "Shrunk: " in report.notes[-1]


def test_a_small_model_that_lost_something_has_another_signature():
    whole = signature(tiny("gpt_neo", num_layers=2, attention_types=[[["global", "local"], 1]]))
    for other in (
        {"num_layers": 1, "attention_types": [[["global"], 1]]},
        {"num_layers": 2, "attention_types": [[["global"], 2]]},
    ):
        assert signature(tiny("gpt_neo", **other)) < whole
    one, two = (signature(tiny("llama", num_key_value_heads=n)) for n in (1, 2))
    assert one != two and signature(tiny("llama", attention_bias=True)) != two


def test_what_cannot_be_shrunk_is_said(monkeypatch):
    monkeypatch.setattr("redundancy.shrinking.narrower", lambda fields, *_: fields)
    with pytest.raises(CannotShrink, match="stays large"):
        shrink(config("gpt2"))


# --- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Configurations, checkpoints, and reports of them, in files."""
    place = tmp_path_factory.mktemp("models")
    with quiet():
        config("llama", attention_bias=True).save_pretrained(place / "original")
        config("llama").save_pretrained(place / "port")
        config("gpt2").save_pretrained(place / "large")
        tiny("gpt2", n_layer=1, initializer_range=0.3).save_pretrained(place / "weights")
    return place


#: arguments, exit status, words on the output, words on the error stream
COMMANDS = {
    "a file": (["large/config.json"], 0, "b_K    16        16       16  can go: softmax ignores it", ""),
    "a folder": (["large"], 0, "numbers that can go: 66, jointly", ""),
    "json": (["large", "--json"], 0, '"verdict": "agree"', ""),
    "csv": (["large", "--csv"], 0, "h.0.attn,b_K,16,16,16,agree,16,can go: softmax ignores it", ""),
    "weights": (["weights", "--weights"], 0, "b_K    32        32       32", ""),
    "as expected": (["original", "--expect", "original.json"], 0, "b_K", ""),
    "a port": (["port", "--expect", "original.json"], 1, "absent",
               "this port lost its key bias, which counts (2 layers"),
    "a bias more": (["original", "--expect", "port.json"], 1, "b_K", "has a key bias"),
    "no file": (["nowhere.json"], 2, "", "nowhere.json is no file"),
    "no folder": (["no/where/at/all"], 2, "", "neither a file nor a folder"),
    "no report": (["large", "--expect", "large/config.json"], 2, "", "is no report"),
}  # fmt: skip


@pytest.mark.parametrize("what", COMMANDS)
def test_the_command(what, folder, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("original", "port"):
        if f"{name}.json" in COMMANDS[what][0] and not (folder / f"{name}.json").exists():
            main([name, "--json"])
            (folder / f"{name}.json").write_text(capfd.readouterr().out)
    arguments, status, said, warned = COMMANDS[what]
    assert main(arguments) == status
    out, err = capfd.readouterr()
    assert said in out and (warned in err if warned else err == "")
    assert status != 2 or len(err.splitlines()) == 1
    if "--json" in arguments:
        assert json.loads(out)["could_go"] == {"alone": 36, "jointly": 66}


# --- a port beside its original


def without(model, *roles, moved=False):
    """A copy that has no such biases, ``moved`` into b_O or lost."""
    made = copy.deepcopy(model)
    for layer in find_attention(made):
        for role in roles:
            projection = layer.projections[role]
            if moved:
                each = projection.bias().view(layer.key_value_heads, -1)
                each = each.repeat_interleave(layer.group, 0).flatten()
                layer.output.add_to_bias(layer.output.weight() @ each)
            setattr(projection.biases.module, projection.biases.attribute, None)
    return made


#: architecture, whether biases are random, which are lost, what is said of it
PORTS = {
    "BERT without b_K": ("bert", True, ["key"], {}, "it is redundant"),
    "a fresh BERT without b_Q": ("bert", False, ["query"], {}, "it is zero here"),
    "a BERT without b_Q": ("bert", True, ["query"], {}, "outputs show it"),
    "b_V folded": ("bert", True, ["value"], {"moved": True}, "the port's b_O holds W_O b_V"),
    "Phi without b_K": ("phi", True, ["key"], {}, "outputs show it"),
}


@pytest.mark.parametrize("what", PORTS)
def test_a_port_beside_its_original(what):
    kind, filled, roles, how, said = PORTS[what]
    model = tiny(kind)
    model = with_every_bias_random(model) if filled else model
    port = without(model, *roles, **how)
    found = compare(model, port)
    assert len(found.differences) == 2 and {d.role for d in found.differences} == set(roles)
    assert all(said in d.seen for d in found.differences), str(found)
    assert bool(found.lost) == (said == "outputs show it")
    assert compare(port, model).differences[0].which == "the port"
    assert str(compare(model, copy.deepcopy(model))) == "both have the same biases"


def test_a_bias_outside_attention_is_named():
    model = tiny("bert")
    port = copy.deepcopy(model)
    port.encoder.layer[0].output.dense.bias = None
    assert compare(model, port).others == (
        "encoder.layer.0.output.dense.bias is in the original only",
    )


def test_layers_that_do_not_match():
    with pytest.raises(ValueError, match="2 layers of attention and the other 1"):
        compare(tiny("bert"), tiny("bert", num_hidden_layers=1))
    with pytest.raises(ValueError, match="cut into other heads"):
        compare(tiny("bert"), tiny("bert", num_attention_heads=2))


# --- how many numbers can go, and what is taken out

#: architecture; b_K, b_V, b_Q that a fold makes zero; biases taken out; a word of the configuration
TAKEN = {
    "gpt2": ({}, (64, 64, 64), 0, {}),  # one fused matrix, which cannot do without its bias
    "vit": ({}, (64, 64, 64), 6, {"qkv_bias": False}),
    "bert": ({}, (64, 64, 64), 6, {}),
    "llama": ({"attention_bias": True}, (0, 32, 0), 2, {"attention_bias": True}),  # b_O stays
}


@pytest.mark.parametrize("kind", TAKEN)
def test_what_a_fold_makes_zero_is_counted_and_taken_out(kind, tmp_path):
    given, zero, out, words = TAKEN[kind]
    model = with_every_bias_random(tiny(kind, **given))
    kept, result = fold(model), fold(model, remove=True)
    assert tuple(result.zeroed.values()) == tuple(kept.zeroed.values()) == zero
    assert len(result.removable) == len(kept.removable) == out
    count = lambda m: sum(p.numel() for p in m.parameters())
    assert count(model) == count(kept.model)
    assert count(model) - count(result.model) == sum(r[1] for r in result.removable)
    assert {n: getattr(result.model.config, n) for n in words} == words
    result.save(tmp_path)
    with quiet():
        again = type(model).from_pretrained(tmp_path)
    assert apart(again, result.model) < 1e-12  # a bias of zeros is added, or is not there
    assert apart(again, model) < 1e-5  # float32 rounds b_O
    assert ("taken out" in str(result)) == ("takes out" in str(kept)) == bool(out)
