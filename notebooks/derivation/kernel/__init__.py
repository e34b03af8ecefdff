"""Terms, sorts, conditions, polynomials, sums, normal forms, rules: to be read in this order.

Trusted are these modules, SymPy's polynomial rings over the rationals, and Python.  A theorem is made
by the nine rules in ``rules`` and by nothing else.
"""
