"""The sheets that are drawn by a seed: solvable, gradable, and with a false neighbour each."""

import assignments
import nbformat
import pytest
from assignments import SOLUTION, versions
from families import families, name_of, sheet
from submissions import by_question, graded, in_the_place_of_the_solution, with_answers

CHAPTERS = sorted(families())
SEEDS = ("1", pytest.param("autumn", marks=pytest.mark.nightly))

#: What an answer of a kind returns for a claim, and the parts, a and b, that it gets.
ANSWERS = {
    "assumed": ("return Derivation('it', left).by(right, given(left, right)).qed()", "00"),
    "guessed": ("return claim == 'A'", "00"),
    "found": ("return counterexample(left, right, 1000)", "10"),
}


def passed(cells, number, answer):
    """Which parts of a question pass, as ones and zeros, when its cell holds ``answer``."""
    names, result = {}, ""
    for cell in cells:
        name, source = cell.metadata.nbgrader.grade_id, cell.source
        if cell.cell_type != "code" or name[0] == "q" and name[1] != str(number):
            continue
        if not name.endswith("-tests"):
            exec(answer if name == f"q{number}" else source, names)
            continue
        try:
            exec(source, names)
            result += "1"
        except AssertionError:
            result += "0"
    return result


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_is_right_passes_and_what_is_assumed_or_half_does_not(chapter, seed):
    cells = sheet(chapter, seed).cells
    for number in (1, 2):
        source = next(c.source for c in cells if c.id == f"q{number}")
        assert passed(cells, number, SOLUTION.sub(lambda found: found[2], source + "\n")) == "11"
        for kind, (code, parts) in ANSWERS.items():
            if kind == "assumed" and "SECOND_MOMENTS" in source:
                continue  # minutes: every assumed moment is matched against every other
            assert passed(cells, number, in_the_place_of_the_solution(source, code)) == parts


def test_every_chapter_has_two_families_whose_letters_differ():
    assert CHAPTERS == list(range(17))
    for two in families().values():
        assert len(two) == 2
        for family in two:
            letters = [letter for pool in family["letters"].values() for letter in pool]
            assert len(set(letters)) == len(letters), family["name"]


def test_another_seed_is_another_sheet_and_the_same_one_the_same():
    texts = {nbformat.writes(sheet(3, seed)) for seed in map(str, range(12))}
    assert len(texts) > 6 and nbformat.writes(sheet(3, "1")) in texts


def test_a_sheet_is_graded_like_an_assignment(tmp_path, monkeypatch):
    name = f"{name_of(3)}.ipynb"
    made = versions(name, sheet(3, "1"))
    (tmp_path / name).write_text(made["source"], encoding="utf-8")
    solved, untouched = (nbformat.reads(made[v], as_version=4) for v in ("solution", "student"))
    assert by_question(graded(solved, tmp_path, tmp_path / name)) == {"q1": (3, 3), "q2": (3, 3)}
    source = nbformat.reads(made["source"], as_version=4)
    found = next(cell.source for cell in source.cells if cell.id == "q1")
    half = in_the_place_of_the_solution(found, ANSWERS["found"][0])
    report = graded(with_answers(untouched, q1=half), tmp_path, tmp_path / name)
    assert by_question(report) == {"q1": (1, 3), "q2": (0, 3)}
    believed = "Whoever takes it for true"
    assert believed not in made["student"] and believed in made["solution"]
    monkeypatch.delenv("SEED", raising=False)
    assert assignments.seed() == "1"
