"""The record of proof times is of the book's theorems, and expanding decides rightly."""

import json

import expanding
import proof_times
import pytest
from derivation import *
from register import read_register

RECORD = json.loads(proof_times.RECORD.read_text(encoding="utf-8"))

n, m, h = sizes("n m h")
S, c, w, P = matrix("S", m, n), matrix("c", m), matrix("w", n), permutation("Π", n)
A, B, a, one = heads("A", h, n, n), heads("B", h, n, 1), head("a", h), ones(n)
attend = define("attend", lambda Q, K, V: softmax(Q @ K.T) @ V)
norm = lambda x: layer_norm(x, scalars("epsilon", positive=True))


def test_the_record_is_of_the_theorems_of_the_book():
    timed = [(theorem["label"], theorem["name"]) for theorem in RECORD["theorems"]]
    stated = [(entry.label, entry.name) for entry in read_register(proof_times.NOTEBOOKS)]
    assert timed == stated, f"Run `python tools/proof_times.py`: {set(timed) ^ set(stated)}"
    assert all(len(theorem["seconds"]) == proof_times.REPEATS for theorem in RECORD["theorems"])


def test_operations_are_counted_and_an_abbreviation_makes_none_less():
    counts = [proof_times.operations(x) for x in (S, S.T, S + S + S, over(a, A[a] @ B[a]))]
    assert counts == [0, 1, 2, 2]
    assert proof_times.operations(attend(S, S, S)) == proof_times.operations(softmax(S @ S.T) @ S)


#: A left side, a right side that holds, and one that does not.
EQUATIONS = [
    (attend(P @ w, P @ w, P @ w), P @ attend(w, w, w), attend(w, w, w)),
    (over(a, A[a] + one @ B[a].T), over(a, A[a]) + one @ over(a, B[a]).T, over(a, A[a])),
    (norm(S + c @ one.T), norm(S), norm(S + ones(m) @ w.T)),
]


@pytest.mark.parametrize("way", expanding.WAYS.values(), ids=list(expanding.WAYS))
def test_expanding_proves_what_is_true_and_nothing_else(way):
    for left, true, false in EQUATIONS:
        assert expanding.holds_at(2, left, true, way)
        assert not expanding.holds_at(2, left, false, way)
    assert expanding.holds_at(2, P @ P, identity(n), way)
    assert not expanding.holds_at(3, P @ P, identity(n), way)
