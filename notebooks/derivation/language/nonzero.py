"""Conditions in a reader's words about what must not vanish: "no row of A sums to zero"."""

import itertools
from dataclasses import dataclass

from ..printing import SUM
from .letters import End, Index
from .matrices import Expression, free_names, product
from .operations import ONES, PRODUCT_OF
from .shown_sizes import telling_sizes


@dataclass(frozen=True)
class NonZero:
    """Each entry of ``expression`` is nonzero (or positive), for all values of ``bound``."""

    expression: "Expression"
    positive: bool = False
    bound: tuple = ()

    def sides(self):
        """The expressions that the hypothesis contains."""
        return [self.expression]

    def quantified(self, binder):
        """The hypothesis for every value of an index or scalar that was bound around it."""
        names = self.expression.free_positions() | self.expression.free_scalars()
        more = [binder] if binder in names and binder not in self.bound else []
        return NonZero(self.expression, self.positive, (*self.bound, *more))

    def substituted(self, substitution):
        """The hypothesis after a substitution for the letters."""
        bound = []
        for binder in self.bound:
            binder, substitution = substitution.bind(binder, free_names(self.expression))
            bound += [] if isinstance(binder, End) else [binder]
        return NonZero(substitution(self.expression), self.positive, tuple(bound))

    def met_in(self, sample):
        """Whether the hypothesis holds in a sample, by a margin."""
        places = [range(sample.size(b.size)) if isinstance(b, Index) else (0,) for b in self.bound]
        for at in itertools.product(*places):
            value = self.expression.run(sample.fixing(dict(zip(self.bound, at))))
            if not (value if self.positive else value.abs()).min().item() > 1e-3:
                return False
        return True

    def show(self, style, names=None):
        """The hypothesis as printed text."""
        every, x = "", self.expression
        for binder in self.bound:
            every += style.text(" for every " if not every else ", ") + style.name(binder.name)
        rows = not self.positive and x.operation is PRODUCT_OF and x.args[-1].operation is ONES
        single = x.axes == (1, 1)
        if rows:
            x = product(*x.args[:-1]) if len(x.args) > 2 else x.args[0]
        shown = telling_sizes(x, all_of_them=True)[0].show(style, SUM, names)
        if rows:  # without the comma, "no row … for every k" could mean "not for every k"
            comma = style.text(",") if every else ""
            return style.text("no row of ") + shown + style.text(" sums to zero") + comma + every
        relation = style.greater if self.positive else style.unequal
        return ("" if single else style.text("each entry of ")) + shown + relation + "0" + every
