"""The book's vocabulary: softmax and its relatives, norms, activations.

Each word is opaque in a derivation until a line names its definition.  Scores have one row for
each query and one column for each key; tokens are rows.
"""

from __future__ import annotations

import functools
import itertools

import sympy as sp

from ..kernel import terms as k
from ..kernel.sorts import KNOWN
from ..kernel.terms import ProofError, Term
from ..printing.styles import ATOM, POWER
from .omitted_arguments import show_call
from .index_forms import Number, Position, exp_of, root_of, total
from .letters import End, Family, Index, Join, Scalar, check_word, exact, letter, number, unsealed
from .matrices import Expression, expression, hadamard, is_mask, ones
from .nonzero import NonZero
from .operations import Operation, known, torch
from .shapes import alike
from .symbols import Heads, Sequence
from .words import Definition, Generic


class Word:
    """An operation with a definition: call it to build an expression, or unfold it in a line.

    Expressions come first in a call, then parameters (scalars, positions, heads, sequences).
    Each word has its own identity: a second word with the same name does not affect earlier proofs.
    """

    shown = None  # the number of arguments that are always printed; None for all
    places = 0  # how many leading parameters select a row and are printed outside the call

    def __init__(self, name, takes, shape, written, **parts):
        self.name, self._takes, self._written = name, takes, written
        self._operation = Operation(
            name, axes=shape, takes=(takes[0], *[sp.Expr] * takes[1]), entry=lambda x, i, j: self._definition.applied(x, i, j), word=self, **parts
        )  # fmt: skip

    @functools.cached_property
    def _definition(self):
        generic = Generic(*self._takes)
        x = Expression(self._operation, generic.args, generic.params)
        return Definition(self.name, generic, x.axes, lambda i, j: self._written(x, i, j))

    def __setattr__(self, name, value):
        if "_operation" in vars(self) and not name.startswith("_"):
            raise AttributeError(f"the word {self.name} keeps its {name}")
        super().__setattr__(name, value)

    def __call__(self, *arguments):
        return Expression(self._operation, *taken_by(self.name, arguments))

    def always_shows(self, k, slot):
        """Whether the k-th argument of a call is always printed."""
        return isinstance(slot, Expression) and (self.shown is None or k < self.shown)

    @property
    def operations(self):
        """The operations that ``unfold(self)`` unfolds."""
        return frozenset({self._operation})

    @property
    def terms(self):
        """The words of the kernel that ``unfold(self)`` unfolds."""
        return [self._definition.term]

    def __repr__(self):
        return f"<the word {self.name}>"


def taken_by(name, arguments):
    """The arguments of a word: the expressions, which come first, and the parameters."""
    args = list(itertools.takewhile(lambda a: isinstance(a, Expression), arguments))
    return args, [parameter_of(name, a) for a in arguments[len(args) :]]


def parameter_of(name, a):
    """An argument that is not an expression, in the form in which it is stored."""
    if isinstance(a, Expression):
        raise ProofError(f"{name} takes its expressions first and its parameters after them")
    if isinstance(a, (Heads, Sequence)):
        return a.family
    a = unsealed(a)
    if isinstance(a, (Join, Index, End, Family)):
        return a
    return exact(a)


def argument_of(parameter):
    """The reader's object for a stored parameter."""
    if isinstance(parameter, Family):
        return (Sequence if parameter.kind == "sequence" else Heads).of(parameter)
    return Scalar(parameter)


def _call(x, style, show):
    return show_call(x, style, show), ATOM


def word(name, entry, run, takes=(1, 0), show=None, needs=lambda x: (), shape=None):
    """Return a word with its entry and its torch code; readers have to check that these agree.

    ``entry(x, i, j, *entries)`` receives the expression x and the entries of its arguments as
    functions of two positions, and returns a ``Number``; ``run(*tensors, *scalars)`` computes in
    torch; ``takes`` gives the numbers of expressions and of scalars in a call.
    """

    def written(x, i, j):
        entries = [lambda p, q, y=y: Number(y.entry(p.place, q.place), frozenset()) for y in x.args]
        return entry(x, Position.of(i), Position.of(j), *entries).term

    def run_on(x, sample):
        return run(*[y.run(sample) for y in x.args], *[sample.scalar(p) for p in x.params])

    return Word(
        name, takes, shape or alike("and"), written, run=run_on, show=show or _call, needs=needs
    )


# ── Functions of one entry ────────────────────────────────────────────────────────────────


def entrywise(name):
    """A function of one number, applied to each entry; an unknown name means an arbitrary function.

    tanh, relu, cos and sin are known.
    """
    if name not in KNOWN:
        check_word("a function", name)
    if name not in _ENTRYWISE:
        operation = Operation(
            f"entrywise {name}",
            entry=lambda x, i, j: _value(name, x.args[0].entry(i, j)),
            run=lambda x, sample: sample.function(name)(x.args[0].run(sample)),
            show=lambda x, style, show: (style.call(name, show(x.args[0])), ATOM),
        )
        known(operation)
        _ENTRYWISE[name] = lambda x: _applied(operation, name, x)
    return _ENTRYWISE[name]


def _applied(operation, name, x):
    if isinstance(x, Number):
        return Number(_value(name, x.term), x.uses | {operation})
    return Expression(operation, [expression(x, name)])


def _value(name, argument):
    if name in KNOWN:
        return Term("call", name, argument)
    return Term("app", letter(name, k.fun(k.NUM)), argument)


_ENTRYWISE = {}
tanh, relu, cos, sin = map(entrywise, ("tanh", "relu", "cos", "sin"))

_EXP = Operation(
    "exp",
    entry=lambda x, i, j: Term("exp", x.args[0].entry(i, j)),
    run=lambda x, sample: torch.exp(x.args[0].run(sample)),
    show=lambda x, style, show: (
        (style.exponential if x.axes == (1, 1) else style.entrywise_exponential)(show(x.args[0])), POWER),
)  # fmt: skip


_LOG = Operation(
    "log",
    entry=lambda x, i, j: Term("log", x.args[0].entry(i, j)),
    run=lambda x, sample: torch.log(x.args[0].run(sample)),
    show=lambda x, style, show: (style.call("log", show(x.args[0])), ATOM),
    needs=lambda x: [NonZero(x.args[0], positive=True)],
)


def exp(x):
    """The exponential of each entry."""
    return Expression(_EXP, [expression(x, "exp")])


def log(x):
    """The natural logarithm of each entry; every entry must be positive."""
    return Expression(_LOG, [expression(x, "log")])


sigmoid = word(
    "sigmoid",
    entry=lambda x, i, j, s: 1 / (1 + exp_of(-s(i, j))),
    run=lambda s: torch.sigmoid(s),
)
sigmoid.__doc__ = "The logistic function of each entry, 1 / (1 + exp(-s_ij))."


# ── Softmax and its variants ──────────────────────────────────────────────────────────────


def _over_keys(x, body):
    return total(body, x.axes[1])


def _row_sums_are_not_zero(weights):
    return lambda x: [weights(x) @ ones(x.axes[1])]


softmax = word(
    "softmax",
    entry=lambda x, i, j, s: exp_of(s(i, j)) / _over_keys(x, lambda k: exp_of(s(i, k))),
    run=lambda s: torch.softmax(s, -1),
)
softmax.__doc__ = "Softmax along each row: exp(s_ij) / sum_k exp(s_ik)."


def _masked(args, params, wanted):
    if not is_mask(args[0]):
        raise ProofError(
            f"masked softmax takes a mask first, zeros and ones by its form, not {args[0]!r}"
        )
    return alike("and")(args)


def _mask(style, shown):
    """A printed mask, in brackets if it could be read as the index 1 of `softmax_one`."""
    return style.brackets(shown) if shown in ("1", style.ones(2, 1)) else shown


masked_softmax = word(
    "masked softmax",
    entry=lambda x, i, j, m, s: m(i, j) * exp_of(s(i, j))
    / _over_keys(x, lambda k: m(i, k) * exp_of(s(i, k))),
    run=lambda m, s: torch.softmax(s.masked_fill(m == 0, -torch.inf), -1),
    takes=(2, 0), shape=_masked,
    show=lambda x, style, show: (style.call("softmax", show(x.args[1]), index=_mask(style, show(x.args[0]))), ATOM),
    needs=_row_sums_are_not_zero(lambda x: hadamard(x.args[0], exp(x.args[1]))),
)  # fmt: skip
masked_softmax.__doc__ = (
    "Softmax along each row over the keys whose mask entry is 1; first argument the mask."
)

softmax_one = word(
    "softmax₁",
    entry=lambda x, i, j, s: exp_of(s(i, j)) / (1 + _over_keys(x, lambda k: exp_of(s(i, k)))),
    run=lambda s: torch.softmax(torch.nn.functional.pad(s, (0, 1)), -1)[:, :-1],
    show=lambda x, style, show: (style.call("softmax", show(x.args[0]), index="1"), ATOM),
)
softmax_one.__doc__ = "Softmax off by one: exp(s_ij) / (1 + sum_k exp(s_ik))."

normalise = word(
    "normalise",
    entry=lambda x, i, j, s: s(i, j) / _over_keys(x, lambda k: s(i, k)),
    run=lambda s: s / s.sum(-1, keepdim=True),
    needs=_row_sums_are_not_zero(lambda x: x.args[0]),
)
normalise.__doc__ = "Each row divided by its sum."


# ── Norms ─────────────────────────────────────────────────────────────────────────────────


def _mean(f, size):
    return total(f, size) / number(size)


def _standardised(value, others, size, eps):
    """(value - mean) / sqrt(variance + eps), with the biased variance over ``others``."""
    centre = _mean(others, size)
    variance = _mean(lambda k: (others(k) - centre) ** 2, size)
    return (value - centre) / root_of(variance + eps)


layer_norm = word(
    "LN",
    takes=(1, 1),
    entry=lambda x, i, j, s: _standardised(s(i, j), lambda k: s(i, k), x.axes[1], x.params[0]),
    run=lambda s, eps: torch.nn.functional.layer_norm(s, s.shape[-1:], eps=eps),
)
layer_norm.__doc__ = (
    "LayerNorm of each row over its features, without gain and shift: layer_norm(X, eps)."
)

batch_norm = word(
    "BN",
    takes=(1, 1),
    entry=lambda x, i, j, s: _standardised(s(i, j), lambda k: s(k, j), x.axes[0], x.params[0]),
    run=lambda s, eps: (s - s.mean(0)) / torch.sqrt(s.var(0, unbiased=False) + eps),
)
batch_norm.__doc__ = "BatchNorm of each column over its rows, as in training: batch_norm(X, eps)."

rms_norm = word(
    "RMS", takes=(1, 1),
    entry=lambda x, i, j, s: s(i, j)
    / root_of(_mean(lambda k: s(i, k) ** 2, x.axes[1]) + x.params[0]),
    run=lambda s, eps: torch.nn.functional.rms_norm(s, s.shape[-1:], eps=eps),
)  # fmt: skip
rms_norm.__doc__ = "RMSNorm of each row over its features, without gain: rms_norm(X, eps)."
