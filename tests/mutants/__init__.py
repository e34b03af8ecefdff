"""Mistakes made on purpose in the book's code: is each of them noticed?

`mistakes` makes them, `places` says where and who has to notice, and `run` is the command behind
``make nightly ONLY=mutants``.  `equivalent.yml` holds the reasons of those that nothing notices.
"""
