"""The book's vocabulary: softmax and its relatives, norms, activations.

Each word is opaque in a derivation until a line names its definition.  Scores have one row for
each query and one column for each key; tokens are rows.
"""

from collections.abc import Callable

from .. import kernel as k
from ..kernel import KNOWN, Term, must
from ..printing import ATOM, POWER
from .definitions import Word, word  # noqa: F401  (the class of every word)
from .index_forms import Number, exp_of, root_of, total
from .letters import check_word, letter, number
from .matrices import Expression, expression, hadamard, is_mask, ones
from .nonzero import NonZero
from .operations import Operation, alike, known, torch


def entrywise(name: str) -> Callable:
    """A function of one number, applied to each entry; an unknown name means an arbitrary function.

    tanh, relu, cos and sin are known.
    """
    if name not in KNOWN:
        check_word("a function", name)
    if name not in _ENTRYWISE:
        head = ("call", name) if name in KNOWN else ("app", letter(name, k.fun(k.NUM)))
        value = lambda argument: Term(*head, argument)
        operation = Operation(f"entrywise {name}",
            entry=lambda x, i, j: value(x.args[0].entry(i, j)),
            run=lambda x, sample: sample.function(name)(x.args[0].run(sample)),
            show=lambda x, style, show: (style.call(name, show(x.args[0])), ATOM))  # fmt: skip
        known(operation)

        def applied(x: Expression | Number) -> Expression | Number:
            if isinstance(x, Number):
                return Number(value(x.term), x.uses | {operation})
            return Expression(operation, [expression(x, name)])

        _ENTRYWISE[name] = applied
    return _ENTRYWISE[name]


_ENTRYWISE: dict[str, Callable] = {}
tanh, relu, cos, sin = map(entrywise, ("tanh", "relu", "cos", "sin"))

_EXP = Operation("exp",
    entry=lambda x, i, j: Term("exp", x.args[0].entry(i, j)),
    run=lambda x, sample: torch.exp(x.args[0].run(sample)),
    show=lambda x, style, show: (
        (style.exponential if x.axes == (1, 1) else style.entrywise_exponential)(show(x.args[0])), POWER))  # fmt: skip
_LOG = Operation("log",
    entry=lambda x, i, j: Term("log", x.args[0].entry(i, j)),
    run=lambda x, sample: torch.log(x.args[0].run(sample)),
    show=lambda x, style, show: (style.call("log", show(x.args[0])), ATOM),
    needs=lambda x: [NonZero(x.args[0], positive=True)])  # fmt: skip


def exp(x: Expression) -> Expression:
    """The exponential of each entry."""
    return Expression(_EXP, [expression(x, "exp")])


def log(x: Expression) -> Expression:
    """The natural logarithm of each entry; every entry must be positive."""
    return Expression(_LOG, [expression(x, "log")])


sigmoid = word("sigmoid",
    entry=lambda x, i, j, s: 1 / (1 + exp_of(-s(i, j))),
    run=lambda s: torch.sigmoid(s),
    doc="The logistic function of each entry, 1 / (1 + exp(-s_ij)).")  # fmt: skip


_over_keys = lambda x, body: total(body, x.axes[1])
_row_sums_are_not_zero = lambda weights: lambda x: [weights(x) @ ones(x.axes[1])]


softmax = word("softmax",
    entry=lambda x, i, j, s: exp_of(s(i, j)) / _over_keys(x, lambda k: exp_of(s(i, k))),
    run=lambda s: torch.softmax(s, -1),
    doc="Softmax along each row: exp(s_ij) / sum_k exp(s_ik).")  # fmt: skip


def _masked(args, params, sizes):
    wanted = "masked softmax takes a mask first, zeros and ones by its form, not {!r}"
    must(is_mask(args[0]), wanted, args[0])
    return alike("and")(args)


def _mask(style, shown):
    """A printed mask, in brackets if it could be read as the index 1 of `softmax_one`."""
    return style.brackets(shown) if shown in ("1", style.ones(2, 1)) else shown


masked_softmax = word("masked softmax", takes=(2, 0), shape=_masked,
    entry=lambda x, i, j, m, s: m(i, j) * exp_of(s(i, j))
    / _over_keys(x, lambda k: m(i, k) * exp_of(s(i, k))),
    run=lambda m, s: torch.softmax(s.masked_fill(m == 0, -torch.inf), -1),
    show=lambda x, style, show: (
        style.call("softmax", show(x.args[1]), index=_mask(style, show(x.args[0]))), ATOM),
    needs=_row_sums_are_not_zero(lambda x: hadamard(x.args[0], exp(x.args[1]))),
    doc="Softmax along each row over the keys whose mask entry is 1; first argument the mask.")  # fmt: skip
softmax_one = word("softmax₁",
    entry=lambda x, i, j, s: exp_of(s(i, j)) / (1 + _over_keys(x, lambda k: exp_of(s(i, k)))),
    run=lambda s: torch.softmax(torch.nn.functional.pad(s, (0, 1)), -1)[:, :-1],
    show=lambda x, style, show: (style.call("softmax", show(x.args[0]), index="1"), ATOM),
    doc="Softmax off by one: exp(s_ij) / (1 + sum_k exp(s_ik)).")  # fmt: skip
normalise = word("normalise",
    entry=lambda x, i, j, s: s(i, j) / _over_keys(x, lambda k: s(i, k)),
    run=lambda s: s / s.sum(-1, keepdim=True),
    needs=_row_sums_are_not_zero(lambda x: x.args[0]),
    doc="Each row divided by its sum.")  # fmt: skip


_mean = lambda f, size: total(f, size) / number(size)


def _standardised(value, others, size, eps):
    """(value - mean) / sqrt(variance + eps), with the biased variance over ``others``."""
    centre = _mean(others, size)
    variance = _mean(lambda k: (others(k) - centre) ** 2, size)
    return (value - centre) / root_of(variance + eps)


layer_norm = word("LN", takes=(1, 1),
    entry=lambda x, i, j, s: _standardised(s(i, j), lambda k: s(i, k), x.axes[1], x.params[0]),
    run=lambda s, eps: torch.nn.functional.layer_norm(s, s.shape[-1:], eps=eps),
    doc="LayerNorm of each row over its features, without gain and shift: layer_norm(X, eps).")  # fmt: skip
batch_norm = word("BN", takes=(1, 1),
    entry=lambda x, i, j, s: _standardised(s(i, j), lambda k: s(k, j), x.axes[0], x.params[0]),
    run=lambda s, eps: (s - s.mean(0)) / torch.sqrt(s.var(0, unbiased=False) + eps),
    doc="BatchNorm of each column over its rows, as in training: batch_norm(X, eps).")  # fmt: skip
rms_norm = word("RMS", takes=(1, 1),
    entry=lambda x, i, j, s: s(i, j)
    / root_of(_mean(lambda k: s(i, k) ** 2, x.axes[1]) + x.params[0]),
    run=lambda s, eps: torch.nn.functional.rms_norm(s, s.shape[-1:], eps=eps),
    doc="RMSNorm of each row over its features, without gain: rms_norm(X, eps).")  # fmt: skip
