"""Load a checkpoint as the class that it was saved from, or load only its configuration."""

from __future__ import annotations

import os

from ..measure.inputs import first_line
from .sizes import is_config
from .tiny import quiet


class NoCheckpoint(OSError):
    """Nothing can be loaded under this name; the message says why, in one line."""


def is_name(thing):
    """Whether something is the name of a checkpoint and not a model."""
    return isinstance(thing, str | os.PathLike)


def config_of(thing):
    """A given configuration, or the configuration in a file, in a folder, or on the hub.

    Raises NoCheckpoint.
    """
    if is_config(thing):
        return thing
    with quiet():
        import transformers

        try:
            return transformers.AutoConfig.from_pretrained(thing, trust_remote_code=False)
        except Exception as error:  # the library and the network may raise anything
            raise NoCheckpoint(_refusal("configuration", thing, error)) from None


def _refusal(what, name, error):
    return f"no {what} can be loaded from {str(name)!r}: {first_line(error)}"


def load(name):
    """The model in a checkpoint (a folder or a name on the hub), as the class it was saved from.

    A checkpoint that does not name its class is loaded without a head.  Raises NoCheckpoint.
    """
    if not is_name(name):
        raise NoCheckpoint(f"a {type(name).__name__} is neither a model nor a checkpoint's name")
    with quiet():
        import transformers

        try:
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            saved_as = (config.architectures or [None])[0]
            saved_as = getattr(transformers, saved_as or "AutoModel")
            return saved_as.from_pretrained(name)
        except Exception as error:  # the library and the network may raise anything
            raise NoCheckpoint(_refusal("model", name, error)) from None
