"""Vision transformers and convolutional networks, as their projects write them."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, F, H, case, drawn, numbers


def images(batch, channels, size):
    return numbers((batch, channels, size, size))


class TimmAttention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.num_heads, self.scale, self.fused = H, (D // H) ** -0.5, fused
        self.qkv, self.proj = nn.Linear(D, D * 3), nn.Linear(D, D)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused:
            x = F_.scaled_dot_product_attention(q, k, v)
        else:
            q = q * self.scale
            x = (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class LayerScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(D))

    def forward(self, x):
        return x * self.gamma


class TimmBlock(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.norm1, self.attn, self.ls1 = (
            nn.LayerNorm(D, eps=1e-6),
            TimmAttention(fused),
            LayerScale(),
        )
        self.norm2, self.ls2 = nn.LayerNorm(D, eps=1e-6), LayerScale()
        self.mlp = nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


# each of two blocks: keys, values, two shifts of norms (4 D), and of what is added to the stream
# the multiples of 1 that the last norm subtracts (2); the last norm's shift goes into the head (D);
# of cls_token, reg_token, the patch bias and pos_embed (27 D numbers... tokens 1 + 2 + 4) see below
@case("timm: ViT with registers", images(2, 3, 4), 2 * (4 * D + 2) + D + 2 * D + 7,
      also=("cls_token", "reg_token", "pos_embed"))  # fmt: skip
class VisionTransformer(nn.Module):
    """The stream's tables have 1 + 2 + 1 + 5 rows of D for 7 tokens, each seen but for its mean:
    9 D - 7 (D - 1) directions of them can go."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, D, 2, 2)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, D))
        self.reg_token = nn.Parameter(torch.zeros(1, 2, D))
        self.pos_embed = nn.Parameter(torch.zeros(1, 5, D))
        self.blocks = nn.Sequential(TimmBlock(True), TimmBlock(False))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        cls, reg = (t.expand(len(x), -1, -1) for t in (self.cls_token, self.reg_token))
        x = torch.cat([cls, x], dim=1) + self.pos_embed
        x = torch.cat([x[:, :1], reg, x[:, 1:]], dim=1)
        return self.head(self.norm(self.blocks(x))[:, 0])


class WindowAttention(nn.Module):
    """torchvision's: pads after the norm, shifts, masks by -100, adds a table of relative positions."""

    def __init__(self, window, shift):
        super().__init__()
        self.window, self.shift = window, shift
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, H))
        at = torch.stack(torch.meshgrid(*2 * [torch.arange(window)], indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
        index = (apart[..., 0] * (2 * window - 1) + apart[..., 1]).flatten()
        self.register_buffer("relative_position_index", index)

    def forward(self, x):
        B, height, width, C = x.shape
        w, s = self.window, self.shift
        x = F_.pad(x, (0, 0, 0, -width % w, 0, -height % w))
        _, Hp, Wp, _ = x.shape
        if s:
            x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
        x = x.view(B, Hp // w, w, Wp // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        qkv = F_.linear(x, self.qkv.weight, self.qkv.bias)
        q, k, v = qkv.reshape(len(x), w * w, 3, H, C // H).permute(2, 0, 3, 1, 4)
        attn = (q * (C // H) ** -0.5).matmul(k.transpose(-2, -1))
        bias = self.relative_position_bias_table[self.relative_position_index]
        attn = attn + bias.view(w * w, w * w, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if s:
            mask = x.new_zeros((Hp, Wp))
            parts = (0, -w), (-w, -s), (-s, None)
            for i, rows in enumerate(parts):
                for j, columns in enumerate(parts):
                    mask[slice(*rows), slice(*columns)] = 3 * i + j
            mask = mask.view(Hp // w, w, Wp // w, w).permute(0, 2, 1, 3).reshape(-1, w * w)
            mask = mask.unsqueeze(1) - mask.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
            attn = attn.view(B, len(mask), H, w * w, w * w) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, H, w * w, w * w)
        x = F_.softmax(attn, dim=-1).matmul(v).transpose(1, 2).reshape(len(x), w * w, C)
        x = F_.linear(x, self.proj.weight, self.proj.bias)
        x = x.view(B, Hp // w, Wp // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, Hp, Wp, C)
        if s:
            x = torch.roll(x, shifts=(s, s), dims=(1, 2))
        return x[:, :height, :width, :].contiguous()


class PatchMerging(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * D), nn.Linear(4 * D, 2 * D, bias=False)

    def forward(self, x):
        _, height, width, _ = x.shape
        x = F_.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        parts = x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]
        return self.reduction(self.norm(torch.cat(parts, -1)))


# Each of two blocks: keys, values, the second norm's shift (3 D), a number for each head's table (H).
# Padded tokens have no norm, so that nothing takes the first norm's shift.  Of the merging's norm go
# the shifts that 2 D outputs of 4 D inputs do not see (2 D).  The mean of the four biases that are
# added to the stream goes but for one: the merging pads by zeros, and sees their sum.
@case("Swin: a stage, padded", images(2, D, 5), 2 * (3 * D + H) + 2 * D + 3, also=("bias_table",))
class SwinStage(nn.Module):
    def __init__(self, window=3):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(D), WindowAttention(window, shift), nn.LayerNorm(D),
                           nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D))])
            for shift in (0, window // 2))  # fmt: skip
        self.merge = PatchMerging()

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        for norm1, attn, norm2, mlp in self.blocks:
            x = x + attn(norm1(x))
            x = x + mlp(norm2(x))
        return self.merge(x)


# no padding: the first norm's shift can go too, and all four means
case("Swin: a stage", images(2, D, 6), 2 * (4 * D + H + 2) + 2 * D, also=("bias_table",))(SwinStage)
# Windows of 2 x 2: all tokens that are padded are masked by -100 from the others in the second block,
# and whether e^-100 of its first norm's shift is there is more than the Jacobian can see
case("Swin: a stage, padded, masked by -100", images(2, D, 5), 2 * (3 * D + H) + 2 * D + 3,
     also=("bias_table",), counts=2 * (3 * D + H) + 2 * D + 3 + D)(lambda: SwinStage(2))  # fmt: skip


# keys, values, and of the modulation's bias the two parts that shift what qkv and fc1 read; the
# gates multiply all biases that reach the stream
@case("DiT: block with adaLN", numbers((2, 5, D), (2, D)), 4 * D)
class DiTBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(D, elementwise_affine=False, eps=1e-6) for _ in "12")
        self.attn = TimmAttention(False)
        self.mlp = nn.Sequential(nn.Linear(D, F), nn.GELU(approximate="tanh"), nn.Linear(F, D))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))

    def forward(self, x, c):
        s1, k1, g1, s2, k2, g2 = self.adaLN_modulation(c).chunk(6, dim=1)
        modulate = lambda x, shift, scale: x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        x = x + g1.unsqueeze(1) * self.attn(modulate(self.norm1(x), s1, k1))
        return x + g2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, k2))


class CrossAttention(nn.Module):
    def __init__(self, context=D):
        super().__init__()
        self.to_q = nn.Linear(D, D, bias=False)
        self.to_k, self.to_v = (nn.Linear(context, D, bias=False) for _ in "kv")
        self.to_out = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.0))

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        q, k, v = (t.view(*t.shape[:2], H, -1).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
        attn = (torch.einsum("bid,bjd->bij", q, k) * (D // H) ** -0.5).softmax(dim=-1)
        out = torch.einsum("bij,bjd->bid", attn, v).unflatten(0, (-1, H))
        return self.to_out(out.transpose(1, 2).flatten(2))


class ResnetBlock(nn.Module):
    def __init__(self, cin):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(2, cin), nn.Conv2d(cin, D, 3, padding=1)
        self.time_emb_proj = nn.Linear(F, D)
        self.norm2, self.conv2 = nn.GroupNorm(2, D), nn.Conv2d(D, D, 3, padding=1)
        self.skip = nn.Identity() if cin == D else nn.Conv2d(cin, D, 1)

    def forward(self, x, temb):
        h = self.conv1(F_.silu(self.norm1(x)))
        h = h + self.time_emb_proj(F_.silu(temb))[:, :, None, None]
        return self.skip(x) + self.conv2(F_.silu(self.norm2(h)))


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.proj_in = nn.GroupNorm(2, D), nn.Conv2d(D, D, 1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(D) for _ in "123")
        self.attn1, self.attn2 = CrossAttention(), CrossAttention(6)
        self.proj, self.ff_out = nn.Linear(D, 2 * F), nn.Linear(F, D)
        self.proj_out = nn.Conv2d(D, D, 1)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.proj_in(self.norm(x)).permute(0, 2, 3, 1).reshape(b, h * w, c)
        y = self.attn1(self.norm1(y)) + y
        y = self.attn2(self.norm2(y), context) + y
        value, gate = self.proj(self.norm3(y)).chunk(2, dim=-1)
        y = self.ff_out(value * F_.gelu(gate)) + y
        return self.proj_out(y.reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous()) + x


# In each of three residual blocks conv1's bias goes into the time's (D), and what is the same in each
# group is subtracted (2).  The transformer: its norm's shift into proj_in (D), norm3's into proj (D),
# the means of proj_in and of two attentions through to proj_out (3), ff_out's bias into it (D).
# Groups of conv_in and of the first conv2 pass two norms and go into proj_out (4), groups of `down` into the
# next conv2 (2).  Of `up` the mean: its channels are a group, the skip has a bias (1).  In the last block
# conv2's bias and the skip's add up (D), and groups are subtracted (2).
@case(
    "UNet with cross-attention",
    numbers((2, 3, 4, 4), (2, F), (2, 3, 6)),
    3 * (D + 2) + 3 * D + 3 + 4 + 2 + 1 + D + 2,
)
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_in, self.down = nn.Conv2d(3, D, 3, padding=1), nn.Conv2d(D, D, 3, 2, 1)
        self.res1, self.attn, self.mid = ResnetBlock(D), SpatialTransformer(), ResnetBlock(D)
        self.up, self.res2 = nn.Conv2d(D, D, 3, padding=1), ResnetBlock(2 * D)
        self.norm_out, self.conv_out = nn.GroupNorm(2, D), nn.Conv2d(D, 3, 3, padding=1)

    def forward(self, x, temb, context):
        skip = self.attn(self.res1(self.conv_in(x), temb), context)
        h = self.mid(self.down(skip), temb)
        h = self.up(F_.interpolate(h, scale_factor=2.0, mode="nearest"))
        h = self.res2(torch.cat([h, skip], dim=1), temb)
        return self.conv_out(F_.silu(self.norm_out(h)))


def conv_norm(cin, cout, size, bias=False, **options):
    return nn.Sequential(
        nn.Conv2d(cin, cout, size, padding=size // 2, bias=bias, **options), nn.BatchNorm2d(cout)
    )


class Residual(nn.Module):
    """ResNet's basic block, or its bottleneck."""

    def __init__(self, bottleneck, bias=False):
        super().__init__()
        self.stem = conv_norm(3, 4, 3, bias)
        one = [conv_norm(4, 6, 3, bias, stride=2), conv_norm(6, 6, 3, bias)]
        three = [
            conv_norm(4, 5, 1, bias),
            conv_norm(5, 5, 3, bias, stride=2),
            conv_norm(5, 6, 1, bias),
        ]
        self.block = nn.ModuleList(three if bottleneck else one)
        self.downsample = conv_norm(4, 6, 1, bias, stride=2)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = identity = F_.relu(self.stem(x), inplace=True)
        *first, last = self.block
        for layer in first:
            x = F_.relu(layer(x), inplace=True)
        x = last(x)
        x += self.downsample(identity)
        x = F_.relu(x, inplace=True)
        return self.fc(torch.flatten(F_.adaptive_avg_pool2d(x, 1), 1))


for mode in ("eval", "train"):
    # the shifts of the block's last norm and of the downsample's add up
    case(f"ResNet: basic block, {mode}", images(3, 3, 6), 6, mode=mode)(lambda: Residual(False))
    case(f"ResNet: bottleneck, {mode}", images(3, 3, 6), 6, mode=mode)(lambda: Residual(True))
    # and the biases of all convolutions: into the shift behind them, or subtracted with the mean
    case(f"ResNet: basic block with biases, {mode}", images(3, 3, 6), 6 + 4 + 6 + 6 + 6, mode=mode)(
        lambda: Residual(False, True)
    )


class Inverted(nn.Module):
    """MobileNetV2's block, and EfficientNet's, which squeezes and excites."""

    def __init__(self, cin, cout, act, squeeze=False):
        super().__init__()
        wide = 2 * cin
        self.expand, self.depth = conv_norm(cin, wide, 1), conv_norm(wide, wide, 3, groups=wide)
        self.fc1, self.fc2 = nn.Conv2d(wide, 3, 1), nn.Conv2d(3, wide, 1)
        if not squeeze:
            del self.fc1, self.fc2
        self.project, self.act, self.squeeze = conv_norm(wide, cout, 1), act, squeeze
        self.residual = cin == cout

    def forward(self, x):
        y = self.act(self.depth(self.act(self.expand(x))))
        if self.squeeze:
            y = y * self.fc2(F_.silu(self.fc1(F_.adaptive_avg_pool2d(y, 1)))).sigmoid()
        y = self.project(y)
        return x + y if self.residual else y


def mobile(act, squeeze=False):
    return nn.Sequential(
        conv_norm(3, 4, 3), act, Inverted(4, 5, act, squeeze), Inverted(5, 5, act, squeeze),
        conv_norm(5, 6, 1), act, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))  # fmt: skip


for mode in ("eval", "train"):
    # two projections without an activation: their norm's shift goes into those behind, or is subtracted
    case(f"MobileNetV2, {mode}", images(3, 3, 4), 5 + 5, mode=mode)(lambda: mobile(nn.ReLU6()))
    case(f"EfficientNet, {mode}", images(3, 3, 4), 5 + 5, mode=mode)(
        lambda: mobile(nn.SiLU(), True)
    )


class ChannelsFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvNeXtBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(D, D, 7, padding=3, groups=D), nn.LayerNorm(D)
        self.pwconv1, self.pwconv2 = nn.Linear(D, F), nn.Linear(F, D)
        self.gamma = nn.Parameter(torch.ones(D))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pwconv2(F_.gelu(self.pwconv1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


# the stem's mean (1); in each of two blocks dwconv's mean and the norm's shift (1 + D); of the last
# pwconv2 the multiple of 1 / γ whose mean the head's norm subtracts (1), whose shift the head takes (D).
# What is added to the stream before the last block is seen at the border of a padded convolution
@case("ConvNeXt with LayerScale", images(2, 3, 8), 1 + 2 * (1 + D) + 1 + D)
class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, D, 2, 2), ChannelsFirst())
        self.blocks = nn.Sequential(ConvNeXtBlock(), ConvNeXtBlock())
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 5)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x)).mean([-2, -1])))


class Dense(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.conv0 = nn.Conv2d(3, 4, 3, padding=1, bias=bias)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.BatchNorm2d(4 + 3 * i), nn.Conv2d(4 + 3 * i, 6, 1, bias=bias),
                           nn.BatchNorm2d(6), nn.Conv2d(6, 3, 3, padding=1, bias=bias)])
            for i in (0, 1))  # fmt: skip
        self.norm, self.conv = nn.BatchNorm2d(10), nn.Conv2d(10, 5, 1, bias=bias)
        self.norm5, self.classifier = nn.BatchNorm2d(5), nn.Linear(5, 4)

    def forward(self, x):
        found = [self.conv0(x)]
        for norm1, conv1, norm2, conv2 in self.layers:
            y = conv1(F_.relu(norm1(torch.cat(found, 1))))
            found.append(conv2(F_.relu(norm2(y))))
        x = F_.avg_pool2d(self.conv(F_.relu(self.norm(torch.cat(found, 1)))), 2)
        return self.classifier(F_.relu(self.norm5(x)).mean((2, 3)))


# every norm's shift is read through a ReLU
case("DenseNet", images(3, 3, 4), 0)(lambda: Dense(False))
for mode in ("eval", "train"):
    # all convolutions are read by norms: 4 + 2 (6 + 3) + 5
    case(f"DenseNet with biases, {mode}", images(3, 3, 4), 27, mode=mode)(lambda: Dense(True))


def generator(bias):
    up = lambda i, o, *more: nn.ConvTranspose2d(i, o, 4, *more, bias=bias)
    return nn.Sequential(
        up(5, 6, 1, 0), nn.BatchNorm2d(6), nn.ReLU(True),
        up(6, 4, 2, 1), nn.BatchNorm2d(4), nn.ReLU(True), up(4, 2, 2, 1), nn.Tanh())  # fmt: skip


case("DCGAN: generator", numbers((3, 5, 1, 1)), 0, mode="train")(lambda: generator(False))
for mode in ("eval", "train"):
    case(f"DCGAN: generator with biases, {mode}", numbers((3, 5, 1, 1)), 10, mode=mode)(
        lambda: generator(True)
    )


# InstanceNorm subtracts the bias of each channel before it
@case("WGAN: critic with InstanceNorm", images(2, 3, 8), 5 + 6)
def critic():
    norm = lambda channels: nn.InstanceNorm2d(channels, affine=True)
    return nn.Sequential(
        nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 5, 3, 1, 1), norm(5), nn.LeakyReLU(0.2),
        nn.Conv2d(5, 6, 4, 2, 1), norm(6), nn.LeakyReLU(0.2), nn.Conv2d(6, 1, 2))  # fmt: skip


class Points(nn.Module):
    """Deep Sets: each element alone, their sum or mean, and what is made of it."""

    def __init__(self, mean):
        super().__init__()
        self.phi1, self.bn1, self.phi2 = nn.Linear(3, D), nn.BatchNorm1d(D), nn.Linear(D, D)
        self.rho1, self.bn2, self.rho2, self.mean = (
            nn.Linear(D, F),
            nn.BatchNorm1d(F),
            nn.Linear(F, 2),
            mean,
        )

    def forward(self, x):
        y = F_.relu(self.bn1(self.phi1(x).transpose(1, 2)).transpose(1, 2))
        y = self.phi2(y).mean(1) if self.mean else self.phi2(y).sum(1)
        return self.rho2(F_.relu(self.bn2(self.rho1(y))))


def sets(seed):
    """Six sets, their size another for each seed."""
    return (drawn(seed, 6, 3 + seed % 2, 3),)


# phi1's bias and rho1's go into the norms, phi2's into rho1's
case("Deep Sets with BatchNorm: mean", sets, D + F + D)(lambda: Points(True))
case("Deep Sets with BatchNorm: mean, train", sets, D + F + D, mode="train")(lambda: Points(True))
# a sum of n elements has n times the bias, which differs from set to set
case("Deep Sets with BatchNorm: sum", sets, D + F)(lambda: Points(False))
