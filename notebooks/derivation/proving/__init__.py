"""Derivations: each line is justified by the rules of the kernel, and then printed.

``justify`` searches and ``proofs`` demands; ``theorems`` are what results, and ``display``
and ``where`` print them.
"""
