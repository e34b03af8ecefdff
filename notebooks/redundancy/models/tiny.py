"""Tiny models of any architecture in `transformers`, and inputs for them, without a download.

    model = tiny("gpt2")                       # random weights, from the configuration alone
    model = tiny("llama", attention_bias=True)
    inputs = some_inputs(model)                # a dict of tensors, the same in every run

The name of a field determines its small value (`SPECIAL`, `SMALL`): mostly 32 or 64 for a width, 4
for heads, 2 for layers; other values can be given.  The library initialises the weights at random,
with a fixed seed.
"""

from __future__ import annotations

import contextlib
import logging
import re
import warnings

import torch

from ..measure.precision import plainly_attending
from .guessing import some_inputs  # noqa: F401  (drawn for models of the zoo)
from .sizes import STREAM, is_config, is_count, kind_of

#: The small value of some fields by name, and of each other size by its kind (`sizes.KINDS`).
SPECIAL = {
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "type_vocab_size"), 2),
    **{"image_size": 16, "patch_size": 4, "num_channels": 3, "num_mel_bins": 8, "rotary_dim": 4},
    **{"projection_dim": 32, "hidden_dim": 64},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    **{"forced_eos_token_id": None, "use_cache": False},
}
SMALL = {"heads": 4, "depth": 2, "part": 8, "experts": 2, "top": 2}
SMALL |= {"positions": 64, "vocabulary": 48}
#: Names of the widths of hidden layers.
INNER = re.compile("intermediate|ffn|mlp|d_ff|feed_?forward|n_inner|dff")
#: Further fields that some architectures need in order to be small, or to run at all.
_SOUND = {
    **{"conv_dim": [8, 8], "conv_stride": [4, 4], "conv_kernel": [4, 4]},
    **{"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4},
    "num_conv_pos_embedding_groups": 2,
}
_WINDOWS = {"embed_dim": 16, "num_heads": [2, 4], "depths": [1, 1], "window_size": 2}
BESIDES: dict[str, dict] = {
    **dict.fromkeys(("wav2vec2", "hubert", "wavlm", "unispeech", "data2vec-audio"), _SOUND),
    **dict.fromkeys(("swin", "swinv2", "donut-swin"), _WINDOWS),
    "whisper": {"max_source_positions": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "esm": {"pad_token_id": 1, "position_embedding_type": "rotary"},
}


def tiny(model_type: str, seed: int = 0, **given) -> torch.nn.Module:
    """A small model of the architecture, in eval mode: ``tiny("bert")``.

    ``given`` are fields of the configuration.  Raises ValueError for an unknown architecture.
    """
    with quiet():
        from transformers import AutoConfig, AutoModel

        given = BESIDES.get(model_type, {}) | given
        config = _small_config(AutoConfig.for_model(model_type), given)
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return plainly_attending(AutoModel.from_config(config)).eval()


def _small_config(config, given):
    """A configuration of the same class in which every size whose name is known is small."""
    chosen, aliases = {}, getattr(config, "attribute_map", {})
    given = {aliases.get(name, name): value for name, value in given.items()}
    for name, value in vars(config).items():
        if is_config(value):  # the configuration of a part, such as the text or the image part
            inner = _small_config(value, given.pop(name, {}))
            chosen[name] = {k: v for k, v in inner.to_dict().items() if k != "model_type"}
        elif (small := _small(name, value)) != value:
            chosen[name] = small
    return type(config)(**(chosen | given))


def _small(name, value):
    """The small value of a field that is a size, and the given value of any other field."""
    if name in SPECIAL and (value is not None or name == "num_key_value_heads"):
        return SPECIAL[name]
    if not is_count(value) and name != "vocab_size" or value == 0:
        return value
    width = 32 if name in STREAM else 64 if INNER.search(name) else value
    return {**SMALL, "width": width}.get(kind_of(name), value)


@contextlib.contextmanager
def quiet():
    """A context that hides the logs, warnings and progress bars of the library."""
    logger = logging.getLogger("transformers")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also for this import, which warns in a notebook
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
