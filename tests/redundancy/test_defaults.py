"""The rows of the decision page are those of default sizes; worked out by hand from the theorems.

Of a key bias g (k - r) numbers can go under rotary positions of r of k dimensions.  A value bias goes
into the bias of a parallel MLP; of one without any output bias max(0, gk - d) directions can go, and
one more where only LayerNorms read the stream.
"""

import pytest
from redundancy.models.defaults import NAMES, NOTES, line

#: heads of keys, width of a head, rotated dimensions, width of the stream, LayerNorm or not, parallel MLP or not
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
def test_a_small_model_has_the_shares_of_the_default_sizes(name):
    g, k, r, d, layer_norm, parallel = ROTARY[name]
    _, named, key, why, value, *_ = (cell.strip() for cell in line(name).split("|"))
    assert named == f"`{name}`" and "rotary positions rotate it, differently for each token" in why
    assert key == share(g * (k - r), g * k)
    assert value == ("all" if parallel else share(max(0, g * k - d + layer_norm), g * k))


def test_a_row_says_what_was_given_beside_the_default():
    assert len(NAMES) == len(set(NAMES)) == 49 and NOTES.keys() < set(NAMES)
    assert NOTES["nemotron"] in line("nemotron")
