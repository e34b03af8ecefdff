"""Recurrent networks: PyTorch's own, with norms inside, and a selective scan."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, case, made, numbers, zeros

SEQUENCES = numbers((2, 4, 5))


@made(lambda kind, **options: dict(rnn=kind(5, 6, batch_first=True, **options)))
def first(self, x):
    return self.rnn(x)[0]


# bias_hh moves into bias_ih, in all four gates and in both directions of both layers
case("LSTM: two layers, both directions", SEQUENCES, 4 * 4 * 6)(
    lambda: first(nn.LSTM, num_layers=2, bidirectional=True)
)
case("LSTM with a projection", SEQUENCES, 4 * 6)(lambda: first(nn.LSTM, proj_size=3))
# in both gates bias_hh moves into bias_ih; in the candidate state it stays, as a gate multiplies it
case("GRU", SEQUENCES, 2 * 6)(lambda: first(nn.GRU))


# norm_hh's shift moves into norm_ih's (4 * 6), and the means of both biases can go, as these norms
# cancel them (2); norm_c's shift stays, as tanh reads it
@case("LSTM with LayerNorm", numbers((2, 4, 5), (2, 6)), 4 * 6 + 2)
@made(lambda: dict(ih=nn.Linear(5, 24), hh=nn.Linear(6, 24), norm_ih=nn.LayerNorm(24),
                   norm_hh=nn.LayerNorm(24), norm_c=nn.LayerNorm(6)))  # fmt: skip
def layer_norm_lstm(self, x, h):
    c, found = torch.zeros_like(h), []
    for step in range(x.shape[1]):
        gates = self.norm_ih(self.ih(x[:, step])) + self.norm_hh(self.hh(h))
        i, f, g, o = gates.chunk(4, 1)
        c = self.norm_c(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return torch.stack(found, 1)


# no bias can go: silu depends on conv1d's bias, and softplus on dt_proj's
@case("Mamba: a selective scan", numbers((2, 5, D)), 0)
@made(lambda inner=6, state=3, rank=2: dict(
    norm=nn.RMSNorm(D), in_proj=nn.Linear(D, 2 * inner, bias=False),
    conv1d=nn.Conv1d(inner, inner, 4, groups=inner, padding=3),
    x_proj=nn.Linear(inner, rank + 2 * state, bias=False), dt_proj=nn.Linear(rank, inner),
    A_log=zeros(inner, state), D=zeros(inner), out_proj=nn.Linear(inner, D)))  # fmt: skip
def mamba(self, hidden):
    n = hidden.shape[1]
    x, z = self.in_proj(self.norm(hidden)).transpose(1, 2).chunk(2, dim=1)
    x = F_.silu(self.conv1d(x)[..., :n]).transpose(1, 2)
    dt, B, C = self.x_proj(x).split([2, 3, 3], dim=-1)
    dt = F_.softplus(self.dt_proj(dt)).unsqueeze(-1)
    dA, dBx = torch.exp(dt * -torch.exp(self.A_log)), dt * B.unsqueeze(2) * x.unsqueeze(-1)
    state, found = dA.new_zeros(dA[:, 0].shape), []
    for i in range(n):
        state = dA[:, i] * state + dBx[:, i]
        found.append((state @ C[:, i, :, None]).squeeze(-1))
    y = (torch.stack(found, 1) + x * self.D) * F_.silu(z.transpose(1, 2))
    return hidden + self.out_proj(y)
