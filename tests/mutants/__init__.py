"""Deliberate mistakes in the book's code: is each of them noticed?

`operators` makes the mistakes, `notebooks` runs a notebook with each of them, `record` says in
which form the results are kept, and `run` is the command behind ``make nightly ONLY=mutants``.
"""
