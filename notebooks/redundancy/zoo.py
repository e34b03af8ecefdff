"""Tiny models of any architecture that `transformers` knows, and inputs for them; no download.

    model = tiny("gpt2")                       # random weights, from the configuration alone
    model = tiny("llama", attention_bias=True)
    inputs = some_inputs(model)                # a dict of tensors, the same in every run

A configuration of the library is made small by name: whatever it calls its width becomes 32,
its heads 4, its layers 2, and so on (`SMALL`); what is given by hand wins.  The weights are the
library's random initialisation, drawn with a seed of their own.
"""

from __future__ import annotations

import contextlib
import logging
import math
import warnings

import torch

#: What a configuration may call a size, and how large it is here.
SMALL = {
    32: "hidden_size d_model n_embd embed_dim dim emb_dim projection_dim "
    "embedding_size decoder_hidden_size rnn_size",
    64: "intermediate_size d_ff n_inner encoder_ffn_dim decoder_ffn_dim ffn_dim hidden_dim "
    "ffn_hidden_size max_position_embeddings n_positions max_source_positions "
    "max_target_positions n_ctx dff max_seq_len max_relative_positions",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
    "decoder_attention_heads attention_heads",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_decoder_layers num_key_value_heads num_kv_heads num_encoder_layers "
    "num_local_experts num_experts num_experts_per_tok type_vocab_size",
    8: "head_dim d_kv num_mel_bins",
    48: "vocab_size",
    16: "image_size",
}
#: Sizes that do not follow from a name alone.
SPECIAL = {
    "patch_size": 4,
    "num_channels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
    "use_cache": False,
    "rotary_dim": 4,
}
#: What some architectures need besides, to be small or to run at all.
_SOUND = {
    "conv_dim": [8, 8],
    "conv_stride": [4, 4],
    "conv_kernel": [4, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
_WINDOWS = {"embed_dim": 16, "num_heads": [2, 4], "depths": [1, 1], "window_size": 2}
BESIDES = {
    **dict.fromkeys(("wav2vec2", "hubert", "wavlm", "unispeech", "data2vec-audio"), _SOUND),
    **dict.fromkeys(("swin", "swinv2", "donut-swin"), _WINDOWS),
    "whisper": {"max_source_positions": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "esm": {"pad_token_id": 1, "position_embedding_type": "rotary"},
}


def tiny(model_type, seed=0, **given):
    """A small model of the architecture, in eval mode: ``tiny("bert")``.

    ``given`` are fields of its configuration.  Raises ValueError for an unknown architecture.
    """
    with quiet():
        from transformers import AutoConfig, AutoModel

        given = BESIDES.get(model_type, {}) | given
        config = small_config(AutoConfig.for_model(model_type), given)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        try:
            return AutoModel.from_config(config, attn_implementation="eager").eval()
        finally:
            torch.set_rng_state(state)


def small_config(config, given):
    """A configuration of the same class in which every size known by name is small."""
    sizes = {name: small for small, names in SMALL.items() for name in names.split()}
    chosen = {n: v for n, v in sizes.items() if _is_size(config, n)}
    chosen |= {n: v for n, v in SPECIAL.items() if getattr(config, n, None) is not None}
    for name, other in getattr(config, "attribute_map", {}).items():  # two names for one size
        if name in given or other in given:
            chosen.pop(name, None), chosen.pop(other, None)
    for name, value in vars(config).items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):  # one for each modality
            inner = small_config(value, given.get(name, {}))
            chosen[name] = {k: v for k, v in inner.to_dict().items() if k != "model_type"}
    named = {n: v for n, v in given.items() if not isinstance(chosen.get(n), dict)}
    return type(config)(**(chosen | named))


def _is_size(config, name):
    """Whether the configuration has this size, and takes it."""
    fixed = getattr(type(config), name, None)
    if isinstance(fixed, property) and fixed.fset is None:
        return False
    value = getattr(config, name, "there is none")
    return isinstance(value, int) or (
        value is None and name in ("vocab_size", "num_key_value_heads")
    )


def some_inputs(model, batch=2, tokens=7, seed=0):
    """Random inputs of the kind the model takes: words, an image, or sound; a dict."""
    generator = torch.Generator().manual_seed(seed)
    config, wanted = model.config, model.main_input_name
    text, vision = getattr(config, "text_config", config), getattr(config, "vision_config", config)

    def words(vocabulary, *shape):
        found = torch.randint(3, vocabulary, shape, generator=generator)
        end = getattr(text, "eos_token_id", None)
        if isinstance(end, int) and 0 <= end < vocabulary:
            found[:, -1] = end  # some models read from where a text ends
        return found

    def numbers(*shape):
        dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    def size(name, *holders, default):
        return next((getattr(h, name) for h in holders if getattr(h, name, None)), default)

    inputs = {}
    if wanted == "pixel_values" or hasattr(config, "vision_config"):
        image = size("image_size", vision, config, default=16)
        height, width = image if isinstance(image, list | tuple) else (image, image)
        channels = size("num_channels", vision, config, default=3)
        inputs["pixel_values"] = numbers(batch, channels, height, width)
    if wanted == "input_ids":
        inputs["input_ids"] = words(size("vocab_size", text, default=48), batch, tokens)
    if wanted == "input_values":
        one = math.prod(getattr(config, "conv_stride", None) or [1])
        inputs["input_values"] = numbers(batch, max(400, 8 * one))  # a few frames of sound
    if wanted == "input_features":
        bins = size("num_mel_bins", config, default=8)
        inputs["input_features"] = numbers(
            batch, bins, 2 * size("max_source_positions", config, default=64)
        )
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = words(size("vocab_size", text, default=48), batch, tokens)
    return inputs


@contextlib.contextmanager
def quiet():
    """What the library says while it builds a model (logs, warnings, bars) is not shown."""
    logger = logging.getLogger("transformers")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.utils import logging as library

        bars = library.is_progress_bar_enabled()
        library.disable_progress_bar()
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
            if bars:
                library.enable_progress_bar()
