"""Theorems, their printed hypotheses, and their instances."""

from __future__ import annotations

from itertools import chain

from .. import kernel
from ..kernel import LAW, ProofError, must
from ..printing import readable
from ..language import Family, NonZero, Substitution, check_indices, check_names
from . import proof_search
from .display import latex_of, text_of
from .hypotheses import in_words, offered_by, says
from .reasons import Given, Reason


class Theorem(kernel.Frozen):
    """An equation proved for all sizes and all values of its letters; immutable.

    Attributes: ``name``, ``label`` ("Theorem 3.2" or ""), ``lhs``, ``rhs``, ``hypotheses``
    (what must not vanish, and what is assumed), ``random`` (the letters whose moments were used),
    ``lines`` ((expression, reasons, note); the first line has no reason) and ``proved``, the kernel's
    own form of the theorem.  To cite a theorem, call it with the objects that replace its letters:
    ``shift_invariance(S=tau * Q @ K.T, c=tau * Q @ b)``.
    """

    __slots__ = ("proved", "name", "label", "lhs", "rhs", "hypotheses", "random", "lines",
                 "proof", "not_run", "__weakref__")  # fmt: skip

    def __init__(self, *_, **__):
        raise ProofError("only qed makes a theorem")

    @classmethod
    def _made(cls, proved, **parts):
        theorem = object.__new__(cls)
        theorem._keep(proved=proved, **parts)
        _check_that_it_prints(theorem)
        return theorem

    def __init_subclass__(cls):
        if (cls.__module__, cls.__name__) != (__name__, "Instance"):
            raise TypeError("Theorem has no subclasses, because they could print anything")

    __copy__ = lambda self: self

    @property
    def title(self):
        """The label and the name, or only the name."""
        return f"{self.label} ({self.name})" if self.label else self.name

    @property
    def cited(self):
        """The words by which a line names a theorem: the label, and the name in quotation marks."""
        return f"{self.label} (“{self.name}”)" if self.label else f"“{self.name}”"

    def __call__(self, /, *unnamed, **meant) -> Instance:
        """Return an instance: each keyword replaces a letter, permutation, scalar or size."""
        complaint = "{}: name the letter that it replaces, as in theorem(X=...)"
        must(not unnamed, complaint, self.title)
        put = Substitution.checked(self, meant)
        lhs, rhs = put(self.lhs), put(self.rhs)
        offered = [(h, h.substituted(put)) for h in self.hypotheses]
        assumed = [(a.sides(), b.sides()) for a, b in offered if isinstance(a, Given)]
        try:
            proved = proof_search.instance(self.proved, put, lhs, rhs, assumed)
        except kernel.Differ:
            kept = "distinct draws must stay distinct, and 2 n is not the size 4"
            raise ProofError(f"{self.title} does not imply this: {kept}") from None
        except ProofError as error:
            raise ProofError(f"{self.title}: {readable(error)}") from None
        needed = [h for value in put.values() for h in offered_by(value, ())]
        hypotheses = printed_hypotheses(proved, [*[h for _, h in offered], *needed])
        # a substituted name may equal a bound name
        check_names(self.title, [lhs, rhs], hypotheses)
        check_indices(self.title, [lhs, rhs, *[side for h in hypotheses for side in h.sides()]])
        draws = {f: None for x in (lhs, rhs) for f in _draws_in(x)}
        random = dict.fromkeys([*map(put.family, self.random), *draws])
        return _instance(proved, self.cited, lhs, rhs, hypotheses, tuple(random))

    _repr_latex_ = lambda self: latex_of(self)
    __repr__ = lambda self: text_of(self)


class Instance(Theorem):
    """A theorem with its letters replaced; a line may name it as a reason."""

    __slots__ = ()
    title = cited = property(lambda self: self.name)

    def reversed(self) -> Instance:
        """The instance read from right to left."""
        proved, name, sides = kernel.reverse(self.proved), self.name, (self.rhs, self.lhs)
        return _instance(proved, name, *sides, self.hypotheses, self.random)


def _instance(proved, name, lhs, rhs, hypotheses, random):
    lines = (lhs, (), ""), (rhs, (Reason(name, name),), "")
    return Instance._made(
        proved, name=name, label="", lhs=lhs, rhs=rhs, hypotheses=hypotheses, random=random,
        lines=lines, proof=(), not_run=(),
    )  # fmt: skip


_draws_in = lambda x: sorted((f for f in x.atoms(Family) if f.random), key=lambda f: f.name)


def equations_among(reasons):
    """The equations among a line's reasons: instances of theorems, and hypotheses."""
    return [r for r in reasons if isinstance(r, (Instance, Given))]


def printed_hypotheses(proved, offered):
    """A kernel theorem's conditions, as offered phrases where these fit, and assumed equations."""
    assumed = {(h.lhs.function, h.rhs.function): h for h in offered if isinstance(h, Given)}
    phrases = [h for h in offered if isinstance(h, NonZero)]
    equations = [assumed[pair] for pair in assumed if pair in proved.hypotheses]
    return (*in_words(proved.conditions, phrases), *equations)


def _check_that_it_prints(theorem):
    """Refuse a theorem that would print something other than what the kernel has proved."""
    proved, printed = theorem.proved, {(theorem.lhs.function, theorem.rhs.function)}
    assumed = {(h.lhs.function, h.rhs.function) for h in theorem.hypotheses if isinstance(h, Given)}
    said = set().union(*[says(h) for h in theorem.hypotheses])
    terms = [proved.lhs, proved.rhs, *[x for _, x in proved.conditions], *chain(*assumed)]
    laws = {x.args[0] for t in terms for x in t.letters if x.args[1] == LAW}
    sides = [x for h in theorem.hypotheses for x in h.sides()]
    drawn = {f for x in (theorem.lhs, theorem.rhs, *sides) for f in _draws_in(x)}
    names = [f.name for f in theorem.random]
    prints = (
        {(proved.lhs, proved.rhs)} == printed
        and assumed == set(proved.hypotheses)
        and proved.conditions <= said
        and laws <= set(names)
        and drawn <= {*theorem.random}
        and len(set(names)) == len(names)
    )
    must(prints, "{} would print something other than what was proved", theorem.title)
