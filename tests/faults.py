"""Deliberate faults in the trusted core, one or more for each of its rules.

A fault is a change of one function of ``sums``: ``old`` in its source becomes ``new``.  Each
names who notices it, with the alarm off:

- ``false: case``: a line of test_refusals.FALSE that is justified then;
- ``unjustified: case``: one of test_refusals.UNJUSTIFIED;
- ``theorem: test``: a test of test_theorems that fails then;
- nothing: what RIGHT in test_faults says under the name of the fault is no longer so.
"""

import contextlib
import inspect
import sys
import textwrap
from dataclasses import dataclass

from derivation import proofs, sums
from sympy.core.cache import clear_cache


@dataclass(frozen=True)
class Fault:
    """``rule`` is a function of ``sums`` by its qualified name."""

    rule: str
    old: str
    new: str
    noticed_by: str = ""


def functions():
    """The functions and methods that ``sums`` defines, by qualified name."""
    found = {}
    for name, item in vars(sums).items():
        if getattr(item, "__module__", None) != sums.__name__:
            continue
        if inspect.isfunction(item):
            found[name] = item
        elif inspect.isclass(item):
            for inner, method in vars(item).items():
                plain = getattr(method, "__func__", getattr(method, "fget", method))
                if inspect.isfunction(plain) and plain.__module__ == sums.__name__:
                    found[f"{name}.{inner}"] = plain
    return {
        name: f for name, f in found.items() if f.__code__.co_filename == sums.__file__
    }  # what a dataclass writes for itself has another file


def faulty(fault):
    """The function of a rule with the fault in it."""
    source = textwrap.dedent(inspect.getsource(functions()[fault.rule]))
    assert source.count(fault.old) == 1, (
        f"{fault.rule} holds {fault.old!r} {source.count(fault.old)} times"
    )
    made = {}
    exec(source.replace(fault.old, fault.new), vars(sums), made)
    (function,) = made.values()
    return function


@contextlib.contextmanager
def planted(fault):
    """The package with the fault in it, and nothing remembered from before."""
    owner, _, name = fault.rule.rpartition(".")
    function = faulty(fault)
    if owner:
        places = [(getattr(sums, owner), name)]
        function = staticmethod(function) if name == "__new__" else function
    else:
        original = vars(sums)[name]
        modules = [m for key, m in list(sys.modules.items()) if key.split(".")[0] == "derivation"]
        places = [
            (m, key) for m in modules for key, item in list(vars(m).items()) if item is original
        ]
    before = [vars(where)[key] for where, key in places]
    remembered = proofs._NORMAL_FORMS
    try:
        proofs._NORMAL_FORMS = {}
        for where, key in places:
            setattr(where, key, function)
        clear_cache()
        yield
    finally:
        for (where, key), old in zip(places, before):
            setattr(where, key, old)
        proofs._NORMAL_FORMS = remembered
        clear_cache()


#: What keeps what it is given and reads it back; it rewrites nothing.
HOLDERS = {
    "Abstraction.__new__", "Apply.__new__", "Bijection.__new__", "Bijection.name", "Bijection.size",
    "Family.__new__", "Family.kind", "Family.name", "Family.sizes", "Family.variance", "Join.__new__",
}  # fmt: skip

FAULTS = {
    # sizes and positions
    "a size may be zero": Fault("as_size", "size.is_Integer and size > 0", "size.is_Integer"),
    "a factor of a size may be negative": Fault("_is_size", "size.is_Integer and size > 0", "size.is_Integer"),
    "a position has no word": Fault("_word_and_base", "position.args if", "(Tuple(), position) if"),
    "a joined range counts its first block": Fault("number", " + number(size.args[1])", ""),
    "a range of one keeps an index": Fault("Index.__new__", "if size == 1:", "if False:", "theorem: test_moments_of_a_score"),
    "the last position of a joined range is in the first block": Fault("End.__new__", "Part(Integer(1), End(size.args[1]), size)", "Part(Integer(0), End(size.args[0]), size)", "false: last row of a stack is in the first block"),
    "a block takes positions of any range": Fault("Part.__new__", "or range_of(inner) != size.args[int(side)]", ""),
    "words join in the wrong order": Fault("Moved.__new__", "Tuple(*word, *base.args[0])", "Tuple(*base.args[0], *word)"),
    "a permutation moves positions of any range": Fault("Moved.__new__", "permutation.size != range_of(base)", "False"),
    "a permutation moves the only position": Fault("Moved.__new__", " or range_of(base) == 1", ""),
    "a letter cancels with itself": Fault("_reduced", "(permutation, -sign)", "(permutation, sign)", "false: permutation squared"),
    "a letter does not cancel with its inverse": Fault("_reduced", "letters[-1] == (permutation, -sign)", "False"),
    "an inverse keeps its letters": Fault("_inverse", "-sign", "sign"),
    "an inverse keeps the order of its letters": Fault("_inverse", "reversed(word)", "word"),
    "an inverse moves forwards": Fault("moved", "Integer(sign)", "Integer(1)"),
    "a moved position has a range of its own": Fault("range_of", "range_of(position.args[1])", "Integer(2)"),
    "the last position is the first": Fault("value", "return number(range_of(position))", "return Integer(1)"),
    "a second block is counted from its own start": Fault("value", " if side else 0", " * 0"),
    "fresh indices have one name": Fault("fresh", 'f"#{next(_serial)}"', '"#0"'),
    "no index counts as fresh": Fault("is_fresh", 'startswith("#")', 'startswith("?")'),
    # atoms
    "a delta compares positions of any ranges": Fault("Delta.__new__", "range_of(a) != range_of(b)", "False"),
    "positions of two blocks coincide": Fault("Delta.__new__", "else S.Zero", "else S.One"),
    "positions of one block never coincide": Fault("Delta.__new__", "Delta(a.args[1], b.args[1])", "S.Zero"),
    "a delta forgets the inverse when it is turned": Fault("Delta.__new__", "*_inverse(word_a)", "*word_a"),
    "a delta keeps the order of its positions": Fault("Delta.__new__", "if _order(y) < _order(x):", "if False:"),
    "a position does not coincide with itself": Fault("Delta.__new__", "return S.One", "return S.Zero"),
    "a moved position coincides with itself": Fault("Delta.__new__", "if not word:", "if True:", "false: trace of a permutation is n"),
    "a diagonal delta has two forms": Fault("Delta.__new__", "word = min(word, _inverse(word), key=sp.srepr)", "pass"),
    "at most compares positions of any ranges": Fault("AtMost.__new__", "range_of(a) != range_of(b)", "False"),
    "no position is at most itself": Fault("AtMost.__new__", "a == b or ", ""),
    "a position comes after the last": Fault("AtMost.__new__", " or isinstance(b, End)", ""),
    "every position is at most every other": Fault("AtMost.__new__", "isinstance(b, End)", "isinstance(b, Index)", "false: causal mask is symmetric"),
    "the second block comes first": Fault("AtMost.__new__", "a.args[0] < b.args[0]", "a.args[0] > b.args[0]"),
    "positions of one block are in order": Fault("AtMost.__new__", "return AtMost(a.args[1], b.args[1])", "return S.One"),
    "a letter takes positions of any range": Fault("Entry.__new__", "range_of(position) != size", "False"),
    "a letter takes any number of positions": Fault("Entry.__new__", "len(positions) != len(family.sizes)", "False"),
    "an opaque term does not change": Fault("Node._eval_derivative", "scalar in self.free_symbols", "False"),
    "the exponential grows by one": Fault("Exp._eval_derivative", " * self.args[0].diff(scalar)", ""),
    "a reciprocal grows": Fault("Reciprocal._eval_derivative", "-self * self", "self * self", "theorem: test_jacobian_of_softmax"),
    "a reciprocal root forgets its half": Fault("ReciprocalRoot._eval_derivative", " / 2", ""),
    "a sum is differentiated to its body": Fault("Sigma._eval_derivative", "Sigma(self.args[0].diff(scalar), *self.args[1:])", "self.args[0].diff(scalar)"),
    "a sum over one position keeps it": Fault("Sigma.__new__", "isinstance(k, Index)", "True"),
    "a position in the second block asks the first": Fault("Cases.__new__", "(first, second)[int", "(second, first)[int", "theorem: test_stacked_keys"),
    "a sum is not closed": Fault("total", "Sigma(body(k), k)", "body(k)"),
    "the arguments of an abstraction are exchanged": Fault("abstraction", "Abstraction(body(*indices), *indices)", "Abstraction(body(*indices), *indices[::-1])"),
    "an abstraction forgets its second position": Fault("applied", "zip(indices, positions)", "zip(indices[:1], positions)"),
    "binders are opened without new names": Fault("opened", "[fresh(range_of(k)) for k in binder.args[1:]]", "list(binder.args[1:])"),
    "index forms name all their indices alike": Fault("canonically_named", "_height(body) + n", "0"),
    "a bound index counts as free": Fault("free_indices", " - set(term.args[1:]) if", " if"),
    # what is positive
    "a product with one positive factor is positive": Fault("positive", "return all(map(positive, term.args))", "return any(map(positive, term.args))"),
    "a sum with one positive term is positive": Fault("positive", "all(map(nonnegative, term.args)) and ", ""),
    "a sum of what is not negative is positive": Fault("positive", "and any(map(positive, term.args))", ""),
    "a reciprocal is positive": Fault("positive", "return positive(term.args[0])\n    if term.is_Mul", "return True\n    if term.is_Mul"),
    "every cut sum is positive": Fault("_reaches_its_bound", "and all(map(positive, rest))", ""),
    "a cut that turns with its index is positive": Fault("_reaches_its_bound", "and not cuts[0].args[1].has(indices[0])", ""),
    "an odd power is not negative": Fault("nonnegative", "term.exp % 2 == 0 or nonnegative(term.base)", "True"),
    "a letter is not negative": Fault("nonnegative", 'term.args[0].kind == "mask"', "True"),
    "divisors inside are overlooked": Fault("divisors", "for argument in term.args:", "for argument in ():"),
    "a reciprocal divides by nothing": Fault("divisors", "isinstance(term, (Reciprocal, ReciprocalRoot))", "False"),
    "a root may be of a negative number": Fault("divisors", "isinstance(term, ReciprocalRoot)\n", "False\n"),
    # the normal form: algebra
    "a step may be of any size": Fault("Normaliser.__call__", "self._steps > MOST_STEPS", "False"),
    "floats are taken": Fault("Normaliser.__call__", "isinstance(term, sp.Float)", "False"),
    "a position is no number": Fault("Normaliser.__call__", "return value(term)", "return Integer(1)"),
    "two words have one atom": Fault("Normaliser.__init__", "Opaque(*t.args[:5], *map(self, t.args[5:]))", "Opaque(*map(self, t.args[5:]))", "false: two words for one"),
    "slopes along all scalars agree": Fault("Normaliser.__init__", "Slope(self(t.args[0]), t.args[1])", "Slope(self(t.args[0]))"),
    "cases forget their position": Fault("Normaliser.__init__", "Cases(t.args[0], *map(self, t.args[1:]))", "Cases(Integer(1), *map(self, t.args[1:]))"),
    "an argument is lost": Fault("Normaliser._arguments", "for argument in term.args", "for argument in term.args[:1]"),
    "all terms of a sequence are one": Fault("Normaliser._entry", "self(p) if size is S.Naturals else p", "S.One if size is S.Naturals else p"),
    "a product loses a factor": Fault("Normaliser._product", "for factor in term.args", "for factor in term.args[1:]", "false: lost scale in scores"),
    "division by zero is let through": Fault("Normaliser._power", "base == 0 and exponent", "False and exponent"),
    "letters are their own squares": Fault("Normaliser._power", "(Delta, AtMost)", "(Delta, AtMost, Entry)"),
    "a sum loses a term": Fault("Normaliser._expanded", "Add.make_args(term)]", "Add.make_args(term)[:1]]"),
    "products are not multiplied out": Fault("Normaliser._expanded", "term.is_Mul or term.is_Pow", "False"),
    "a delta puts the image for the inverse image": Fault("Normaliser._with_deltas_applied", "Moved(_inverse(word), x)", "Moved(word, x)"),
    "a delta is used up": Fault("Normaliser._with_deltas_applied", "return self(Mul(*rest))", "return self(Mul(*[f for f in rest if f is not delta]))"),
    "a 0/1 factor is not its own square": Fault("Normaliser._with_deltas_applied", "f.base if f.is_Pow", "f if f.is_Pow"),
    "a power of any factor is the factor": Fault("Normaliser._with_deltas_applied", "and isinstance(f.base, (Delta, AtMost))", ""),
    "a reciprocal is its argument": Fault("Normaliser._reciprocal", "-1, evaluate=False", "1, evaluate=False"),
    # functions
    "the exponential law is always on": Fault("Normaliser._exp", "EXP_OF_SUM not in self.laws", "False", "unjustified: exp rule missing"),
    "the exponential of a sum loses a factor": Fault("Normaliser._exp", "Add.make_args(argument) if", "Add.make_args(argument)[:1] if"),
    "an exponential loses its sign": Fault("Normaliser._exp_of_monomial", "** coefficient.p", "** abs(coefficient.p)"),
    "an exponential loses its denominator": Fault("Normaliser._exp_of_monomial", "rest / coefficient.q", "rest"),
    "angles always add": Fault("Normaliser._apply", " and ANGLE_ADDITION in self.laws", "", "unjustified: angle addition missing"),
    "cosine and sine are one function": Fault("Normaliser._apply", "self._angle(name.name, argument)", 'self._angle("cos", argument)'),
    "the cosine of a sum has a plus": Fault("Normaliser._angle", 'rest) - sin', 'rest) + sin', "false: cos of a difference with the wrong sign"),
    "the sine of a sum has a minus": Fault("Normaliser._angle", 'rest) + cos', 'rest) - cos', "false: sin of a sum with the wrong sign"),
    "the sine is even": Fault("Normaliser._angle", 'else -Apply("sin"', 'else Apply("sin"', "false: sin is even"),
    "the cosine is odd": Fault("Normaliser._angle", 'return Apply("cos", -first) if', 'return -Apply("cos", -first) if'),
    "the sine of zero is one": Fault("Normaliser._angle", 'S.One if name == "cos" else S.Zero', "S.One"),
    "an abstraction names its indices alike": Fault("Normaliser._abstraction", "_height(body) + n", "0"),
    # sums
    "a sum is only over its first term": Fault("Normaliser._sum", "Add.make_args(self(body))", "Add.make_args(self(body))[:1]"),
    "every range is split": Fault("Normaliser._sum", "SPLIT in self.laws", "True", "unjustified: splitting missing"),
    "splitting loses the other indices": Fault("Normaliser._sum", "[i for i in indices if i != k]", "[]"),
    "splitting forgets the second block": Fault("Normaliser._split", "Add(*blocks)", "blocks[0]", "theorem: test_stacked_keys"),
    "a contracted delta puts nothing in": Fault("Normaliser._sum_of", "f.xreplace({k: target})", "f"),
    "a contracted index is summed all the same": Fault("Normaliser._sum_of", "indices.remove(k)", "pass"),
    "an unused range is not counted": Fault("Normaliser._separated", "for k in unused]", "for k in ()]", "false: 1 . 1 = 1"),
    "constants are summed away": Fault("Normaliser._separated", "result = [f for f in factors if not _occurring(f, indices)]", "result = []"),
    "linked sums are separated": Fault("Normaliser._separated", "_occurring(f, indices) & ks]", "False]", "false: product of sums"),
    "counting is always on": Fault("Normaliser._named", "COUNT in self.laws and ", "", "unjustified: counting missing"),
    "counting counts from the other end": Fault("Normaliser._named", "return value(body.args[1])", "return number(range_of(indices[0])) - value(body.args[1]) + 1"),
    "counting counts what turns with its index": Fault("Normaliser._named", "if not body.args[1].has(indices[0]):", "if True:"),
    "the first form is taken for the least": Fault("Normaliser._named", "min(forms, key=_masked)", "forms[0]"),
    "any number of indices is linked": Fault("Normaliser._named", "len(indices) > MOST_LINKED_INDICES", "False"),
    "a closed form keeps its accidental names": Fault("Normaliser.closed", "return self._named(term, free) if free else term", "return term"),
    "reindexing is always on": Fault("Normaliser._reindexings", "REINDEX in self.laws or k in turned", "True", "unjustified: reindexing missing"),
    "reindexing puts the image for the inverse image": Fault("Normaliser._reindexings", "Moved(_inverse(w), k)", "Moved(w, k)"),
    "reindexing drops the permutation from one factor": Fault("Normaliser._reindexings", "self(body.xreplace({k: Moved(_inverse(w), k) for k, w in zip(indices, choice)}))", "self(Mul(*Mul.make_args(body)[:1]).xreplace({k: Moved(_inverse(w), k) for k, w in zip(indices, choice)}) * Mul(*Mul.make_args(body)[1:]))", "false: double sum, one side permuted"),
    # expectations
    "a mean is its argument": Fault("Normaliser._expect", "SECOND_MOMENTS not in self.laws", "True"),
    "means are always taken": Fault("Normaliser._expect", "SECOND_MOMENTS not in self.laws", "False", "unjustified: moments missing"),
    "an odd moment does not vanish": Fault("Normaliser._mean", "return S.Zero", "continue"),
    "a fourth moment is a second one": Fault("Normaliser._mean", "len(entries) > 2", "False"),
    "all entries are one draw": Fault("Normaliser._mean", "rest += [Delta(a, b) for a, b in zip(entries[0].args[1:], entries[1].args[1:])]", "pass"),
    "every variance is one": Fault("Normaliser._mean", "rest.append(family.variance)", "pass"),
    "a mean of any function is taken": Fault("Normaliser._mean", "elif _is_random(factor):", "elif False:"),
    "nothing is random": Fault("_is_random", 'f.kind == "random"', "False"),
    # the helpers of the normal form
    "a 0/1 atom is dropped": Fault("_unchanged", "return term", "return S.One", "false: identity is ones"),
    "no index occurs": Fault("_occurring", "if term.has(k)", "if False"),
    "canonical names start anew inside": Fault("_height", "1 + max(", "0 * max("),
    "a power of a sum is the sum": Fault("_merged", "range(int(power))", "range(1)"),
    "a trace is contracted": Fault("_contraction", "y in indices and not x.has(y)", "y in indices", "false: trace of a permutation is one"),
    "a contraction puts the image for the inverse image": Fault("_contraction", "Moved(_inverse(word), x)", "Moved(word, x)"),
    "an index has no word": Fault("_words", "return {term.args[0]}", "return {Tuple()}"),
    "indices of one role keep their order": Fault("_orders", "itertools.permutations(roles[role])", "[roles[role]]"),
    "accidental names count": Fault("_masked", "if is_fresh(k)", "if False"),
    "names of no index count": Fault("_masked", "if is_fresh(k)", ""),
    "positions are ordered by their kind": Fault("_order", "type(position).__name__, sp.srepr(position)", 'type(position).__name__, ""'),
    "equality ignores what is added": Fault("equal", "sp.expand(numerator) == 0", "not numerator.is_number", "false: products commute"),
    "equality ignores the denominator": Fault("equal", "difference = (a - b).expand(deep=False)", "difference = a.as_numer_denom()[0] - b.as_numer_denom()[0]", "false: mean forgets the size"),
    "atoms of one kind are one number": Fault("_with_symbols", "atoms.setdefault(term, sp.Dummy())", "atoms.setdefault(type(term), sp.Dummy())", "false: another argument"),
    "an exponent is forgotten": Fault("_with_symbols", "Pow(_with_symbols(term.base, atoms), term.exp)", "_with_symbols(term.base, atoms)"),
}  # fmt: skip
