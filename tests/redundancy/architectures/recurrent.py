"""Recurrent networks: PyTorch's own, with norms inside, and a selective scan."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, F, case, numbers

SEQUENCES = numbers((2, 4, 5))


class Returned(nn.Module):
    """What a recurrent network returns first, for each token."""

    def __init__(self, kind, *args, **options):
        super().__init__()
        self.rnn = kind(*args, batch_first=True, **options)

    def forward(self, x):
        return self.rnn(x)[0]


# bias_ih and bias_hh add up in all four gates, in each of two directions and layers
case("LSTM: two layers, both directions", SEQUENCES, 4 * 4 * 6)(
    lambda: Returned(nn.LSTM, 5, 6, num_layers=2, bidirectional=True)
)
# with a projection of the hidden state, the same
case("LSTM with a projection", SEQUENCES, 4 * 6)(lambda: Returned(nn.LSTM, 5, 6, proj_size=3))
# in two gates of three: the third multiplies W_h h + b_hh by a gate
case("GRU", SEQUENCES, 2 * 6)(lambda: Returned(nn.GRU, 5, 6))
case("RNN of tanh", SEQUENCES, 6)(lambda: Returned(nn.RNN, 5, 6))


# cells one step at a time, and the input's projection before them has no bias
@case("GRU cell in a loop", SEQUENCES, 2 * 6)
class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(5, 6)

    def forward(self, x):
        h, found = x.new_zeros(len(x), 6), []
        for step in x.unbind(1):
            h = self.cell(step, h)
            found.append(h)
        return torch.stack(found, 1)


# the shifts of the two norms of the gates add up (4 * 6), each norm subtracts the mean of the bias
# before it (2); the cell's norm is read by tanh
@case("LSTM with LayerNorm", SEQUENCES, 4 * 6 + 2)
class LayerNormLSTM(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.ih, self.hh = nn.Linear(5, 4 * width), nn.Linear(width, 4 * width)
        self.norm_ih, self.norm_hh = nn.LayerNorm(4 * width), nn.LayerNorm(4 * width)
        self.norm_c, self.width = nn.LayerNorm(width), width

    def forward(self, x):
        h = x.new_zeros(len(x), self.width).normal_()
        c, found = torch.zeros_like(h), []
        for step in range(x.shape[1]):
            gates = self.norm_ih(self.ih(x[:, step])) + self.norm_hh(self.hh(h))
            i, f, g, o = gates.chunk(4, 1)
            c = self.norm_c(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
            h = torch.sigmoid(o) * torch.tanh(c)
            found.append(h)
        return torch.stack(found, 1)


# convolution and dt are read by silu and softplus; what is added behind stays
@case("Mamba: a selective scan", numbers((2, 5, D)), 0)
class Mamba(nn.Module):
    def __init__(self, inner=6, state=3, rank=2):
        super().__init__()
        self.norm, self.in_proj = nn.RMSNorm(D), nn.Linear(D, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj, self.out_proj = nn.Linear(rank, inner), nn.Linear(inner, D)
        self.A_log, self.D = (
            nn.Parameter(torch.zeros(inner, state)),
            nn.Parameter(torch.ones(inner)),
        )
        self.rank, self.state = rank, state

    def forward(self, hidden):
        n = hidden.shape[1]
        x, z = self.in_proj(self.norm(hidden)).transpose(1, 2).chunk(2, dim=1)
        x = F_.silu(self.conv1d(x)[..., :n]).transpose(1, 2)
        dt, B, C = self.x_proj(x).split([self.rank, self.state, self.state], dim=-1)
        dt = F_.softplus(self.dt_proj(dt))
        dA = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.A_log))
        dBx = dt.unsqueeze(-1) * B.unsqueeze(2) * x.unsqueeze(-1)
        state, found = dA.new_zeros(dA[:, 0].shape), []
        for i in range(n):
            state = dA[:, i] * state + dBx[:, i]
            found.append((state @ C[:, i, :, None]).squeeze(-1))
        y = (torch.stack(found, 1) + x * self.D) * F_.silu(z.transpose(1, 2))
        return hidden + self.out_proj(y)


# a state that decays by a fixed factor is linear: the bias before it becomes another for each token,
# and what is read out goes into the bias of D behind it where there is one token only
@case("linear recurrence", numbers((2, 4, 5)), 0)
class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.A, self.B, self.C = nn.Linear(6, 6, bias=False), nn.Linear(5, 6), nn.Linear(6, 4)

    def forward(self, x):
        h, found = x.new_zeros(len(x), 6), []
        for step in x.unbind(1):
            h = self.A(h) + self.B(step)
            found.append(self.C(h))
        return torch.stack(found, 1)


# a highway, 1 - t and t: what carries and what transforms meet in no bias
@case("highway network", numbers((2, D)), 0)
class Highway(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.transform, self.out = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, F)

    def forward(self, x):
        t = torch.sigmoid(self.gate(x))
        return self.out(t * F_.relu(self.transform(x)) + (1 - t) * x)
