"""The table of which biases can go, with every answer tested on small modules.

A row names a piece of architecture, says how much of each bias can go, and lists what changes
these answers.  The decision page and the tables of the index and of chapter 8b come
from this table; a test builds each row's modules at two sizes and checks all answers.

Read ``answers`` first (what a row says), then ``piece``, ``attention``, ``blocks`` and ``norms``
(what a row builds), ``rows_attention``, ``rows_weights``, ``rows_norms`` and ``rows_blocks`` (the
rows), and last ``measuring`` (how a row is tested).  ``theorems`` links the numbers of theorems.
"""

from .rows_attention import ATTENTION
from .rows_blocks import MODELS, STREAM
from .rows_norms import BEFORE, BEHIND
from .rows_weights import RARER, WEIGHTS

#: The rows of the table, by the heading under which the decision page shows them.
GROUPS = {
    "Attention": ATTENTION,
    "Between scores and output": WEIGHTS,
    "Rarer attention": RARER,
    "Before a norm": BEFORE,
    "Behind a norm, and at the ends of a model": BEHIND,
    "What a block writes to the stream": STREAM,
    "Whole blocks": MODELS,
}
TABLE = tuple(row for rows in GROUPS.values() for row in rows)

__all__ = ["GROUPS", "TABLE"]
