"""Choose small values for the sizes in a configuration.

The name of a field tells which kind of size it holds (`KINDS`).  The small values keep what decides
which biases are redundant: whether heads share keys, how a head is divided, and which of two widths
is larger.  `shrinking` checks the result and, if it does not fit, tries other values.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ..tables import grouped

#: The first pattern that matches a field's name gives its kind; other names have the kind "width".
KINDS = {
    "token": r"token_(id|ids|index)s?$",
    "fixed": r"_ids?$|base$|theta|temperature|kernel|stride|loss|num_(buckets|bins)$|pos_bins$"
    r"|distance|multiple|chunk|sliding|temporal|windows$|every|frequency|scalar|scale$|ratio$",
    "depth": r"(^|(?<!per)_)layers?$|blocks?(_per_stage)?$|(^|_)depths?$|repeats$"
    r"|num_self_attends_per_block",
    "part": r"head_?(dim|size|width)s?$|^d_kv$|kv_channels$|d_head$|dim_head$|^rotary_dim$"
    r"|mrope_section$|^key_dim$",
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
#: A number below this is not a width.
LEAST = 16


class CannotShrink(ValueError):
    """No smaller model with the same structure was found; the message says why."""


def is_config(thing):
    return hasattr(thing, "model_type") and hasattr(thing, "to_dict")


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool)


# --- the numbers of a configuration -----------------------------------------------------------


def kind_of(name: str) -> str:
    return next((kind for kind, names in KINDS.items() if re.search(names, name)), "width")


@dataclass(frozen=True)
class Number:
    """A number in a configuration, its path, and the path of the part that contains it."""

    path: tuple
    part: tuple
    value: int | float

    @cached_property
    def name(self):
        return next(key for key in reversed(self.path) if isinstance(key, str))

    @cached_property
    def kind(self):
        return kind_of(self.name) if is_count(self.value) else "share"

    @cached_property
    def prefix(self):
        """What distinguishes the heads that a name speaks of: "mamba_" for "mamba_n_heads"."""
        return re.sub("^n_(?=mamba)|(num_|n_)?((key|value|attention|query|kv)_)*(heads?|d_head).*",
                      "", self.name)  # fmt: skip


def numbers(fields, path=(), part=()):
    """Every `Number` of a configuration, including those in its parts and lists."""
    if isinstance(fields, dict):
        part = path if "model_type" in fields else part
        labels = ("id2label", "label2id")
        items: Iterable = [
            (k, v) for k, v in fields.items() if isinstance(k, str) and k not in labels
        ]
    else:
        items = enumerate(fields)
    for key, value in items:
        if isinstance(value, dict | list | tuple):
            yield from numbers(value, (*path, key), part)
        elif is_count(value) or isinstance(value, float):
            yield Number((*path, key), part, value)


def parts_of(fields):
    """Lists of the numbers in each part of a configuration."""
    return grouped(numbers(fields), lambda n: n.part)


def replaced(fields, changes, path=()):
    """The same fields with new values at the paths in ``changes``."""
    if path in changes:
        return changes[path]
    if isinstance(fields, dict):
        return {key: replaced(value, changes, (*path, key)) for key, value in fields.items()}
    if isinstance(fields, list | tuple):
        return type(fields)(replaced(v, changes, (*path, i)) for i, v in enumerate(fields))
    return fields


def _at(fields, path):
    return _at(fields[path[0]], path[1:]) if path else fields


# --- fewer layers -----------------------------------------------------------------------------


def depths(fields) -> set[int]:
    return {n.value for n in numbers(fields) if n.kind == "depth"}


def fewer_layers(fields, layers: int):
    """The fields with at most ``layers`` layers; lists with an entry for each layer are cut.

    A list of layer numbers keeps those below ``layers``.
    """
    return _cut(fields, layers, {d for d in depths(fields) if d > layers})


def _cut(value, layers, deep, name=""):
    if isinstance(value, dict):
        return {k: _cut(v, layers, deep, str(k)) for k, v in value.items()}
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


# --- narrower layers --------------------------------------------------------------------------


def narrower(fields, sizes: set[int] | None, few: int, width: int) -> dict:
    """{path: new value} of the numbers that change.

    ``few`` is the least number of heads, and ``width`` the least width of a head.  A number of kind
    "width" changes only if it is in ``sizes``, the sizes of the full model's parameters, or if
    ``sizes`` is None.  If ``sizes`` is empty, images stay as large as they are, too.
    """
    parts = [Part(found, few, width) for found in parts_of(fields)]
    small, made = Widths(), {}
    for part in sorted(parts, key=lambda p: (p.stream, -len(p.counts))):
        small.add(part)
    for part in parts:
        made |= {n.path: part.size(n, small, sizes) for n in part.found}
        made |= dict(part.of_heads(made, small)) | dict(part.images() if sizes != set() else ())
        made |= dict(part.factors(_at(fields, part.found[0].part)))
    tokens, most = [n for n in numbers(fields) if n.kind == "token"], MOST["vocabulary"]
    large = sorted({n.value for n in tokens if n.value >= most})
    made |= {n.path: most - 1 - large.index(n.value) for n in tokens if n.value in large}
    return {path: new for path, new in made.items() if new != _at(fields, path)}


class Widths:
    """Maps a width to a small width: equal widths stay equal, and a wider one stays wider.

    The widths of heads and streams (``known``) are chosen first, part by part.
    """

    def __init__(self):
        self.known, self.widest = {}, 0

    def add(self, part):
        """Choose the fewest heads with which this part's widths fit those of narrower parts."""
        for part.times in (1, 2, 4, 8, 1):
            known = part.widths() | self.known
            same = all(known[width] == small for width, small in part.widths().items())
            wider = known.get(part.stream, math.inf) > known.get(self.widest, 0)
            if same and (wider or part.stream == self.widest):
                break
        self.known, self.widest = known, part.stream

    def __call__(self, value):
        widths = sorted(self.known)
        i = bisect(widths, value)
        if value in self.known or not widths:
            return self.known.get(value) or max(4, _even(value / 16))
        below, above = widths[max(0, i - 1)], widths[min(i, len(widths) - 1)]
        low, high = self.known[below], self.known[above]
        if value > above:
            return _even(high * min(value / above, 2))
        if value < below:
            return max(2, min(_even(low * value / below), low - 2))
        share = math.log(value / below) / math.log(above / below)
        return max(low + 2, min(_even(low * (high / low) ** share), high - 2))


def _even(number):
    return 2 * round(number / 2)


class Part:
    """The sizes of one part of a configuration, such as its text or its image part.

    ``streams`` are the widths of the stream, one for each stage, and ``heads`` the numbers of
    heads.  ``head`` is the width of a head; ``divisor`` divides the sizes of a head and its parts.
    """

    def __init__(self, found, few, width):
        self.found, self.few, self.times, self.named = found, few, 1, {}
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

    def _divisor(self, least):
        """The largest divisor that leaves a head and its parts even and wide enough."""
        self.sections = [n for n in self.found if "section" in n.name]
        others = {n.prefix for n in self.found if n.kind == "heads" and n.prefix}
        parts = [n for n in self.found if n.kind == "part" and n not in self.sections]
        turned = [int(self.head * n.value) for n in self.found if n.name in TURNED]
        sizes = [self.head, *turned, *(self.head - size for size in turned)]
        sizes += [n.value for n in parts if n.prefix not in others]
        total = sum(n.value for n in self.sections)  # they add up to half of the rotated features
        most = min(self.head // least, total // len(self.sections) if total else self.head)
        fits = lambda d: all(s % (2 * d) == 0 for s in sizes if s > 0) and self.head % (4 * d) == 0
        return next((d for d in range(most, 1, -1) if fits(d)), 1)

    def count(self, heads):
        """The new number of heads: 1 stays 1; a number that divides another still does so."""
        least = self.few * self.times
        return heads if heads < 2 else min(heads, least * 2 ** self.counts.index(heads))

    def widths(self):
        """{width: new width} of one head and of all heads or, without heads, of the streams."""
        if self.heads and self.head:
            counts = {1, *self.counts} if self.head >= LEAST else self.counts
            return {c * self.head: self.count(c) * self.head // self.divisor for c in counts}
        least = self.width * (self.few if len(self.streams) == 1 else 1) * self.times
        return {s: _even(s * least / min(self.streams)) for s in self.streams}

    def size(self, number, small, sizes):
        """The new value of one `Number`, or the old value if this number does not shrink."""
        value, kind = number.value, number.kind
        if value < 2:
            return value
        if kind == "heads":
            return self.count(value)
        if kind == "part" and value % self.divisor == 0:
            return value // self.divisor
        shrinks = kind == "width" and (sizes is None or value in sizes)
        if value >= LEAST and (shrinks or kind in ("width", "groups") and value in small.known):
            return small(value)
        return min(value, MOST.get(kind, value))

    def of_heads(self, made, small):
        """Yield (path, size) for the widths of other heads, such as Mamba's, and for sections.

        Other heads together stay as wide as all heads or as the stream.  Sections add up to half of
        a rotated part, as one factor rotates two features.
        """
        many = {n.prefix: n for n in self.found if n.kind == "heads" and n.prefix}
        for n in self.found:
            if n.kind == "part" and (heads := many.get(n.prefix)):
                every = heads.value * n.value
                whole = next((w for w in (every, self.stream) if w in small.known), every + 1)
                new, rest = divmod(every // whole * small(whole), made[heads.path])
                if new and not rest and every % whole == 0:
                    yield n.path, new
        ends = itertools.accumulate((n.value for n in self.sections), initial=0)
        narrow = itertools.pairwise(round(end / self.divisor) for end in ends)
        for n, (begin, end) in zip(self.sections, narrow):
            yield n.path, end - begin

    def factors(self, fields):
        """Yield (path, values) for lists with a number for each pair of features in a head."""
        for name, inside in fields.items():
            for factor in ("short_factor", "long_factor"):
                if isinstance(inside, dict) and factor in inside:
                    values = inside[factor]
                    path = (*self.found[0].part, name, factor)
                    yield path, values[: len(values) // self.divisor]

    def images(self):
        """Yield (path, size) for images, patches and windows, whose proportions stay the same."""
        given = [n for n in self.found if n.kind == "image" and n.value > 0]
        patches = [n for n in given if re.search("^patch_sizes?$", n.name)]
        windows = [n for n in given if "window" in n.name]
        images = [n for n in given if n not in windows and not n.name.startswith("patch_size")]
        if len(patches) > 2 or not images:
            return
        patch = patches[-1].value if patches else 1
        few = min(patch, 2 if 3 * patch**2 < self.stream else 4)  # stays narrower than the stream
        grid, most = images[0].value // patch, 64
        if patches:
            most = max(4, 2 ** (len(self.named.get("depths", ())) - 1))  # a stage halves the grid
        if windows and images[0].value % (patch * windows[0].value) == 0:
            most = 2 * grid // windows[0].value
            yield from ((n.path, 2) for n in windows)
        yield from ((n.path, min(n.value, few)) for n in patches)
        yield from ((n.path, few * min(n.value // patch, most)) for n in images)
        for n in self.found:
            if n.value == grid > 4 and re.search("image|grid", n.name):
                yield n.path, min(grid, most)
            if n.value == grid**2 and re.search("position|patches|seq", n.name):
                yield n.path, min(grid, most) ** 2


# --- the ratios that shrinking preserves ----------------------------------------


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
        parts = [n for n in part if n.kind == "part" and n.value > 0 and "section" not in n.name]
        for alike in grouped(parts, lambda n: n.prefix):
            found |= {(n.path, Fraction(n.value, alike[0].value)) for n in alike}
    return found
