"""What remains to be shown when a line is refused, as an equation.

The kernel has brought both sides to normal form, and they differ.  This module only prints the
difference.
"""

from __future__ import annotations

from .. import kernel as k
from ..kernel import SPLIT, Normal, ProofError, rank, split_positions, term_of
from ..printing import Text, names_in, show_position, show_term

LONGEST = 160  # the most characters of a side
PATIENCE = 3000  # the most steps of the normal form; more would give a result too long to read


def left_to_show(lhs, rhs, words=(), laws=(), known_false=False):
    """A sentence with the normal forms of both sides at an entry where they differ, or "".

    ``lhs`` and ``rhs`` are expressions; ``words`` are unfolded and ``laws`` applied as in the line.
    A side that is too long is cut, and its number of terms is shown; but if an instance already
    refutes the line (``known_false``), the result is "" instead.
    """
    try:
        found = _first_difference(lhs.function, rhs.function, words, laws)
    except (ProofError, RecursionError):
        too_large = "What is left to show is too large to print: take a smaller step."
        return "" if known_false else too_large
    return "" if known_false and " …" in found else found


def _first_difference(f, g, words, laws):
    laws = [law.name for law in laws]
    normal = Normal([term for word in words for term in word.terms], laws, most=PATIENCE)
    marks = k.looked_into(f)[1]
    for at in split_positions(marks) if SPLIT in laws else [marks]:
        left, right = (k.opened(x, *at) for x in (f, g))
        if not normal.same(left, right):
            taken = names_in(f) | names_in(g)
            names = _names(at, taken)
            sides = _without_common_terms(normal.poly(left), normal.poly(right))
            style = Text()
            style.reserved = taken
            shown = [_side(style, side, names) for side in sides]
            return f"Left to show{_where(at, names)}: {shown[0]} = {shown[1]}"
    return ""


def _side(style, p, names):
    """The printed text of a side: all of it, its first term, or the beginning of that term."""
    whole = show_term(style, term_of(p), names)
    if len(whole) <= LONGEST:
        return whole
    first = dict([min(p.items(), key=rank)])
    begun = show_term(style, term_of(first), names)
    begun = begun if len(begun) <= LONGEST else begun[:LONGEST].rpartition(" ")[0] + " …"
    return f"{begun} + … ({len(p)} terms)" if len(p) > 1 else begun


def _without_common_terms(p, q):
    common = p.items() & q.items()
    return dict(p.items() - common), dict(q.items() - common)


def _names(at, taken):
    """{position: name} for a row and a column, or their places in blocks; avoids ``taken``."""
    inner = [p.args[1] if p.op in ("inl", "inr") else p for p in at]
    free = [c for c in "ijpqrstuvw" if c not in taken]
    only = {p: "1" for p in inner if p.op == "let" and p.args[1] == k.pos(k.UNIT)}
    return only | {p: c for p, c in zip(inner, free) if p.op == "let" and p not in only}


def _where(at, names):
    """The words " at …" that locate the entry, or "" if the matrix has only one entry."""
    told = [p for p in at if p.op != "let" or names.get(p, "1") != "1"]
    return " at " + ", ".join(show_position(Text(), p, names) for p in told) if told else ""
