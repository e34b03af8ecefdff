"""What a row of the table says, and how a row is written and printed.

    b_K | all    | alone            | 3.3
    b_V | all    | b_O + W_O @ b_V  | 4.3
    b_Q | stays  |                  | 4.5

A line is one answer: the bias, how much of it goes, what absorbs it, and the number of a theorem
("measured" if there is none).  A bias can go *alone* if no other parameter has to change, and is
*absorbed* if other parameters change in its place: "b_O + W_O @ b_V" says which parameter changes,
and by how much, when the bias becomes zero.  `measuring` counts directions and makes these changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ..tables import listed
from .piece import Sizes

#: {how much of a bias goes: how many directions that is, in the letters of `Sizes` and its size}.
#: Another amount, such as "max(0, gk − d) directions", is itself a formula.
COUNTS = {
    "stays": "0",
    "all": "size",
    "the mean": "1",
    "the mean in each head": "h",
    "one number per group": "3",
    "one direction in each head": "h",
    "the un-rotated part": "size * (k - r) // k",
    "all but the new gate's third": "size * 2 // 3",
    "each row's mean": "n",
    "one vector": "d",
    "one vector and each row's mean": "d + n - 1",
}
MODES = {" in training": "train", " in evaluation": "eval", "": ""}


@dataclass(frozen=True)
class Answer:
    """How ``much`` of one ``bias`` goes, alone or ``into`` other parameters, and by which theorem.

    ``bias`` may name two biases that are counted together: "b_Q+b_K".  ``into`` maps each symbol
    that changes to what is added to it, an expression in the symbols of the piece ("" if the row
    gives no formula); ``where`` is an equation "A @ t = b" that defines t.  ``beside`` names the
    parameters that cannot absorb the rest of the bias (by default, all in the row); ``mode`` names
    the only mode in which the answer holds, if there is one.  An answer that is ``aside`` is
    measured, but printed only in the row's section.
    """

    bias: str
    much: str
    into: dict
    theorem: str | None
    where: str = ""
    beside: tuple = ()
    mode: str = ""
    aside: bool = False

    @classmethod
    def read(cls, line):
        """The answer that one line of a row's text states."""
        bias, much, into, theorem, *_ = [*map(str.strip, line.split("|")), "", "", ""]
        into, _, beside = f" {into}".partition(" beside ")
        into, _, where = into.partition(" where ")
        mode = next(words for words in MODES if much.endswith(words))
        into = into.strip().removeprefix("alone")
        changes = re.split(r", (?![^(]*\))", into) if into else []
        parts = [change.partition(" ") for change in changes]
        return cls(
            bias.strip("()"), much.removesuffix(mode), {symbol: by for symbol, _, by in parts},
            theorem if theorem[:1].isdigit() else None, where,
            tuple(filter(None, beside.split(", "))), MODES[mode], bias.startswith("("),
        )  # fmt: skip

    def count(self, sizes: Sizes, size: int) -> int:
        """How many of the directions of the bias go."""
        if self.much.startswith("the direction "):
            return 1
        formula = COUNTS.get(self.much, self.much.removesuffix(" directions").replace("−", "-"))
        formula = re.sub(r"\b([hg])(?=[kr(])", r"\1*", formula)  # "gk" is a product
        return eval(formula, {"min": min, "max": max, "size": size}, vars(sizes))

    def directions(self, symbols, count):
        """These directions as rows, if the words say which they are; otherwise None."""
        bias = symbols.get(self.bias)
        if self.much.startswith("the direction 1/"):
            return 1 / symbols[self.much.removeprefix("the direction 1/")][None]
        if self.much.startswith("the mean") or self.much == "one number per group":
            return torch.eye(count).repeat_interleave(bias.numel() // count, 1).to(bias)
        return None

    @property
    def stays(self) -> bool:
        return self.much == "stays"

    def named(self) -> str:
        """The bias in Markdown, with how much of it goes and in which mode."""
        much, each, _ = self.much.partition(" in each head")
        said = listed(map(symbol, self.bias.split("+")))
        said += " together" if "+" in self.bias else ""
        if much not in ("all", "stays"):
            said = f"{maths(much)} of {said}{each}"
        return said + next(words for words, mode in MODES.items() if mode == self.mode)

    def outcome(self) -> str:
        """'$b_K$ stays', '$b_V$ into $b_O$', 'the mean of $b$ alone': the answer in a few words."""
        others = listed(map(symbol, self.into))
        if self.stays:
            return f"{self.named()} {'does not go into ' + others if others else 'stays'}"
        return f"{self.named()} {'into ' + others if others else 'alone'}"

    def changes(self) -> str:
        """'$b_O + W_O\\,b_V$': what changes, and by how much if the row says so."""
        said = listed(
            f"{symbol(name)} {by[0]} {symbol(by[2:])}" if {name, by[2:]} & {*NAMED} and by
            else f"${tex(f'{name} {by}')}$" if by else symbol(name)
            for name, by in self.into.items()
        )  # fmt: skip
        return said + (f", where ${tex(self.where)}$" if self.where else "")


@dataclass(frozen=True)
class Break:
    """A condition that breaks an answer: its words, a piece that satisfies it, and new answers."""

    words: str
    piece: Callable
    answers: str

    def read(self):
        return read(self.answers)

    def says(self, cite=lambda answer: ""):
        """'the keys are rotated: $b_K$ stays': the condition, and the answers under it."""
        said = [a.outcome() + cite(a) for a in self.read() if not a.aside]
        if "in training" in self.words:  # the condition already says this
            said = [words.replace(" in training", "") for words in said]
        return f"{self.words}: {', '.join(said)}"


@dataclass(frozen=True)
class Row:
    """A piece of architecture, how much of each bias can go, and what breaks these answers.

    ``pieces`` are functions that build variants from `Sizes`; the answers hold for each variant.
    """

    title: str
    pieces: list
    text: str
    breaks: tuple = ()

    @property
    def answers(self):
        return read(self.text)

    def _parts(self, aside):
        """The answers for what goes alone, those for what is absorbed, and words for what stays."""
        said = [a for a in self.answers if aside or not a.aside]
        whole = {a.bias for a in self.answers if a.much in ("all", "stays")}
        part = {a.bias: a for a in said if a.bias not in whole and "+" not in a.bias}
        kept = [(a.named(), a) for a in said if a.stays and not a.into]
        kept += [(f"the rest of {symbol(b)}", replace(a, theorem=None)) for b, a in part.items()]
        alone = [a for a in said if not a.into and not a.stays]
        return alone, [a for a in said if a.into], kept

    def can_go(self, cite=lambda answer: ""):
        """'$b_K$ alone; $b_V$ into $b_O$': the text of the summary; ``cite`` adds a theorem."""
        alone, moved, _ = self._parts(aside=False)
        free = [f"{listed(a.named() + cite(a) for a in alone)} alone"] if alone else []
        into = [f"{a.named()} into {listed(map(symbol, a.into))}{cite(a)}" for a in moved]
        return "; ".join(free + into) or "–"

    def staying(self, cite=lambda answer: ""):
        """'$b_Q$, the rest of $b_2$': what no other parameter in the row can absorb."""
        return ", ".join(words + cite(a) for words, a in self._parts(aside=False)[2]) or "–"

    def line(self):
        """The sentences with which the row's section begins."""
        alone, moved, kept = self._parts(aside=True)
        parts = {"Alone": [a.named() for a in alone],
                 "Absorbed": [f"{a.named()} by {a.changes()}" for a in moved],
                 "Stays": [words for words, _ in kept]}  # fmt: skip
        return " ".join(f"**{head}:** {'; '.join(said)}." for head, said in parts.items() if said)

    def not_when(self, cite=lambda answer: "", bullets=False):
        """The conditions that break an answer, as a sentence or a list; empty if there are none."""
        when, said = "**The answer changes when**", [b.says(cite) for b in self.breaks]
        if bullets and len(said) > 1:
            return "\n- ".join([when, *said])
        return said and f"{when} {'; '.join(said)}."


def read(text):
    return [Answer.read(line) for line in text.strip().splitlines()]


#: Words for parameters that have no letter in the book.
NAMED = {"c_Q": "`q_norm.bias`", "c_K": "`k_norm.bias`", "k_p": "the prefix's keys", "v_p": "its values", "k_0": "`bias_k`", "v_0": "`bias_v`",
         "b_ih": "`bias_ih`", "b_hh": "`bias_hh`", "β_ih": "the input norm's shift",
         "β_hh": "the state norm's shift", "μ": "`running_mean`", "E": "the token table",
         "P": "the position table", "b_C": "the latent's bias $b_C$", "b_R": "the rotary key's bias"}  # fmt: skip
GREEK = {"β": r"\beta", "γ": r"\gamma", "λ": r"\lambda", "μ": r"\mu", "ρ": r"\rho",
         "ε": r"\varepsilon"}  # fmt: skip


def symbol(name):
    """A symbol of the book in Markdown, or words for a parameter without one."""
    return NAMED.get(name, f"${tex(name)}$")


def tex(expression):
    """An expression from the table, in LaTeX."""
    carried = r"\\frac{1}{\\kappa} \1 (1/γ)^{\\top}"
    expression = re.sub(r"carried\((\w+), γ, β\)", carried, expression)
    expression = re.sub(r"sqrt\(([^)]*)\)", r"\\sqrt{\1}", expression)
    expression = re.sub(r"_([A-Za-z]{2,})", r"_{\\mathrm{\1}}", expression)
    expression = expression.replace(" @ ", r"\,").replace(" * ", r"\,")
    expression = "".join(GREEK.get(c, c) + " " * (c in GREEK) for c in expression)
    return re.sub(r"(\\[a-z]+) (?![A-Za-z])", r"\1", expression)


def maths(words):
    """The words of a count, with formulas in LaTeX."""
    before, formula, behind = re.findall(r"^(the direction )?(.*?)( directions)?$", words)[0]
    if not (before or behind):
        return words
    letters = tex(formula).replace("−", "-").replace("max(", r"\max(").replace("min(", r"\min(")
    return f"{before}${letters}${behind}"
