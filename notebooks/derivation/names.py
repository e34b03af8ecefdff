"""One name, one meaning: what is asked of the names in all that is printed together."""

from __future__ import annotations

import re

from .kernel.terms import ProofError
from .letters import Bijection, Family
from .operations import CAUSAL, DERIVATIVE, EXPECTATION, IDENTITY, OVER
from .printing import Latex


def _look(name):
    """What a name looks like on a page, wherever its subscripts are cut."""
    return re.sub(r"[{}\s]", "", Latex().name(name))


def _called(operation):
    """(name, what it means) of a word or of a function of one entry; nothing for the others."""
    if operation.word:
        return operation.name, operation.word
    function = operation.name.removeprefix("entrywise ")
    return (function, "a function") if function != operation.name else ("", None)


def check_names(where, expressions):
    """One name, one meaning: no two shapes or kinds, no two definitions."""
    meaning = {}
    for x in expressions:
        bound = {y.params[0] for y in x.walk() if y.operation is DERIVATIVE}
        for basic in x.atoms(Family) | x.atoms(Bijection) | x.free_scalars() | bound:
            if meaning.setdefault(_look(basic.name), basic) != basic:
                raise ProofError(
                    f"{where}: the name {basic.name} is used with two shapes or kinds, "
                    "or prints like another"
                )
        for index in x.index_names():
            if meaning.setdefault(_look(index.name), index) != index:
                raise ProofError(
                    f"{where}: the name {index.name} of an index is used for something else as well"
                )
        for operation in {y.operation for y in x.walk()}:
            name, called = _called(operation)
            if called and meaning.setdefault(_look(name), called) != called:
                raise ProofError(
                    f"{where}: the word {name} is used with two definitions, or called like a letter"
                )
            reserved = {CAUSAL: "L", IDENTITY: "I", EXPECTATION: "E"}.get(operation)
            if reserved is not None and meaning.setdefault(reserved, operation) is not operation:
                raise ProofError(
                    f"{where}: the letter {reserved} prints like the book's own {operation.name}"
                )


def check_indices(where, expressions):
    """No index and no scalar is both free and bound."""
    bound = {
        y.params[0] for x in expressions for y in x.walk() if y.operation in (OVER, DERIVATIVE)
    }
    free = set().union(*[x.free_positions() | x.free_scalars() for x in expressions])
    if bound & free:
        raise ProofError(f"{where}: {next(iter(bound & free)).name} is used free and bound")
