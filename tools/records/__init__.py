"""What is measured, proved or counted apart from the build, and written into files of the book.

Each module is a command of `python -m tools` that a person runs after a change, or the nightly run.
"""
