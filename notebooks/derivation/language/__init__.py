"""What a reader writes: letters, matrices, words, and what replaces what.

Read ``letters``, ``index_forms``, ``shapes``, ``operations`` and ``matrices`` first; then ``symbols``,
``substitution``, ``templates``, ``definitions`` and ``vocabulary``.  An operation holds its own
printed form; ``name_clashes``, ``shown_sizes``, ``omitted_arguments`` and ``line_breaks`` decide
what a print shows.  Nothing here is trusted.
"""
