"""Draw random inputs by the names of a model's arguments until the model accepts them.

    inputs = some_inputs(model)            # the usual ones: words, an image, or sound
    inputs = suitable_inputs(model)        # inputs on which the model runs, or NoInputs is raised

The name of an argument (`ARGUMENTS`) tells what it holds and which shapes it may have; sizes come
from the configuration and from the widths that the first layers read.  Arguments that the model's
error message asks for are added.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import nn

from ..measure.precision import double_precision
from .sizes import is_config

#: A model with fewer numbers than this is copied before a trial, because runs may change it.
COPIED = 50_000_000
#: The largest number of inputs that are tried: in all, and for one set of arguments.
TRIALS, MANY = 160, 60
#: Patterns in the names of arguments that hold the positions of patches.
GRID = "grid_thw|spatial_shapes|target_sizes|pixel_position"
#: {pattern in an argument's name: what it holds}, a key of `SHAPES` or a method of `_Draw`.
ARGUMENTS = {
    "input_ids$|task_inputs": "words",
    "mask|padding$": "mask",
    GRID: "grid",
    "pixel_values|images": "image",
    "input_values|audio_values|wave": "sound",
    "bbox|boxes": "boxes",
    "_ids$|freq|timesteps|merge_sizes|position": "kinds",
    "": "sequence",
}
#: {what an argument holds: groups of shapes}; a letter stands for sizes in `_Draw.sizes`.
SEQUENCE, IMAGE = (("b d l", "b l d", "b 1 l d"), ("b 64",)), (("b c s", "b f c s"),)
SHAPES = {
    "words": (("b n",), ("b k",), ("b n q", "b q n")),
    "image": IMAGE,
    "patches": (("16 p", "b 16 p"), ("16 x", "1 y"), *IMAGE),
    "sound": (("b w", "b 1 w"), *SEQUENCE),
    "sequence": SEQUENCE,
}
#: Fields that hold the configuration of the part that reads images.
VISION = ("vision_config", "image_config")
USUAL = ("pixel_values", "input_ids", "input_values", "input_features")


class NoInputs(ValueError):
    """The model rejects all inputs that were drawn; the message says what the model asks for."""


class _Draw:
    """Draws the arguments of a model by their names, with the same values in every run."""

    def __init__(self, model, batch, tokens, seed):
        self.model, self.batch, self.tokens = model, batch, tokens
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
        self.parts = _parts(model.config)
        self.text = getattr(model.config, "text_config", None) or model.config

    def field(self, names, *parts, default=()):
        """The first nonempty field in ``names``, sought in ``parts`` and then in all parts."""
        found = (getattr(p, n, None) for p in (*parts, *self.parts) for n in names.split())
        return next((value for value in found if value), default)

    @cached_property
    def sizes(self):
        """{letter in a shape: the sizes for which it may stand, the usual one first}."""
        config, layers = self.model.config, [*self.model.modules()]
        vision = next((c for n in VISION if (c := getattr(config, n, None))), config)
        image = self.field("image_size", vision, default=16)
        image = tuple(image) if isinstance(image, list | tuple) else (image, image)
        books = self.field("num_codebooks n_codebooks num_channels", self.text, default=0)
        convs = (m for m in layers if isinstance(m, nn.Conv2d | nn.Conv3d))
        patch = next(((m.in_channels, *m.kernel_size) for m in convs), (3, 2, 2))
        read = ("in_channels", "in_features", "normalized_shape")
        widths = [_flat(getattr(m, n, None))[-1] for n in read for m in layers]
        widths = [*dict.fromkeys(w for w in widths if isinstance(w, int))][:8]
        frame = math.prod(getattr(config, "conv_stride", None) or [1])
        long = 2 * self.field("max_source_positions", default=32)
        bins = self.field("num_mel_bins input_feat_per_channel feature_size")
        return {
            "b": (self.batch,),
            "n": (self.tokens,),
            "k": (self.field("task_seq_len", default=self.tokens),),
            "q": (books, books + 1) if books else (),
            "s": (image, (32, 32), (64, 64), (128, 128)),
            "c": _flat(self.field("num_channels in_channels in_chans", vision, default=3))[:1],
            "f": (self.field("num_frames frames_per_clip", vision, default=2), 1, 2),
            "p": (math.prod(patch), *widths),
            "x": (patch,),
            "y": ((patch[0], patch[-1], 16 * patch[-1]),),
            "w": (max(400, 8 * frame), 6000, 7680),
            "l": (long, self.field("context_length max_length", default=64), self.tokens, 200),
            "d": (*_flat(bins), *widths),
        }

    def shapes(self, groups):
        """Yield the shapes in each group, for all sizes for which the letters may stand."""
        for group in groups:
            letters = [x for x in self.sizes if any(x in shape.split() for shape in group)]
            found = {}
            for sizes in itertools.product(*(dict.fromkeys(self.sizes[x]) for x in letters)):
                known = dict(zip(letters, sizes))
                for shape in group:
                    found[sum((_flat(known.get(x) or int(x)) for x in shape.split()), ())] = None
            yield from found

    def numbers(self, shape):
        drawn = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(self.dtype)

    def words(self, shape):
        size = self.field("vocab_size", self.text, default=48)
        places, end = places_of(self.model), getattr(self.text, "eos_token_id", None)
        found = torch.randint(min(3, size - 1), size, shape, generator=self.generator)
        for token in places:
            found[found == token] = min(set(range(3, size)) - places, default=0)
        if isinstance(end, int) and 0 <= end < size:
            found[:, -1] = end  # some models read the state at the end token
        return found

    def grid(self, drawn):
        """Layouts of patches: (time, height, width), (height, width), or all positions."""
        yield torch.tensor([[1, 4, 4]])
        yield torch.tensor([[4, 4]] * self.batch)
        yield torch.tensor([[4, 4]])
        places = torch.cartesian_prod(torch.arange(4), torch.arange(4))
        yield places.expand(self.batch, 16, 2)

    def mask(self, drawn):
        """Masks that hide nothing, for words, frames or pixels that are already drawn."""
        shapes = [x.shape[1:] for x in reversed(drawn.values()) if x.dtype != torch.bool]
        axes = [s[i : i + 1] for s in shapes for i in range(len(s))]
        for shape in dict.fromkeys([*axes, *(s[-2:] for s in shapes if len(s) > 2), *shapes]):
            for dtype in (torch.long, torch.bool):
                yield torch.ones(self.batch, *shape, dtype=dtype)

    def boxes(self, drawn):
        corner = torch.randint(0, 20, (self.batch, self.tokens, 2), generator=self.generator)
        yield torch.cat([corner, corner + 5], -1)

    def kinds(self, drawn):
        """The same small integer, such as a token type, for each word or each text."""
        yield torch.zeros(self.batch, self.tokens, dtype=torch.long)
        yield torch.zeros(self.batch, dtype=torch.long)
        yield torch.ones(self.batch, dtype=torch.long)

    def ways(self, names, drawn):
        """Yield ``drawn`` with each combination of values for the arguments in ``names``."""
        if not names:
            yield drawn
            return
        what = next(held for like, held in ARGUMENTS.items() if re.search(like, names[0]))
        if what in ("image", "sequence") and any(re.search(GRID, n) for n in _takes(self.model)):
            what = "patches"
        draw = self.words if what == "words" else self.numbers
        shapes = self.shapes(SHAPES[what]) if what in SHAPES else ()
        for value in map(draw, shapes) if shapes else getattr(self, what)(drawn):
            yield from self.ways(names[1:], drawn | {names[0]: value})


def _flat(sizes):
    return tuple(sizes) if isinstance(sizes, list | tuple) else (sizes,)


def _parts(config):
    return [config, *(p for p in vars(config).values() if hasattr(p, "model_type"))]


def places_of(model) -> set[int]:
    """The ids of the tokens that stand for images, videos and sounds."""
    config = getattr(model, "config", None)
    parts = _parts(config) if is_config(config) else ()
    named = ((n, v) for p in parts for n, v in vars(p).items() if isinstance(v, int))
    return {v for n, v in named if re.search(r"(image|video|audio|vision)\w*_token_\w+$", n)}


def some_inputs(model, batch=2, tokens=7, seed=0) -> dict[str, torch.Tensor]:
    """A dict of random inputs of the kind that the model takes: words, an image, or sound."""
    return next(_Draw(model, batch, tokens, seed).ways(_usual(model), {}))


def suitable_inputs(model, batch=2, tokens=7, seed=0) -> dict[str, torch.Tensor]:
    """The first inputs on which the model runs, in eval mode.  Raises NoInputs."""
    small = sum(p.numel() for p in model.parameters()) < COPIED
    probe, reason = copy.deepcopy(model) if small else model, ""
    device, takes = next(model.parameters()).device, _takes(model)
    waiting, seen, trials = [*_sets(model)], [[]], 0
    while waiting and trials < TRIALS:
        if (names := waiting.pop(0)) in seen:
            continue
        seen.append(names)
        for inputs in itertools.islice(_Draw(model, batch, tokens, seed).ways(names, {}), MANY):
            inputs = {name: x.to(device) for name, x in inputs.items()}
            trials, problem = trials + 1, problem_of(probe, (), inputs)
            if not problem:
                return inputs
            for longer in _with_places(inputs, str(problem), model.config):
                if not problem_of(probe, (), longer):
                    return longer
            said = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            reason = said if not reason or "missing" in reason else reason
            missed = [n for n in takes if re.search(rf"\b{n}\b", said, re.IGNORECASE)]
            waiting[:0] = [[*names, more] for more in missed if more not in names][:2]
    raise NoInputs(
        f"no inputs can be made up for {type(model).__name__}"
        + (f" ({reason})" if reason else "")
        + f": give inputs, a dict of some of {', '.join(takes[:6])}"
    )


def _with_places(inputs, problem, config):
    """Yield the inputs with one placeholder token for each feature that the error message counts.

    Some models count numbers instead of features, so the count divided by the width is tried too.
    """
    said = re.search(r"(image|video|audio) features.* features:? (\d+)", problem, re.IGNORECASE)
    names = said and (f"{said[1].lower()}_token_id", f"{said[1].lower()}_token_index")
    token = next((t for n in names or () if (t := getattr(config, n, None)) is not None), None)
    words = inputs.get("input_ids")
    if said is None or token is None or words is None or words.ndim != 2:
        return
    width = getattr(config.get_text_config(), "hidden_size", 1)
    for features in (int(said[2]), int(said[2]) // width):
        places = words.new_full((len(words), features // len(words)), token)
        yield inputs | {"input_ids": torch.cat([words[:, :1], places, words[:, 1:]], 1)}


def _usual(model):
    """The names of the arguments that a model usually gets: words, an image, or sound."""
    names = ["pixel_values"] if hasattr(model.config, "vision_config") else []
    names += ["input_features"] * hasattr(model.config, "audio_config")
    names += [n for n in USUAL if n == model.main_input_name and n not in names]
    names += ["decoder_input_ids"] * bool(getattr(model.config, "is_encoder_decoder", False))
    takes = _takes(model)
    return [name for name in names if name in takes or not takes]


def _sets(model) -> Iterator[list[str]]:
    """Yield sets of names to try: the usual ones, those without a default, or the first few."""
    usual, takes = _usual(model), _takes(model)
    yield usual
    if len(usual) > 1:
        yield from ([*usual, n] for n in takes if re.search(r"(feature|audio)\w*_mask", n))
    arguments = inspect.signature(model.forward).parameters
    least = [n for n in takes if arguments[n].default is inspect.Parameter.empty]
    words = [n for n in takes if n == "input_ids" and n not in least]
    masks = [n for n in takes if "mask" in n][:1]
    late = lambda name: bool(re.search(f"mask|padding|{GRID}", name))
    first = (takes[:i] for i in range(1, 6))
    for names in (least, words, [*least, *words], [*least, *masks], *first):
        yield sorted(names, key=late)


def _takes(model):
    names = inspect.signature(model.forward).parameters
    return [name for name in names if name not in ("self", "args", "kwargs")]


def problem_of(model, args, kwargs, keep: Callable = lambda out: None) -> Exception | None:
    """The model's error on these inputs in eval mode, or None; ``keep`` receives the outputs.

    A float64 model runs as in an audit: tensors that it creates itself, such as masks, are float64.
    """
    modes = {module: module.training for module in model.modules()}
    kept = [
        (m._buffers, n, b, b.clone()) for m in modes for n, b in m._buffers.items() if b is not None
    ]
    double = any(p.dtype == torch.float64 for p in model.parameters())
    try:
        with torch.no_grad(), double_precision() if double else contextlib.nullcontext():
            keep(model.eval()(*args, **kwargs))
    except Exception as problem:  # a model may raise anything
        return problem
    finally:
        for module, training in modes.items():
            module.training = training
        for buffers, name, buffer, value in kept:  # some models count their runs in a buffer
            buffers[name] = buffer.copy_(value)
    return None


def inputs_of_pytorch(model, seed=0):
    """Inputs for PyTorch's own layers (attention, encoder, decoder, Transformer), or None."""
    stacks = (nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer)
    layers = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    if not isinstance(model, (nn.MultiheadAttention, *stacks, *layers)):
        return None
    first = next(m for m in model.modules() if isinstance(m, nn.MultiheadAttention))
    sizes = (first.embed_dim, first.kdim, first.vdim)
    generators = (torch.Generator().manual_seed(seed + i) for i in range(3))
    drawn = [
        torch.randn(4, 4, size, generator=generator, dtype=torch.float64).to(first.out_proj.weight)
        for size, generator in zip(sizes, generators)
    ]
    if model is first:
        return tuple(drawn)
    encoder = isinstance(model, (nn.TransformerEncoder, nn.TransformerEncoderLayer))
    return (drawn[0],) if encoder else (drawn[1], drawn[0])
