"""The kernel to come: it proves every line of the book, and will take the old normal form's place.

Read ``kernel/`` first: ``terms``, ``sorts``, ``conditions``, ``polynomials``, ``sums``, ``normal``,
``rules``.  It is all that will be trusted, of SymPy its polynomial rings, and imports nothing else of
the project.  ``bridge`` makes its terms of the book's expressions, ``justify`` justifies a line by its
rules, ``by_the_kernel`` puts it in the checker's place while a test runs.
"""
