"""Vision transformers and convolutional networks, written as in the projects that publish them."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, F, H, case, drawn, made, numbers, zeros


def images(batch, channels, size):
    return numbers((batch, channels, size, size))


def mlp(act=None):
    return nn.Sequential(nn.Linear(D, F), act or nn.GELU(), nn.Linear(F, D))


@made(lambda fused: dict(qkv=nn.Linear(D, D * 3), proj=nn.Linear(D, D), fused_attn=fused))
def timm_attention(self, x):
    B, N, C = x.shape
    q, k, v = self.qkv(x).reshape(B, N, 3, H, -1).permute(2, 0, 3, 1, 4).unbind(0)
    if self.fused_attn:
        x = F_.scaled_dot_product_attention(q, k, v)
    else:
        q = q * (C // H) ** -0.5
        x = (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v
    return self.proj(x.transpose(1, 2).reshape(B, N, C))


@made(lambda fused: dict(
    norm1=nn.LayerNorm(D, eps=1e-6), attn=timm_attention(fused), ls1_gamma=nn.Parameter(torch.ones(D)),
    norm2=nn.LayerNorm(D, eps=1e-6), mlp=mlp(), ls2_gamma=nn.Parameter(torch.ones(D))))  # fmt: skip
def timm_block(self, x):
    x = x + self.attn(self.norm1(x)) * self.ls1_gamma
    return x + self.mlp(self.norm2(x)) * self.ls2_gamma


# In each block, b_K, b_V, two norms' shifts and the multiples of 1 / γ in two output biases can go
# (4 D + 2); the last norm's shift moves into the head (D).  Tables and biases add 9 rows of D
# numbers to 7 tokens; norms cancel each token's mean, so 9 D - 7 (D - 1) directions can go
@case("timm: ViT with registers", images(2, 3, 4), 2 * (4 * D + 2) + D + 2 * D + 7,
      also=("cls_token", "reg_token", "pos_embed"))  # fmt: skip
@made(lambda: dict(
    patch=nn.Conv2d(3, D, 2, 2), cls_token=zeros(1, 1, D), reg_token=zeros(1, 2, D), pos_embed=zeros(1, 5, D),
    blocks=nn.Sequential(timm_block(True), timm_block(False)), norm=nn.LayerNorm(D), head=nn.Linear(D, 5)))  # fmt: skip
def vision_transformer(self, x):
    x = self.patch(x).flatten(2).transpose(1, 2)
    cls, reg = (t.expand(len(x), -1, -1) for t in (self.cls_token, self.reg_token))
    x = torch.cat([cls, x], dim=1) + self.pos_embed
    x = torch.cat([x[:, :1], reg, x[:, 1:]], dim=1)
    return self.head(self.norm(self.blocks(x))[:, 0])


def windows(x, w):
    """Cut (batch, height, width, …) into (windows, tokens, …)."""
    B, height, width, *C = x.shape
    x = x.view(B, height // w, w, width // w, w, *C).transpose(2, 3)
    return x.reshape(-1, w * w, *C)


@made(lambda window, shift: dict(
    window=window, shift=shift, qkv=nn.Linear(D, 3 * D), proj=nn.Linear(D, D),
    relative_position_bias_table=zeros((2 * window - 1) ** 2, H)))  # fmt: skip
def window_attention(self, x):
    """torchvision's window attention: it pads after the norm, rolls, and masks by adding -100."""
    B, height, width, C = x.shape
    w, s = self.window, self.shift
    x = F_.pad(x, (0, 0, 0, -width % w, 0, -height % w))
    _, Hp, Wp, _ = x.shape
    if s:
        x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
    x = windows(x, w)
    qkv = F_.linear(x, self.qkv.weight, self.qkv.bias)
    q, k, v = qkv.reshape(len(x), w * w, 3, H, C // H).permute(2, 0, 3, 1, 4)
    attn = (q * (C // H) ** -0.5).matmul(k.transpose(-2, -1))
    at = torch.cartesian_prod(torch.arange(w), torch.arange(w))
    index = (at[:, None] - at[None] + w - 1) @ torch.tensor([2 * w - 1, 1])
    bias = self.relative_position_bias_table[index.view(-1)].view(w * w, w * w, -1)
    attn = attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
    if s:
        mask, parts = x.new_zeros((1, Hp, Wp)), ((0, -w), (-w, -s), (-s, None))
        for i, rows in enumerate(parts):
            for j, columns in enumerate(parts):
                mask[:, slice(*rows), slice(*columns)] = 3 * i + j
        mask = windows(mask, w)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        attn = attn.view(B, len(mask), H, w * w, w * w) + mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, H, w * w, w * w)
    x = F_.softmax(attn, dim=-1).matmul(v).transpose(1, 2).reshape(len(x), w * w, C)
    x = F_.linear(x, self.proj.weight, self.proj.bias)
    x = x.view(B, Hp // w, Wp // w, w, w, C).transpose(2, 3).reshape(B, Hp, Wp, C)
    if s:
        x = torch.roll(x, shifts=(s, s), dims=(1, 2))
    return x[:, :height, :width, :].contiguous()


@made(lambda window: dict(
    blocks=nn.ModuleList(
        nn.ModuleList([nn.LayerNorm(D), window_attention(window, shift), nn.LayerNorm(D), mlp()])
        for shift in (0, window // 2)),
    norm=nn.LayerNorm(4 * D), reduction=nn.Linear(4 * D, 2 * D, bias=False)))  # fmt: skip
def swin_stage(self, x):
    x = x.permute(0, 2, 3, 1)
    for norm1, attn, norm2, mlp in self.blocks:
        x = x + attn(norm1(x))
        x = x + mlp(norm2(x))
    x = F_.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
    parts = x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]
    return self.reduction(self.norm(torch.cat(parts, -1)))


# In each of the two blocks, b_K, b_V, the shifts of two norms, a constant in each head's table and
# the means of two output biases can go (4 D + H + 2).  `reduction` maps the 4 D shifts of the
# merging norm to 2 D numbers, so 2 D directions of this shift can go
SWIN, TABLE = 2 * (4 * D + H + 2) + 2 * D, ("bias_table",)
case("Swin: a stage", images(2, D, 6), SWIN, also=TABLE)(lambda: swin_stage(3))
# Padding follows the first norms, so no bias takes their shifts (2 D less); merging pads with
# zeros, so the outputs depend on the sum of the four means (1 less)
PADDED = SWIN - 2 * D - 1
case("Swin: a stage, padded", images(2, D, 5), PADDED, also=TABLE)(lambda: swin_stage(3))
# With windows of 2 x 2, the second block hides padded tokens from all others by adding -100, so
# the effect of its first norm's shift is of the order e^-100, which the Jacobian cannot show
case(
    "Swin: a stage, padded, masked by -100", images(2, D, 5), PADDED, also=TABLE, counts=PADDED + D
)(lambda: swin_stage(2))


# b_K, b_V and the two parts of the modulation's bias that shift the inputs of qkv and the MLP can
# go (4 D); gates multiply all biases that reach the stream, so no mean can go
@case("DiT: block with adaLN", numbers((2, 5, D), (2, D)), 4 * D)
@made(lambda: dict(
    norm1=nn.LayerNorm(D, elementwise_affine=False), norm2=nn.LayerNorm(D, elementwise_affine=False),
    attn=timm_attention(False), mlp=mlp(nn.GELU(approximate="tanh")),
    adaLN_modulation=nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))))  # fmt: skip
def dit_block(self, x, c):
    s1, k1, g1, s2, k2, g2 = self.adaLN_modulation(c).chunk(6, dim=1)
    modulate = lambda x, shift, scale: x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
    x = x + g1.unsqueeze(1) * self.attn(modulate(self.norm1(x), s1, k1))
    return x + g2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, k2))


@made(lambda context: dict(
    to_q=nn.Linear(D, D, bias=False), to_k=nn.Linear(context, D, bias=False),
    to_v=nn.Linear(context, D, bias=False), to_out=nn.Sequential(nn.Linear(D, D), nn.Dropout(0.0))))  # fmt: skip
def cross_attention(self, x, context=None):
    context = x if context is None else context
    q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
    q, k, v = (t.view(*t.shape[:2], H, -1).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
    attn = (torch.einsum("bid,bjd->bij", q, k) * (D // H) ** -0.5).softmax(dim=-1)
    out = torch.einsum("bij,bjd->bid", attn, v).unflatten(0, (-1, H))
    return self.to_out(out.transpose(1, 2).flatten(2))


def padded(cin, cout, **options):
    return nn.Conv2d(cin, cout, 3, padding=1, **options)


@made(lambda cin: dict(
    norm1=nn.GroupNorm(2, cin), conv1=padded(cin, D), time_emb_proj=nn.Linear(F, D), norm2=nn.GroupNorm(2, D),
    conv2=padded(D, D), skip=nn.Identity() if cin == D else nn.Conv2d(cin, D, 1)))  # fmt: skip
def resnet_block(self, x, temb):
    h = self.conv1(F_.silu(self.norm1(x)))
    h = h + self.time_emb_proj(F_.silu(temb))[:, :, None, None]
    return self.skip(x) + self.conv2(F_.silu(self.norm2(h)))


@made(lambda: dict(
    norm=nn.GroupNorm(2, D), proj_in=nn.Conv2d(D, D, 1), proj_out=nn.Conv2d(D, D, 1),
    norm1=nn.LayerNorm(D), norm2=nn.LayerNorm(D), norm3=nn.LayerNorm(D),
    attn1=cross_attention(D), attn2=cross_attention(6), proj=nn.Linear(D, 2 * F), ff_out=nn.Linear(F, D)))  # fmt: skip
def spatial_transformer(self, x, context):
    b, c, h, w = x.shape
    y = self.proj_in(self.norm(x)).permute(0, 2, 3, 1).reshape(b, h * w, c)
    y = self.attn1(self.norm1(y)) + y
    y = self.attn2(self.norm2(y), context) + y
    value, gate = self.proj(self.norm3(y)).chunk(2, dim=-1)
    y = self.ff_out(value * F_.gelu(gate)) + y
    return self.proj_out(y.reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous()) + x


# In each residual block conv1's bias moves into time_emb_proj's (D), and norm2 cancels constants in
# each group (2).  In the transformer the shift of `norm` moves into proj_in, norm3's into proj, and
# ff_out's bias into proj_out (3 D), as do the means of proj_in and of both attention layers, which
# norms cancel (3).  Constants in each group of conv_in and the first conv2 pass two norms and move
# into proj_out (4); those in each group of `down` move into the next conv2 (2).  The mean of `up`,
# whose channels form a group of the last norm1, moves into the last skip (1).  In the last block,
# conv2's bias moves into the skip's (D), and norm_out cancels constants in each group (2)
@case(
    "UNet with cross-attention", numbers((2, 3, 4, 4), (2, F), (2, 3, 6)), 3 * (D + 2) + 4 * D + 12
)
@made(lambda: dict(
    conv_in=padded(3, D), down=padded(D, D, stride=2), res1=resnet_block(D), attn=spatial_transformer(),
    mid=resnet_block(D), up=padded(D, D), res2=resnet_block(2 * D), norm_out=nn.GroupNorm(2, D),
    conv_out=padded(D, 3)))  # fmt: skip
def unet(self, x, temb, context):
    skip = self.attn(self.res1(self.conv_in(x), temb), context)
    h = self.mid(self.down(skip), temb)
    h = self.up(F_.interpolate(h, scale_factor=2.0, mode="nearest"))
    h = self.res2(torch.cat([h, skip], dim=1), temb)
    return self.conv_out(F_.silu(self.norm_out(h)))


def conv_norm(cin, cout, size, bias=False, **options):
    conv = nn.Conv2d(cin, cout, size, padding=size // 2, bias=bias, **options)
    return nn.Sequential(conv, nn.BatchNorm2d(cout))


def basic(bias):
    return [conv_norm(4, 6, 3, bias, stride=2), conv_norm(6, 6, 3, bias)]


def bottleneck(bias):
    return [conv_norm(4, 5, 1, bias), conv_norm(5, 5, 3, bias, stride=2), conv_norm(5, 6, 1, bias)]


@made(lambda block, bias: dict(
    stem=conv_norm(3, 4, 3, bias), block=nn.ModuleList(block(bias)),
    downsample=conv_norm(4, 6, 1, bias, stride=2), fc=nn.Linear(6, 5)))  # fmt: skip
def resnet(self, x):
    x = identity = F_.relu(self.stem(x), inplace=True)
    *first, last = self.block
    for layer in first:
        x = F_.relu(layer(x), inplace=True)
    x = last(x)
    x += self.downsample(identity)
    x = F_.relu(x, inplace=True)
    return self.fc(torch.flatten(F_.adaptive_avg_pool2d(x, 1), 1))


@made(lambda cin, cout, act, squeeze: dict(
    expand=conv_norm(cin, 2 * cin, 1), depth=conv_norm(2 * cin, 2 * cin, 3, groups=2 * cin),
    project=conv_norm(2 * cin, cout, 1), act=act, residual=cin == cout,
    squeeze=squeeze and nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * cin, 3, 1), nn.SiLU(),
                                      nn.Conv2d(3, 2 * cin, 1), nn.Sigmoid())))  # fmt: skip
def inverted(self, x):
    """MobileNetV2's block or, with a squeeze-and-excitation module, EfficientNet's."""
    y = self.act(self.depth(self.act(self.expand(x))))
    y = self.project(y * self.squeeze(y) if self.squeeze else y)
    return x + y if self.residual else y


def mobile(act, squeeze):
    return nn.Sequential(
        conv_norm(3, 4, 3), act, inverted(4, 5, act, squeeze), inverted(5, 5, act, squeeze),
        conv_norm(5, 6, 1), act, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))  # fmt: skip


@made(lambda bias: dict(
    conv0=padded(3, 4, bias=bias), norm=nn.BatchNorm2d(10), conv=nn.Conv2d(10, 5, 1, bias=bias),
    layers=nn.ModuleList(
        nn.ModuleList([nn.BatchNorm2d(4 + 3 * i), nn.Conv2d(4 + 3 * i, 6, 1, bias=bias),
                       nn.BatchNorm2d(6), padded(6, 3, bias=bias)]) for i in (0, 1)),
    norm5=nn.BatchNorm2d(5), classifier=nn.Linear(5, 4)))  # fmt: skip
def densenet(self, x):
    found = [self.conv0(x)]
    for norm1, conv1, norm2, conv2 in self.layers:
        y = conv1(F_.relu(norm1(torch.cat(found, 1))))
        found.append(conv2(F_.relu(norm2(y))))
    x = F_.avg_pool2d(self.conv(F_.relu(self.norm(torch.cat(found, 1)))), 2)
    return self.classifier(F_.relu(self.norm5(x)).mean((2, 3)))


def generator(bias):
    up = lambda cin, cout, *more: nn.ConvTranspose2d(cin, cout, 4, *more, bias=bias)
    return nn.Sequential(
        up(5, 6, 1, 0), nn.BatchNorm2d(6), nn.ReLU(True),
        up(6, 4, 2, 1), nn.BatchNorm2d(4), nn.ReLU(True), up(4, 2, 2, 1), nn.Tanh())  # fmt: skip


@made(lambda mean: dict(
    phi1=nn.Linear(3, D), bn1=nn.BatchNorm1d(D), phi2=nn.Linear(D, D), rho1=nn.Linear(D, F),
    bn2=nn.BatchNorm1d(F), rho2=nn.Linear(F, 2), mean=mean))  # fmt: skip
def deep_sets(self, x):
    y = F_.relu(self.bn1(self.phi1(x).transpose(1, 2)).transpose(1, 2))
    y = self.phi2(y).mean(1) if self.mean else self.phi2(y).sum(1)
    return self.rho2(F_.relu(self.bn2(self.rho1(y))))


def sets(seed):
    """Six sets of three or four elements, depending on the parity of the seed."""
    return (drawn(seed, 6, 3 + seed % 2, 3),)


for mode in ("eval", "train"):
    small, larger, noise = images(3, 3, 4), images(3, 3, 6), numbers((3, 5, 1, 1))
    # the shift of the block's last norm moves into the downsampling norm's
    case(f"ResNet: basic block, {mode}", larger, 6, mode)(lambda: resnet(basic, False))
    case(f"ResNet: bottleneck, {mode}", larger, 6, mode)(lambda: resnet(bottleneck, False))
    # the 22 numbers in biases of convolutions can go too: the next norm absorbs or cancels them
    case(f"ResNet: basic block with biases, {mode}", larger, 6 + 22, mode)(
        lambda: resnet(basic, True)
    )
    # the shifts in both `project`s can go, as no activation comes between them and the next norms
    case(f"MobileNetV2, {mode}", small, 5 + 5, mode)(lambda: mobile(nn.ReLU6(), False))
    case(f"EfficientNet, {mode}", small, 5 + 5, mode)(lambda: mobile(nn.SiLU(), True))
    # a ReLU reads every norm's shift, so no shift can go; biases of convolutions move into norms
    case(f"DenseNet, {mode}", small, 0, mode)(lambda: densenet(False))
    case(f"DenseNet with biases, {mode}", small, 4 + 2 * (6 + 3) + 5, mode)(lambda: densenet(True))
    case(f"DCGAN: generator, {mode}", noise, 0, mode)(lambda: generator(False))
    case(f"DCGAN: generator with biases, {mode}", noise, 6 + 4, mode)(lambda: generator(True))
    # the biases of phi1 and rho1 move into the norms, and phi2's moves into rho1's
    case(f"Deep Sets with BatchNorm: mean, {mode}", sets, D + F + D, mode)(lambda: deep_sets(True))
# phi2's bias stays: a sum of n elements contains it n times, and n differs from set to set
case("Deep Sets with BatchNorm: sum", sets, D + F)(lambda: deep_sets(False))


@made(lambda: dict(weight=nn.Parameter(torch.ones(D)), bias=zeros(D)))
def channels_first(self, x):
    u = x.mean(1, keepdim=True)
    s = (x - u).pow(2).mean(1, keepdim=True)
    x = (x - u) / torch.sqrt(s + 1e-6)
    return self.weight[:, None, None] * x + self.bias[:, None, None]


@made(lambda: dict(
    dwconv=nn.Conv2d(D, D, 7, padding=3, groups=D), norm=nn.LayerNorm(D), mlp=mlp(),
    gamma=nn.Parameter(torch.ones(D))))  # fmt: skip
def convnext_block(self, x):
    y = self.gamma * self.mlp(self.norm(self.dwconv(x).permute(0, 2, 3, 1)))
    return x + y.permute(0, 3, 1, 2)


# The stem's mean can go (1); in each block, dwconv's mean and the norm's shift (1 + D) can go; so
# can the multiples of 1 / γ in the last MLP's bias, as the last norm cancels the mean they add (1).
# That norm's shift moves into the head (D).  Other means stay, as the last dwconv pads with zeros
@case("ConvNeXt with LayerScale", images(2, 3, 8), 1 + 2 * (1 + D) + 1 + D)
@made(lambda: dict(
    stem=nn.Sequential(nn.Conv2d(3, D, 2, 2), channels_first()), norm=nn.LayerNorm(D), head=nn.Linear(D, 5),
    blocks=nn.Sequential(convnext_block(), convnext_block())))  # fmt: skip
def convnext(self, x):
    return self.head(self.norm(self.blocks(self.stem(x)).mean([-2, -1])))


# each InstanceNorm cancels the whole bias of the convolution before it
@case("WGAN: critic with InstanceNorm", images(2, 3, 8), 5 + 6)
def critic():
    norm = lambda channels: nn.InstanceNorm2d(channels, affine=True)
    return nn.Sequential(
        nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 5, 3, 1, 1), norm(5), nn.LeakyReLU(0.2),
        nn.Conv2d(5, 6, 4, 2, 1), norm(6), nn.LeakyReLU(0.2), nn.Conv2d(6, 1, 2))  # fmt: skip
