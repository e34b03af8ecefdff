"""Build the pieces of a row, count redundant directions, and make the changes that the row states.

The count takes only the names of tensors from the row's answers.  It uses the Jacobian of the
piece with respect to these tensors in float64, at one generic point for each piece, size and mode.
"""

from __future__ import annotations

from itertools import chain, count

import torch

from ..nullity import CUT, jacobian
from ..shift.following import follow
from ..shift.freedom import Freedom
from ..subject import exactly
from .answers import DIRECTIONS

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

    ``symbols`` are names from the table; a mode is "eval" or "train".
    """

    def __init__(self, module, symbols, mode="eval"):
        self.module, self.mode = module.train(mode == "train"), mode
        self.values = module.tensors()
        self.place = {part: _place(module, part) for s in symbols for part in s.split("+")}
        # include every vector, so that the largest singular value is not that of a redundant block
        vectors = {n: t for n, t in module.named_parameters() if t.dim() == 1}
        named = {n: self.values[n] for n, _ in self.place.values() if not is_statistic(n)}
        self.jacobian = jacobian(self.run, self.draw, vectors | named)

    def draw(self, seed):
        chance = torch.Generator().manual_seed(1000 + seed)
        return (*self.module.inputs(chance), seed)

    def run(self, values, *inputs):
        """The outputs; the last input is the seed for dropout."""
        *inputs, seed = inputs
        # batch norm overwrites its statistics, so it gets copies in the Jacobian's graph
        nothing = 0 * next(iter((values or self.values).values())).sum()
        state = {name: (t + nothing).detach() if t.is_floating_point() else t.clone()
                 for name, t in self.values.items()}  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return torch.func.functional_call(self.module, state | values, tuple(inputs))

    def size(self, symbol):
        return len(self.jacobian.columns(*self._places(symbol)))

    def alone(self, *symbols):
        """How many directions of these tensors, taken together, are redundant."""
        return self.jacobian.nullity(*self._places(*symbols)).dimension

    def _places(self, *symbols):
        return [self.place[part] for symbol in symbols for part in symbol.split("+")]

    def absorbed(self, symbol, into):
        """How many directions of a bias the tensors of ``into`` can absorb."""
        return self.alone(symbol, *into) - self.alone(*into)

    def sends_to_zero(self, symbol, directions):
        """Whether, to first order, the outputs stay the same along all these directions."""
        columns = self.jacobian.triangle[:, self.jacobian.columns(self.place[symbol])]
        moved = torch.linalg.vector_norm(columns @ directions.T, dim=0)
        return bool((moved <= CUT * self.jacobian.scale * directions.norm(dim=1)).all())

    def change(self, shifts):
        """How far shifting the tensors moves the outputs, relative to the largest output."""
        inputs, moved = self.draw(0), dict(self.values)
        for symbol, shift in shifts.items():
            name, index = self.place[symbol]
            moved[name] = moved[name].clone()
            part = moved[name][index]
            moved[name][index] += shift.view_as(part) if shift.numel() == part.numel() else shift
        with torch.no_grad():
            before, after = self.run(dict(self.values), *inputs), self.run(moved, *inputs)
        return ((after - before).abs().max() / before.abs().max()).item()

    def along(self, *symbols):
        """[a redundant shift, a shift orthogonal to all redundant ones]; a zero shift is {}."""
        places = [self.place[s] for s in symbols]
        basis = self.jacobian.redundant(*places)
        sizes = [self.size(s) for s in symbols]
        drawn = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(1)).double()
        inside = basis.T @ (basis @ drawn)
        rest = drawn - inside
        return [dict(zip(symbols, t.split(sizes), strict=True)) if t.norm() > 1e-9 else {}
                for t in (inside, rest)]  # fmt: skip

    def surgery(self, answer):
        """The shifts that set the bias to zero and change the parameters that absorb it."""
        known = {**self.module.symbols(), **FUNCTIONS}
        if answer.where:
            matrix, vector = answer.where.split(" @ t = ")
            known["t"] = solve(known[matrix], known[vector])
        shifts = {symbol: eval(by.removeprefix("+ "), {}, known).clone()
                  for symbol, by in answer.into.items()}  # fmt: skip
        return {answer.bias: -known[answer.bias], **shifts}


class Followed(Measured):
    """Predicts the counts of `Measured` by following moved tensors through every operation.

    Running means move as well.  No derivative is taken, and no answer is used.
    """

    def __init__(self, module, symbols, mode="eval"):
        self.module, self.mode = module.train(mode == "train"), mode
        self.values = module.tensors()
        self.place = {part: _place(module, part) for s in symbols for part in s.split("+")}
        named = {n for n, _ in self.place.values()}
        self.added = {n for n, _ in module.named_parameters() if not n.endswith("weight")} | {
            n for n in named if not n.endswith("weight") or not self._is_factor(n)
        }
        self.known = {}

    def _is_factor(self, name):
        """Whether a weight is a gain or a matrix, rather than a table whose vectors are added."""
        return not isinstance(
            self.module.get_submodule(name.rpartition(".")[0]), torch.nn.Embedding
        )

    def freedom(self, names):
        """The redundant directions of all added tensors and the factors in ``names``."""
        factors = frozenset(names) - self.added
        if factors not in self.known:
            with exactly(), torch.no_grad():
                moved = {n: t for n, t in self.values.items() if n in self.added | factors}
                self.known[factors] = Freedom.of(follow(map(self._run, count()), moved).moves)
        return self.known[factors]

    def _run(self, seed):
        *inputs, _ = self.draw(seed)

        def run():
            kept = {n: t.clone() for n, t in self.module.named_buffers()}
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                made = self.module(*inputs)
            for name, tensor in self.module.named_buffers():
                tensor.copy_(kept[name])
            return list(made) if isinstance(made, tuple) else [made]

        return run

    def size(self, symbol):
        return sum(
            int(torch.zeros(self.values[n].shape)[i].numel()) for n, i in self._places(symbol)
        )

    def alone(self, *symbols):
        chosen = [(n, torch.arange(self.values[n].numel()).view(self.values[n].shape)[i].flatten())
                  for n, i in self._places(*symbols)]  # fmt: skip
        return self.freedom(n for n, _ in chosen).within(*chosen)

    def sends_to_zero(self, symbol, directions):
        """Whether all these directions are redundant."""
        name, index = self.place[symbol]
        move = torch.zeros(len(directions), *self.values[name].shape, dtype=torch.float64)
        move[:, index] = directions.view_as(move[:, index])
        family = self.freedom([name]).families[name]
        basis, places = family.basis, family.places
        wide = move.new_zeros(len(directions), len(basis))
        wide[:, places[name]] = move.flatten(1)
        return bool((wide - wide @ basis @ basis.T).norm() <= 1e-9 * wide.norm())


def is_statistic(name):
    return "running_" in name


def _place(module, symbol):
    """Which numbers a symbol stands for: (the name of a tensor, an index into this tensor)."""
    tensor = module.symbols()[symbol]
    if symbol in module.named():
        return module.named()[symbol], ...
    for name, whole in module.tensors().items():
        start = tensor.data_ptr() - whole.data_ptr()
        first = start // tensor.element_size() // max(1, whole[0].numel())
        if 0 <= start < whole.numel() * whole.element_size():
            return name, slice(first, first + len(tensor))
    raise KeyError(f"{symbol} is no part of a tensor of {type(module).__name__}")


def solve(matrix, vector):
    """A solution x of matrix @ x = vector, if there is one."""
    return torch.linalg.lstsq(matrix, vector[:, None]).solution[:, 0]


def carried(bias, gain, shift):
    """b (1/γ)ᵀ / Σ β/γ, which moves a bias into the weights after a LayerNorm (Theorem 7.8)."""
    return torch.outer(bias, 1 / gain) / (shift / gain).sum()


FUNCTIONS = {"carried": carried, "sqrt": torch.sqrt, "ε": 1e-5}


def contradictions(module, answers, mode="eval", way=Measured):
    """The contradictions between measurement and answers, one sentence each.

    ``way`` is `Measured`, or `Followed` to test predicted counts instead.
    """
    answers = [a for a in answers if a.mode in ("", mode)]
    symbols = dict.fromkeys(chain.from_iterable((a.bias, *a.into, *a.beside) for a in answers))
    found = way(module, symbols, mode)
    counted = [s for s in found.place if not is_statistic(found.place[s][0])]
    said = []
    for bias in dict.fromkeys(a.bias for a in answers):
        mine = [a for a in answers if a.bias == bias]
        others = [s for s in counted if s not in bias.split("+")]
        said += _counts(found, bias, mine, others)
    for answer in answers if way is Measured else ():
        said += _moves(found, answer)
    return said


def _counts(found, bias, answers, others):
    """Yield a sentence for each count (alone, absorbed or in total) that contradicts the row."""
    module, size = found.module, found.size(bias)
    free = sum(a.count(module, size) for a in answers if not a.into)
    if "+" not in bias and (number := found.alone(bias)) != free:
        yield f"{number} of {size} of {bias} go alone, not {free}"
    most, beside = free, others
    for answer in answers:
        count = answer.count(module, size)
        most, beside = max(most, count), answer.beside or beside
        if answer.into and set(answer.into) <= set(others):
            if (number := found.absorbed(bias, answer.into)) != count:
                yield f"{number} of {size} of {bias} go into {', '.join(answer.into)}, not {count}"
        if answer.much in DIRECTIONS:
            directions = DIRECTIONS[answer.much](module.symbols(), module.symbols()[bias])
            if not found.sends_to_zero(bias, directions):
                yield f"{bias} does not go along {answer.much}"
    if most < size and beside and (number := found.absorbed(bias, beside)) != most:
        yield f"{number} of {size} of {bias} go beside {', '.join(beside)}, not {most}"


def _moves(found, answer):
    """Yield a sentence for each finite move or stated change that has the wrong effect."""
    symbols = *answer.bias.split("+"), *answer.into
    if not any(is_statistic(found.place[s][0]) for s in symbols):
        inside, rest = found.along(*symbols)
        if inside and (change := found.change(inside)) > unseen(inside):
            yield f"a finite move of {', '.join(symbols)} changes the outputs by {change:.0e}"
        if rest and (change := found.change(rest)) < SEEN:
            yield f"a finite move of {', '.join(symbols)} that should be seen is not: {change:.0e}"
    if answer.much == "all" and all(answer.into.values()):
        shifts = found.surgery(answer)
        if (change := found.change(shifts)) > unseen(shifts):
            yield f"{answer.bias} set to zero, {answer.into}: the outputs change by {change:.0e}"
        alone = found.change({answer.bias: -found.module.symbols()[answer.bias]})
        if answer.into and alone < SEEN:
            yield f"{answer.bias} set to zero and nothing else: the outputs do not change"
