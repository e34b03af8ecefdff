"""The one table of what can go: every answer of the book, built, counted and moved.

A row is a piece of architecture, the answer for each of its biases, and what breaks it.  From here
come the decision page, the tables of chapters 8b, 13 and 14, and the words of a report; a test
builds each row at two sizes and compares.

To read it: ``answers`` (what a row says), ``piece``, ``attention``, ``norms`` and ``blocks`` (what
is built), ``rows_attention``, ``rows_weights``, ``rows_norms`` and ``rows_blocks`` (the table), ``measuring``.
"""

from .rows_attention import ATTENTION
from .rows_blocks import MODELS, STREAM
from .rows_norms import BEFORE, BEHIND
from .rows_weights import RARER, WEIGHTS

#: The table, by the heading under which the decision page has its rows.
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
