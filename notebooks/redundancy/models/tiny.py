"""Tiny models of any architecture in `transformers`, and inputs for them, without a download.

    model = tiny("gpt2")                       # random weights, from the configuration alone
    model = tiny("llama", attention_bias=True)
    inputs = some_inputs(model)                # a dict of tensors, the same in every run

The name of a field determines its small value (`SMALL`): 32 for a width, 4 for heads, 2 for layers;
other values can be given.  The library initialises the weights at random, with a fixed seed.
"""

from __future__ import annotations

import contextlib
import logging
import warnings

import torch

from ..precision import plainly_attending
from .guessing import some_inputs  # noqa: F401  (drawn for models of the zoo)
from .sizes import INNER, STREAM, Number, is_config, is_count

#: The small value of each kind of size (`sizes.KINDS`), and of some fields by name.
SMALL = {"heads": 4, "depth": 2, "part": 8, "experts": 2, "top": 2}
SMALL |= {"positions": 64, "vocabulary": 48}
SPECIAL = {
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "type_vocab_size"), 2),
    **{"image_size": 16, "patch_size": 4, "num_channels": 3, "num_mel_bins": 8, "rotary_dim": 4},
    **{"projection_dim": 32, "hidden_dim": 64},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    **{"forced_eos_token_id": None, "use_cache": False},
}
#: Further fields that some architectures need in order to be small, or to run at all.
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

    ``given`` are fields of the configuration.  Raises ValueError for an unknown architecture.
    """
    with quiet():
        from transformers import AutoConfig, AutoModel

        given = BESIDES.get(model_type, {}) | given
        config = small_config(AutoConfig.for_model(model_type), given)
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return plainly_attending(AutoModel.from_config(config)).eval()


def small_config(config, given):
    """A configuration of the same class in which every size whose name is known is small."""
    chosen = {n: v for n in vars(config) if (v := _small(config, n)) is not None}
    chosen |= {n: v for n, v in SPECIAL.items() if getattr(config, n, None) is not None}
    for name, other in getattr(config, "attribute_map", {}).items():  # some sizes have two names
        if name in given or other in given:
            chosen.pop(name, None), chosen.pop(other, None)
    for name, value in vars(config).items():
        if is_config(value):  # the configuration of a part, such as the text or the image part
            inner = small_config(value, given.get(name, {}))
            chosen[name] = {k: v for k, v in inner.to_dict().items() if k != "model_type"}
    named = {n: v for n, v in given.items() if not isinstance(chosen.get(n), dict)}
    return type(config)(**(chosen | named))


def _small(config, name):
    """The small value of a field that is a size; None for any other field."""
    value, unset = getattr(config, name), ("vocab_size", "num_key_value_heads")
    if not (is_count(value) or value is None and name in unset):
        return None
    kind = Number((name,), (), 0).kind
    width = 32 if name in STREAM else 64 if INNER.search(name) and kind == "other" else None
    return SPECIAL.get(name, SMALL.get(kind, width)) if value != 0 else value


@contextlib.contextmanager
def quiet():
    """A context that hides the logs, warnings and progress bars of the library."""
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
