"""PatchTST has the kind and the placement of norms that chapter 8 describes."""

import torch
from transformers import PatchTSTConfig, PatchTSTModel


def test_patchtst_has_a_batch_norm_before_the_sublayer_unless_told():
    first, second = "norm_sublayer1", "norm_sublayer3"
    small = {"context_length": 16, "patch_length": 4, "patch_stride": 4, "d_model": 8, "ffn_dim": 8}
    small |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    assert PatchTSTConfig().norm_type == "batchnorm" and PatchTSTConfig().pre_norm
    for pre_norm, order in (
        (True, [first, "self_attn", second, "ff"]),
        (False, ["self_attn", first, "ff", second]),
    ):
        model, ran = PatchTSTModel(PatchTSTConfig(**small, pre_norm=pre_norm)).eval(), []
        for name in order:
            part = model.encoder.layers[0].get_submodule(name)
            part.register_forward_hook(lambda *_, name=name, ran=ran: ran.append(name))
        model(torch.randn(2, 16, 1))
        assert ran == order
