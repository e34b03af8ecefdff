"""One name, one meaning: the rules for names in everything that is printed together."""

import re
from collections.abc import Iterable

import sympy as sp

from ..kernel import ProofError, Term, must
from ..printing import Latex, in_the_kernel, words_in
from . import operations as ops
from .definitions import Word
from .letters import Bijection, Family, Index, kernel_letter
from .matrices import Expression, free_names, operations_in

#: Names that the book's own operations print, in either style.
_PRINTED = {ops.CAUSAL: "L", ops.IDENTITY: "I", ops.EXPECTATION: "E",
            ops.DIAG: "diag", ops.LAST_ROW: "last"}  # fmt: skip
ANOTHER = "{}: a condition contains another {} than the printed one"
#: Names that no letter may have, even where the book's own matrix of that name does not occur.
_NO_MATRIX = {"L", "I"}


def _look(name):
    """How a name looks on a page, however its subscripts are split."""
    return re.sub(r"[{}\s]", "", Latex().name(name))


def check_names(
    where: str, expressions: list[Expression], hypotheses: Iterable = (), words: Iterable[Word] = ()
) -> None:
    """Check that each name has one meaning (shape, kind, definition) and cannot pass for an entry.

    ``words`` are the words whose definitions are reasons of the line.
    """
    expressions = [*expressions, *[side for h in hypotheses for side in h.sides()]]
    nodes = {y for x in expressions for y in x.walk()}
    tables = any(y.operation is ops.TABULATED for y in nodes)
    entries = tables or any(not h.sides() for h in hypotheses)
    meaning, names = {}, []
    for name, what, complaint in _meanings(expressions, nodes, entries):
        must(meaning.setdefault(_look(name), what) == what, "{}: {}", where, complaint)
        names.append(name)
    _check_words(where, nodes, words, hypotheses, meaning)
    _check_letters(where, expressions, hypotheses)
    places = set().union(*map(_at_places, nodes))
    places |= {_look(f.name) for y in nodes for f in y.atoms(Family)} if entries else set()
    for name in names:
        own = all(_look(base) not in places for base in _cut(name))
        must(own, "{}: the name {} prints like an entry of another letter", where, name)


def _check_words(where, nodes, words, hypotheses, meaning):
    """Check that each name has one definition, also among words in conditions and reasons."""
    words, known = {*words, *[o.word for y in nodes for o in operations_in(y) if o.word]}, {}
    for word in words:
        alone = known.setdefault(in_the_kernel(word.name), word) is word
        must(alone, "{}: the word {} is used with two definitions", where, word.name)
    abouts, only = [h.about for h in hypotheses if not h.sides()], {}
    heads = set().union(*[words_in(x, in_definitions=False) for x in abouts])
    for term in set().union(*map(words_in, abouts)):
        name = term.args[0]
        own = term in known[name].terms if name in known else _look(name) not in meaning
        must(own, ANOTHER, where, name)
        # if no line prints this name, readers cannot tell which of two meanings a condition uses
        clear = name in known or term not in heads or only.setdefault(name, term) == term
        must(clear, "{}: conditions contain two words {}: rename one of them", where, name)


def _check_letters(where, expressions, hypotheses):
    """Check that letters in conditions are the letters that lines print under the same names."""
    printed = {}
    for x in expressions:
        for letter in kernels_letters(x):
            printed.setdefault(_look(letter.args[0]), set()).add(letter)
    for letter in (x for h in hypotheses if not h.sides() for x in h.about.letters):
        same = letter in printed.setdefault(_look(letter.args[0]), {letter})
        must(same, ANOTHER, where, letter.args[0])


def kernels_letters(x: Expression) -> set[Term]:
    """The kernel's letters that an expression prints, or shows in a shape."""
    laws = {f.law for f in x.atoms(Family) if f.random}
    return laws | set(map(kernel_letter, free_names(x)))


def _cut(name):
    """The parts of a name before each subscript, except a subscript 0, which cannot be an index."""
    cuts = [found.start() for found in re.finditer(r"_|(?<=[^0-9_])(?=[0-9])", name)]
    return [name[:at] for at in cuts if name[at:].strip("_") != "0"]


def _at_places(x):
    """The names that an expression prints with a position: heads, sequences, recursions."""
    rows, heads = x.operation in (ops.TERM, ops.PREFIX), x.operation is ops.LETTER and x.params[1:]
    found = {_look(x.params[0].name)} if rows or heads else set()
    return found | {_look(o.name) for o in operations_in(x) if o.word and o.word.places}


def _meanings(expressions, nodes, entries):
    """Yield (name, meaning, complaint if a name that looks alike has another meaning)."""
    for x in expressions:
        scalars = {s for s in x.free_scalars() | x.bound() if isinstance(s, sp.Symbol)}
        for basic in x.atoms(Family) | x.atoms(Bijection) | scalars:
            complaint = "the name {} is used with two shapes or kinds, or prints like another"
            if basic.name in _NO_MATRIX:
                yield basic.name, "the book's own", ""
                complaint = "a letter {} prints like the book's own: choose another"
            yield basic.name, basic, complaint.format(basic.name)
        for index in x.atoms(Index):
            complaint = f"the name {index.name} of an index is used for something else as well"
            yield index.name, index, complaint
    if entries:
        yield "e", "the book's own", "the letter e prints like the exponential"
    for operation in set().union(*map(operations_in, nodes)):
        yield from _of_operation(operation)


def _of_operation(operation):
    """Yield the `_meanings` of the names that an operation itself prints."""
    function = operation.name.removeprefix("entrywise ")
    if operation.word or function != operation.name:
        complaint = f"the word {function} is used with two definitions, or has the name of a letter"
        yield function, operation.word or "a function", complaint
        yield function + "'", "its slope", f"{function}' prints like the slope of {function}"
    elif operation in _PRINTED or operation.name == "exp":
        printed = _PRINTED.get(operation, "e")
        complaint = f"the letter {printed} prints like the book's own {operation.name}"
        yield printed, "the book's own", complaint


def check_indices(where: str, expressions: list[Expression]) -> None:
    """Check that no index or scalar is both free and bound, or bound twice."""
    for outer in {y for x in expressions for y in x.walk() if y.binds}:
        for binder in outer.binds & outer.args[0].bound():
            raise ProofError(f"{where}: {binder.name} is bound within itself")
    bound = set().union(*[x.bound() for x in expressions])
    for name in bound & set().union(*map(free_names, expressions)):
        raise ProofError(f"{where}: {name.name} is used free and bound")
