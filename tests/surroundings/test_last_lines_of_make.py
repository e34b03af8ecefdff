"""`make test` ends with what failed, in whichever of its runs, and with its exit status."""


def test_a_green_run_and_one_whose_notebooks_fail(checkout):
    status, said = checkout.make("test")
    assert status == 0
    assert said.endswith("\n\n1 cells of notebooks and 1 tests passed, 0 failed, 0 skipped.\n")
    checkout.notebook("two", "print(6 * 7)", "43\n")
    status, said = checkout.make("test")
    assert status != 0 and "1 passed" in said  # the tests, which come after it
    *_, failed, numbers, why = said.splitlines()[-3:]
    assert failed == "FAILED notebooks/two.ipynb::Cell 0 - Cell outputs differ"
    assert numbers == "1 tests passed, 1 failed, 0 skipped."
    assert "Error" in why  # make's own line
