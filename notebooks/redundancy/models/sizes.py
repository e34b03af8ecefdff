"""Find which numbers of a configuration are sizes, and choose their values in a small model.

A number is judged by its field's name (heads, parts of a head, …) and by whether the full model
has parameters of that size.  The small values keep some relations: the width of all heads is
their number times the width of a head, equal sizes stay equal, and wider streams stay wider.
`shrinking` checks the result and, if it does not fit, tries other changes.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

#: The first pattern that matches a field's name gives its kind; other names have the kind "other".
KINDS = {
    "token": r"token_(id|ids|index)s?$",
    "fixed": r"_ids?$|base$|theta|temperature|kernel|stride|loss|num_(buckets|bins)$|pos_bins$"
    r"|distance|multiple|chunk|sliding|temporal|windows$|every|frequency|scalar|scale$|ratio$",
    "depth": r"(^|(?<!per)_)layers?$|blocks?(_per_stage)?$|(^|_)depths?$|repeats$"
    r"|num_self_attends_per_block",
    "part": r"head_?(dim|size|width)s?$|^d_kv$|kv_channels$|d_head$|dim_head$|^rotary_dim$"
    r"|mrope_section$|^key_dim$",
    "heads": r"heads?(_per_(layer|stage))?$|query_group",
    "top": r"experts?_per_tok|moe_(top_?)?k$",
    "experts": r"experts?(_num)?$",
    "groups": r"groups?$",
    "places": r"tokens_per_(image|frame)|image_seq|num_image_tokens",
    "doubled": r"num_filters$",
    "halved": r"upsample_initial_channel",
    "vocabulary": r"vocab|labels$|num_embeddings$|codebook_size$|hash_buckets$",
    "positions": r"position|max.*len|n_ctx$|context_length|num_patches|seq_len|max_num_rows",
    "image": r"(image|img|crop|spec|input|patch|window|unit)_sizes?(_per_stage)?$",
}
#: {kind: the largest value that its numbers have in a small model}.
MOST = {"top": 2, "experts": 4, "groups": 2, "places": 4}
MOST |= dict.fromkeys(("halved", "vocabulary", "positions"), 64)
#: The first of these fields in a configuration is the width of the stream or, in HEAD, of a head.
STREAM = """hidden_size d_model n_embd embed_dim hidden_sizes embed_dims dim emb_dim hidden_dim
embed_dim_per_stage encoder_hidden_dim lru_width d_latents embedding_size""".split()
HEAD = "v_head_dim head_dim attention_head_dim attention_head_size d_kv kv_channels".split()
#: Names of the widths of hidden layers, which become at most twice as wide as the stream.
INNER = re.compile("intermediate|ffn|mlp|d_ff|feed_?forward|n_inner|dff")
#: A number below this is not a width.
LEAST = 16


class CannotShrink(ValueError):
    """No smaller model with the same structure was found; the message says why."""


def is_config(thing):
    return hasattr(thing, "model_type") and hasattr(thing, "to_dict")


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool)


# --- the numbers of a configuration -----------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """An integer in a configuration, its path, and the path of the part that contains it."""

    path: tuple
    part: tuple
    value: int

    @cached_property
    def name(self):
        return next(key for key in reversed(self.path) if isinstance(key, str))

    @cached_property
    def kind(self):
        return next((k for k, names in KINDS.items() if re.search(names, self.name)), "other")


def numbers(fields, path=(), part=()):
    """Every `Number` of a configuration, including those in its parts and lists."""
    if isinstance(fields, dict):
        part = path if "model_type" in fields else part
        labels = ("id2label", "label2id")
        items = [(k, v) for k, v in fields.items() if isinstance(k, str) and k not in labels]
    else:
        items = enumerate(fields)
    for key, value in items:
        if isinstance(value, dict | list | tuple):
            yield from numbers(value, (*path, key), part)
        elif is_count(value) and (path or isinstance(key, str)):
            yield Number((*path, key), part, value)


def replaced(fields, changes, path=()):
    """The same fields with new values at the paths in ``changes``."""
    if path in changes:
        return changes[path]
    if isinstance(fields, dict):
        return {key: replaced(value, changes, (*path, key)) for key, value in fields.items()}
    if isinstance(fields, list | tuple):
        return type(fields)(replaced(v, changes, (*path, i)) for i, v in enumerate(fields))
    return fields


# --- fewer layers -----------------------------------------------------------------------------


def depths(fields):
    return {n.value for n in numbers(fields) if n.kind == "depth"}


def fewer_layers(fields, layers, spread=False):
    """The fields with at most ``layers`` layers; lists with an entry for each layer are cut.

    A list of layer numbers keeps those below ``layers``; ``spread`` scales them down instead.
    """
    return _cut(fields, layers, {d for d in depths(fields) if d > layers}, spread)


def _cut(value, layers, deep, spread, name=""):
    if isinstance(value, dict):
        return {k: _cut(v, layers, deep, spread, str(k)) for k, v in value.items()}
    stages = Number((name,), (), 0).kind == "depth"
    if is_count(value):
        return min(value, layers) if stages else value
    if not isinstance(value, list | tuple) or not value or not deep:
        return value
    counted = all(map(is_count, value))
    if counted and _are_places(name, value, max(deep)):
        whole = min((d for d in deep if d > max(value)), default=max(value) + 1)
        places = (
            (v * layers // whole for v in value) if spread else (v for v in value if v < layers)
        )
        return type(value)(sorted(set(places)))
    if counted and stages:
        return type(value)(min(v, max(1, layers - 1)) for v in value)
    if name == "attention_types":  # GPT-Neo: [[kinds, number of repeats], …]
        return [[kinds[:layers], 1] for kinds, _ in value]
    each = len(value) in deep and (len(value) > 4 or re.search("layer|type|block", name))
    return value[:layers] if each else value


def _are_places(name, value, deepest):
    """Whether a list seems to hold layer numbers: it increases, and its field's name fits."""
    rising = all(a < b for a, b in zip(value, value[1:])) and max(value) <= deepest
    named = re.search(r"layers|block|ind|ids|idx", name) and not re.search("num|per_", name)
    return rising and named


# --- narrower layers --------------------------------------------------------------------------


def narrower(fields, sizes, heads, width, greedy=False):
    """{path: (kind, new value)} of numbers that change; (heads, width) is a plan of `shrinking`.

    A number of kind "other" becomes small if it is one of the ``sizes`` of the full model's
    parameters or, with ``greedy``, in any case.
    """
    found = list(numbers(fields))
    parts = {n.part: [] for n in found}
    for n in found:
        parts[n.part].append(n)
    parts = [Part(inside, _at(fields, place), heads, width) for place, inside in parts.items()]
    widths = _widths(parts)
    anchors, streams = set(widths), {s for part in parts for s in part.streams}
    kind = lambda n: "width" if n.kind == "other" and n.value in anchors else n.kind
    patches, made = {}, {}
    for part in parts:
        part.patches(widths, patches)
    for part in parts:
        for n in part.found:
            made[n.path] = kind(n), part.size(n, widths, sizes, streams, greedy)
        made |= {path: ("part", small) for path, small in part.of_heads(made, widths)}
        made |= {path: ("image", small) for path, small in part.images(patches)}
    made |= {path: ("vocabulary", small) for path, small in _tokens(found)}
    return {path: new for path, new in made.items() if new[1] != _at(fields, path)}


def _tokens(found):
    """(path, new id) of special tokens whose ids are too large for the small vocabulary."""
    tokens, most = [n for n in found if n.kind == "token"], MOST["vocabulary"]
    large = sorted({n.value for n in tokens if n.value >= most})
    return [(n.path, most - 1 - large.index(n.value)) for n in tokens if n.value >= most]


def _at(fields, path):
    return _at(fields[path[0]], path[1:]) if path else fields


def _widths(parts):
    """{width: new width} for the streams and for all heads together.

    Each part gets the fewest heads with which equal sizes stay equal and wider streams wider.
    """
    parts = [part for part in parts if part.streams][:6]
    choices = sorted(itertools.product((1, 2, 4, 8), repeat=len(parts)), key=sum)
    for times in (*choices, choices[0]):
        made, every = [part.widths(t) for part, t in zip(parts, times)], {}
        streams = [(s, one[s]) for part, one in zip(parts, made) for s in part.streams if s in one]
        same = all(every.setdefault(a, x) == x for one in made for a, x in one.items())
        if same and all((a > b) <= (x > y) for a, x in streams for b, y in streams):
            break
    return {p.head: p.head // p.divisor for p in parts if p.head >= LEAST} | every


class Part:
    """The sizes of one part of a configuration and the relations between them.

    ``streams`` are the widths of the stream, one for each stage, and ``heads`` the numbers of
    heads.  ``head`` is the width of a head; ``divisor`` divides the sizes of a head and its parts.
    """

    def __init__(self, found, fields, few, width):
        self.found, self.fields, self.few, self.times = found, fields, few, 1
        self.named = {n.name: [] for n in found}
        for n in found:
            self.named[n.name].append(n.value)
        counts = [n for n in found if n.kind == "heads" and n.value > 0]
        self.heads = [n.value for n in counts if n.name == counts[0].name]
        self.several = sorted({n.value for n in counts} - {1})
        streams = [self.named[n] for n in STREAM if max(self.named.get(n, [0])) > 8]
        staged = len(self.heads) > 1 and all(len(s) == 1 for s in streams)
        self.streams = (min(streams) if staged else streams[0]) if streams else []
        self.head = max(0, self.field(HEAD, 0))
        if not self.head and self.streams and self.heads:
            self.head = self.streams[0] // self.heads[0]
        if len(self.heads) > 1 or len(self.streams) > 1:
            width //= 2  # because the last stage is several times wider
        self.width, self.divisor = width, self._largest_divisor(width)

    def field(self, names, default):
        return next((self.named[n][0] for n in names if n in self.named), default)

    def _largest_divisor(self, least):
        """The largest divisor that leaves a head and its parts even and wide enough."""
        self.sections = [n for n in self.found if "section" in n.name]
        parts = [n for n in self.found if n.kind == "part" and n not in self.sections]
        self.others = {_prefix(n.name): n for n in self.found if n.kind == "heads"}
        self.others.pop("", None)
        sizes = [self.head, *(n.value for n in parts if _prefix(n.name) not in self.others)]
        sizes = [size for size in sizes if size > 0]
        for share in _turned(self.fields):
            sizes += {int(self.head * share), self.head - int(self.head * share)} - {0}
        total = sum(n.value for n in self.sections)  # they add up to half of the rotated features
        most = min(self.head // least, total // len(self.sections) if total else self.head)
        fits = lambda d: all(size % (2 * d) == 0 for size in sizes) and self.head % (4 * d) == 0
        return next((d for d in range(most, 1, -1) if fits(d)), 1)

    def count(self, heads):
        """The new number of heads: 1 stays 1; a number that divides another still does so."""
        least = self.few * self.times
        return heads if heads < 2 else min(heads, least * 2 ** self.several.index(heads))

    def widths(self, times):
        """{width: new width} of streams and of all heads; ``times`` multiplies numbers of heads."""
        self.times, one = times, self.head // self.divisor
        if not self.heads:
            least = self.width * (self.few if len(self.streams) == 1 else 1) * times
            return {s: _round(s * least / min(self.streams)) for s in self.streams}
        made = {c * self.head: self.count(c) * one for c in {1, *self.several}}
        for stream in self.streams:
            if stream not in made:
                below = max((made[inside] for inside in made if inside < stream), default=0)
                above = min((made[inside] for inside in made if inside > stream), default=3 * below)
                even = (
                    *(made[stream * n] / n for n in (2, 3, 4) if stream * n in made),
                    *(made[stream / n] * n for n in (2, 3, 4) if stream / n in made),
                )
                fits = (int(e) for e in even if e % 2 == 0)
                made[stream] = next(fits, _round((below + above) / 2))
        return made

    def size(self, number, widths, sizes, streams, greedy):
        """The new value of one `Number`, or the old value if this number does not shrink."""
        value, kind = number.value, number.kind
        if value < 2 or kind in ("fixed", "depth", "image", "token"):
            return value
        if kind == "heads":
            return self.count(value)
        if kind == "part":
            return value // self.divisor if value % self.divisor == 0 else value
        if value in widths and value >= LEAST and kind in ("other", "groups"):
            return widths[value]
        if number.name == "topk_group":  # cannot exceed the number of groups
            return 1 if value < self.field(["n_group"], 0) else min(value, MOST["groups"])
        if kind in MOST:
            return min(value, MOST[kind])
        if value < LEAST or not (greedy or value in sizes):
            return value
        if 2 * value in streams & widths.keys():
            return widths[2 * value] // 2
        capped = INNER.search(number.name) and not greedy
        return widths.setdefault(value, self._beside(value, widths, capped))

    def _beside(self, value, widths, capped):
        """A new width that is below or above that of the stream, as the old one was."""
        stream = next((s for s in self.streams if s in widths), 0)
        if not stream:
            return max(4, _round(value / 16))
        small = widths[stream]
        made = max(4, _round(value * small / stream))
        if value < stream:
            above = self.head // self.divisor if value > self.head else 0  # stays wider than a head
            return max(above + 2, min(made, small - 2))
        return max(small + 2, min(made, 2 * small) if capped else made)

    def of_heads(self, made, widths):
        """Yield (path, size) for sizes that depend on heads, such as those of rotated parts.

        Other heads, such as Mamba's, together stay as wide as all heads or as the stream.
        Sections add up to half of a rotated part, as one factor rotates two features.
        """
        stream = next((s for s in self.streams if s in widths), 0)
        for n in self.found if stream else ():
            if n.kind == "part" and (many := self.others.get(_prefix(n.name))):
                product = many.value * n.value
                whole = next((w for w in (product, stream) if w in widths and product % w == 0), 0)
                all_heads = product // whole * widths[whole] if whole else 0
                if all_heads and all_heads % made[many.path][1] == 0:
                    yield n.path, all_heads // made[many.path][1]
        ends = itertools.accumulate((n.value for n in self.sections), initial=0)
        ends = [round(end / self.divisor) for end in ends]
        for n, begin, end in zip(self.sections, ends, ends[1:]):
            yield n.path, end - begin
        place = self.found[0].part
        for name, inside in self.fields.items():
            for factor in ("short_factor", "long_factor"):
                if isinstance(inside, dict) and factor in inside:
                    values = inside[factor]
                    yield (*place, name, factor), values[: len(values) // self.divisor]

    def patches(self, widths, made):
        """Record new sizes of patches; a patch larger than the width of the stream stays larger."""
        one = 3 * self.field(["temporal_patch_size"], 1)
        stream = next((s for s in self.streams if s in widths), 0)
        for patch in self.named.get("patch_size", ()) if stream else ():
            more = one * patch**2 > stream
            alike = [p for p in (4, 2, 1) if p <= patch and (one * p * p > widths[stream]) == more]
            made[patch] = min(*(alike or [4])[:1], patch, made.get(patch, patch))

    def images(self, small):
        """Yield (path, size) for images, patches and windows, whose proportions stay the same."""
        given = [n for n in self.found if n.kind == "image" and n.value > 0]
        of = lambda names: [n for n in given if re.search(names, n.name)]
        patches, windows = of("^patch_sizes?$"), of("window")
        images = of("^(?!patch_size|.*window)")
        if len(patches) > 2 or not images:
            return
        patch = patches[-1].value if patches else 1
        grid, window = images[0].value // patch, windows[0].value if windows else 0
        ratio, rest = divmod(images[0].value, patch * window) if window else (0, 1)
        most = 2 * ratio if not rest else 4 if patches else 64
        for n in patches:
            yield n.path, small.get(n.value, min(n.value, 4))
        for n in images:
            yield n.path, small.get(patch, min(patch, 4)) * min(n.value // patch, most)
        for n in windows if not rest else ():
            yield n.path, 2
        for n in self.found:
            if n.value == grid > 4 and re.search("image|grid", n.name):
                yield n.path, min(grid, most)
            if n.value == grid**2 and re.search("position|patches|seq", n.name):
                yield n.path, min(grid, most) ** 2


def _turned(fields):
    """Yield the shares of a head that rotary positions rotate."""
    for name, value in fields.items():
        if isinstance(value, dict) and "model_type" not in value:
            yield from _turned(value)
        elif name in ("partial_rotary_factor", "rotary_pct") and isinstance(value, float):
            yield value


def _prefix(name):
    """The prefix of a name for a number or width of heads: "mamba_" for "mamba_n_heads"."""
    return re.sub(
        r"^n_(?=mamba)|(num_|n_)?(key_|value_|attention_|query_|kv_)*(heads?|d_head).*", "", name
    )


def _round(number):
    return 4 * round(number / 4) if number >= 8 else max(2, 2 * round(number / 2))


# --- the ratios that shrinking preserves ----------------------------------------


def ratios(fields):
    """The set of relations between sizes that a small model keeps.

    They say whether a number of heads is 1 and how it compares with the first such number, what
    ratios the parts of a head have, and which streams are wider than a head.
    """
    parts, inside = {}, {}
    for n in numbers(fields):
        inside.setdefault(n.part, []).append(n)
        if n.kind in ("heads", "part") and n.value > 0 and "section" not in n.name:
            parts.setdefault((n.part, n.kind, n.kind == "part" and _prefix(n.name)), []).append(n)
    heads = {place: Part(found, _at(fields, place), 2, 8).head for place, found in inside.items()}
    wider = {(n.path, "wider than a head", n.value > heads[place])
             for place, found in inside.items() for n in found if n.name in STREAM}  # fmt: skip
    return wider | {
        (n.path, n.value == 1, (n.value > first.value) - (n.value < first.value))
        if kind == "heads"
        else (n.path, Fraction(n.value, first.value))
        for (_, kind, _), (first, *others) in parts.items()
        for n in (first, *others)
    }
