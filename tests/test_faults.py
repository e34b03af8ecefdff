"""Deliberate faults in the core: each lets a line of these tests pass, or breaks a theorem.

A test suite is worth what it notices.  The alarm is off: the lines alone must notice.
"""

import functools

import faults
import pytest
import sympy as sp
import test_refusals
import test_theorems
from derivation import *  # noqa: F403
from derivation import proofs, sums
from derivation.matrices import Expression
from derivation.sums import Bijection, Delta, Moved, Normaliser, Sigma, fresh, range_of
from sympy import S, Tuple


@pytest.fixture(autouse=True)
def without_alarm(monkeypatch):
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
    monkeypatch.setattr(proofs, "_NORMAL_FORMS", {})


def accepted(case):
    """Whether the false or unjustified line of the refusals' tests is justified now."""
    before, claimed, reasons = (test_refusals.FALSE | test_refusals.UNJUSTIFIED)[case]
    try:
        return proofs._Step(case, before, claimed, tuple(reasons))._justified(tuple(reasons))
    except ProofError:
        return False


def breaks(theorem):
    """Whether a theorem's test fails now."""
    try:
        getattr(test_theorems, theorem)()
    except (ProofError, AssertionError, RecursionError):
        return True
    return False


def two_permutations():
    A, P, P2 = test_refusals.A, test_refusals.P, test_refusals.P2
    start = softmax(A @ P @ P2)
    Derivation("columns, twice", start).by(softmax(A @ P) @ P2, unfold(softmax), REINDEX)


def test_without_a_fault_nothing_is_noticed():
    assert not any(map(accepted, test_refusals.FALSE))
    two_permutations()
    assert not breaks("test_key_bias_cancels") and not breaks("test_stacked_keys")


def test_an_inverse_that_does_not_invert(monkeypatch):
    monkeypatch.setattr(sums, "_inverse", lambda word: word)
    assert accepted("permutation squared") or breaks("test_orthogonality_both_ways")


def test_an_inverse_word_in_the_wrong_order(monkeypatch):
    wrong = lambda word: Tuple(*[Tuple(p, -sign) for p, sign in word])  # noqa: E731
    monkeypatch.setattr(sums, "_inverse", wrong)
    with pytest.raises(ProofError):
        two_permutations()


def test_reindexing_without_the_law(monkeypatch):
    monkeypatch.setattr(sums, "REINDEX", sums.EXP_OF_SUM)
    before, claimed, reasons = test_refusals.UNJUSTIFIED["reindexing missing"]
    Derivation("fault", before).by(claimed, *reasons, sums.EXP_OF_SUM)


def test_contracting_a_trace(monkeypatch):
    def careless(factors, indices):
        for factor in factors:
            if isinstance(factor, Delta):
                word, y = sums._word_and_base(factor.args[1])
                if y in indices:
                    return factor, y, Moved(sums._inverse(word), factor.args[0])
        return None

    monkeypatch.setattr(sums, "_contraction", careless)
    assert accepted("trace of a permutation is one")


def test_an_exponential_that_loses_its_sign(monkeypatch):
    unsigned = staticmethod(lambda t: sums.Exp(t.as_coeff_Mul()[1]) ** abs(t.as_coeff_Mul()[0].p))
    monkeypatch.setattr(Normaliser, "_exp_of_monomial", unsigned)
    assert breaks("test_online_softmax_by_induction")


def test_an_exponential_law_that_is_always_on(monkeypatch):
    law = Normaliser._exp

    def always(self, term):
        laws, self.laws = self.laws, self.laws | {sums.EXP_OF_SUM}
        try:
            return law(self, term)
        finally:
            self.laws = laws

    monkeypatch.setattr(Normaliser, "_exp", always)
    fresh_rules = Normaliser.__init__

    def with_fault(self, laws=()):
        fresh_rules(self, laws)
        self._rules[sums.Exp] = self._exp

    monkeypatch.setattr(Normaliser, "__init__", with_fault)
    assert accepted("exponential law missing") and accepted("exp rule missing")


def test_a_split_that_forgets_the_second_block(monkeypatch):
    def first_only(body, k, others):
        inner = fresh(range_of(k).args[0])
        return Sigma(body.xreplace({k: sums.Part(0, inner, range_of(k))}), inner, *others)

    monkeypatch.setattr(Normaliser, "_split", staticmethod(first_only))
    assert breaks("test_stacked_keys")


def test_a_range_that_is_not_counted(monkeypatch):
    original = Normaliser._separated

    def uncounted(self, factors, indices, turned):
        used = [k for k in indices if any(f.has(k) for f in factors)]
        return original(self, factors, used, turned)

    monkeypatch.setattr(Normaliser, "_separated", uncounted)
    assert accepted("1 . 1 = 1")


def test_a_permutation_of_another_range():
    """Typed ranges are what keeps a permutation of n from moving a position of m."""
    n, m = test_refusals.n, test_refusals.m
    with pytest.raises(ProofError):
        sums.moved(Bijection("p", n), sums.Index("i", m))


def test_an_expectation_that_forgets_symmetry(monkeypatch):
    monkeypatch.setattr(Normaliser, "_mean", lambda self, monomial: S.One * monomial)
    assert breaks("test_moments_of_a_score")


def test_equality_that_ignores_the_denominator(monkeypatch):
    monkeypatch.setattr(
        proofs, "equal", lambda a, b: a.as_numer_denom()[0] == b.as_numer_denom()[0]
    )
    assert accepted("mean forgets the size")


def test_a_line_that_may_name_what_it_does_not_need(monkeypatch):
    monkeypatch.setattr(proofs._Step, "_would_do", lambda self, reasons: False)
    for case in ("idle law", "idle definition"):
        before, claimed, reasons = test_refusals.UNJUSTIFIED[case]
        Derivation(case, before).by(claimed, *reasons)


def test_an_opaque_word_that_forgets_its_parameter(monkeypatch):
    """Two eps, one atom: the false line would pass."""
    original = Expression.opaque_entry

    def forgetful(self, i, j, unfold=frozenset()):
        term = original(self, i, j, unfold)
        return term.func(*term.args[:2], Tuple(), *term.args[3:])

    monkeypatch.setattr(Expression, "opaque_entry", forgetful)
    assert accepted("another eps")


# ── One fault for each rule of the core ───────────────────────────────────────────────────

n, m, d, k = (getattr(test_refusals, name) for name in "nmdk")
A, B, Z, X, S_, T_, P, Q = (
    getattr(test_refusals, name) for name in ("A", "B", "Z", "X", "S", "T", "P", "P2")
)
w, v, s, r, sigma = (getattr(test_refusals, name) for name in ("w", "v", "s", "r", "sigma"))
W, x, phi = test_refusals.W_1, test_refusals.x, test_refusals.phi
Y, one, BOTH = matrix("Y", m, d), ones(n), join(n, m)
I, i, j, i_m = identity(n), sums.Index("i", n), sums.Index("j", n), sums.Index("i", m)
p, q = Bijection("p", n), Bijection("q", n)
C, D = causal(n), stack(X, Y)
a_k, b_k = (sums.Entry(letter.params[0], i, sums.End(1)) for letter in (w, v))
E1 = sums.Exp(a_k)
M_i = sums.Entry(sums.Family("M", "mask", (n, 1)), i, sums.End(1))
draw = sums.Entry(W.params[0], sums.Index("i", k), sums.Index("j", d))
root = sums.ReciprocalRoot(1 + s)
chain = functools.reduce(lambda y, name: y @ matrix(name, n, n), "BCDFGHJ", A)


def holds(before, claim, *reasons):
    """Whether the core finds a line justified."""
    return proofs._Step("line", before, claim, reasons)._justified(reasons)


def refused(write):
    try:
        write()
    except ProofError:
        return True
    return False


def moved(permutation, position, sign=1):
    return sums.moved(permutation, position, sign)  # looked up anew: a fault may stand there


def normal(term, *laws):
    return Normaliser(laws)(term)


def summed(body, *indices):
    return Sigma(body, *indices)


def trace(x):
    return one.T @ hadamard(x, I) @ one


def form_of(x):
    return tabulate(lambda i, j: entry_of(x, i, j), *x.shape)


def double_sum(x):
    return tabulate(
        lambda i, j: sums.total(lambda k: sums.total(lambda l: entry_of(x, k, l), n), n)
    )


def two_sums():
    """A sum over two indices, one of them of a joined range, and the product of two sums."""
    here, there = fresh(BOTH), fresh(n)
    f, g = (sums.Entry(sums.Family(name, "matrix", (size,)), at) for name, size, at in
            (("f", BOTH, here), ("g", n, there)))  # fmt: skip
    forms = [
        normal(t, SPLIT) for t in (summed(f * g, here, there), summed(f, here) * summed(g, there))
    ]
    return sums.equal(*forms)


def tired():
    normalise = Normaliser()
    normalise._steps = sums.MOST_STEPS
    return refused(lambda: normalise(E1))


def closed(index):
    return Normaliser().closed(sums.Entry(w.params[0], index, sums.End(1)), {index})


def at(index):
    return sums.Entry(w.params[0], index, sums.End(1))


def cycle(*order):
    """The sum of a_kl a_lm a_mk, with its three indices in some order."""
    ks = [fresh(n) for _ in order]
    a, b, c = (ks[at] for at in order)
    entry = lambda x, y: sums.Entry(A.params[0], x, y)  # noqa: E731
    return normal(summed(entry(a, b) * entry(b, c) * entry(c, a), *ks))


def square_of_row_sums():
    return one.T @ hadamard(A @ one, A @ one)


#: What is so in the core, under the name of a fault with which it is not.
RIGHT = {
    "a size may be zero": lambda: refused(lambda: sums.as_size(0)),
    "a factor of a size may be negative": lambda: refused(lambda: sums.as_size(-n)),
    "a position has no word": lambda: sums._word_and_base(moved(p, i))[1] == i,
    "a joined range counts its first block": lambda: holds(ones(BOTH).T @ ones(BOTH), (n + m) * ones(1)),
    "a block takes positions of any range": lambda: refused(lambda: sums.Part(0, i_m, BOTH)),
    "words join in the wrong order": lambda: [x.args[0] for x in moved(p, moved(q, i)).args[0]] == [p, q],
    "a permutation moves positions of any range": lambda: refused(lambda: moved(p, i_m)),
    "a permutation moves the only position": lambda: holds(permutation("Π", 1), ones(1)),
    "a letter does not cancel with its inverse": lambda: moved(p, moved(p, i, -1)) == i,
    "an inverse keeps its letters": lambda: holds(P @ P.T, I),
    "an inverse keeps the order of its letters": lambda: holds(
        softmax(A @ P @ Q), softmax(A @ P) @ Q, unfold(softmax), REINDEX),
    "an inverse moves forwards": lambda: moved(p, i, -1) != moved(p, i),
    "a moved position has a range of its own": lambda: sums.range_of(moved(p, i)) == n,
    "the last position is the first": lambda: holds(last_row(position_numbers(n)), n * ones(1)),
    "a second block is counted from its own start": lambda: holds(
        position_numbers(BOTH), stack(position_numbers(n), position_numbers(m) + n * ones(m)), SPLIT),
    "fresh indices have one name": lambda: sums.fresh(n) != sums.fresh(n),
    "no index counts as fresh": lambda: sums.is_fresh(sums.fresh(n)),
    "a delta compares positions of any ranges": lambda: refused(lambda: Delta(i, i_m)),
    "positions of two blocks coincide": lambda: holds(identity(BOTH) @ D, D, SPLIT),
    "positions of one block never coincide": lambda: holds(identity(BOTH) @ D, D, SPLIT),
    "a delta forgets the inverse when it is turned": lambda: Delta(moved(p, j), i) == Delta(j, moved(p, i, -1)),
    "a delta keeps the order of its positions": lambda: holds(diag(w).T, diag(w)),
    "a position does not coincide with itself": lambda: Delta(i, i) == 1,
    "a diagonal delta has two forms": lambda: holds(trace(P), trace(P.T)),
    "at most compares positions of any ranges": lambda: refused(lambda: sums.AtMost(i, i_m)),
    "no position is at most itself": lambda: holds(hadamard(C, I), I),
    "a position comes after the last": lambda: holds(last_row(C), one.T),
    "the second block comes first": lambda: holds(
        causal(BOTH) @ ones(BOTH), stack(C @ one, ones(m, n) @ one + causal(m) @ ones(m)), SPLIT),
    "positions of one block are in order": lambda: holds(
        causal(BOTH) @ ones(BOTH), stack(C @ one, ones(m, n) @ one + causal(m) @ ones(m)), SPLIT),
    "a letter takes positions of any range": lambda: refused(lambda: sums.Entry(A.params[0], i, i_m)),
    "a letter takes any number of positions": lambda: refused(lambda: sums.Entry(A.params[0], i)),
    "an opaque term does not change": lambda: refused(
        lambda: holds(derivative(stack(s * X, Y), s), zeros(BOTH, d))),
    "the exponential grows by one": lambda: holds(derivative(exp(w + s * v), s), exp(w) * v),
    "a reciprocal root forgets its half": lambda: root.diff(s) == -(root**3) / 2,
    "a sum is differentiated to its body": lambda: holds(derivative(one.T @ (w + s * v), s), one.T @ v),
    "a sum over one position keeps it": lambda: summed(a_k, sums.End(1)) == a_k,
    "a sum is not closed": lambda: holds(one.T @ one, n * ones(1)),
    "the arguments of an abstraction are exchanged": lambda: holds(form_of(A), A),
    "an abstraction forgets its second position": lambda: holds(form_of(A), A),
    "binders are opened without new names": lambda: sums.opened(summed(a_k, i))[1] != [i],
    "index forms name all their indices alike": lambda: holds(double_sum(A), one.T @ A @ one),
    "a bound index counts as free": lambda: holds(double_sum(A), one.T @ A @ one),
    "a product with one positive factor is positive": lambda: not sums.positive(E1 * b_k),
    "a sum with one positive term is positive": lambda: not sums.positive(E1 + b_k),
    "a sum of what is not negative is positive": lambda: not sums.positive(M_i + a_k**2),
    "a reciprocal is positive": lambda: not sums.positive(sums.Reciprocal(a_k)),
    "every cut sum is positive": lambda: not sums.positive(summed(sums.AtMost(i, j) * a_k, i)),
    "a cut that turns with its index is positive": lambda: not sums.positive(
        summed(sums.AtMost(i, moved(p, i)) * E1, i)),
    "an odd power is not negative": lambda: not sums.nonnegative(a_k**3),
    "a letter is not negative": lambda: not sums.nonnegative(a_k) and sums.nonnegative(M_i),
    "divisors inside are overlooked": lambda: len(list(sums.divisors(1 + sums.Reciprocal(a_k)))) == 1,
    "a reciprocal divides by nothing": lambda: len(list(sums.divisors(sums.Reciprocal(a_k)))) == 1,
    "a root may be of a negative number": lambda: list(sums.divisors(sums.ReciprocalRoot(a_k))) == [(a_k, True)],
    "a step may be of any size": tired,
    "floats are taken": lambda: refused(lambda: normal(sums.Exp(sp.Float(0.5) * a_k))),
    "a position is no number": lambda: not holds(position_numbers(n), one),
    "slopes along all scalars agree": lambda: not holds(
        derivative(phi(s * A + r * B), s), derivative(phi(s * A + r * B), r)),
    "cases forget their position": lambda: not holds(permutation("Ρ", BOTH) @ D, D),
    "all terms of a sequence are one": lambda: not holds(sequence("z")[1], sequence("z")[2]),
    "division by zero is let through": lambda: refused(lambda: normal(sums.Reciprocal(S.Zero))),
    "letters are their own squares": lambda: not holds(A * A, A),
    "a sum loses a term": lambda: holds(A @ (B + Z), A @ B + A @ Z),
    "products are not multiplied out": lambda: holds(A @ (B + Z), A @ B + A @ Z),
    "a delta puts the image for the inverse image": lambda: holds(diag(w) @ P, P @ diag(P.T @ w)),
    "a delta is used up": lambda: not holds(diag(w) @ P, one @ (P.T @ w).T),
    "a 0/1 factor is not its own square": lambda: holds(
        (I * A + B) * (I * A + B), I * A * A + 2 * I * A * B + B * B),
    "a power of any factor is the factor": lambda: not holds(I * A * A, I * A),
    "a reciprocal is its argument": lambda: holds(softmax(S_) @ one, ones(m), unfold(softmax)),
    "the exponential of a sum loses a factor": lambda: holds(exp(A + B), exp(A) * exp(B), EXP_OF_SUM),
    "an exponential loses its sign": lambda: not holds(exp(-A), exp(A), EXP_OF_SUM),
    "an exponential loses its denominator": lambda: not holds(exp(A / 2), exp(A), EXP_OF_SUM),
    "cosine and sine are one function": lambda: not holds(sin(A), cos(A), ANGLE_ADDITION),
    "the cosine is odd": lambda: not holds(cos(-A), -cos(A), ANGLE_ADDITION),
    "the sine of zero is one": lambda: holds(sin(zeros(n)), zeros(n), ANGLE_ADDITION),
    "an abstraction names its indices alike": lambda: not holds(
        normalise(softmax(A)), normalise(softmax(A.T))),
    "a sum is only over its first term": lambda: holds(one.T @ (w + v), one.T @ w + one.T @ v),
    "splitting loses the other indices": two_sums,
    "a contracted delta puts nothing in": lambda: holds(I @ X, X),
    "a contracted index is summed all the same": lambda: holds(I @ X, X),
    "an argument is lost": lambda: not holds(A + B, A) and not holds(A + B, B),
    "constants are summed away": lambda: not holds(one.T @ (2 * w), one.T @ w),
    "counting counts from the other end": lambda: holds(C @ one, position_numbers(n), COUNT),
    "counting counts what turns with its index": lambda: not sums.free_indices(
        normal(summed(sums.AtMost(i, moved(p, i)), i), COUNT)),
    "the first form is taken for the least": lambda: cycle(0, 1, 2) == cycle(0, 2, 1),
    "any number of indices is linked": lambda: refused(lambda: holds(one.T @ chain @ one, one.T @ (2 * chain - chain) @ one)),
    "a closed form keeps its accidental names": lambda: closed(fresh(n)) == closed(fresh(n)),
    "reindexing puts the image for the inverse image": lambda: holds(
        softmax(S_ @ P), softmax(S_) @ P, unfold(softmax), REINDEX),
    "a mean is its argument": lambda: holds(expectation(W), zeros(k, d), SECOND_MOMENTS),
    "an odd moment does not vanish": lambda: holds(expectation(W), zeros(k, d), SECOND_MOMENTS),
    "a fourth moment is a second one": lambda: refused(lambda: normal(sums.Expect(draw**4), SECOND_MOMENTS)),
    "all entries are one draw": lambda: holds(
        expectation(W @ W.T), d * sigma**2 * identity(k), SECOND_MOMENTS),
    "every variance is one": lambda: holds(
        expectation(W @ W.T), d * sigma**2 * identity(k), SECOND_MOMENTS),
    "a mean of any function is taken": lambda: refused(lambda: normal(sums.Expect(sums.Exp(draw)), SECOND_MOMENTS)),
    "nothing is random": lambda: holds(expectation(x @ W.T), zeros(1, k), SECOND_MOMENTS),
    "no index occurs": lambda: not sums.free_indices(normal(summed(a_k * b_k, i))),
    "canonical names start anew inside": lambda: not holds(one.T @ exp(A @ one), one.T @ exp(A.T @ one)),
    "a power of a sum is the sum": lambda: not holds(square_of_row_sums(), one.T @ A @ one),
    "a contraction puts the image for the inverse image": lambda: sums._contraction(
        [Delta(i, moved(p, j))], [j])[2] == moved(p, i, -1),
    "an index has no word": lambda: holds(softmax(S_ @ P), softmax(S_) @ P, unfold(softmax), REINDEX),
    "indices of one role keep their order": lambda: cycle(0, 1, 2) == cycle(0, 2, 1),
    "accidental names count": lambda: sums._masked(at(fresh(n))) == sums._masked(at(fresh(n))),
    "names of no index count": lambda: sums._masked(at(sums.Index(S.Zero, n))) != sums._masked(at(sums.Index(S.One, n))),
    "positions are ordered by their kind": lambda: sums._order(i) != sums._order(j),
    "an exponent is forgotten": lambda: not holds(A * A, A),
}  # fmt: skip


def notices(fault, name):
    """Whether the one who should notice a fault does, as things are now."""
    kind, _, case = fault.noticed_by.partition(": ")
    try:
        if kind == "theorem":
            return breaks(case)
        if kind:
            before, claimed, reasons = getattr(test_refusals, kind.upper())[case]
            return holds(before, claimed, *reasons)
        return not RIGHT[name]()
    except (ProofError, RecursionError):
        return not kind


@pytest.mark.parametrize("name", faults.FAULTS)
def test_the_fault_is_noticed(name):
    fault = faults.FAULTS[name]
    assert not notices(fault, name), "it is noticed where it is not"
    with faults.planted(fault):
        assert notices(fault, name)
    assert not notices(fault, name), "the fault stays when it was taken out"


def test_every_rule_of_the_core_has_a_fault():
    """A function added to the core wants a fault, or a place among those that only hold."""
    rules = {fault.rule for fault in faults.FAULTS.values()}
    assert rules | faults.HOLDERS == set(faults.functions())
    assert not rules & faults.HOLDERS


def test_what_is_right_is_named_after_a_fault():
    assert set(RIGHT) == {name for name, fault in faults.FAULTS.items() if not fault.noticed_by}
