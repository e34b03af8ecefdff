"""Derivations: each line is justified by the rules of the kernel, and then printed.

``proof_search`` searches and ``proofs`` demands; ``theorems`` are what results, and ``display``
and ``where_clause`` print them.
"""
