"""The rows of the decision page are those of default sizes; worked out by hand from the theorems.

Of a key bias g (k - r) numbers can go under rotary positions of r of k dimensions, of a value bias
without an output bias max(0, gk - d), and one more where only LayerNorms read the stream.
"""

import pytest
from redundancy.defaults import NAMES, NOTES, line, predicted

#: heads of keys, width of a head, rotated dimensions, width of the stream, LayerNorm or not
ROTARY = {
    "gptj": (16, 256, 64, 4096, True),
    "codegen": (16, 256, 64, 4096, True),
    "stablelm": (32, 80, 20, 2560, True),
    "nemotron": (48, 128, 64, 6144, True),
    "falcon": (1, 64, 64, 4544, True),
    "llama": (32, 128, 128, 4096, False),
    "gemma2": (4, 256, 256, 2304, False),
}


@pytest.mark.parametrize("name", ROTARY)
def test_what_can_go_is_counted_at_the_default_sizes(name):
    g, k, r, d, layer_norm = ROTARY[name]
    found = predicted(name)
    assert (found["key"].size, found["key"].dimension) == (g * k, g * (k - r))
    assert (found["value"].size, found["value"].dimension) == (
        g * k,
        max(0, g * k - d + layer_norm),
    )


def test_a_row_says_what_was_given_beside_the_default():
    assert len(NAMES) == len(set(NAMES)) == 49 and NOTES.keys() < set(NAMES)
    assert line("gptj") == (
        "| `gptj` | part | RoPE turns a quarter of each head | part | "
        "no $b_O$, but one direction is not seen |"
    )
    assert NOTES["nemotron"] in line("nemotron")
