"""Sets, experts, and the blocks of a transformer in wrappers."""

import torch
import torch.nn.functional as F_
from torch import nn
from torch.utils.checkpoint import checkpoint

from .cases import D, F, H, N, case, drawn, made


# a sum contains phi's bias n times, and n differs from set to set
@case("Deep Sets", 0, shape=lambda seed: (6, 3 + seed % 2, 3))
@made(lambda: {"phi": nn.Linear(3, D), "rho": nn.Linear(D, F)})
def deep_set(self, x):
    return self.rho(self.phi(x).sum(1)).tanh()


# the map, the shift of its norm and the shift behind it all add a constant: one of three stays
@case("the running mean, read after it was updated", 2 * D, shape=(18, 3), training=True)
@made(lambda: {"map": nn.Linear(3, D), "norm": nn.BatchNorm1d(D), "b": nn.Parameter(drawn(1, D))})
def reads_its_running_mean(self, x):
    y = self.map(x)
    normed = self.norm(y) + self.norm(2 * y)  # cancels the map's bias, but its mean moves, twice
    return normed + self.norm.running_mean + self.b


def expert():
    return nn.Sequential(nn.Linear(D, F), nn.SiLU(), nn.Linear(F, D))


# only the mean of the bias that selects experts can go (1); the Jacobian cannot see how this bias
# changes the selection, so it counts all 4 numbers.  A bias common to all experts moves into
# `shared` (D), as the experts' weights sum to 1
@case("experts: a bias that selects", 1 + D, shape=(4, N, D), counts=4 + D, seed=1)
@made(lambda: {"gate": nn.Linear(D, 4), "bias": nn.Parameter(torch.zeros(4)), "shared": expert(),
               "experts": nn.ModuleList([expert() for _ in range(4)])})  # fmt: skip
def experts(self, x):
    """Send each token to two of four experts, with DeepSeek-V3's router."""
    shape, x = x.shape, x.view(-1, D)
    scores = self.gate(x).sigmoid()
    chosen = torch.topk(scores + self.bias, 2, dim=-1, sorted=False)[1]
    weights = scores.gather(1, chosen)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    out, mask = torch.zeros_like(x), F_.one_hot(chosen, num_classes=4).permute(2, 1, 0)
    for i, one in enumerate(self.experts):
        place, rows = torch.where(mask[i])
        out.index_add_(0, rows, one(x[rows]) * weights[rows, place, None])
    return (out + self.shared(x)).view(shape)


def block():
    """A pre-norm block; with this activation, PyTorch does not run it as one operation."""
    return nn.TransformerEncoderLayer(D, H, F, activation=F_.silu, norm_first=True)


@made(lambda reentrant: {"block": block(), "reentrant": reentrant})
def checkpointed(self, x):
    return checkpoint(self.block, x, use_reentrant=self.reentrant)


# b_K can go, b_V moves into b_O, norm1's shift into b_Q and b_V, norm2's into linear1's bias (D
# each), and the mean of b_O, which norm2 cancels, into linear2's bias (1); of a reentrant
# checkpoint autograd sees no bias at all
for title, build, *counts in (
    ("compiled", lambda: torch.compile(block())),
    ("scripted", lambda: torch.jit.script(block())),
    ("checkpointed", lambda: checkpointed(False)),
    ("checkpointed, reentrant", lambda: checkpointed(True), 7 * D + F),
):
    case(f"a block, {title}", 4 * D + 1, counts=(*counts, None)[0])(build)


# Three of the four means of b_O and linear2's bias can go (3), as norms follow them; b_K (D) and
# the shifts of both norm2 (2 D) can go.  As both layers share b_Q and b_V, the shifts of both norm1
# can go only if W_1 β_1 = W_2 β_2 (D), and the shared b_V moves into both output biases (D)
@case("one bias of queries, keys and values for two layers", 5 * D + 3)
def tied():
    blocks = nn.Sequential(block(), block())
    blocks[1].self_attn.in_proj_bias = blocks[0].self_attn.in_proj_bias
    return blocks
