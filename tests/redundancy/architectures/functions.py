"""Functions of y = x W + b, for five rows x: how many directions of the three numbers b can go."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import case, drawn, made


@made(lambda by: {"map": nn.Linear(4, 3), "other": nn.Linear(4, 1), "by": by})
def mapped(self, x):
    """The function of y, and numbers whose bias stays, with which the Jacobian is not all zero."""
    return self.by(self.map(x)), self.other(x)


def below(y):
    """The row below each row of y."""
    return y.roll(1, 0)


def scattered(y):
    """The rows of y, all but the last, written behind a row of zeros."""
    places = torch.arange(1, 5)[:, None].expand(4, 3)
    return torch.zeros_like(y).scatter(0, places, y[:-1])


def put(y):
    """The same as `scattered`, by an index."""
    made = torch.zeros_like(y)
    made[torch.arange(1, 5)] = y[:-1]
    return made


def again(y, start):
    """Four rows of y, read from its memory from row ``start`` on."""
    return y.as_strided((4, 3), (3, 1), 3 * start)


def dropped(y):
    """y with some numbers dropped, less the same numbers of the rows below."""
    made, kept = torch.native_dropout(y, 0.3, True)
    return made - below(y) * kept / 0.7


BESIDE = drawn(1, 5, 3)  # some numbers beside y
#: {title: (how many directions can go, the function)}
FUNCTIONS = {
    # what is the same in all rows cancels in differences of rows
    "a difference of neighbours": (3, lambda y: y.diff(dim=0)),
    "less the mean": (3, lambda y: y - y.mean(0)),
    "less the median": (3, lambda y: y - y.median(0).values),
    "less the smallest": (3, lambda y: y - y.amin(0)),
    "sorted": (3, lambda y: y.sort(0).values.diff(dim=0)),
    "a covariance": (3, lambda y: y.T.cov()),
    "a covariance, written out": (
        3, lambda y: y.T @ y / len(y) - y.mean(0)[:, None] * y.mean(0)),
    "distances": (3, lambda y: torch.cdist(y, y[:2])),
    "a dropout": (3, dropped),
    "a variance": (3, lambda y: y.var(0)),
    "a deviation and a mean": (3, lambda y: torch.std_mean(y, 0)[0] + y[0] - torch.var_mean(y, 0)[1]),
    "the smaller of two": (3, lambda y: torch.minimum(y, below(y)) - y),
    "a comparison": (3, lambda y: (y > below(y)) * BESIDE),
    "a weighted sum": (3, lambda y: torch.lerp(y, BESIDE, 0.3) - 0.7 * below(y)),
    "from one": (3, lambda y: 1 - y + below(y)),
    "stacked": (3, lambda y: torch.stack([y, y.flip(0)]).diff(dim=0)),
    "a memory read twice": (3, lambda y: again(y, 1) - again(y, 0)),
    "scattered": (3, lambda y: (scattered(y) - put(y.flip(0)))[1:]),
    "added by an index": (
        3, lambda y: BESIDE.index_add(0, torch.tensor([0, 1]), y[:2]) - put(y)[1:3].sum(0) / 2
        * (torch.arange(5) < 2)[:, None]),
    "added in place by an index": (
        3, lambda y: (1 * y).index_add_(0, torch.tensor([0, 1]), BESIDE[:2]).diff(dim=0)),
    "filled by an index": (
        3, lambda y: torch.cat([y.index_fill(0, torch.tensor([4]), 7.0)[4:], y.diff(dim=0)])),
    "a running sum": (3, lambda y: y.cumsum(0) - torch.arange(1, 6)[:, None] * y),
    "pooled": (3, lambda y: F_.max_pool2d(y.T[None, :, :, None], (2, 1)) - y[0][:, None, None]),
    "pooled in a line": (3, lambda y: F_.max_pool1d(y.T[None], 2) - y[0][:, None]),
    "frequencies": (3, lambda y: torch.view_as_real(torch.fft.fft(y, dim=0))[1:]),
    "powers, divided": (3, lambda y: 2.0**y / (2.0 ** y.flip(0))),
    "a sum of powers, divided": (3, lambda y: (2.0**y + 2.0 ** below(y)) / 2.0**y),
    "the largest weights": (3, lambda y: y.softmax(0).amax(0)),
    # what is the same in all features: the mean
    "a loss": (1, lambda y: F_.cross_entropy(y, torch.arange(5) % 3, reduction="none")),
    "less the largest feature": (1, lambda y: y - y.amax(-1, keepdim=True)),
    "a variance of features": (1, lambda y: y.var(-1)),
    "a norm written out": (1, lambda y: F_.normalize(y - y.mean(-1, keepdim=True), dim=-1)),
    # each of these depends on all of b
    "activations": (0, lambda y: F_.silu(y) * F_.softplus(y) * F_.leaky_relu(y) * F_.relu6(y)),
    "a gated unit": (0, lambda y: F_.glu(y.repeat(1, 2))),
    "a sum": (0, lambda y: y.sum(0)),
    "powers of two bases, divided": (0, lambda y: (2.0**y + 3.0 ** below(y)) / 2.0**y),
    "padded": (0, lambda y: F_.pad(y, (0, 0, 0, 1)).diff(dim=0)),
    "scattered beside zeros": (0, lambda y: scattered(y).diff(dim=0)),
    "pooled across features": (0, lambda y: F_.max_pool1d(y, 2, 1)),
    "the larger of two numbers": (0, lambda y: torch.maximum(y, BESIDE)),
    "a product of two": (0, lambda y: y * below(y)),
    # the rows that an expert without tokens takes respond to b like other rows
    "no rows": (2, lambda y: torch.cat([y[:0], y[:, :1].sin().expand(5, 3), y.diff(dim=0)])),
    "a difference, in part": (1, lambda y: torch.cat([y[:, :2], y[:, 2:] - below(y)[:, 2:]], -1)),
}  # fmt: skip

for title, (redundant, function) in FUNCTIONS.items():
    case(title, redundant, shape=(5, 4))(lambda function=function: mapped(function))


# a number that is added to every weight of a convolution is one of its three numbers
@case("a kernel that moves", 1, shape=(2, 1, 6))
@made(lambda: {"kernel": nn.Parameter(drawn(2, 3)), "shift": nn.Parameter(drawn(3, 1))})
def convolved(self, x):
    return F_.conv1d(x, self.kernel.view(1, 1, 3) + self.shift)
