"""Mistakes made on purpose in the book's code, to see whether each of them is noticed.

`mistakes` makes them, `places` says where and who judges, `run` is ``make nightly ONLY=mutants``.
"""
