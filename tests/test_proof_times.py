"""The record of proof times is of the book's theorems, and what takes it measures and decides."""

import functools
import json

import expanding
import proof_times
import pytest
from derivation import *
from derivation import steps
from live_proofs import LiveCell
from register import read_register

REGISTER = read_register(proof_times.NOTEBOOKS)
RECORD = json.loads(proof_times.RECORD.read_text(encoding="utf-8"))

n, m, d, h = sizes("n m d h")
tau = scalars("tau")
eps = scalars("epsilon", positive=True)
S, c, w = matrix("S", m, n), matrix("c", m), matrix("w", n)
Q, K, b = matrix("Q", m, d), matrix("K", n, d), matrix("b", d)
X, P = matrix("X", n, d), permutation("Π", n)
A, B = heads("A", h, n, d), heads("B", h, d, 1)
attend = define("attend", lambda Q, K, V: softmax(Q @ K.T) @ V)
a = head("a", h)

TRUE = {
    "shift invariance": (softmax(S + c @ ones(n).T), softmax(S)),
    "key bias": (softmax(tau * Q @ (K + ones(n) @ b.T).T), softmax(tau * Q @ K.T)),
    "equivariance": (attend(P @ X, P @ X, P @ X), P @ attend(X, X, X)),
    "heads": (over(a, A[a] + ones(n) @ B[a].T), over(a, A[a]) + ones(n) @ over(a, B[a]).T),
    "LayerNorm": (layer_norm(S + c @ ones(n).T, eps), layer_norm(S, eps)),
}
FALSE = {
    "a shift of keys": (softmax(S + ones(m) @ w.T), softmax(S)),
    "a key bias doubled": (softmax(2 * tau * Q @ (K + ones(n) @ b.T).T), softmax(tau * Q @ K.T)),
    "invariance": (attend(P @ X, P @ X, P @ X), attend(X, X, X)),
    "one head too few": (over(a, A[a] + ones(n) @ B[a].T), over(a, A[a])),
    "a bias of features": (layer_norm(S + ones(m) @ w.T, eps), layer_norm(S, eps)),
}
each_way = pytest.mark.parametrize("way", expanding.WAYS.values(), ids=list(expanding.WAYS))


# ---- the record ------------------------------------------------------------------------


def out_of_date(record, register):
    """What the record says of the book's theorems, or does not say; empty where it is right."""
    timed = {(theorem["label"], theorem["name"]) for theorem in record["theorems"]}
    stated = {(entry.label, entry.name) for entry in register}
    wrong = sorted(f"{label} ({name})" for label, name in timed ^ stated)
    return f"Run `python tools/proof_times.py`: {', '.join(wrong)}." if wrong else ""


def test_every_theorem_of_the_book_has_its_time_and_nothing_else_has():
    assert not out_of_date(RECORD, REGISTER), out_of_date(RECORD, REGISTER)
    assert len(RECORD["theorems"]) == len(REGISTER)


def test_every_repeat_is_in_the_record():
    for theorem in RECORD["theorems"]:
        assert len(theorem["seconds"]) == proof_times.REPEATS and min(theorem["seconds"]) > 0
        assert theorem["size"] > 0


def test_each_way_of_expanding_ends_at_the_last_n_or_is_stopped():
    for label in proof_times.EXPANDED:
        for way in expanding.WAYS:
            runs = [r for r in RECORD["expanding"] if (r["label"], r["way"]) == (label, way)]
            tried = [run["n"] for run in runs]
            assert tried == list(proof_times.SIZES)[: len(tried)] and "seconds" in runs[0]
            assert all("seconds" in run for run in runs[:-1])
            assert tried[-1] == proof_times.SIZES[-1] or runs[-1]["stopped"] == RECORD["allowed"]


# ---- the size of a statement -------------------------------------------------------------


def test_operations_are_counted_and_an_abbreviation_makes_none_less():
    assert [proof_times.operations(x) for x in (S, S.T, S + S + S, over(a, A[a] @ b))] == [
        0,
        1,
        2,
        2,
    ]
    short, long = attend(Q, K, X), softmax(Q @ K.T) @ X
    assert proof_times.operations(short) == proof_times.operations(long) == 4


# ---- the time of a proof -----------------------------------------------------------------

CELL = """
from derivation import *
m, n = sizes("m n")
S, c = matrix("S", m, n), matrix("c", m)
refusal(lambda: Derivation("shift", softmax(S + c @ ones(n).T)).by(softmax(S), unfold(softmax)))
Derivation("shift", softmax(S + c @ ones(n).T)).by(
    softmax(S), unfold(softmax), EXP_OF_SUM).qed("Theorem 0.1")
t = sizes("t")
q = recursion("q", lambda: ones(1), lambda before, t: before)
Induction("always one", t, q(t), ones(1)).base(
    lambda line: line.by(ones(1), unfold(q))).step(
    lambda line, hypothesis: line.by(q(t), unfold(q)).by(ones(1), hypothesis)).qed("Theorem 0.2")
"""


@functools.cache
def proved():
    """The two theorems of the cell, by their labels."""
    found = {}
    theorems, lines = proof_times.run(LiveCell(0, CELL, (), False))
    for theorem in theorems:
        parts = tuple((part, lines[part]) for part in theorem.proof)
        found[theorem.label] = proof_times.Proof(theorem, parts)
    return found


def test_a_proof_is_checked_again_line_by_line(monkeypatch):
    found, checked = proved(), []
    check = steps.Step.check
    monkeypatch.setattr(steps.Step, "check", lambda s: checked.append(s.where) or check(s))
    with proof_times.without_alarm():
        found["Theorem 0.1"].again()
        assert checked == ["shift, line 1"]
        found["Theorem 0.2"].again()
    assert checked[1:] == [
        f"always one, {part}" for part in ("base, line 1", "step, line 1", "step, line 2")
    ]


def test_checking_again_can_fail():
    proof = proved()["Theorem 0.1"]
    [(derivation, [(claim, _)])] = proof.parts
    broken = proof_times.Proof(proof.theorem, ((derivation, [(claim, ())]),))
    with pytest.raises(ProofError, match="not justified"):
        broken.again()


# ---- expanding ---------------------------------------------------------------------------


@each_way
def test_true_equations_are_proved_by_expanding_and_false_ones_are_not(way):
    for (lhs, rhs), (left, right) in zip(TRUE.values(), FALSE.values(), strict=True):
        assert expanding.holds_at(2, lhs, rhs, way) and not expanding.holds_at(2, left, right, way)


def test_what_holds_at_two_only_is_refused_at_three():
    square = P @ P
    assert expanding.holds_at(2, square, identity(n)) and not expanding.holds_at(
        3, square, identity(n)
    )


@pytest.mark.parametrize(
    "expression",
    [derivative(scalars("s") * S, scalars("s")), expectation(S), softmax(mask("M", m, n))],
    ids=["a derivative", "an expectation", "a mask"],
)
def test_what_cannot_be_written_out_is_refused(expression):
    with pytest.raises(ValueError, match="not written out"):
        expanding.holds_at(2, expression, expression)


def test_what_takes_too_long_is_stopped():
    with pytest.raises(expanding.Stopped, match="after 0.05 s"), expanding.at_most(0.05):
        while True:
            pass
    with expanding.at_most(60):
        pass  # and what does not is left alone
