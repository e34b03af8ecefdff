"""Random inputs that a model takes: made up from its configuration, and tried.

    inputs = suitable_inputs(model)        # a dict; raises NoInputs with a request where none runs

`zoo.some_inputs` makes the usual ones.  Where a model does not run on these, each of `OTHERS` is
tried: a clip in place of an image, patches in place of pixels, sound that is longer or lies the
other way, an image beside the words, regions of an image that somebody else found.
"""

from __future__ import annotations

import contextlib
import copy
import inspect

import torch
from torch import nn

from .zoo import some_inputs

#: A model of fewer numbers is tried on a copy: some change themselves to suit their inputs.
COPIED = 50_000_000


class NoInputs(ValueError):
    """Nothing that could be made up is taken by the model; says what it asks for."""


def _beside(model, x):
    """A tensor on the device of the model's parameters; anything else as it is."""
    device = next((p.device for p in model.parameters()), None)
    return x.to(device) if isinstance(x, torch.Tensor) else x


def suitable_inputs(model, **how):
    """The first inputs of `some_inputs`, and of `OTHERS`, on which the model runs.

    ``how`` are batch, tokens and seed.  Raises NoInputs.
    """
    small = sum(p.numel() for p in model.parameters()) < COPIED
    probe, reason = copy.deepcopy(model) if small else model, None
    for make in (some_inputs, *OTHERS):
        try:
            inputs = {name: _beside(model, x) for name, x in make(model, **how).items()}
        except Exception:  # a configuration that has no word for what is to be made
            continue
        if not inputs:
            continue
        if problem := _problem(probe, inputs):
            reason = reason or problem
        else:
            return inputs
    raise NoInputs(
        f"no inputs can be made up for {type(model).__name__}"
        + (f" ({reason})" if reason else "")
        + f": give inputs, a dict of some of {', '.join(_takes(model))}"
    )


@contextlib.contextmanager
def experts_in_plain_pytorch(model):
    """A context in which a float64 mixture of experts runs: its fast kernels have no float64."""
    kind = getattr(getattr(model, "config", None), "_experts_implementation", None)
    wide = any(p.dtype == torch.float64 for p in model.parameters())
    if kind and wide:
        model.set_experts_implementation("eager")
    try:
        yield
    finally:
        if kind and wide:
            model.set_experts_implementation(kind)


def _problem(model, inputs):
    """None if the model runs on these inputs in eval mode; otherwise what it says."""
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad(), experts_in_plain_pytorch(model):
            model.eval()
            model(**inputs)
    except Exception as problem:  # whatever a model raises
        return (str(problem).strip() or type(problem).__name__).splitlines()[0]
    finally:
        for module, training in modes.items():
            module.training = training
    return None


def _takes(model):
    """The names of the first few arguments of a model."""
    names = inspect.signature(model.forward).parameters
    return [name for name in names if name not in ("self", "args", "kwargs")][:6]


def _numbers(model, seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def _vision(model):
    config = model.config
    for name in ("vision_config", "image_config"):
        config = getattr(config, name, config)
    return config


def _image(model, batch, seed):
    config = _vision(model)
    size = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
    return _numbers(model, seed, batch, getattr(config, "num_channels", 3), size, size)


# --- what is tried, one after the other -------------------------------------------------------


def _clip(model, batch=2, tokens=7, seed=0):
    frames, images = _vision(model).num_frames, []
    for place in range(frames):
        images.append(_image(model, batch, seed + 100 * place))
    return {"pixel_values": torch.stack(images, 1)}


def _patches(model, batch=2, tokens=7, seed=0):
    """SigLIP 2: patches that were cut out before, a mask of them, and how they lie."""
    config, inputs = _vision(model), {}
    size = config.num_channels * config.patch_size**2
    inputs["pixel_values"] = _numbers(model, seed, batch, 6, size)
    inputs["pixel_attention_mask"] = torch.ones(batch, 6, dtype=torch.long)
    inputs["spatial_shapes"] = torch.tensor([[2, 3]] * batch)
    if hasattr(model.config, "text_config"):
        inputs["input_ids"] = _words(model.config.text_config.vocab_size, batch, tokens, seed)
    return inputs


def _words(vocabulary, batch, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocabulary, (batch, tokens), generator=generator)


def _long_sound(model, batch=2, tokens=7, seed=0):
    usual = some_inputs(model, batch, tokens, seed)
    return usual | {"input_values": _numbers(model, seed, batch, 6000)}


def _frames_first(model, batch=2, tokens=7, seed=0):
    """Sound as (time, bins): Speech2Text; the spectrogram transformer calls it input_values."""
    config, usual = model.config, some_inputs(model, batch, tokens, seed)
    bins = getattr(config, "input_feat_per_channel", None) or config.num_mel_bins
    time = getattr(config, "max_length", None) if model.main_input_name == "input_values" else 64
    return usual | {model.main_input_name: _numbers(model, seed, batch, time or 64, bins)}


def _image_beside_words(model, batch=2, tokens=7, seed=0):
    config = getattr(model.config, "text_config", model.config)
    words = _words(config.vocab_size, batch, tokens, seed)
    return {"input_ids": words, "pixel_values": _image(model, batch, seed)}


def _regions(model, batch=2, tokens=7, seed=0):
    """LXMERT: features of regions of an image, and where they are."""
    config, usual = model.config, some_inputs(model, batch, tokens, seed)
    return usual | {
        "visual_feats": _numbers(model, seed, batch, 5, config.visual_feat_dim),
        "visual_pos": _numbers(model, seed + 1, batch, 5, config.visual_pos_dim),
    }


def _words_alone(model, batch=2, tokens=7, seed=0):
    """What a model for texts and images does with a text: the layers for images are not reached."""
    usual = some_inputs(model, batch, tokens, seed)
    return {name: usual[name] for name in usual if name.endswith("input_ids")}


OTHERS = (
    _clip,
    _patches,
    _long_sound,
    _frames_first,
    _image_beside_words,
    _regions,
    _words_alone,
)


def inputs_of_pytorch(model, seed=0):
    """Inputs for PyTorch's own layers: their attention, encoder, decoder and Transformer; or None."""
    if isinstance(model, nn.MultiheadAttention):
        sizes = (model.embed_dim, model.kdim, model.vdim)
        return tuple(_numbers(model, seed + i, 4, 4, size) for i, size in enumerate(sizes))
    stacks = (nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer)
    layers = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    if not isinstance(model, (*stacks, *layers)):
        return None
    first = next(m for m in model.modules() if isinstance(m, nn.MultiheadAttention))
    source, target = (_numbers(model, seed + i, 4, 4, first.embed_dim) for i in (0, 1))
    encoder = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
    return (source,) if isinstance(model, encoder) else (target, source)
