"""Solve a condition on the moves, t @ rows = 0, component by component.

Many conditions split: an activation depends on each channel separately, a softmax on each head.
Unknowns and equations that are connected by nonzero coefficients form a component.  Components of
the same kind are solved together, so that a condition on thousands of channels stays cheap.
"""

from __future__ import annotations

import torch

from ..measure.nullity import svd

#: A number counts as zero if it is at most this share, 2^13 units of 2^-53, of the largest number
#: in its computation: a few hundred operations, each a sum of at most a few thousand products,
#: whose rounding errors grow like the square root of their number.
NOISE = 2.0**-40
#: If a singular value exceeds the noise by less than this factor, the condition is unclear.
GAP = 1e3
#: If equations outnumber unknowns by more than this, random mixtures of equations replace them.
MORE = 16
#: An unknown is solved for only if its factor exceeds this share of the equation's largest.
PIVOT = 1e-3


class UnclearShift(ArithmeticError):
    """It is unclear whether a shift is zero: its size may be due to rounding, but need not be."""


def solutions(rows, kinds, clear=True):
    """Yield (unknowns, basis) for each set of components of the same kind.

    ``rows`` is float64 (unknowns x equations), with no number above 1; ``kinds`` lists the kind of
    each unknown.  A row of ``unknowns`` lists the unknowns of one component, and all rows have the
    same kinds in the same order; ``basis`` (components x unknowns x solutions) is orthonormal.
    Raises UnclearShift if a condition is doubtful; without ``clear``, ignores such a condition.
    """
    if not rows.isfinite().all():
        raise UnclearShift("a shift becomes infinite, or NaN")
    rows = rows.masked_fill(rows.abs() <= NOISE, 0)
    for unknowns, equations in _components(rows, kinds):
        block = rows[unknowns[:, :, None], equations[:, None]]
        yield from _solved(unknowns, block, clear)


def _components(rows, kinds):
    """Yield (unknowns, equations) for each kind of component, with one row per component."""
    mine, theirs = components(*rows.nonzero(as_tuple=True), *rows.shape)
    alike = {}
    for unknowns, equations in zip(mine, theirs):
        make = (*(kinds[u] for u in unknowns), len(equations))
        alike.setdefault(make, []).append((unknowns, equations))
    for members in alike.values():
        unknowns, equations = zip(*members)
        yield torch.tensor(unknowns), torch.tensor(equations, dtype=torch.long)


def components(row, column, rows, columns):
    """The components that a matrix's nonzero entries (row[i], column[i]) form: (rows, columns)."""
    label = torch.arange(rows)
    while True:  # a row takes the least label of all rows that share a column with it
        met = torch.full((columns,), rows).scatter_reduce(0, column, label[row], "amin")
        lower = label.scatter_reduce(0, row, met[column], "amin")
        if torch.equal(lower, label):
            break
        label = lower
    mine, theirs = {}, {}
    for found, labels in (mine, label), (theirs, met):
        for number, of in enumerate(labels.tolist()):
            found.setdefault(of, []).append(number)
    return list(mine.values()), [theirs.get(of, []) for of in mine]


def _solved(unknowns, blocks, clear):
    """Yield (unknowns, basis) for each set of ``blocks`` with equally many solutions."""
    many, size, equations = blocks.shape
    if many == 1:
        basis = _by_pivots(blocks[0], clear)
        yield unknowns, (basis if basis is not None else _null_space(blocks[0], clear))[None]
        return
    left, rank = _left(blocks, True, clear)
    for found in rank.unique().tolist():
        mine = rank == found
        yield unknowns[mine], left[mine][:, :, found:]


def _null_space(rows, clear):
    """An orthonormal basis (unknowns x solutions) of the t with t @ rows = 0."""
    few = min(rows.shape[1], len(rows) + MORE) < len(rows)
    left, rank = _left(rows, not few, clear)
    if not few:
        return left[:, rank:]
    return torch.linalg.qr(left[:, :rank], mode="complete").Q[:, rank:]  # cheaper than a whole SVD


def _left(rows, full, clear):
    """(left singular vectors, rank) of one matrix or of a batch."""
    size, equations = rows.shape[-2:]
    if equations > size + MORE:
        chance = torch.Generator().manual_seed(equations)
        mix = torch.randn(equations, size + MORE, generator=chance, dtype=torch.float64)
        rows = rows @ mix / equations**0.5
    left, values, _ = svd(rows, full)
    floor = NOISE * max(rows.shape[-2:]) ** 0.5 * (1 if clear else GAP)
    if clear and ((values > floor) & (values < GAP * floor)).any():
        raise UnclearShift(
            "rounding errors leave it unclear whether a condition on the shifts holds"
        )
    rank = (values > floor).sum(-1)
    return left, rank if rank.dim() else int(rank)


def _by_pivots(rows, clear):
    """The null space if many equations have an unknown that no other equation has, else None.

    The other unknowns determine such an unknown, and its equation does not restrict them.
    Conditions on a bias before an activation have this form, and these are the largest conditions.
    """
    if not rows.numel():
        return None
    count, sizes = (rows != 0).sum(1), rows.abs()
    own, place = sizes.max(1)
    alone = (count == 1) & (own > PIVOT * sizes.amax(0)[place])
    pivot = {c: u for u, c in zip(alone.nonzero()[:, 0].tolist(), place[alone].tolist())}
    if 2 * len(pivot) < min(rows.shape) or len(rows) < 3:
        return None
    solved, equations = torch.tensor([*pivot.values()]), torch.tensor([*pivot])
    others, rest = _without(len(rows), solved), _without(rows.shape[1], equations)
    free = torch.eye(len(others), dtype=rows.dtype)
    if len(rest) and len(others):
        free = _null_space(rows[others][:, rest], clear)
    made = torch.zeros(len(rows), free.shape[1], dtype=rows.dtype)
    made[others] = free
    made[solved] = -(rows[others][:, equations] / rows[solved, equations]).T @ free
    return torch.linalg.qr(made).Q if made.numel() else made


def _without(size, places):
    keep = torch.ones(size, dtype=torch.bool)
    keep[places] = False
    return keep.nonzero()[:, 0]
