"""What `predict` knows: what stands in a model, what becomes of a bias there, and the theorem.

    reason_of("a sink: a logit that is no key's …")     # its row of the table below
    known()                                             # the table itself, for a reader

The sentences are those of `predict`; the first row of the table whose beginning one of them has
is its reason.  A sentence that no row knows is told as it is, without a theorem.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tables import Table

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


@dataclass(frozen=True)
class Reason:
    """A row: what stands in the model, and what of one ``bias`` can go there, in a few ``words``.

    ``theorem`` is the number of the theorem of the book and ``link`` where it stands, in notebooks/;
    both are None where no theorem speaks of it, and the audit's measurement alone does.
    """

    begins: str  # the sentences of `predict`
    bias: str
    where: str
    goes: str
    words: str
    theorem: str | None = None
    link: str | None = None


_ALL, _MEAN_GOES, _NONE = "all", "its mean", "nothing"
ORDER = ("b_K", "b_V", "b_Q", "b_O")
#: In the order in which they are asked for.
TABLE = tuple(
    Reason(*row)
    for row in (
        # b_K: the last of its sentences says what stands between the keys and the scores
        ("the same vector is added to every key", "b_K", "softmax over the keys",
         _ALL, "softmax ignores it", "3.3", _CANCELS),
        ("S: softmax ignores", "b_K", "softmax over the keys",
         _ALL, "softmax ignores it", "3.3", _CANCELS),
        ("rotary positions turn", "b_K", "rotary positions",
         "what is not turned", "rotary positions turn it", "5.4", _TURNED),
        ("LayerNorm of every", "b_K, b_Q", "a LayerNorm of keys or queries",
         _MEAN_GOES, "a LayerNorm erases its mean", "7.1", _MEAN),
        ("RMSNorm of every", "b_K, b_Q", "an RMSNorm of keys or queries",
         _NONE, "an RMSNorm bends it", "7.6", _RMS),
        ("division by length", "b_K, b_Q", "cosine attention",
         _NONE, "it changes lengths", "7.2", _ONLY_MEAN),
        ("a soft cap", "b_K", "a soft cap on the scores",
         _NONE, "a soft cap bends the scores", "5.1", _CAPPED),
        ("a sink takes a share", "b_V", "a sink, or softmax off by one",
         _NONE, "a sink takes a share of it", "14.1", _SINK_OF_VALUE),
        ("a sink", "b_K", "a sink, or softmax off by one",
         _NONE, "a sink stands beside the keys", "5.5", _SINK),
        ("an extra key", "b_K", "an appended key without the bias",
         _NONE, "an appended key does not have it", "5.5", _SINK),
        ("a finite mask", "b_K", "a mask by a number that softmax sees",
         _NONE, "a finite mask stays behind", "11.7", _MASKED),
        ("scores are cut off", "b_K", "scores cut off from below",
         _NONE, "scores that are cut off stay behind"),
        ("the keys also meet a table", "b_K", "keys that meet a table of positions",
         _NONE, "it meets a table of positions", "11.10", _TABLE),
        ("the bias differs from", "b_K, b_V", "a factor that differs from token to token",
         "what is the same at every token", "it differs from token to token"),
        ("centring erases", "b_K, b_Q", "a centring over some features",
         "what it erases", "centring erases it"),
        ("the bias is taken off every", "b_K, b_Q, b_V", "a mean over tokens, subtracted",
         _ALL, "it is taken off again"),
        ("sigmoid", "b_K, b_V", "sigmoid in place of softmax",
         _NONE, "sigmoid has no rows that sum to one"),
        ("softmax does not run over", "b_K, b_V", "softmax over another axis",
         _NONE, "softmax does not run over the keys"),
        # b_V: sums of rows, and what stands between them and the stream
        ("W_O b_V moves", "b_V", "softmax over the keys, and b_O",
         _ALL, "it moves into b_O", "4.3", _FOLDS),
        ("there is no b_O", "b_V", "no b_O",
         "what W_O does not show", "there is no b_O to take it", "4.2", _PASSES),
        ("a LayerNorm before W_O", "b_V", "a LayerNorm before W_O",
         _MEAN_GOES, "a LayerNorm erases its mean", "7.1", _MEAN),
        ("a norm before W_O", "b_V", "another norm before W_O",
         _NONE, "a norm before W_O bends it"),
        ("a gate", "b_V", "a gate on the heads",
         _NONE, "a gate multiplies it"),
        ("an extra value", "b_V", "an appended value without the bias",
         _NONE, "an appended value does not have it", "11.2", _APPENDED),
        # b_Q and b_O
        ("the query bias adds", "b_Q", "scores by products with the keys",
         _NONE, "it reweights the keys", "4.5", _REWEIGHTS),
        ("only LayerNorms read", "b_O", "a stream that only LayerNorms read",
         _MEAN_GOES, "LayerNorms erase its mean", "8.1", _STREAM),
        ("an RMSNorm reads the stream", "b_O", "an RMSNorm on the stream",
         _NONE, "an RMSNorm hears all of it", "7.6", _RMS),
        ("a linear map reads the stream", "b_O", "a linear map on the stream",
         _NONE, "a linear map hears all of it", "8.1", _STREAM),
        ("the stream is an output", "b_O", "a stream that is returned",
         _NONE, "it is an output", "8.1", _STREAM),
    )
)  # fmt: skip


def reason_of(sentence):
    """The `Reason` behind a sentence of `predict`; its own words where the table has none."""
    for reason in TABLE:
        if sentence.startswith(reason.begins):
            return reason
    return Reason(sentence, "", "", "", sentence)


def reason_for(sentences):
    """The `Reason` for all that `predict` says of one bias: the last sentence that is known."""
    found = [reason_of(s) for s in reversed(sentences)]
    known = [r for r in found if r.theorem] or found
    return known[0] if known else reason_of("")


def known():
    """What `predict` knows, a `Table`: in a notebook each row links to its theorem."""
    rows = {(r.bias, r.where): r for r in TABLE}.values()  # two sentences may begin one row
    return Table(
        ("bias", "where the model has", "can go", "theorem"),
        tuple((r.bias, r.where, r.goes, linked(r) or "measured")
              for r in sorted(rows, key=lambda r: ORDER.index(r.bias[:3]))),
    )  # fmt: skip


def linked(reason):
    """The number of the theorem of a `Reason`, as a link in Markdown; nothing where it has none."""
    return f"[{reason.theorem}]({reason.link})" if reason.theorem else ""
