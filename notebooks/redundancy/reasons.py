"""In a few words why a bias can go or stays, and the theorem of the book that says so.

    reason_of("a sink: a logit that is no key's …")     # Reason("a sink sees it", "5.5", "05b-…")

The sentences are those of `predict`; the first row of the table whose beginning one of them has
is its reason.  A sentence that no row knows is told as it is, without a theorem.
"""

from __future__ import annotations

from dataclasses import dataclass

_CAPPED = "05-when-the-key-bias-comes-back.ipynb#a-soft-cap-keeps-r-and-loses-s"
_TURNED = (
    "05b-rotary-and-normalised-keys-bring-it-back.ipynb"
    "#under-rotary-positions-only-the-un-rotated-key-bias-cancels"
)
_SINK = "05b-rotary-and-normalised-keys-bring-it-back.ipynb#a-key-bias-under-a-sink-moves-the-sink"
_SINK_OF_VALUE = (
    "14b-what-a-fold-must-ask-first.ipynb#under-a-sink-the-fold-is-too-large-by-the-sink-s-weight"
)
_CANCELS = "03b-every-head-and-a-zero-gradient.ipynb#the-key-bias-cancels-in-every-head"
_FOLDS = "04-the-value-bias-leaves.ipynb#the-value-bias-folds-into-the-output-bias"
_PASSES = "04-the-value-bias-leaves.ipynb#the-value-bias-passes-through-attention"
_REWEIGHTS = "04b-the-query-bias-stays.ipynb#the-query-bias-reweights-the-keys"
_MEAN = "07-layer-norm-erases-only-its-mean.ipynb#layer-norm-erases-the-mean-of-the-bias"
_ONLY_MEAN = "07-layer-norm-erases-only-its-mean.ipynb#only-a-constant-bias-is-erased"
_RMS = "07b-other-norms-other-biases.ipynb#rms-norm-erases-no-bias"
_STREAM = "08-four-placements-one-block.ipynb#the-mean-of-the-stream-is-invisible"
_APPENDED = "11-every-redundant-direction.ipynb#the-extra-key-and-value-move-along"
_TABLE = "11d-around-the-softmax.ipynb#deberta-turns-the-key-bias-into-a-table-of-distances"
_MASKED = "11c-two-properties-decide.ipynb#under-a-replaced-mask-the-key-bias-moves-the-mask"

#: The beginning of a sentence, what it says in a few words, the theorem, where it stands.
TABLE = (
    ("rotary positions turn", "rotary positions turn it", "5.4", _TURNED),
    ("a sink takes a share", "a sink takes a share of it", "14.1", _SINK_OF_VALUE),
    ("a sink", "a sink stands beside the keys", "5.5", _SINK),
    ("a soft cap", "a soft cap bends the scores", "5.1", _CAPPED),
    ("the keys also meet a table", "it meets a table of positions", "11.10", _TABLE),
    ("a finite mask", "a finite mask stays behind", "11.7", _MASKED),
    ("there is no b_O", "there is no b_O to take it", "4.2", _PASSES),
    ("W_O b_V moves", "it moves into b_O", "4.3", _FOLDS),
    ("a LayerNorm before W_O", "a LayerNorm erases its mean", "7.1", _MEAN),
    ("LayerNorm of every", "a LayerNorm erases its mean", "7.1", _MEAN),
    ("RMSNorm of every", "an RMSNorm bends it", "7.6", _RMS),
    ("an RMSNorm reads the stream", "an RMSNorm hears all of it", "7.6", _RMS),
    ("only LayerNorms read", "LayerNorms erase its mean", "8.1", _STREAM),
    ("the stream is an output", "it is an output", "8.1", _STREAM),
    ("a linear map reads the stream", "a linear map hears all of it", "8.1", _STREAM),
    ("the query bias adds", "it reweights the keys", "4.5", _REWEIGHTS),
    ("division by length", "it changes lengths", "7.2", _ONLY_MEAN),
    ("the same vector is added to every key", "softmax ignores it", "3.3", _CANCELS),
    ("S: softmax ignores", "softmax ignores it", "3.3", _CANCELS),
    ("sigmoid", "sigmoid has no rows that sum to one", None, None),
    ("a gate", "a gate multiplies it", None, None),
    ("a norm before W_O", "a norm before W_O bends it", None, None),
    ("an extra key", "an appended key does not have it", "5.5", _SINK),
    ("an extra value", "an appended value does not have it", "11.2", _APPENDED),
)


@dataclass(frozen=True)
class Reason:
    """A few ``words``, the number of a ``theorem`` or None, and the ``link`` to it in notebooks/."""

    words: str
    theorem: str | None = None
    link: str | None = None


def reason_of(sentence):
    """The `Reason` behind a sentence of `predict`; its own words where the table has none."""
    for beginning, *reason in TABLE:
        if sentence.startswith(beginning):
            return Reason(*reason)
    return Reason(sentence)


def reason_for(sentences):
    """The `Reason` for all that `predict` says of one bias: the last sentence that is known."""
    found = [reason_of(s) for s in reversed(sentences)]
    known = [r for r in found if r.theorem] or found
    return known[0] if known else Reason("")
