"""Pair up the numbers that two models use in the same place.

In attention, a place is a layer and a part (query, key, value, output), and numbers are ordered by
head.  Elsewhere, numbers are paired in the order of their use, by kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import torch

FIRST, SECOND = "the first model", "the second model"
PARTS = ("query", "key", "value", "output")
KINDS = ("biases", "weights", "numbers")


class CannotCompare(ValueError):
    """The two models are not built alike; the message says where."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Some of a model's numbers, in the order of their use: rows of a matrix, or entries of a bias.

    ``kind`` is "biases" (which may be moved), "weights" (of a matrix) or "numbers" (all others);
    ``index`` selects some of ``rows``, the rows of the parameter ``name``.
    """

    kind: str
    name: str
    index: torch.Tensor | slice
    rows: torch.Tensor
    there: bool = True  # False for zeros added only for the comparison

    @property
    def values(self) -> torch.Tensor:
        return self.rows[self.index]


@dataclass(frozen=True, eq=False)
class Pair:
    """The numbers of two models at one place; ``both`` has None if a model has no numbers there."""

    place: str
    layer: int | None
    part: str
    both: tuple[Numbers | None, Numbers | None]

    @property
    def kind(self) -> str:
        return next(n.kind for n in self.both if n)

    @property
    def has(self) -> list[bool]:
        """For each model, whether it has numbers here, not counting zeros added for comparison."""
        return [n is not None and n.there for n in self.both]

    @property
    def what(self) -> str:
        return f"{self.part} {self.kind}".strip()

    @property
    def gap(self) -> torch.Tensor:
        """The numbers of the second model minus those of the first."""
        one, other = (n.values if n else torch.zeros(()) for n in self.both)
        return other - one


class Reader:
    """Reads a subject's numbers in the order of use; ``roles`` is a `Factors` after a run."""

    def __init__(self, subject, roles):
        self.subject, self.roles = subject, roles
        self.names = {t.data_ptr(): n for n, t in subject.tensors.items()}

    def part(self, layer, part, kinds):
        """The numbers of these kinds in a part of an attention layer."""
        there = self.roles.layers[layer].parts.get(part, {})
        found = [self._numbers(key, there[key]) for key in self.roles.order if key in there]
        return [n for n in found if n.kind in kinds]

    def rest(self):
        """The numbers outside attention, in the order of their first use."""
        parts = [part for layer in self.roles.layers for part in layer.parts.values()]
        for key in self.roles.order:
            left = torch.ones(len(self._rows(key)), dtype=torch.bool)
            for part in parts:
                left[part.get(key, [])] = False
            if left.any():  # a slice, unlike an index, copies no large tensor
                yield self._numbers(key, slice(None) if left.all() else left.nonzero()[:, 0])

    def _numbers(self, key, index):
        rows, there = self._rows(key), key not in self.subject.injected
        if key in self.subject.tensors:
            return Numbers(
                "biases" if key in self.roles.added else "numbers", key, index, rows, there
            )
        name = self.names.get(key[1], "a tensor computed from parameters")
        return Numbers("weights" if key[0] else "numbers", name, index, rows)

    def _rows(self, key):
        """The numbers of a bias, the rows of a matrix, or any other factor as a single row."""
        if key in self.subject.tensors:
            return self.subject.tensors[key].detach().flatten()
        return self.roles.factors[key] if key[0] else self.roles.factors[key][None]


def pairs(one: Reader, other: Reader) -> Iterator[Pair]:
    """Yield the `Pair`s of two `Reader`s, attention first.  Raises CannotCompare."""
    layers = one.roles.layers, other.roles.layers
    _demand_as_many("attention layers", *layers)
    for i, (a, b) in enumerate(zip(*layers)):
        place = f"attention layer {i + 1}"
        _demand_alike(f"a head of {place}", (a.width,), (b.width,))
        for part in PARTS:
            for kinds in (KINDS[:1], KINDS[1:]):
                for both in zip_longest(one.part(i, part, kinds), other.part(i, part, kinds)):
                    if all(both):
                        _demand_alike(f"the {part} of {place}", *(n.values.shape for n in both))
                    yield Pair(place, i, part, both)
    rests = [*one.rest()], [*other.rest()]
    for kind in KINDS:
        some = [[n for n in rest if n.kind == kind] for rest in rests]
        _demand_as_many(f"{kind} outside attention", *some)
        for both in zip(*some):
            place = " / ".join(dict.fromkeys(n.name for n in both))
            _demand_alike(place, *(n.values.shape for n in both))
            yield Pair(place, None, "", both)


def _demand_as_many(what, one, other):
    if len(one) != len(other):
        counts = f"{FIRST} has {len(one)} {what} and {SECOND} {len(other)}"
        raise CannotCompare(f"{counts}: compare models with the same layers in the same order")


def _demand_alike(what, *shapes):
    if shapes[0] != shapes[1]:
        sizes = [" x ".join(map(str, shape)) for shape in shapes]
        widths = f"has the shape {sizes[0]} in {FIRST} and {sizes[1]} in {SECOND}"
        raise CannotCompare(f"{what} {widths}: compare models of the same sizes")
