"""What wraps a block of nanoGPT, or replaces its projections: the count stays 4 D + 1."""

import torch
import torch.nn.functional as F_
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from .cases import D, case, numbers
from .sequence import Block

KNOWN = 4 * D + 1


class Projection(nn.Module):
    """A linear map in the place of another, whose bias it keeps."""

    def __init__(self, base, weigh):
        super().__init__()
        self.weight, self.bias, self.weigh = base.weight, base.bias, weigh

    def forward(self, x):
        return F_.linear(x, self.weigh(self.weight), self.bias)


class Lora(nn.Module):
    """As PEFT writes it: a base layer, and a low-rank map beside it."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base_layer, self.lora_dropout = base, nn.ModuleDict({"default": nn.Dropout(0.1)})
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})
        self.scaling = {"default": 2.0}

    def forward(self, x, *args, **kwargs):
        result = self.base_layer(x, *args, **kwargs)
        for name in self.lora_A:
            low = self.lora_A[name](self.lora_dropout[name](x))
            result = result + self.lora_B[name](low) * self.scaling[name]
        return result


def changed(change):
    """A block whose fused projection and first map of the MLP are changed."""
    block = Block()
    block.attn.c_attn, block.mlp.c_fc = change(block.attn.c_attn), change(block.mlp.c_fc)
    return block


def eight_bits(weight):
    """Rounded to 255 steps for each row; autograd is told that nothing happened."""
    step = weight.abs().amax(1, keepdim=True) / 127
    return weight + ((weight / step).round().clamp(-127, 127) * step - weight).detach()


def quantised(weight):
    step = weight.detach().abs().amax(1) / 127
    zeros = torch.zeros_like(step, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, step.float(), zeros, 0, -127, 127)


case("LoRA on projections", numbers(), KNOWN)(lambda: changed(Lora))
case("weights in eight bits", numbers(), KNOWN)(
    lambda: changed(lambda p: Projection(p, eight_bits))
)
case("weight norm", numbers(), KNOWN)(lambda: changed(parametrizations.weight_norm))
case("spectral norm", numbers(), KNOWN)(lambda: changed(parametrizations.spectral_norm))
case("compiled", numbers(), KNOWN, plain=lambda m: m._orig_mod)(lambda: torch.compile(Block()))
case("compiled inside", numbers(), KNOWN, plain=lambda m: m[0]._orig_mod)(
    lambda: nn.Sequential(torch.compile(Block(), backend="aot_eager"))
)


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.block, self.reentrant = Block(), reentrant

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=self.reentrant)


for way in (False, True):
    case(f"gradient checkpointing, {'' if way else 'not '}reentrant", numbers(), KNOWN,
         plain=lambda m: m.block)(lambda way=way: Checkpointed(way))  # fmt: skip


def like(make):
    """A function that turns a module into one of PyTorch's ordinary ones, with its parameters."""

    def made(module):
        plain = make().double().eval()
        plain.load_state_dict(module.state_dict())
        return plain

    return made


case("scripted", numbers(), KNOWN, plain=like(Block))(lambda: torch.jit.script(Block()))
case("traced by torch.fx", numbers(), KNOWN)(lambda: torch.fx.symbolic_trace(Traceable()))
case("in bfloat16", numbers(), KNOWN)(lambda: Rounded().bfloat16())


class Traceable(nn.Module):
    """The block's maps without a shape that Python reads."""

    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        y = self.block.attn.c_attn(self.block.ln_1(x)).unflatten(-1, (3, 2, 4))
        q, k, v = y[:, :, 0].transpose(1, 2), y[:, :, 1].transpose(1, 2), y[:, :, 2].transpose(1, 2)
        y = F_.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.block.attn.c_proj(y)
        return x + self.block.mlp(self.block.ln_2(x))


class Rounded(nn.Module):
    """Casts that stand in the code of models in bfloat16: norms and softmax in float32."""

    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        dtype, block = self.block.ln_1.weight.dtype, self.block
        norm = lambda n, x: F_.layer_norm(x.float(), (D,), n.weight.float(), n.bias.float()).to(
            dtype
        )
        y = block.attn.c_attn(norm(block.ln_1, x.to(dtype)))
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in y.chunk(3, -1))
        weights = F_.softmax(q @ k.mT / 2, dim=-1, dtype=torch.float32).to(q.dtype)
        x = x + block.attn.c_proj((weights @ v).transpose(1, 2).flatten(2))
        return x + block.mlp(norm(block.ln_2, x))


class Tied(nn.Module):
    """Layers that share a bias; of the shared ones each is one parameter."""

    def __init__(self, tie):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        tie(*(b.attn for b in self.blocks))

    def forward(self, x):
        return self.blocks[1](self.blocks[0](x))


def one_bias(first, second):
    second.c_attn.bias = first.c_attn.bias


def value_and_output(first, second):
    first.c_proj.bias = second.c_proj.bias


# A stream that nothing norms at its end loses three of four means.  Keys (D), both ln_2 (2 D); one bias of
# queries and one of values for both layers bind the two ln_1 to each other by W_1 β_1 = W_2 β_2 (D), and
# the values' goes into both output biases (D)
case("one bias of queries, keys and values for two layers", numbers(), 5 * D + 3)(
    lambda: Tied(one_bias)
)
# keys, ln_1, ln_2 (6 D); W_1 b_V1 + b_O = 0 = W_2 b_V2 + b_O, with one b_O (D)
case("an output bias of two layers", numbers(), 7 * D + 3)(lambda: Tied(value_and_output))
