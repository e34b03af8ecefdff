"""Wrappers that keep a nanoGPT block's 4 D + 1 redundant directions; blocks with a shared bias."""

import torch
import torch.nn.functional as F_
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

from .cases import D, H, case, made, numbers
from .sequence import Block

KNOWN = 4 * D + 1


@made(lambda base, weigh: dict(weight=base.weight, bias=base.bias, weigh=weigh))
def projection(self, x):
    """The linear map ``base``, with its weight passed through ``weigh`` first."""
    return F_.linear(x, self.weigh(self.weight), self.bias)


@made(lambda base, rank=2: dict(
    base_layer=base, lora_dropout=nn.ModuleDict({"default": nn.Dropout(0.1)}),
    lora_A=nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)}),
    lora_B=nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})))  # fmt: skip
def lora(self, x):
    """A base layer plus a low-rank map, as PEFT writes them."""
    result = self.base_layer(x)
    for name in self.lora_A:
        result = result + self.lora_B[name](self.lora_A[name](self.lora_dropout[name](x))) * 2.0
    return result


def eight_bits(weight):
    """Round each row to 255 levels, but hide the rounding from autograd."""
    step = weight.abs().amax(1, keepdim=True) / 127
    return weight + ((weight / step).round().clamp(-127, 127) * step - weight).detach()


def changed(change):
    """A block with ``change`` applied to its fused projection and the first map of its MLP."""
    block = Block()
    block.attn.c_attn, block.mlp.c_fc = change(block.attn.c_attn), change(block.mlp.c_fc)
    return block


def unscripted(module):
    plain = Block().double().eval()
    plain.load_state_dict(module.state_dict())
    return plain


@made(lambda reentrant: dict(block=Block(), reentrant=reentrant))
def checkpointed(self, x):
    return checkpoint(self.block, x, use_reentrant=self.reentrant)


@made(lambda: dict(block=Block()))
def rounded(self, x):
    """A block with the casts of bfloat16 models: norms and softmax compute in float32."""
    dtype, block = self.block.ln_1.weight.dtype, self.block
    norm = lambda n, x: F_.layer_norm(x.float(), (D,), n.weight.float(), n.bias.float()).to(dtype)
    y = block.attn.c_attn(norm(block.ln_1, x.to(dtype)))
    q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in y.chunk(3, -1))
    weights = F_.softmax(q @ k.mT / 2, dim=-1, dtype=torch.float32).to(q.dtype)
    x = x + block.attn.c_proj((weights @ v).transpose(1, 2).flatten(2))
    return x + block.mlp(norm(block.ln_2, x))


def known(title, build, **options):
    case(title, numbers(), KNOWN, **options)(build)


known("LoRA on projections", lambda: changed(lora))
known("weights in eight bits", lambda: changed(lambda base: projection(base, eight_bits)))
known("weight norm", lambda: changed(weight_norm))
known("spectral norm", lambda: changed(spectral_norm))
known("in bfloat16", lambda: rounded().bfloat16())
known("compiled", lambda: torch.compile(Block()), plain=lambda m: m._orig_mod)
known("scripted", lambda: torch.jit.script(Block()), plain=unscripted)
known("a checkpoint, not reentrant", lambda: checkpointed(False), plain=lambda m: m.block)
known("a checkpoint, reentrant", lambda: checkpointed(True), plain=lambda m: m.block)


def tied(place):
    """Two blocks whose attention layers share the bias of the map called ``place``."""
    blocks = nn.Sequential(Block(), Block())
    first, second = (getattr(block.attn, place) for block in blocks)
    second.bias = first.bias
    return blocks


# Three of the four means of c_proj biases can go (3), as norms follow them; b_K (D) and the shifts
# of both ln_2 (2 D) can go.  As both layers share b_Q and b_V, the shifts of both ln_1 can go only
# if W_1 β_1 = W_2 β_2 (D), and the shared b_V moves into both output biases (D)
case("one bias of queries, keys and values for two layers", numbers(), 5 * D + 3)(
    lambda: tied("c_attn")
)
# each layer's b_K and norms' shifts can go (6 D); b_O absorbs both b_V if W_1 b_V1 = W_2 b_V2 (D)
case("an output bias of two layers", numbers(), 7 * D + 3)(lambda: tied("c_proj"))
