"""Networks of convolutions and of sets, written as in the projects that publish them."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, F, case, drawn, made, numbers, zeros


def images(batch, channels, size):
    return numbers((batch, channels, size, size))


def padded(cin, cout, **options):
    return nn.Conv2d(cin, cout, 3, padding=1, **options)


# conv1's bias moves into time_emb_proj's (D), norm2 cancels constants in each group (2), and conv2's
# bias moves into the skip's (D); silu reads the shifts of both norms
@case("UNet: residual block", numbers((2, 4, 4, 4), (2, F)), 2 * D + 2)
@made(lambda: dict(
    norm1=nn.GroupNorm(2, 4), conv1=padded(4, D), time_emb_proj=nn.Linear(F, D), norm2=nn.GroupNorm(2, D),
    conv2=padded(D, D), skip=nn.Conv2d(4, D, 1)))  # fmt: skip
def resnet_block(self, x, temb):
    h = self.conv1(F_.silu(self.norm1(x)))
    h = h + self.time_emb_proj(F_.silu(temb))[:, :, None, None]
    return self.skip(x) + self.conv2(F_.silu(self.norm2(h)))


def conv_norm(cin, cout, size, **options):
    conv = nn.Conv2d(cin, cout, size, padding=size // 2, **options)
    return nn.Sequential(conv, nn.BatchNorm2d(cout))


@made(lambda: dict(
    stem=conv_norm(3, 4, 3), first=conv_norm(4, 6, 3, stride=2), last=conv_norm(6, 6, 3),
    downsample=conv_norm(4, 6, 1, stride=2), fc=nn.Linear(6, 5)))  # fmt: skip
def resnet(self, x):
    x = identity = F_.relu(self.stem(x), inplace=True)
    x = self.last(F_.relu(self.first(x), inplace=True))
    x += self.downsample(identity)
    x = F_.relu(x, inplace=True)
    return self.fc(torch.flatten(F_.adaptive_avg_pool2d(x, 1), 1))


@made(lambda cin, cout: dict(
    expand=conv_norm(cin, 2 * cin, 1), depth=conv_norm(2 * cin, 2 * cin, 3, groups=2 * cin),
    project=conv_norm(2 * cin, cout, 1), residual=cin == cout,
    squeeze=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * cin, 2 * cin, 1), nn.Sigmoid())))  # fmt: skip
def inverted(self, x):
    """MobileNetV2's block, with a squeeze-and-excitation module as in EfficientNet."""
    y = F_.relu6(self.depth(F_.relu6(self.expand(x))))
    y = self.project(y * self.squeeze(y))
    return x + y if self.residual else y


def mobilenet():
    return nn.Sequential(
        conv_norm(3, 4, 3), nn.ReLU6(), inverted(4, 5), inverted(5, 5), conv_norm(5, 6, 1), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))  # fmt: skip


def generator():
    up = lambda cin, cout, *more: nn.ConvTranspose2d(cin, cout, 4, *more)
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


# In each of these, a norm absorbs or cancels the biases of the convolutions or maps before it
for mode in ("eval", "train"):
    # the biases of all convolutions (22) and the shift of `last`'s norm, into the other branch's (6)
    case(f"ResNet: basic block, {mode}", images(3, 3, 6), 22 + 6, mode)(resnet)
    # the biases of all convolutions beside a norm (56) and the shifts of both `project`s, as no
    # activation comes between them and the next norms (5 + 5)
    case(f"MobileNet, {mode}", images(3, 3, 4), 56 + 5 + 5, mode)(mobilenet)
    case(f"DCGAN: generator, {mode}", numbers((3, 5, 1, 1)), 6 + 4, mode)(generator)
    # phi1's and rho1's biases move into the norms, and phi2's moves into rho1's
    case(f"Deep Sets with BatchNorm: mean, {mode}", sets, D + F + D, mode)(lambda: deep_sets(True))


# the map, the shift of its norm and the shift behind it all add a constant: one of three stays
@case("the running mean, read after it was updated", sets, 2 * D, "train")
@made(lambda: dict(map=nn.Linear(3, D), norm=nn.BatchNorm1d(D), shift=zeros(D)))
def reads_its_running_mean(self, x):
    y = self.map(x).flatten(0, 1)
    normed = self.norm(y) + self.norm(2 * y)  # cancels the map's bias, but its mean moves, twice
    return normed + self.norm.running_mean + self.shift


# phi2's bias stays: a sum of n elements contains it n times, and n differs from set to set
case("Deep Sets with BatchNorm: sum", sets, D + F)(lambda: deep_sets(False))


# each InstanceNorm cancels the whole bias of the convolution before it
@case("WGAN: critic with InstanceNorm", images(2, 3, 8), 5 + 6)
def critic():
    norm = lambda channels: nn.InstanceNorm2d(channels, affine=True)
    return nn.Sequential(
        nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 5, 3, 1, 1), norm(5), nn.LeakyReLU(0.2),
        nn.Conv2d(5, 6, 4, 2, 1), norm(6), nn.LeakyReLU(0.2), nn.Conv2d(6, 1, 2))  # fmt: skip
