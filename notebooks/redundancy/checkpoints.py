"""Load the model of a checkpoint, in the class it was saved as: with its head, if it has one."""

from __future__ import annotations

import os

from .zoo import quiet


class NoCheckpoint(OSError):
    """There is nothing that can be loaded under this name; says why, in one line."""


def load(name):
    """The model of a checkpoint: a folder, or a name on the hub, in the class it was saved as.

    A checkpoint that does not say its class is loaded without a head.  Raises NoCheckpoint.
    """
    if not isinstance(name, str | os.PathLike):
        raise NoCheckpoint(f"a {type(name).__name__} is neither a model nor a checkpoint's name")
    with quiet():
        import transformers

        try:
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            saved_as = (config.architectures or [None])[0]
            saved_as = getattr(transformers, saved_as or "AutoModel")
            return saved_as.from_pretrained(name)
        except Exception as error:  # a library of its own kinds, and those of the network
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise NoCheckpoint(f"no model can be loaded from {str(name)!r}: {reason}") from None
