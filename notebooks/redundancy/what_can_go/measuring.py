"""Build the pieces of a row, count redundant directions, and make the changes that the row states.

The count uses only the names of tensors in the row, not the numbers that the row claims.  It uses
the Jacobian of the piece with respect to these tensors in float64, at one generic point for each
piece, size and mode.
"""

from __future__ import annotations

import functools
from itertools import chain, count
from typing import Any

import torch
from torch import nn

from ..measure.measurement import DifferentiableStatistics
from ..measure.nullity import CUT, Jacobian, jacobian
from ..measure.subject import exactly
from ..shift.following import follow
from ..shift.null_space import NullSpace
from .answers import Answer
from .piece import Piece, normal

#: A redundant finite move t changes outputs only by rounding.  A path from t to an output has
#: at most six maps, each a sum of at most 28 products, and about as many operations in norms and
#: softmax.  That is fewer than 1,000 roundings of numbers that grow by a factor of at most 1 + |t|.
ROUNDINGS = 1000
#: A move on which outputs depend must change them by more than this share of the largest output.
SEEN = 1e-6


def unseen(shifts):
    """The largest relative change in the outputs that rounding explains, given these shifts."""
    return ROUNDINGS * 2**-53 * (1 + max(shift.abs().max().item() for shift in shifts.values()))


def modes(answers):
    """The modes in which a row is measured: both if some answer holds in only one mode."""
    return ("eval", "train") if any(a.mode for a in answers) else ("eval",)


class Measured:
    """A piece in one mode, and the Jacobian of its outputs with respect to the named tensors.

    ``symbols`` are names from the table, joined by + where two are counted together; a mode is
    "eval" or "train".  In training, the module loses its running statistics, which it does not use.
    """

    def __init__(self, module: Piece, symbols, mode="eval"):
        self.module = module.train(mode == "train")
        for part in module.modules() if mode == "train" else ():
            if getattr(part, "running_mean", None) is not None:
                for statistic in ("running_mean", "running_var", "num_batches_tracked"):
                    setattr(part, statistic, None)
        self.values = module.tensors()
        self.place = {part: module.place(part) for s in symbols for part in s.split("+")}
        self.known: dict[Any, Jacobian] = {}  # by the factors that move, in `Followed`

    def draw(self, seed):
        """The inputs with this number; the last one is the seed for dropout."""
        return (*self.module.inputs(torch.Generator().manual_seed(1000 + seed)), seed)

    def run(self, values, *inputs):
        """The outputs for these values of some tensors."""
        *given, seed = inputs
        with torch.random.fork_rng(devices=[]), DifferentiableStatistics():
            torch.manual_seed(seed)
            return torch.func.functional_call(self.module, values, tuple(given))

    def jacobian(self, places) -> Jacobian:
        """A Jacobian with respect to tensors that include those at these places."""
        if not self.known:
            # include every vector, so that the largest singular value is not of a redundant block
            vectors = {n: t for n, t in self.module.named_parameters() if t.dim() == 1}
            named = {n: self.values[n] for n, _ in self.place.values()}
            self.known[""] = jacobian(self.run, self.draw, vectors | named)
        return self.known[""]

    def alone(self, *symbols):
        """How many directions of these tensors, taken together, are redundant."""
        places = [self.place[part] for symbol in symbols for part in symbol.split("+")]
        return self.jacobian(places).nullity(*places).dimension

    def absorbed(self, symbol, into):
        """How many directions of a bias the tensors of ``into`` can absorb."""
        return self.alone(symbol, *into) - self.alone(*into)

    def sends_to_zero(self, symbol, directions):
        """Whether, to first order, the outputs stay the same along all these directions."""
        found = self.jacobian([self.place[symbol]])
        moved = found.triangle[:, found.columns(self.place[symbol])] @ directions.T
        return bool((moved.norm(dim=0) <= CUT * found.scale * directions.norm(dim=1)).all())

    def change(self, shifts):
        """How far shifting the tensors moves the outputs, relative to the largest output."""
        inputs, moved = self.draw(0), {n: t.clone() for n, t in self.values.items()}
        for symbol, shift in shifts.items():
            name, index = self.place[symbol]
            moved[name][index] += shift
        before, after = self.run({}, *inputs), self.run(moved, *inputs)
        return ((after - before).abs().max() / before.abs().max()).item()

    def along(self, *symbols):
        """[a redundant shift, a shift orthogonal to all redundant ones]; a zero shift is {}."""
        places = [self.place[s] for s in symbols]
        basis = self.jacobian(places).redundant(*places)
        parts = [self.values[name][index] for name, index in places]
        drawn = normal(torch.Generator().manual_seed(1), basis.shape[1])
        inside = basis.T @ (basis @ drawn)
        cut = lambda move: zip(symbols, parts, move.split([part.numel() for part in parts]))
        return [{s: t.view_as(part) for s, part, t in cut(move)} if move.norm() > 1e-9 else {}
                for move in (inside, drawn - inside)]  # fmt: skip

    def surgery(self, answer: Answer):
        """The shifts that set the bias to zero and change the parameters that absorb it."""
        known: dict[str, Any] = {**self.module.symbols(), **FUNCTIONS}
        if answer.where:
            matrix, vector = answer.where.split(" @ t = ")
            known["t"] = torch.linalg.lstsq(known[matrix], known[vector][:, None]).solution[:, 0]
        return {answer.bias: -known[answer.bias]} | {
            symbol: eval(by.removeprefix("+ "), {}, known).clone()
            for symbol, by in answer.into.items()
        }


class Followed(Measured):
    """Predicts the counts of `Measured` by following moved tensors through every operation.

    No derivative is taken, and no answer is used.
    """

    def jacobian(self, places):
        """A projection whose null space is that of the Jacobian.

        All added tensors move, and in addition the factors (gains and matrices) at these places.
        """
        names = {name for name, _ in places}
        factors = frozenset(n for n in names if self._is_factor(n))
        if factors not in self.known:
            named = {n for n, _ in self.place.values()} | dict(
                self.module.named_parameters()
            ).keys()
            moved = {n: self.values[n] for n in self.values
                     if n in factors or (n in named and not self._is_factor(n))}  # fmt: skip
            calls = (functools.partial(self._called, *self.draw(i)) for i in count())
            with exactly(), torch.no_grad():
                space = NullSpace.of(follow(calls, moved).moves)
            basis, shapes = space.dense(), {n: moved[n].shape for n in space.shapes}
            self.known[factors] = Jacobian(torch.eye(len(basis)) - basis @ basis.T, shapes)
        return self.known[factors]

    def _is_factor(self, name):
        """Whether a tensor is a gain or a matrix, rather than a bias or a table of vectors."""
        owner = self.module.get_submodule(name.rpartition(".")[0])
        return name.endswith("weight") and not isinstance(owner, nn.Embedding)

    def _called(self, *inputs):
        *given, seed = inputs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return [self.module(*given)]


def carried(bias, gain, shift):
    """b (1/γ)ᵀ / Σ β/γ, which moves a bias into the weights after a LayerNorm (Theorem 7.8)."""
    return torch.outer(bias, 1 / gain) / (shift / gain).sum()


#: What a row's formulas may use beside the symbols.
FUNCTIONS = {"carried": carried, "sqrt": torch.sqrt, "ε": 1e-5}


def contradictions(module: Piece, answers, mode="eval", way=Measured) -> list[str]:
    """The contradictions between measurement and answers, one sentence each.

    ``way`` is `Measured`, or `Followed` to test predicted counts instead.
    """
    answers = [a for a in answers if a.mode in ("", mode)]
    symbols = dict.fromkeys(chain.from_iterable((a.bias, *a.into, *a.beside) for a in answers))
    found = way(module, symbols, mode)
    said = []
    for bias in dict.fromkeys(a.bias for a in answers):
        said += _counts(found, bias, [a for a in answers if a.bias == bias])
    for answer in answers if way is Measured else ():
        said += _moves(found, answer)
    return said


def _counts(found, bias, answers):
    """Yield a sentence for each count (alone, absorbed or in total) that contradicts the row."""
    symbols = found.module.symbols()
    size = sum(symbols[part].numel() for part in bias.split("+"))
    free = sum(a.count(found.module.sizes, size) for a in answers if not a.into)
    if "+" not in bias and (number := found.alone(bias)) != free:
        yield f"{number} of {size} of {bias} go alone, not {free}"
    most, beside = free, [s for s in found.place if s not in bias.split("+")]
    for answer in answers:
        count = answer.count(found.module.sizes, size)
        most, beside = max(most, count), answer.beside or beside
        if answer.into and (number := found.absorbed(bias, answer.into)) != count:
            yield f"{number} of {size} of {bias} go into {', '.join(answer.into)}, not {count}"
        if not answer.into and (directions := answer.directions(symbols, count)) is not None:
            if not found.sends_to_zero(bias, directions):
                yield f"{bias} does not go along {answer.much}"
    if most < size and beside and (number := found.absorbed(bias, beside)) != most:
        yield f"{number} of {size} of {bias} go beside {', '.join(beside)}, not {most}"


def _moves(found, answer):
    """Yield a sentence for each finite move or stated change that has the wrong effect."""
    symbols = *answer.bias.split("+"), *answer.into
    inside, rest = found.along(*symbols)
    if inside and (change := found.change(inside)) > unseen(inside):
        yield f"a finite move of {', '.join(symbols)} changes the outputs by {change:.0e}"
    if rest and (change := found.change(rest)) < SEEN:
        yield f"a finite move of {', '.join(symbols)} that should be seen is not: {change:.0e}"
    if answer.much == "all" and all(answer.into.values()):
        shifts = found.surgery(answer)
        if (change := found.change(shifts)) > unseen(shifts):
            yield f"{answer.bias} set to zero, {answer.into}: the outputs change by {change:.0e}"
        alone = found.change({answer.bias: shifts[answer.bias]})
        if answer.into and alone < SEEN:
            yield f"{answer.bias} set to zero and nothing else: the outputs do not change"
