"""What a reader writes: letters, matrices, words, and what replaces what.

``letters``, ``operations`` and ``matrices`` come first; then ``symbols``, ``vocabulary``,
``substitution`` and ``definitions``.  Nothing here is trusted.
"""
