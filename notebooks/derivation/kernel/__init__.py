"""Terms, sorts, conditions, polynomials, sums, normal forms and rules, to be read in this order.

You have to trust these modules, SymPy's polynomial rings over the rationals, and Python.  Only the
nine rules in ``rules`` can produce a theorem.
"""

from .conditions import EXISTS, SMOOTH
from .normal import Normal
from .polynomials import ANGLE, EXP, MOST_STEPS, NotWorkedOut, rank, term_of
from .rules import (Differ, Proved, by_normal_form, chain, congruence, discharge, for_every,
                    given, induction, instance, reverse)  # fmt: skip
from .sorts import KNOWN, range_of
from .sums import COUNT, LINEAR, MOMENTS, ORDER, REINDEX, SPLIT, split_positions
from .terms import (LAW, NUM, ONE, ONLY, POSITIVE, SIZE, UNIT, ZERO, Frozen, ProofError, Term,
                    abstract, fresh, fun, looked_into, must, opened, pos, put, rebuilt)  # fmt: skip

__all__ = ["ANGLE", "COUNT", "EXISTS", "EXP", "KNOWN", "LAW", "LINEAR", "MOMENTS", "MOST_STEPS",
           "NUM", "ONE", "ONLY", "ORDER", "POSITIVE", "REINDEX", "SIZE", "SMOOTH", "SPLIT", "UNIT",
           "ZERO", "Differ", "Frozen", "Normal", "NotWorkedOut", "ProofError", "Proved", "Term",
           "abstract", "by_normal_form", "chain", "congruence", "discharge", "for_every", "fresh",
           "fun", "given", "induction", "instance", "looked_into", "must", "opened", "pos", "put",
           "range_of", "rank", "rebuilt", "reverse", "split_positions", "term_of"]  # fmt: skip
