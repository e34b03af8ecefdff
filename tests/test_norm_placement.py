"""PatchTST has the kind and the placement of norms that chapter 8 describes."""

import torch
from transformers import PatchTSTConfig, PatchTSTModel


def test_patchtst_has_a_batch_norm_before_the_sublayer_unless_told():
    small = {"context_length": 32, "d_model": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    assert PatchTSTConfig().norm_type == "batchnorm" and PatchTSTConfig().pre_norm
    before, after = ["norm_sublayer1", "self_attn"], ["norm_sublayer3", "ff"]
    for pre_norm, order in (True, before + after), (False, before[::-1] + after[::-1]):
        model, ran = PatchTSTModel(PatchTSTConfig(**small, pre_norm=pre_norm)).eval(), []
        for name in order:
            part = model.encoder.layers[0].get_submodule(name)
            part.register_forward_hook(lambda *_, name=name, ran=ran: ran.append(name))
        model(torch.randn(2, 32, 1))
        assert ran == order
