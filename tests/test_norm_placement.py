"""What chapter 8 says about models of others: where the norm stands in PatchTST, and which it is."""

import pytest
import torch

FIRST, SECOND = "norm_sublayer1", "norm_sublayer3"
SMALL = {"context_length": 16, "patch_length": 4, "patch_stride": 4, "d_model": 8, "ffn_dim": 8}


@pytest.mark.parametrize(
    "options, order",
    [
        ({}, [FIRST, "self_attn", SECOND, "ff"]),
        ({"pre_norm": False}, ["self_attn", FIRST, "ff", SECOND]),
    ],
)
def test_patchtst_has_a_batch_norm_before_the_sublayer_unless_told(options, order):
    """In the order in which the parts of one encoder layer run."""
    from transformers import PatchTSTConfig, PatchTSTModel

    assert PatchTSTConfig().norm_type == "batchnorm" and PatchTSTConfig().pre_norm
    config = PatchTSTConfig(num_hidden_layers=1, num_attention_heads=2, **SMALL, **options)
    model, ran = PatchTSTModel(config).eval(), []
    for name, part in model.encoder.layers[0].named_children():
        if name in order:
            part.register_forward_hook(lambda *_, name=name: ran.append(name))
    model(torch.randn(2, 16, 1))
    assert ran == order
