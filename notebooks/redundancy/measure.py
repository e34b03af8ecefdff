"""Measure, at a generic point, which directions of attention's biases a model does not see.

The Jacobian of everything that the model returns, by the biases of all its attention layers at
once, in float64; its nullity by `jacobian`; and finite moves along what it calls redundant.
"""

from __future__ import annotations

import math

import torch

from .nullity import CUT, MARGIN, Jacobian, singular_values
from .record import run, tensors

#: A finite move along redundant directions may change the outputs by this share of what the layer
#: does to them, and one along others must change them by more than `SEEN`.
UNSEEN, SEEN = 1e-9, 1e-7
#: So many rows of the Jacobian are computed at a time.
CHUNK = 64
#: A finite move is tried at so many of the inputs.
TRIED = 2


class Measurement:
    """The Jacobian of what a model returns, by the biases of all its attention layers.

    ``batches`` gives inputs without end, the ones given first; ``blocks`` the biases by layer,
    and ``asked`` the tuples of them that a rank is asked of.  The rows are random mixtures of the
    outputs at one input.  Inputs are drawn until rows outnumber the biases of any question by
    a quarter, and then until a quarter as many again leave every rank as it was.  Nothing that
    was predicted is read here.
    """

    def __init__(self, model, batches, blocks, asked, seed=0):
        self.model, self.blocks = model, blocks
        self.drawn, self.stuck = [], True
        self.projections = {_name(p): p for block in blocks.values() for p in block}
        shapes = {name: torch.Size([p.size]) for name, p in self.projections.items()}
        asked = [tuple(map(_name, group)) for group in asked]
        most = max(sum(shapes[name].numel() for name in group) for group in asked)
        self.share, self.generator = math.ceil(most / 2), torch.Generator().manual_seed(seed)
        rows = self._more(batches, math.ceil((1 + MARGIN) * most))
        ranks, before = None, ()
        while ranks != before:
            self.jacobian, before = Jacobian(rows.clone(), shapes), ranks
            self._balance()
            ranks = [self._rank(group) for group in asked]
            if ranks != before:
                rows = torch.cat([rows, self._more(batches, math.ceil(MARGIN * most))])

    def _balance(self):
        """Divide the columns of each layer by its largest singular value.

        One layer may be heard a million times less than another: beside the whole Jacobian all
        of it would count as zero.  Below what rounding leaves of zero, n u of the whole for n
        rows or columns, a layer stays as it is.
        """
        jacobian, matrix = self.jacobian, self.jacobian.triangle.clone()
        self.noise = max(matrix.shape) * torch.finfo(matrix.dtype).eps
        self.heard = {}
        for projections in self.blocks.values():
            columns = jacobian.columns(*map(_name, projections))
            largest = singular_values(matrix[:, columns])[0].item()
            if largest > self.noise * jacobian.scale:
                jacobian.triangle[:, columns] = matrix[:, columns] / largest
                self.heard |= {_name(p): largest / jacobian.scale for p in projections}
        jacobian.scale = 1.0
        del jacobian.values  # they were those of the triangle before

    def _rank(self, names):
        values = singular_values(self.jacobian.triangle[:, self.jacobian.columns(*names)])
        return int((values > CUT * self.jacobian.scale).sum())

    def outputs(self, shifts, batch):
        """All outputs at these inputs, one long vector, when the biases are shifted."""
        shifts = {self.projections[name]: shift for name, shift in shifts.items()}
        return torch.cat([t.flatten() for t in tensors(run(self.model, batch, shifts))])

    def _more(self, batches, wanted):
        """So many rows of the Jacobian, or a few more, each (all shifts)."""
        found, count = [], 0
        while count < wanted:
            found += self._rows(next(batches))
            count = sum(map(len, found))
        return torch.cat(found)

    def _at(self, batch, shifts):
        """The outputs at these inputs; at those given first, where the model does not take these.

        ``stuck`` is true as long as no others than those given first were taken.
        """
        try:
            outputs = self.outputs(shifts, batch)
        except Exception:  # whatever a model raises: an image's place in a text was moved, say
            outputs = None
        if outputs is None or not outputs.isfinite().all():
            return self.outputs(shifts, self.drawn[0][0])
        self.stuck = not self.drawn
        if len(self.drawn) < TRIED:
            self.drawn.append((batch, outputs.detach()))
        return outputs

    def _rows(self, batch):
        """Blocks of rows at one input: mixtures of its outputs, at most half of what is asked for."""
        shifts = {
            name: torch.zeros(
                p.size, dtype=torch.float64, device=p.biases.parameter.device, requires_grad=True
            )
            for name, p in self.projections.items()
        }
        outputs = self._at(batch, shifts)
        count = min(self.share, len(outputs))
        if not outputs.requires_grad:  # no bias is reached
            yield outputs.new_zeros(count, sum(p.size for p in self.projections.values()))
            return
        for start in range(0, count, CHUNK):
            some = torch.randn(
                min(CHUNK, count - start), len(outputs),
                generator=self.generator, dtype=torch.float64,
            )  # fmt: skip
            found = torch.autograd.grad(
                [outputs], list(shifts.values()), [some.to(outputs) / len(outputs) ** 0.5],
                is_grads_batched=True, allow_unused=True, retain_graph=True,
            )  # fmt: skip
            parts = zip(shifts.values(), found, strict=True)
            yield torch.cat([s.new_zeros(len(some), len(s)) if f is None else f
                             for s, f in parts], 1).detach()  # fmt: skip

    def reaches(self, block):
        """Whether the outputs depend on the layer at all."""
        columns = self.jacobian.columns(*map(_name, self.blocks[block]))
        return bool(self.jacobian.triangle[:, columns].any())

    def dimension(self, projection, partners=()):
        """The redundant directions of a bias: those that moving the partners can make up for."""
        theirs = [_name(p) for p in partners]
        alone = self.jacobian.nullity(*theirs).dimension if theirs else 0
        return self.jacobian.nullity(_name(projection), *theirs).dimension - alone

    def moves(self, projection, partners=()):
        """Whether a finite move along what is redundant is not seen, and another one is.

        Of a layer that is hardly heard, rounding would hide a move, or pass for one: what is seen
        stands as far above rounding as above what is not seen.
        """
        chosen = [_name(p) for p in (projection, *partners)]
        basis = self.jacobian.redundant(*chosen)
        parts = [self.jacobian.shapes[name].numel() for name in chosen]
        drawn = torch.randn(sum(parts), generator=torch.Generator().manual_seed(1)).to(basis)
        along = basis.T @ (basis @ drawn)
        redundant, other = (
            dict(zip(chosen, t.split(parts), strict=True)) for t in (along, drawn - along)
        )
        hidden = max(UNSEEN * self.heard.get(chosen[0], 1.0), self.noise)
        unseen = not len(basis) or self._change(redundant) < hidden
        return unseen and (len(basis) == sum(parts) or self._change(other) > hidden * SEEN / UNSEEN)

    def _change(self, shifts):
        """How far the outputs at a few inputs move, relative to the largest."""
        changes = []
        with torch.no_grad():
            for batch, base in self.drawn:
                moved = self.outputs(shifts, batch)
                changes.append(((moved - base).abs().max() / base.abs().max()).item())
        return max(changes)


def _name(projection):
    return projection.bias_name + "/" + projection.role
