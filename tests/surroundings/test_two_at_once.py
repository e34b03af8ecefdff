"""Two in one checkout at the same time: the second waits or shares nothing, and both are whole."""

import os
import signal


def test_two_books(checkout):
    first = checkout.at("reading", "book")
    second = checkout.start("make", "book")
    lines = iter(second.stdout.readline, "")
    assert any("Another build of the book is under way in this checkout" in line for line in lines)
    checkout.moment.unlink()
    assert first.communicate(timeout=120)[0] and first.returncode == 0
    assert second.communicate(timeout=120)[0] and second.returncode == 0
    assert checkout.is_whole()


def test_a_build_whose_parents_were_killed_is_waited_for_too(checkout):
    """Only jupyter-book goes on: nobody would tell another of it but the lock."""
    first = checkout.at("reading", "book")
    os.kill(first.pid, signal.SIGKILL)
    for number, command in checkout.processes().items():
        if "tools/build_book.py" in command:
            os.kill(number, signal.SIGKILL)
    second = checkout.start("make", "book")
    lines = iter(second.stdout.readline, "")
    assert any("Another build of the book is under way" in line for line in lines)
    checkout.moment.unlink()
    said = second.communicate(timeout=120)[0]
    assert second.returncode == 0 and checkout.is_whole(), said
    assert "[100%]" in said  # all was read again
    first.communicate()


def test_the_tests_beside_a_book(checkout):
    book = checkout.at("reading", "book")
    status, said = checkout.make("test")
    assert status == 0, said
    checkout.moment.unlink(missing_ok=True)
    assert book.communicate(timeout=120)[0] and book.returncode == 0
    assert checkout.is_whole() and checkout.git("status", "--porcelain") == ""
