"""Count the redundant directions of parameters by the rank of a Jacobian.

A direction of the parameters is redundant if moving along it leaves the function unchanged.
To first order, the redundant directions are the null space of the Jacobian of all outputs with
respect to all parameters, so their number is

    nullity = parameters - rank(d outputs / d parameters).

The rank is computed in float64, at the given parameters and at random inputs.  A singular value
counts as zero if it is below 1e-9 times the largest one of the *whole* Jacobian: the columns of
wholly redundant parameters are rounding noise, which a threshold relative to these columns alone
would count as signal.  QR of m rows and p columns changes a singular value by about u sqrt(m) p
times the largest one (u = 2^-53); four times that is still below the threshold for p = 7500 and
m = 19000.

As long as some input would raise the rank, a random input does so almost surely if the function is
analytic and its inputs have a density.  So inputs are drawn until outputs outnumber parameters by a
quarter, and then until another quarter leaves the rank unchanged.  The rows are folded into a
triangular R with R^T R = J^T J.  Any set of columns of R has the same singular values as these
columns of J, so one pass answers for every choice of parameters, and memory grows only with the
square of their number.

Sources: T. J. Rothenberg, "Identification in Parametric Models", Econometrica 39 (1971), for
nullity as a count of what cannot be identified; G. H. Golub and C. F. Van Loan, "Matrix
Computations", for QR with rows that arrive one after the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

#: A singular value below this share of the largest of the whole Jacobian counts as zero.
CUT = 1e-9
#: No singular value may lie within this factor of the threshold, on either side.
GAP = 10
#: At first, rows outnumber parameters by this share; as many again are added each time before the
#: rank is recomputed.
MARGIN = 0.25
#: How many rotations are tried if the singular values of a matrix do not converge.
TURNS = 3


class UnclearRank(ArithmeticError):
    """A singular value is so close to the threshold that the rank is uncertain."""


@dataclass(frozen=True)
class Nullity:
    """How many directions of the ``parameters`` are redundant, and how wide the gap is.

    ``kept`` is the smallest singular value that counts and ``dropped`` the largest that does not, both as
    shares of the largest singular value of the whole Jacobian; None if there is no such value.
    """

    parameters: int
    dimension: int
    kept: float | None
    dropped: float | None

    @property
    def rank(self) -> int:
        return self.parameters - self.dimension

    def __str__(self):
        return f"{self.dimension} of {self.parameters}"


class Jacobian:
    """The Jacobian of a function with respect to named parameters, reduced to a triangle.

    Instances come from `jacobian`.  ``triangle`` is a float64 matrix (parameters x parameters) with
    the singular values and the null space of the Jacobian.
    """

    def __init__(self, triangle: torch.Tensor, shapes: dict[str, torch.Size]):
        self.triangle, self.shapes = triangle, shapes
        sizes = [shape.numel() for shape in shapes.values()]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.places = {
            name: torch.arange(start, start + shape.numel()).view(shape)
            for (name, shape), start in zip(shapes.items(), starts, strict=True)
        }

    @functools.cached_property
    def values(self) -> torch.Tensor:
        """The singular values of the triangle, the largest first."""
        return singular_values(self.triangle)

    @property
    def scale(self) -> float:
        """The largest singular value."""
        return self.values[0].item()

    def columns(self, *chosen: Any) -> torch.Tensor:
        """The column indices of the ``chosen`` parameters: names, or (name, index) pairs."""
        named = [(c, ...) if isinstance(c, str) else c for c in chosen or self.places]
        for name, _ in named:
            if name not in self.places:
                known = ", ".join(self.places)
                raise KeyError(f"no parameter is called {name!r}; the parameters are {known}")
        return torch.cat([self.places[name][index].flatten() for name, index in named])

    def nullity(self, *chosen: Any) -> Nullity:
        """The `Nullity` of the chosen parameters, by default all, while the others are fixed.

        Raises KeyError for an unknown name and UnclearRank if there is no clear gap.
        """
        columns = self.columns(*chosen)
        values = singular_values(self.triangle[:, columns]) if chosen else self.values
        values = values / self.scale
        demand_gap(values)
        kept, dropped = values[values > CUT], values[values <= CUT]
        return Nullity(
            parameters=len(columns),
            dimension=len(columns) - len(kept),
            kept=kept.min().item() if len(kept) else None,
            dropped=dropped.max().item() if len(dropped) else None,
        )

    def redundant(self, *chosen: Any) -> torch.Tensor:
        """An orthonormal basis of the redundant directions: (dimension x chosen), float64."""
        found = self.nullity(*chosen)
        matrix = self.triangle[:, self.columns(*chosen)]
        return svd(matrix)[2][found.rank :]


def rank_of(found: Jacobian) -> int:
    """How many singular values are above the threshold."""
    return int((found.values > CUT * found.scale).sum())


def jacobian(
    function: Callable,
    draw: Callable,
    parameters: dict | None = None,
    chunk: int = 256,
    rank: Callable[[Jacobian], int] = rank_of,
) -> Jacobian:
    """The `Jacobian` of a function with respect to its parameters, at enough random inputs.

    ``function`` is a module, or a callable ``f(parameters, *inputs)``.  ``draw(seed)`` makes a
    tuple of inputs; seeds 0, 1, … are used until further ones do not raise the rank.  By default,
    ``parameters`` {name: float64 tensor} are the module's; those that require gradients are passed
    on as they are.  ``chunk`` rows are computed at a time.

    Raises ValueError if a parameter is not float64 or if the drawn inputs produce no output.
    """
    if isinstance(function, nn.Module):
        parameters = dict(function.named_parameters()) if parameters is None else parameters
        function = functools.partial(_called, function)
    assert parameters is not None, "the parameters of a function are given"
    for name, value in parameters.items():
        if value.dtype != torch.float64:
            raise ValueError(
                f"the parameter {name!r} is {value.dtype}: a rank needs float64, so call "
                ".double() on the module first"
            )
    parameters = {name: value if value.requires_grad else value.detach().requires_grad_()
                  for name, value in parameters.items()}  # fmt: skip
    size, inputs = sum(value.numel() for value in parameters.values()), map(draw, count())

    def folded(triangle, wanted):
        """The triangle after adding at least ``wanted`` rows."""
        seen, pending = 0, triangle[:0]
        while seen < wanted:
            for rows in _row_blocks(function, parameters, next(inputs), chunk):
                seen, pending = seen + len(rows), torch.cat([pending, rows])
                if len(pending) >= size:
                    triangle, pending = _with_rows(triangle, pending), pending[:0]
        return _with_rows(triangle, pending)

    nothing = next(iter(parameters.values())).new_empty(0, size)
    shapes = {name: value.shape for name, value in parameters.items()}
    found, before = Jacobian(folded(nothing, math.ceil((1 + MARGIN) * size)), shapes), None
    while (now := rank(found)) != before:
        before = now
        found = Jacobian(folded(found.triangle, math.ceil(MARGIN * size)), shapes)
    return found


def singular_values(matrix: torch.Tensor) -> torch.Tensor:
    """The singular values of a matrix, the largest first.

    Raises the error of `torch.linalg.svdvals` if that fails even for rotated matrices.
    """
    return _converged(torch.linalg.svdvals, matrix)[0]


def svd(matrix: torch.Tensor, full: bool = False) -> tuple:
    """`torch.linalg.svd` of a matrix or batch, or of rotated ones if it does not converge."""
    decompose = functools.partial(torch.linalg.svd, full_matrices=full)
    (left, values, right), turned = _converged(decompose, matrix)
    return left, values, right if turned is None else right @ turned.mT


def demand_gap(values: torch.Tensor):
    """Raise UnclearRank if a singular value, as a share of the largest, is close to the threshold."""
    near = values[(values > CUT / GAP) & (values < CUT * GAP)]
    if len(near):
        raise UnclearRank(
            f"a singular value, {near[0].item():.1e} times the largest, is too near the cut "
            f"of {CUT:.0e}: choose other values of the parameters, or a smaller model"
        )


def _converged(decompose, matrix):
    """``decompose(matrix @ Q)`` and the orthogonal Q with which it converged (None for no rotation).

    LAPACK's divide and conquer (gesdd) sometimes fails if singular values are sixteen powers of ten
    apart, as they are here; which matrices fail depends on the processor.  A rotation from the
    right changes singular values by no more than the rounding of one product, less than QR does.
    """
    size, turned, product = matrix.shape[-1], None, matrix
    generator = torch.Generator().manual_seed(0)
    for left in reversed(range(TURNS + 1)):
        try:
            return decompose(product), turned
        except torch.linalg.LinAlgError:
            if not left:
                raise
            drawn = torch.randn(size, size, dtype=matrix.dtype, generator=generator)
            turned = torch.linalg.qr(drawn.to(matrix.device)).Q
            product = matrix @ turned


def _called(module, values, *inputs):
    """The output of a module with other parameters; the first tensor if there are several."""
    keywords = inputs[0] if inputs and isinstance(inputs[0], dict) else {}
    found = torch.func.functional_call(module, values, () if keywords else inputs, keywords)
    return found if isinstance(found, torch.Tensor) else found[0]


def _row_blocks(function, parameters, inputs, chunk):
    """Yield the rows of the Jacobian at these inputs, in blocks of at most ``chunk`` rows."""
    # The fused attention kernels have no batched derivative; the plain formula has one.
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        outputs = function(parameters, *inputs).flatten()
        if not len(outputs):
            raise ValueError("the function has no outputs for the inputs drawn")
        for start in range(0, len(outputs), chunk):
            some = outputs.new_zeros(min(chunk, len(outputs) - start), len(outputs))
            some[:, start : start + chunk].fill_diagonal_(1)
            yield gradients(outputs, parameters.values(), some)


def gradients(outputs: torch.Tensor, parameters: Iterable, mixtures: torch.Tensor) -> torch.Tensor:
    """The gradients (mixtures x all parameters) of ``mixtures`` (mixtures x outputs) of the outputs.

    They are computed one by one if an operation has no batched derivative.
    """
    parameters = list(parameters)
    if not outputs.requires_grad:  # they depend on no parameter
        return outputs.new_zeros(len(mixtures), sum(p.numel() for p in parameters))

    def gradient(mixture, **how):
        found = torch.autograd.grad(
            [outputs], parameters, [mixture], allow_unused=True, retain_graph=True, **how
        )
        flat = [torch.zeros_like(p).expand(*mixture.shape[:-1], *p.shape) if f is None else f
                for p, f in zip(parameters, found, strict=True)]  # fmt: skip
        return torch.cat([f.reshape(*mixture.shape[:-1], -1) for f in flat], -1)

    try:
        return gradient(mixtures, is_grads_batched=True)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return torch.stack([gradient(mixture) for mixture in mixtures])


def _with_rows(triangle, rows):
    """The triangle R with R^T R = T^T T + A^T A, for the old triangle T and the new rows A."""
    return torch.linalg.qr(torch.cat([triangle, rows]), mode="r").R
