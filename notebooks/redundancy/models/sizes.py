"""Choose small values for the sizes in a configuration.

The name of a field tells which kind of size it holds (`KINDS`).  The small values keep what decides
which biases are redundant: whether heads share keys, how a head is divided, and which of two widths
is larger.  `shrinking` checks the result and, if it does not fit, tries other values.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy

from ..tables import grouped

#: The first pattern that matches a field's name gives its kind; other names have the kind "width".
KINDS = {
    "token": r"token_(id|ids|index)s?$",
    "fixed": r"_ids?$|base$|theta|temperature|kernel|stride|loss|num_(buckets|bins)$|pos_bins$"
    r"|distance|multiple|chunk|sliding|temporal|windows$|every|frequency|scalar|scale$|ratio$",
    "depth": r"(^|(?<!per_)_)layers?$|blocks?(_per_stage)?$|(^|_)depths?$|repeats$"
    r"|num_self_attends_per_block",
    "section": r"mrope_section$",
    "part": r"head_?(dim|size|width)s?$|^d_kv$|kv_channels$|d_head$|dim_head$|^rotary_dim$|^key_dim$",
    "heads": r"heads?(_per_(layer|stage))?$|query_group",
    "one": r"^topk_group$",
    "top": r"experts?_per_tok|moe_(top_?)?k$",
    "groups": "groups?$",
    "experts": r"experts?(_num)?$|tokens_per_(image|frame)|image_seq|num_image_tokens",
    "vocabulary": r"vocab|labels$|num_embeddings$|codebook_size$|hash_buckets$"
    r"|upsample_initial_channel",
    "positions": r"position|max.*len|n_ctx$|context_length|num_patches|seq_len|max_num_rows",
    "image": r"(image|img|crop|spec|input|patch|window|unit)_sizes?(_per_stage)?$",
}
#: {kind: the largest value that its numbers have in a small model}.
MOST = {"one": 1, "top": 2, "groups": 2, "experts": 4, "vocabulary": 64, "positions": 128}
#: The first of these fields in a configuration is the width of the stream or, in HEAD, of a head.
STREAM = """hidden_size d_model n_embd embed_dim hidden_sizes embed_dims dim emb_dim hidden_dim
embed_dim_per_stage encoder_hidden_dim lru_width d_latents embedding_size""".split()
HEAD = "v_head_dim head_dim attention_head_dim attention_head_size d_kv kv_channels".split()
#: The shares of a head that rotary positions rotate.
TURNED = ("partial_rotary_factor", "rotary_pct")
#: Lists with a number for each pair of features in a head.
FACTORS = ("short_factor", "long_factor")
#: A number below this is not a width.
LEAST = 16


class CannotShrink(ValueError):
    """No smaller model with the same structure was found; the message says why."""


def is_config(thing) -> bool:
    return hasattr(thing, "model_type") and hasattr(thing, "to_dict")


def is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(name: str) -> str:
    return next((kind for kind, names in KINDS.items() if re.search(names, name)), "width")


@dataclass(frozen=True)
class Number:
    """A number in a configuration, its path, and the path of the part that contains it."""

    path: tuple
    part: tuple
    value: Any  # an int, or a float for a share

    @property
    def name(self) -> str:
        return next(key for key in reversed(self.path) if isinstance(key, str))

    @property
    def kind(self) -> str:
        return kind_of(self.name) if is_count(self.value) else "share"


def numbers(fields, path=(), part=()) -> Iterator[Number]:
    """Yield every `Number` of a configuration, including those in its parts and lists."""
    named = isinstance(fields, dict)
    part = path if named and "model_type" in fields else part
    for key, value in fields.items() if named else enumerate(fields):
        if key in ("id2label", "label2id"):
            continue
        if isinstance(value, dict | list | tuple):
            yield from numbers(value, (*path, key), part)
        elif is_count(value) or isinstance(value, float):
            yield Number((*path, key), part, value)


def parts_of(fields) -> list[list[Number]]:
    """Lists of the numbers in each part of a configuration."""
    return grouped(numbers(fields), lambda n: n.part)


def replaced(fields, change, path=()):
    """The same fields; ``change(path, value)`` gives the new value of each number and list."""
    if isinstance(fields, dict):
        return {key: replaced(value, change, (*path, key)) for key, value in fields.items()}
    if isinstance(fields, list | tuple):
        inside = (replaced(v, change, (*path, i)) for i, v in enumerate(fields))
        return change(path, type(fields)(inside))
    return change(path, fields)


def fewer_layers(fields, layers: int):
    """The fields with at most ``layers`` layers; lists with an entry for each layer are cut.

    A list of layer numbers keeps those below ``layers``.
    """
    deep = {n.value for n in numbers(fields) if n.kind == "depth" and n.value > layers}

    def cut(path, value):
        name = str(path[-1])
        stages = kind_of(name) == "depth"
        if is_count(value):
            return min(value, layers) if stages else value
        if not isinstance(value, list | tuple) or not value or not deep:
            return value
        if all(map(is_count, value)):
            rising = all(a < b for a, b in itertools.pairwise(value)) and max(value) <= max(deep)
            if rising and re.search(r"layers|block|ind|ids|idx", name) and "per_" not in name:
                return type(value)(v for v in value if v < layers)
            if stages:
                return type(value)(min(v, max(1, layers - 1)) for v in value)
        if name == "attention_types":  # GPT-Neo: [[kinds, number of repeats], …]
            return [[kinds[:layers], 1] for kinds, _ in value]
        each = len(value) in deep and (len(value) > 4 or re.search("layer|type|block", name))
        return value[:layers] if each else value

    return replaced(fields, cut)


def narrower(fields, sizes: set[int], few: int, width: int):
    """The fields with at least ``few`` heads of ``width`` features or a little more.

    A number of kind "width" changes only if it is in ``sizes``, the sizes of the full model's
    parameters.  The narrower the stream of a part, the fewer heads it has.
    """
    parts = [Part(found, few, width) for found in parts_of(fields)]
    streams = sorted({part.stream for part in parts if part.stream})
    known: dict[int, int] = {}
    for part in parts:
        if part.stream:
            part.few *= 2 ** streams.index(part.stream)
        known |= part.widths()
    made: dict[tuple, object] = {}
    for part in parts:
        made |= part.small(known | part.widths(), sizes)
    most, tokens = MOST["vocabulary"], [n for n in numbers(fields) if n.kind == "token"]
    large = sorted({n.value for n in tokens if n.value >= most})
    made |= {n.path: most - 1 - large.index(n.value) for n in tokens if n.value in large}
    divisors = {part.path: part.divisor for part in parts}

    def change(path, value):
        if path and path[-1] in FACTORS and isinstance(value, list | tuple):
            return value[: len(value) // divisors.get(path[:-2], 1)]
        return made.get(path, value)

    return replaced(fields, change)


def interpolated(value: int, known: dict[int, int]) -> int:
    """A small even width for a width: equal to, wider or narrower than the ``known`` ones, too."""
    if value in known or not known:
        return known.get(value) or max(4, _even(value / 16))
    top = max(known)
    widths, smalls = zip((0, 0), *sorted(known.items()), (2 * top, 2 * known[top]))
    new, i = _even(numpy.interp(value, widths, smalls)), bisect(widths, value)
    return max(2, new if value > top else min(max(new, smalls[i - 1] + 2), smalls[i] - 2))


def _even(number) -> int:
    return 2 * round(number / 2)


class Part:
    """The sizes of one part of a configuration, such as its text or its image part.

    ``streams`` are the widths of the stream, one for each stage, and ``heads`` the numbers of
    heads.  ``head`` is the width of a head; ``divisor`` divides the sizes of a head and its parts.
    """

    def __init__(self, found: list[Number], few: int, width: int):
        self.found, self.few, self.path, self.named = found, few, found[0].part, {}
        for n in found:
            self.named.setdefault(n.name, []).append(n.value)
        counts = [n for n in found if n.kind == "heads" and n.value > 0]
        self.heads = [n.value for n in counts if n.name == counts[0].name]
        self.counts = sorted({n.value for n in counts} - {1})
        streams = [self.named[n] for n in STREAM if max(self.named.get(n, [0])) > 8]
        staged = len(self.heads) > 1 and all(len(s) == 1 for s in streams)
        self.streams = (min(streams) if staged else streams[0]) if streams else []
        self.stream = max(self.streams, default=0)
        self.head = max(0, next((self.named[n][0] for n in HEAD if n in self.named), 0))
        if not self.head and self.streams and self.heads:
            self.head = self.streams[0] // self.heads[0]
        if len(self.heads) > 1 or len(self.streams) > 1:
            width //= 2  # because the last stage is several times wider
        self.width, self.divisor = width, self._divisor(width)

    def _divisor(self, least: int) -> int:
        """The largest divisor that leaves a head and its parts even and wide enough."""
        turned = [int(self.head * n.value) for n in self.found if n.name in TURNED]
        sizes = [self.head, *turned, *(self.head - size for size in turned)]
        sizes += [n.value for n in self.found if n.kind == "part"]
        sections = [n.value for n in self.found if n.kind == "section"]
        most = min(self.head // least, sum(sections) // max(1, len(sections)) or self.head)
        fits = lambda d: all(s % (2 * d) == 0 for s in sizes if s > 0) and self.head % (4 * d) == 0
        return next((d for d in range(most, 1, -1) if fits(d)), 1)

    def count(self, heads: int) -> int:
        """The new number of heads: 1 stays 1; a number that divides another still does so."""
        return heads if heads < 2 else min(heads, self.few * 2 ** self.counts.index(heads))

    def widths(self) -> dict[int, int]:
        """{width: new width} of one head and of all heads or, without heads, of the streams."""
        if self.heads and self.head:
            counts = {1, *self.counts} if self.head >= LEAST else self.counts
            return {c * self.head: self.count(c) * self.head // self.divisor for c in counts}
        least = self.width * (self.few if len(self.streams) == 1 else 1)
        return {s: _even(s * least / min(self.streams)) for s in self.streams}

    def small(self, known: dict[int, int], sizes: set[int]) -> dict[tuple, Any]:
        """{path of a number: its new value}."""
        made = {n.path: self.size(n, known, sizes) for n in self.found}
        sections = [n for n in self.found if n.kind == "section"]
        ends = itertools.accumulate((n.value for n in sections), initial=0)
        narrow = itertools.pairwise(round(end / self.divisor) for end in ends)
        made |= {n.path: end - begin for n, (begin, end) in zip(sections, narrow)}
        return made | dict(self.images())

    def size(self, number: Number, known: dict[int, int], sizes: set[int]) -> Any:
        """The new value of one `Number`, or the old value if this number does not shrink."""
        value, kind = number.value, number.kind
        if value < 2 or kind == "share":
            return value
        if kind == "heads":
            return self.count(value)
        if kind == "part" and value % self.divisor == 0:
            return value // self.divisor
        shrinks = (
            kind == "width" and value in sizes or kind in ("width", "groups") and value in known
        )
        if value >= LEAST and shrinks:
            return interpolated(value, known)
        return min(value, MOST.get(kind, value))

    def images(self) -> Iterator[tuple[tuple, int]]:
        """Yield (path, size) for images, patches and windows, whose proportions stay the same."""
        given = [n for n in self.found if n.kind == "image" and n.value > 0]
        patches = [n for n in given if re.search("^patch_sizes?$", n.name)]
        windows = [n for n in given if "window" in n.name]
        images = [n for n in given if n not in windows and not n.name.startswith("patch_size")]
        if len(patches) > 2 or not images:
            return
        patch = patches[-1].value if patches else 1
        grid = images[0].value // patch
        few = min(patch, 2 if 3 * patch**2 < self.stream else 4)  # stays narrower than the stream
        # without patches, 64 pixels; a stage halves the grid of patches
        most = max(4, 2 ** (len(self.named.get("depths", ())) - 1)) if patches else 64
        if windows and images[0].value % (patch * windows[0].value) == 0:
            most = 2 * grid // windows[0].value
            yield from ((n.path, 2) for n in windows)
        yield from ((n.path, min(n.value, few)) for n in patches)
        yield from ((n.path, few * min(n.value // patch, most)) for n in images)
        grids = (n for n in self.found if n.value == grid > 4 and re.search("image|grid", n.name))
        yield from ((n.path, min(grid, most)) for n in grids)


def ratios(fields) -> set[tuple]:
    """The set of relations between sizes that a small model keeps.

    They say whether a number of heads is 1 and how it compares with the first such number, what
    ratios the parts of a head have, and which streams are wider than a head.
    """
    found: set[tuple] = set()
    for part in parts_of(fields):
        head, heads = Part(part, 2, 8).head, [n for n in part if n.kind == "heads" and n.value > 0]
        found |= {(n.path, n.value > head) for n in part if n.name in STREAM}
        found |= {(n.path, n.value == 1, n.value > heads[0].value, n.value < heads[0].value)
                  for n in heads}  # fmt: skip
        parts = [n for n in part if n.kind == "part" and n.value > 0]
        found |= {(n.path, Fraction(n.value, parts[0].value)) for n in parts}
    return found
