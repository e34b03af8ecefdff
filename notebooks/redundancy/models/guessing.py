"""Draw random inputs by the names of a model's arguments until the model accepts them.

    inputs = some_inputs(model)            # the usual ones: words, an image, or sound
    inputs = suitable_inputs(model)        # inputs on which the model runs, or NoInputs is raised

The name of an argument (`ARGUMENTS`), the configuration, and the widths that the first layers read
restrict what the argument may be.  Each way to draw it is tried, and arguments that the model's
error message asks for are added.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import math
import re
from functools import cached_property

import torch
from torch import nn

from ..precision import double_precision
from .sizes import is_config

#: A model with fewer numbers than this is copied before a trial, because runs may change it.
COPIED = 50_000_000
#: The largest number of inputs that are tried: in all, and for one set of arguments.
TRIALS, MANY = 160, 60
#: Patterns in the names of arguments that hold the positions of patches.
GRID = "grid_thw|spatial_shapes|target_sizes|pixel_position"
#: {pattern in an argument's name: the method of `_Draw` that draws it}; the default is `sequence`.
ARGUMENTS = {
    "input_ids$|task_inputs": "words",
    "mask|padding$": "mask",
    GRID: "grid",
    "pixel_values|images": "image",
    "input_values|audio_values|wave": "sound",
    "bbox|boxes": "boxes",
    "_ids$|freq|timesteps|merge_sizes|position": "kinds",
}
#: Fields that hold the configuration of the part that reads images.
VISION = ("vision_config", "image_config")
USUAL = ("pixel_values", "input_ids", "input_values", "input_features")


class NoInputs(ValueError):
    """The model rejects all inputs that were drawn; the message says what the model asks for."""


class _Draw:
    """Draws the arguments of a model by their names, with the same values in every run."""

    def __init__(self, model, batch=2, tokens=7, seed=0):
        self.model, self.batch, self.tokens = model, batch, tokens
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
        config = model.config
        self.parts = _parts(config)
        self.text = getattr(config, "text_config", None) or config
        self.vision = next((c for n in VISION if (c := getattr(config, n, None))), config)

    # --- information from the configuration and the first layers

    def field(self, names, *parts, default=None):
        """The first nonempty field in ``names``, sought in ``parts`` and then in all parts."""
        found = (getattr(p, n, None) for p in (*parts, *self.parts) for n in names.split())
        return next((value for value in found if value), default)

    @cached_property
    def features(self):
        """Up to eight input widths of the model's layers, read from the layers' attributes."""
        read = ("in_channels", "in_features", "normalized_shape")
        sizes = [getattr(m, n, None) for n in read for m in self.model.modules()]
        sizes = [size[-1] if isinstance(size, tuple) else size for size in sizes]
        return list(dict.fromkeys(size for size in sizes if isinstance(size, int)))[:8]

    @cached_property
    def patch(self):
        """(channels, height, width) of a patch; if 3-D, (channels, time, height, width)."""
        layers = (m for m in self.model.modules() if isinstance(m, nn.Conv2d | nn.Conv3d))
        first = next(layers, None)
        return (first.in_channels, *first.kernel_size) if first else (3, 2, 2)

    # --- ways to draw an argument, the usual one first

    def numbers(self, *shape):
        drawn = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(self.dtype)

    def words(self, drawn):
        size = self.field("vocab_size", self.text, default=48)
        length = self.field("task_seq_len", default=self.tokens)
        books = self.field("num_codebooks n_codebooks num_channels", self.text, default=0)
        shapes = [(length,), (self.tokens, books), (books, self.tokens), (self.tokens, books + 1)]
        places = places_of(self.model)
        for shape in [(self.tokens,), *shapes[: 4 if books else 1]]:
            found = torch.randint(
                min(3, size - 1), size, (self.batch, *shape), generator=self.generator
            )
            for token in places:
                found[found == token] = min(set(range(3, size)) - places, default=0)
            end = getattr(self.text, "eos_token_id", None)
            if isinstance(end, int) and 0 <= end < size:
                found[:, -1] = end  # some models read the state at the end token
            yield found

    def image(self, drawn):
        size = self.field("image_size", self.vision, default=16)
        channels = self.field("num_channels in_channels in_chans", self.vision, default=3)
        channels = channels if isinstance(channels, int) else channels[0]
        frames = self.field("num_frames frames_per_clip", self.vision, default=2)
        size = tuple(size) if isinstance(size, list | tuple) else (size, size)
        for shape in dict.fromkeys((size, (32, 32), (64, 64), (128, 128))):
            yield self.numbers(self.batch, channels, *shape)
            for several in dict.fromkeys((frames, 1, 2)):
                yield self.numbers(self.batch, several, channels, *shape)

    def patches(self, drawn):
        """Pixels that are already cut into a grid of 4 x 4 patches."""
        for size in dict.fromkeys((math.prod(self.patch), *self.features)):
            yield self.numbers(16, size)
            yield self.numbers(self.batch, 16, size)
        yield self.numbers(16, *self.patch)
        yield self.numbers(1, self.patch[0], self.patch[-1], 16 * self.patch[-1])
        yield from self.image(drawn)

    def grid(self, drawn):
        """Layouts of patches: (time, height, width), (height, width), or all positions."""
        yield torch.tensor([[1, 4, 4]])
        yield torch.tensor([[4, 4]] * self.batch)
        yield torch.tensor([[4, 4]])
        places = torch.cartesian_prod(torch.arange(4), torch.arange(4))
        yield places.expand(self.batch, 16, 2)

    def sound(self, drawn):
        frame = math.prod(getattr(self.model.config, "conv_stride", None) or [1])
        for size in (max(400, 8 * frame), 6000, 7680):
            yield self.numbers(self.batch, size)
            yield self.numbers(self.batch, 1, size)
        yield from self.sequence(drawn)

    def sequence(self, drawn):
        """Features over time, for several widths and lengths, with the two axes in either order."""
        bins = self.field("num_mel_bins input_feat_per_channel feature_size", default=())
        sizes = dict.fromkeys([*([bins] if isinstance(bins, int) else bins), *self.features])
        long = 2 * self.field("max_source_positions", default=32)
        times = (long, self.field("context_length max_length", default=64), self.tokens, 200)
        for length, size in itertools.product(dict.fromkeys(times), sizes):
            yield self.numbers(self.batch, size, length)
            yield self.numbers(self.batch, length, size)
            yield self.numbers(self.batch, 1, length, size)
        yield self.numbers(self.batch, 64)

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
        cut = any(re.search(GRID, other) for other in _takes(self.model))
        way = next((w for like, w in ARGUMENTS.items() if re.search(like, names[0])), "sequence")
        way = "patches" if cut and way in ("image", "sequence") else way
        for value in getattr(self, way)(drawn):
            yield from self.ways(names[1:], drawn | {names[0]: value})


def _parts(config):
    return [config, *(p for p in vars(config).values() if hasattr(p, "model_type"))]


def places_of(model):
    """The ids of the tokens that stand for images, videos and sounds."""
    config = getattr(model, "config", None)
    parts = _parts(config) if is_config(config) else ()
    named = ((n, v) for p in parts for n, v in vars(p).items() if isinstance(v, int))
    return {v for n, v in named if re.search(r"(image|video|audio|vision)\w*_token_\w+$", n)}


def some_inputs(model, batch=2, tokens=7, seed=0):
    """A dict of random inputs of the kind that the model takes: words, an image, or sound."""
    return next(_Draw(model, batch, tokens, seed).ways(_usual(model), {}))


def suitable_inputs(model, batch=2, tokens=7, seed=0):
    """The first inputs on which the model runs, in eval mode.  Raises NoInputs."""
    small = sum(p.numel() for p in model.parameters()) < COPIED
    probe, reason = copy.deepcopy(model) if small else model, ""
    device = next(model.parameters()).device
    usual = _usual(model)
    waiting, seen, trials = [usual, *_beside(model, usual), *_asked(model)], [], 0
    while waiting and trials < TRIALS:
        names = waiting.pop(0)
        if names in seen or not names:
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
            problem = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            reason = problem if not reason or "missing" in reason else reason
            missed = [n for n in _takes(model) if re.search(rf"\b{n}\b", problem, re.IGNORECASE)]
            waiting[:0] = [[*names, more] for more in missed if more not in names][:2]
    raise NoInputs(
        f"no inputs can be made up for {type(model).__name__}"
        + (f" ({reason})" if reason else "")
        + f": give inputs, a dict of some of {', '.join(_takes(model)[:6])}"
    )


def _with_places(inputs, problem, config):
    """Yield the inputs with one placeholder token for each feature that the error message counts.

    Some models count numbers instead of features, so the count divided by the width is tried too.
    """
    said = re.search(r"(image|video|audio) features.* features:? (\d+)", problem, re.IGNORECASE)
    names = said and (f"{said[1].lower()}_token_id", f"{said[1].lower()}_token_index")
    token = next((t for n in names or () if (t := getattr(config, n, None)) is not None), None)
    words = inputs.get("input_ids")
    if token is None or words is None or words.ndim != 2:
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


def _beside(model, usual):
    """The usual names plus a mask for a sound's padding, once for each argument that may be one."""
    beside = re.compile(r"(feature|audio)\w*_mask")
    return [[*usual, name] for name in _takes(model) if len(usual) > 1 and beside.search(name)]


def _asked(model):
    """Sets of names to try next, such as the arguments without a default, or the first few."""
    takes, arguments = _takes(model), inspect.signature(model.forward).parameters
    least = [n for n in takes if arguments[n].default is inspect.Parameter.empty]
    words = [n for n in takes if n == "input_ids" and n not in least]
    masks = [n for n in takes if "mask" in n][:1]
    sets = [least, words, [*least, *words], [*least, *masks], *(takes[:i] for i in range(1, 6))]
    late = lambda name: bool(re.search(f"mask|padding|{GRID}", name))
    return [sorted(names, key=late) for names in sets]


def _takes(model):
    names = inspect.signature(model.forward).parameters
    return [name for name in names if name not in ("self", "args", "kwargs")]


def problem_of(model, args, kwargs, keep=lambda out: None):
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
