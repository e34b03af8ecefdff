"""What chapter 8 says about models of others: where the norm stands in PatchTST."""

import pytest
import torch


def order_in_a_layer(**options):
    """The names of norm and attention of one encoder layer, in the order in which they run."""
    from transformers import PatchTSTConfig, PatchTSTModel

    small = {"context_length": 16, "patch_length": 4, "patch_stride": 4, "d_model": 8}
    config = PatchTSTConfig(
        num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, **small, **options
    )
    model, ran = PatchTSTModel(config).eval(), []
    for name, part in model.encoder.layers[0].named_children():
        if name in ("norm_sublayer1", "self_attn", "norm_sublayer3", "ff"):
            part.register_forward_hook(lambda *_, name=name: ran.append(name))
    model(torch.randn(2, 16, 1))
    return ran


@pytest.mark.parametrize(
    "options, order",
    [
        ({}, ["norm_sublayer1", "self_attn", "norm_sublayer3", "ff"]),
        ({"pre_norm": False}, ["self_attn", "norm_sublayer1", "ff", "norm_sublayer3"]),
    ],
)
def test_patchtst_has_its_norm_before_the_sublayer_unless_told(options, order):
    assert order_in_a_layer(**options) == order


def test_that_norm_is_a_batch_norm():
    from transformers import PatchTSTConfig

    assert PatchTSTConfig().norm_type == "batchnorm" and PatchTSTConfig().pre_norm
