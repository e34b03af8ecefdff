"""What `predict` knows: what stands in a model, what becomes of a bias there, and the theorem.

    reason_of("a sink: a logit that is no key's …")     # its answer in the table of what can go
    known()                                             # those answers, for a reader

The sentences are those of `predict`; the answer whose beginning one of them has is its reason.
A sentence that no answer begins is told as it is, without a theorem.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tables import Table
from .what_can_go import TABLE as ROWS
from .what_can_go.theorems import LINKS

#: How sentences of `predict` begin, the row of the table of what can go that speaks of them, and
#: the words of a report; the first that fits is taken.
SENTENCES = tuple(
    (begins, biases, row, words)
    for row, *said in (
        ("Plain softmax attention",
         ("the same vector is added to every key", "b_K", "softmax ignores it"),
         ("S: softmax ignores", "b_K", "softmax ignores it"),
         ("W_O b_V moves", "b_V", "it moves into b_O"),
         ("the query bias adds", "b_Q", "it reweights the keys")),
        ("RoPE on a part of each head",
         ("rotary positions turn", "b_K", "rotary positions turn it")),
        ("QK-norm with LayerNorm",
         ("LayerNorm of every", "b_K b_Q", "a LayerNorm erases its mean")),
        ("QK-norm with RMSNorm, and cosine attention",
         ("RMSNorm of every", "b_K b_Q", "an RMSNorm bends it"),
         ("division by length", "b_K b_Q", "it changes lengths")),
        ("Soft-capped scores", ("a soft cap", "b_K", "a soft cap bends the scores")),
        ("Sinks and softmax off by one",
         ("a sink takes a share", "b_V", "a sink takes a share of it"),
         ("a sink", "b_K", "a sink stands beside the keys")),
        ("Keys and values of another projection, without these biases",
         ("an extra key", "b_K", "some keys do not have it"),
         ("an extra value", "b_V", "some values do not have it")),
        ("A finite mask that replaces scores",
         ("a finite mask", "b_K", "the mask does not move with it")),
        ("Scores cut off from below",
         ("scores are cut off", "b_K", "scores that are cut off do not move with it")),
        ("DeBERTa's tables of positions",
         ("the keys also meet a table", "b_K", "it meets a table of positions")),
        ("A factor for each token on keys and values",
         ("the bias differs from", "b_K b_V", "it differs from token to token")),
        ("Keys centred over the features of a head, with RoPE",
         ("centring erases", "b_K", "centring erases it")),
        ("Queries and values centred over the tokens",
         ("the bias is taken off every", "b_Q b_V", "it is subtracted again")),
        ("Sigmoid attention",
         ("sigmoid", "b_K b_V", "the weights of sigmoid do not sum to one")),
        ("Softmax over the queries",
         ("softmax does not run over", "b_K b_V", "softmax does not run over the keys")),
        ("No output bias", ("there is no b_O", "b_V", "there is no b_O to take it")),
        ("A LayerNorm of each head before the output projection",
         ("a LayerNorm before W_O", "b_V", "a LayerNorm erases its mean")),
        ("An RMSNorm before the output projection",
         ("a norm before W_O", "b_V", "a norm before W_O bends it")),
        ("A gate before the output projection", ("a gate", "b_V", "a gate multiplies it")),
        ("b_O in pre-norm with LayerNorm",
         ("only LayerNorms read", "b_O", "LayerNorms erase its mean")),
        ("b_O in pre-norm with RMSNorm",
         ("an RMSNorm reads the stream", "b_O", "an RMSNorm reads the stream")),
        ("b_O on a stream that an injective linear map reads",
         ("a linear map reads the stream", "b_O", "a linear map reads the stream")),
        ("b_O on a stream that is returned",
         ("the stream is an output", "b_O", "the stream is an output")),
    )
    for begins, biases, words in said
)  # fmt: skip


@dataclass(frozen=True)
class Reason:
    """What of a ``bias`` ``goes`` ``where`` a model has a piece of the table, in a few ``words``.

    ``theorem`` is the number of the theorem of the book and ``link`` where it stands, in notebooks/;
    both are None where no theorem speaks of it, and the audit's measurement alone does.
    """

    begins: str  # the sentences of `predict`
    bias: str
    where: str
    goes: str
    words: str
    theorem: str | None = None

    @property
    def link(self):
        return LINKS.get(self.theorem)


def _reasons():
    rows = {row.title: row for row in ROWS}
    for begins, biases, title, words in SENTENCES:
        for bias in biases.split():
            answer = rows[title].answer(bias)
            yield Reason(begins, bias, title, answer.goes(), words, answer.theorem)


TABLE = tuple(_reasons())


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
    order = "b_K", "b_V", "b_Q", "b_O"
    rows = {(r.bias, r.where): r for r in sorted(TABLE, key=lambda r: order.index(r.bias))}
    return Table(
        ("bias", "where the model has", "can go", "theorem"),
        tuple((r.bias, r.where, r.goes, linked(r) or "measured") for r in rows.values()),
    )


def linked(reason):
    """The number of the theorem of a `Reason`, as a link in Markdown; nothing where it has none."""
    return f"[{reason.theorem}]({reason.link})" if reason.theorem else ""
