"""Draw random inputs, guided by the names of a model's arguments, until the model accepts them.

    inputs = some_inputs(model)            # the usual ones: words, an image, or sound
    inputs = suitable_inputs(model)        # inputs on which the model runs, or NoInputs is raised

The name of an argument (`ARGUMENTS`) tells what it holds; sizes come from the configuration and
from the widths that the first layers read.  Arguments that the model's error message asks for are
added.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator

import torch
from torch import nn

from ..measure.precision import double_precision
from .sizes import is_config

#: The largest number of inputs that are tried: in all, and for one set of arguments.
TRIALS, MANY = 120, 40
#: Names of arguments that hold the number of patches along each side of an image.
GRID = "grid_thw|spatial_shapes"
#: {pattern in an argument's name: the method of `_Draw` that yields values for it}.
ARGUMENTS = {
    "input_ids$": "words",
    "mask|padding$": "mask",
    GRID: "grid",
    "pixel_values|images": "image",
    "input_values|audio_values|wave": "sound",
    "": "sequence",
}
USUAL = ("pixel_values", "input_ids", "input_values", "input_features")


class NoInputs(ValueError):
    """The model rejects all inputs that were drawn; the message says what the model asks for."""


class _Draw:
    """Draws the arguments of a model by their names, with the same values in every run."""

    def __init__(self, model, batch, tokens, seed):
        self.model, self.batch, self.tokens = model, batch, tokens
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
        self.text = getattr(model.config, "text_config", None) or model.config
        self.vision = getattr(model.config, "vision_config", None) or model.config

    def field(self, names, *parts, default):
        """The first nonempty field in ``names``, sought in ``parts`` and then in all parts."""
        where = (*parts, *_parts(self.model.config))
        found = (getattr(part, name, None) for part in where for name in names.split())
        return next((value for value in found if value), default)

    def numbers(self, *shape):
        drawn = torch.randn(self.batch, *shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(self.dtype)

    def words(self, before):
        """Token ids; the last one ends the text, because some models read its state."""
        size = self.field("vocab_size", self.text, default=48)
        places, end = places_of(self.model), getattr(self.text, "eos_token_id", None)
        books = self.field("num_codebooks n_codebooks", self.text, default=0)
        for more in ((), *((b,) for b in (books, books + 1) if books)):
            shape = self.batch, self.tokens, *more
            found = torch.randint(min(3, size - 1), size, shape, generator=self.generator)
            for token in places:
                found[found == token] = min(set(range(3, size)) - places, default=0)
            if isinstance(end, int) and 0 <= end < size:
                found[:, -1] = end
            yield found

    def image(self, before):
        side = self.field("image_size", self.vision, default=16)
        channels = self.field("num_channels in_channels in_chans", self.vision, default=3)
        channels = channels[0] if isinstance(channels, list | tuple) else channels
        frames = self.field("num_frames frames_per_clip", self.vision, default=2)
        side = side if isinstance(side, list | tuple) else (side, side)
        for pixels in (side, (32, 32), (64, 64), (128, 128)):
            yield self.numbers(channels, *pixels)
            yield self.numbers(frames, channels, *pixels)

    def sound(self, before):
        frame = math.prod(getattr(self.model.config, "conv_stride", None) or [1])
        for length in (max(400, 8 * frame), 6000, 7680):
            yield self.numbers(length)
            yield self.numbers(1, length)
        yield from self.sequence(before)

    def grid(self, before):
        yield torch.tensor([[1, 4, 4]])  # one image: times, height and width
        yield torch.tensor([[4, 4]] * self.batch)

    def patches(self, before):
        """The patches of one image or of a batch of images, in rows."""
        convs = (m for m in self.model.modules() if isinstance(m, nn.Conv2d | nn.Conv3d))
        for width in [m.in_channels * math.prod(m.kernel_size) for m in convs] + self.widths():
            yield self.numbers(16, width)
            yield self.numbers(16, width)[0]

    def widths(self):
        """The widths that the first layers read."""
        read = [getattr(m, n, None) for n in ("in_channels", "in_features", "normalized_shape")
                for m in self.model.modules()]  # fmt: skip
        return [*dict.fromkeys(w[-1] if isinstance(w, tuple) else w for w in read if w)][:8]

    def sequence(self, before):
        """Vectors for each time or token, as wide as a spectrum or as what a layer reads."""
        bins = self.field("num_mel_bins input_feat_per_channel feature_size", default=0)
        long = 2 * self.field("max_source_positions", default=32)
        context = self.field("context_length", default=64)
        widths = dict.fromkeys([bins] * bool(bins) + self.widths())
        for length, width in itertools.product(dict.fromkeys((long, context, self.tokens)), widths):
            yield self.numbers(width, length)
            yield self.numbers(length, width)

    def mask(self, before):
        """Masks that hide nothing, for words, frames or pixels that are already drawn."""
        shapes = [x.shape[1:] for x in reversed(before.values()) if x.dtype != torch.bool]
        axes = [s[i : i + 1] for s in shapes for i in range(len(s))]
        for shape in dict.fromkeys([*axes, *shapes]):
            for dtype in (torch.long, torch.bool):
                yield torch.ones(self.batch, *shape, dtype=dtype)

    def ways(self, names, before):
        """Yield ``before`` with each combination of values for the arguments in ``names``."""
        if not names:
            yield before
            return
        what = next(held for like, held in ARGUMENTS.items() if re.search(like, names[0]))
        if what in ("image", "sequence") and re.search(GRID, " ".join(_takes(self.model))):
            what = "patches"
        for value in getattr(self, what)(before):
            yield from self.ways(names[1:], before | {names[0]: value})


def _parts(config):
    return [config, *filter(is_config, vars(config).values())] if is_config(config) else [config]


def places_of(model) -> set[int]:
    """The ids of the tokens that stand for images, videos and sounds."""
    config = getattr(model, "config", None)
    named = [i for part in _parts(config) if is_config(part) for i in vars(part).items()]
    like = r"(image|video|audio|vision)\w*_token_\w+$"
    return {v for name, v in named if isinstance(v, int) and re.search(like, name)}


def some_inputs(model, batch: int = 2, tokens: int = 7, seed: int = 0) -> dict[str, torch.Tensor]:
    """A dict of random inputs of the kind that the model takes: words, an image, or sound."""
    return next(_Draw(model, batch, tokens, seed).ways(_usual(model), {}))


def suitable_inputs(model, batch: int = 2, tokens: int = 7, seed: int = 0) -> dict:
    """The first inputs on which the model runs, in eval mode.  Raises NoInputs."""
    device, takes = next(model.parameters()).device, _takes(model)
    waiting, seen, reason, trials = [*_sets(model)], [[]], "", 0
    while waiting and trials < TRIALS:
        if (names := waiting.pop(0)) in seen:
            continue
        seen.append(names)
        for inputs in itertools.islice(_Draw(model, batch, tokens, seed).ways(names, {}), MANY):
            inputs = {name: x.to(device) for name, x in inputs.items()}
            trials, problem = trials + 1, problem_of(model, (), inputs)
            if not problem:
                return inputs
            said = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            reason = said if not reason or "missing" in reason else reason
            missed = [n for n in takes if re.search(rf"\b{n}\b", said, re.IGNORECASE)]
            waiting[:0] = [[*names, more] for more in missed if more not in names][:2]
    raise NoInputs(
        f"no suitable inputs were found for {type(model).__name__}"
        + (f" ({reason})" if reason else "")
        + f": give inputs, a dict of some of {', '.join(takes[:6])}"
    )


def _usual(model):
    """The names of the arguments that a model usually gets: words, an image, or sound."""
    config, takes = model.config, _takes(model)
    names = ["pixel_values"] * hasattr(config, "vision_config")
    names += ["input_features"] * hasattr(config, "audio_config")
    names += [n for n in USUAL if n == model.main_input_name and n not in names]
    names += ["decoder_input_ids"] * bool(getattr(config, "is_encoder_decoder", False))
    return [name for name in names if name in takes or not takes]


def _sets(model) -> Iterator[list[str]]:
    """Yield sets of names to try: the usual ones, those without a default, or the first few."""
    takes, arguments = _takes(model), inspect.signature(model.forward).parameters
    least = [n for n in takes if arguments[n].default is inspect.Parameter.empty]
    words = [n for n in takes if n == "input_ids"]
    late = lambda name: bool(re.search(f"mask|padding|{GRID}", name))
    for names in (_usual(model), least, words, *(takes[:i] for i in range(1, 6))):
        yield sorted(names, key=late)


def _takes(model):
    names = inspect.signature(model.forward).parameters
    return [name for name in names if name not in ("self", "args", "kwargs")]


def problem_of(
    model: nn.Module, args: tuple, kwargs: dict, keep: Callable = lambda out: None
) -> Exception | None:
    """The model's error on these inputs in eval mode, or None; ``keep`` receives the outputs.

    A float64 model runs as in an audit: tensors that it creates itself, such as masks, are float64.
    """
    modes = {module: module.training for module in model.modules()}
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    homes = [(m, dict(m._buffers)) for m in modes]
    double = any(p.dtype == torch.float64 for p in model.parameters())
    try:
        with torch.no_grad(), double_precision() if double else contextlib.nullcontext():
            keep(model.eval()(*args, **kwargs))
    except Exception as problem:  # a model may raise anything
        return problem
    finally:
        for module, training in modes.items():
            module.training = training
        for module, buffers in homes:
            module._buffers.update(buffers)
        for buffer, value in kept:  # some models count their runs in a buffer
            buffer.copy_(value)
    return None


def inputs_of_pytorch(model: nn.Module, seed: int = 0) -> tuple | None:
    """Inputs for PyTorch's own layers (attention, encoder, decoder, Transformer), or None."""
    encoders = nn.TransformerEncoder, nn.TransformerEncoderLayer
    pairs = nn.TransformerDecoder, nn.TransformerDecoderLayer, nn.Transformer
    if not isinstance(model, (nn.MultiheadAttention, *encoders, *pairs)):
        return None
    first = next(m for m in model.modules() if isinstance(m, nn.MultiheadAttention))
    drawn = []
    for i, size in enumerate((first.embed_dim, first.kdim, first.vdim)):
        generator = torch.Generator().manual_seed(seed + i)
        numbers = torch.randn(4, 4, size, generator=generator, dtype=torch.float64)
        drawn.append(numbers.to(first.out_proj.weight))
    if model is first:
        return tuple(drawn)
    return (drawn[0],) if isinstance(model, encoders) else (drawn[1], drawn[0])
