"""Terms, sorts, conditions, polynomials, sums, normal forms and rules, to be read in this order.

You have to trust these modules, SymPy's polynomial rings over the rationals, and Python.  Only the
nine rules in ``rules`` make a theorem.
"""
