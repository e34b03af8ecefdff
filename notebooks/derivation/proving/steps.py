"""One line of a derivation: whether its reasons justify it, and what a refusal says."""

from .. import kernel as k
from ..kernel import MOST_STEPS, SPLIT, Normal, NotWorkedOut, ProofError, must, split_positions
from ..printing import Text, names_in, readable, show_position, show_term
from ..language import (LAWS, OVER, Family, Law, NonZero, Word, brief_words, kept_back_in,
                        telling_sizes)  # fmt: skip
from ..refuting import counterexample
from . import hypotheses, proof_search
from .hypotheses import offered_by
from .reasons import Definition, Given, check_written, title_of
from .theorems import Instance, Theorem, equations_among

SEARCH_AFTER_A_REFUSAL = 400  # the most instances that are tried
ENOUGH = 3_000  # the most steps in trying to omit a reason; beyond them, it counts as needed
LONGEST = 160  # the most characters of a printed side
PATIENCE = 3000  # the most steps of the normal form; more would give a result too long to read


class Step:
    """One line of a derivation: from an expression to the next, with reasons."""

    def __init__(self, where, before, claim, reasons, rests_on=()):
        """Make a line; ``rests_on`` are the hypotheses and conditions of earlier lines."""
        self.where, self.before, self.claim, self.reasons = where, before, claim, reasons
        self.rests_on, self.equations = rests_on, equations_among(reasons)

    def check(self):
        """The kernel's theorem for the line.  Raises ProofError for missing or superfluous reasons."""
        proved = self._justified(self.reasons)
        if proved is None:
            raise ProofError(self._refusal())
        for n, reason in enumerate(self.reasons):
            if self._would_do(self.reasons[:n] + self.reasons[n + 1 :]):
                raise ProofError(f"{self.where}: {title_of(reason)} is not needed; leave it out")
        return proved

    def _would_do(self, reasons):
        try:
            return self._justified(reasons, ENOUGH)
        except ProofError:
            return None

    def _justified(self, reasons, most=MOST_STEPS):
        equations = [(r.lhs, r.rhs, r.proved) for r in equations_among(reasons)]
        laws, words = [r for r in reasons if isinstance(r, Law)], self._words(reasons)
        stages = [self.before]
        if reasons is self.reasons:
            self.stages = stages
        try:
            proved = proof_search.line(stages, self.claim, equations, words, laws, most)
        except (k.Differ, NotWorkedOut) as error:
            self.too_large = isinstance(error, NotWorkedOut)
            return None
        except RecursionError:
            raise ProofError(f"{self.where}: the step is too large: split it") from None
        except ProofError as error:
            raise ProofError(f"{self.where}: {self._in_words(error)}") from None
        return proved

    def _in_words(self, error):
        """The text of a kernel error; a condition that never holds is put in a reader's words."""
        phrases = [h for h in self.offered() if isinstance(h, NonZero)]
        for never in filter(hypotheses.never_holds, phrases):
            return f"it needs that {never.show(Text())}, which never holds"
        return readable(error)

    _words = staticmethod(lambda reasons: [r.word for r in reasons if isinstance(r, Definition)])

    def offered(self):
        """Phrases for printing the line's conditions, and the hypotheses of the line's reasons."""
        words = self._words(self.reasons)
        carried = [h for r in self.equations for h in r.hypotheses]
        bound = {x.params[0] for s in self.stages for x in s.walk() if x.operation is OVER}
        for h in [h for h in carried if isinstance(h, NonZero)]:
            for index in sorted(bound, key=str):
                h = h.quantified(index)
            carried.append(h)
        shown = [*self.stages, self.claim, *[side for h in carried for side in h.sides()]]
        return [h for x in shown for h in offered_by(x, words)] + carried

    def random(self):
        """The random letters of the line, and of the theorems and hypotheses that it cites."""
        found = [f for r in self.equations for f in r.random]
        sides = [x for r in self.reasons if isinstance(r, Given) for x in r.sides()]
        families = set().union(*[x.atoms(Family) for x in (*self.stages, self.claim, *sides)])
        return found + sorted((f for f in families if f.random), key=lambda f: f.name)

    def _refusal(self):
        style = Text(brief_words([self.before, self.claim]))
        claim = " = ".join(x.show(style) for x in telling_sizes(self.before, self.claim))
        reasons = ", ".join(map(title_of, self.reasons)) or "algebra alone"
        laws = [r for r in self.reasons if isinstance(r, Law)]
        words = self._words(self.reasons)
        false = self._searched()
        rows = [
            f"{self.where} is not justified.",
            f"Claimed: {claim}",
            *kept_back_in(style),
            f"Reasons given: {reasons}.",
            *self._unmatched(),
            self.too_large and "The line is too large to decide: split it, or cite a lemma.",
            _show_what_is_left(self.stages[-1], self.claim, words, laws, "is false" in false),
            false,
        ]
        return "\n  ".join(row for row in rows if row)

    def _unmatched(self):
        """Yield a sentence for each equation whose left side does not occur in the line."""
        stage = self.before
        for reason in self.equations:
            after = proof_search.rewritten(stage, reason.lhs, reason.rhs)
            if after == stage:
                lhs = telling_sizes(reason.lhs)[0]
                yield f"{title_of(reason)} changes nothing: {lhs!r}, its left side, does not occur."
            stage = after

    def _searched(self):
        """A sentence that says whether a search finds the line to be false."""
        assumed = [isinstance(h, Given) for h in self.rests_on]
        if any(assumed) or any(r.hypotheses for r in self.equations):
            return "No counterexample was searched for, because the line rests on hypotheses."
        try:
            found = counterexample(self.before, self.claim, SEARCH_AFTER_A_REFUSAL)
        except Exception:  # if the search cannot read a claim, the claim is refused anyway
            return "No counterexample could be searched for."
        if not found:
            return f"These reasons do not suffice in one step. {found!r} The line may be true."
        unless = ", unless the conditions of the lines before exclude this" if assumed else ""
        return f"It is false{unless}: {found}."


def checked_reason(where, reason):
    check_written(where, "a reason", reason)
    if type(reason) is Theorem:
        reason = reason()
    forged = isinstance(reason, Law) and not any(reason is law for law in LAWS)
    must(not forged, "{}: {!r} is not a law of this checker", where, reason)
    if isinstance(reason, Word):
        raise ProofError(f"{where}: write unfold({reason.name}) to use its definition")
    complaint = "{}: {!r} is not a reason: name a law, unfold(word), a theorem or a given"
    must(type(reason) in (Law, Definition, Instance, Given), complaint, where, reason)
    return reason


def _show_what_is_left(lhs, rhs, words, laws, known_false):
    """A sentence with the normal forms of both sides at an entry where they differ, or "".

    A side that is too long is cut, and its number of terms is shown; but if an instance already
    refutes the line (``known_false``), the result is "" instead.
    """
    try:
        found = _show_difference(lhs.function, rhs.function, words, laws)
    except (ProofError, RecursionError):
        too_large = "What is left to show is too large to print: take a smaller step."
        return "" if known_false else too_large
    return "" if known_false and " …" in found else found


def _show_difference(f, g, words, laws):
    laws = [law.name for law in laws]
    normal = Normal([term for word in words for term in word.terms], laws, most=PATIENCE)
    marks, taken = k.looked_into(f)[1], names_in(f) | names_in(g)
    for at in split_positions(marks) if SPLIT in laws else [marks]:
        left, right = (k.opened(x, *at) for x in (f, g))
        if not normal.same(left, right):
            names = _names(at, taken)
            p, q = normal.poly(left), normal.poly(right)
            common, style = p.items() & q.items(), Text()
            style.reserved = taken
            shown = [_show_side(style, dict(side.items() - common), names) for side in (p, q)]
            return f"Left to show{_show_where(at, names)}: {shown[0]} = {shown[1]}"
    return ""


def _show_side(style, p, names):
    """The printed text of a side: all of it, its first term, or the beginning of that term."""
    whole = show_term(style, k.term_of(p), names)
    if len(whole) <= LONGEST:
        return whole
    first = dict([min(p.items(), key=k.rank)])
    begun = show_term(style, k.term_of(first), names)
    begun = begun if len(begun) <= LONGEST else begun[:LONGEST].rpartition(" ")[0] + " …"
    return f"{begun} + … ({len(p)} terms)" if len(p) > 1 else begun


def _names(at, taken):
    """{position: name} for a row and a column, or their places in blocks; avoids ``taken``."""
    inner = [p.args[1] if p.op in ("inl", "inr") else p for p in at]
    free = [c for c in "ijpqrstuvw" if c not in taken]
    only = {p: "1" for p in inner if p.op == "let" and p.args[1] == k.pos(k.UNIT)}
    return only | {p: c for p, c in zip(inner, free) if p.op == "let" and p not in only}


def _show_where(at, names):
    """The words " at …" that locate the entry, or "" if the matrix has only one entry."""
    told = [p for p in at if p.op != "let" or names.get(p, "1") != "1"]
    return " at " + ", ".join(show_position(Text(), p, names) for p in told) if told else ""
