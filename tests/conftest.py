"""Seed every test alike, and mark as `nightly` the tests that do not run for every change."""

import random
import re
import sys

import pytest

NONE = "(?!)"  # a pattern that matches nothing
#: {part of a test's id: pattern}; if the rest of an id does not match, its test only runs nightly.
EVERY_TIME = {
    # only one page of each kind
    "site/test_site.py::test_a_page_is_complete": r"book/(index|theorems)\.|03-softmax|03-exerc|quiz-1",
    "site/test_buttons.py": r"every_button_does_something.*03-softmax|focus_is_kept",
    "site/test_pdf.py": "older_than",
    "site/test_live_proofs.py": r"true_line|false_line",
    "site/test_live_cells.py": r"\[03-softmax|\[15-",
    # only three copies for Colab
    "site/test_colab.py::test_a_copy_runs_alone": r"\[(00-exercises|03-softmax|12-exercises)",
    # only one assignment and one deck of slides; nbgrader would have to be installed first
    "course/test_grade.py::test_wrong_answers": r"part-2",
    "course/test_grade.py::test_a_solution": r"part-2",
    "course/test_grade.py::test_an_answer_counts": r"a loop|overwritten|parents|hidden|pickle|helper",
    "course/test_nbgrader.py": NONE,
    "course/test_assignments.py::test_one_hypothesis": r"\[(3|7|9)\]",
    "course/test_slides.py": r"lecture|tagged|refused",
    # the proofs of three chapters only, as nbval runs those of all chapters
    "derivation/test_the_book.py::test_the_checker": r"\[(03-softmax|07-|15-)",
    # only some architectures, because chapter 13 measures all of them
    "test_which_bias_can_go.py::test_an_architecture": r"\[(bert|gptj|nemotron|t5|qwen3)\]",
    # these need other versions of Python, or the proof assistant Rocq
    "tests/versions/": NONE,
    "tests/rocq/": NONE,
    # these test a module that only the nightly stage `processors` uses
    "processors/": NONE,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        for where, kept in EVERY_TIME.items():
            if where in item.nodeid and not re.search(kept, item.nodeid.partition(where)[2]):
                item.add_marker(pytest.mark.nightly)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    random.seed(0)
    if torch := sys.modules.get("torch"):  # most tests do not import torch
        torch.manual_seed(0)
