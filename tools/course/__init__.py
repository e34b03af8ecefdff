"""What a teacher hands out: assignments, slides, quizzes, and the archives that hold them all.

The sources are in `book/teaching/`, with the program that grades; `make course` packs the archives.
"""
