"""The decision page gives the hand-derived shares of biases that can go at default sizes.

If rotary positions rotate r of the k dimensions of g key heads, g (k - r) numbers of a key bias can
go.  A value bias goes into the bias of a parallel MLP.  If there is no output bias, max(0, gk - d)
directions of a value bias can go, or max(0, gk - d + 1) if only LayerNorms read the d-wide stream.
"""

import pytest
from redundancy.models.defaults import NAMES, NOTES, line

#: {name: (key heads, head width, rotated dimensions, stream width, LayerNorm?, parallel MLP?)}
ROTARY = {
    "gptj": (16, 256, 64, 4096, True, True),
    "codegen": (16, 256, 64, 4096, True, True),
    "stablelm": (32, 80, 20, 2560, True, False),
    "nemotron": (48, 128, 64, 6144, True, False),
    "falcon": (1, 64, 64, 4544, True, False),
    "llama": (32, 128, 128, 4096, False, False),
    "gemma2": (4, 256, 256, 2304, False, False),
}


def share(count, size):
    return "all" if count == size else "part" if count else "none"


@pytest.mark.parametrize("name", ROTARY)
def test_a_row_gives_the_shares_of_the_default_sizes(name):
    g, k, r, d, layer_norm, parallel = ROTARY[name]
    _, named, key, value, _ = (cell.strip() for cell in line(name).split("|"))
    why = "rotary positions rotate it, differently for each token"
    values = "all" if parallel else share(max(0, g * k - d + layer_norm), g * k)
    assert named == f"`{name}`" and key.startswith(f"**{share(g * (k - r), g * k)}**: {why}")
    assert value.startswith(f"**{values}**: ")


def test_a_row_names_the_fields_set_in_addition_to_the_default():
    assert len(NAMES) == len(set(NAMES)) == 49 and NOTES.keys() < set(NAMES)
    assert NOTES["nemotron"] in line("nemotron")
