"""Measurements confirm every answer in the table of what can go, and refute its opposite."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from redundancy.what_can_go import TABLE
from redundancy.what_can_go.attention import Attention, causal
from redundancy.what_can_go.measuring import Followed, Measured, contradictions, modes, unseen
from redundancy.what_can_go.piece import SIZES, generic, normal
from redundancy.what_can_go.rows_blocks import MODELS

ROWS = {row.title: row for row in TABLE}
#: {title of a row or of what breaks it: (pieces, answers)}
CASES = {title: (row.pieces, row.answers) for title, row in ROWS.items()} | {
    f"{row.title}: {b.words}": ([b.piece], b.read()) for row in TABLE for b in row.breaks
}
way_of_counting = pytest.mark.parametrize("way", (Measured, Followed))


def contradicted(piece, answers, sizes, way=Measured):
    return [said for mode in modes(answers)
            for said in contradictions(generic(piece(sizes)), answers, mode, way)]  # fmt: skip


@way_of_counting
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: f"d={s.d}")
@pytest.mark.parametrize("title", CASES)
def test_measurement_and_calculus_confirm_the_table(title, sizes, way):
    pieces, answers = CASES[title]
    assert [said for p in pieces for said in contradicted(p, answers, sizes, way)] == []


@way_of_counting
@pytest.mark.parametrize("title", ROWS)
def test_the_opposite_of_an_answer_is_contradicted(title, way):
    row = ROWS[title]
    for number, answer in enumerate(row.answers):
        much, into = "all" if answer.stays else "stays", dict.fromkeys(answer.into, "")
        opposite = replace(answer, much=much, into=into, where="")
        answers = [*row.answers[:number], opposite, *row.answers[number + 1 :]]
        assert any(contradicted(piece, answers, SIZES[0], way) for piece in row.pieces), answer


@pytest.mark.parametrize("title", ROWS)
def test_a_change_with_the_wrong_sign_is_noticed(title):
    for answer in ROWS[title].answers:
        for name, by in answer.into.items():
            if answer.much == "all" and by:
                turned = {"+": "-", "-": "+"}[by[0]] + by[1:]
                wrong = [replace(answer, into={**answer.into, name: turned})]
                assert contradicted(ROWS[title].pieces[0], wrong, SIZES[0]), (answer, name)


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row.title)
def test_all_biases_of_a_block_become_zero_together(row):
    module = generic(row.pieces[0](SIZES[0]))
    answers = [a for a in row.answers if not a.aside and a.much == "all"]
    gone = [a.bias for a in answers]
    found = Measured(module, dict.fromkeys(s for a in answers for s in (a.bias, *a.into)))
    inputs = found.draw(0)
    before, bound = found.run({}, *inputs), 0.0
    # b_V goes last, because moving b_Q changes it
    for answer in sorted(answers, key=lambda a: a.bias == "b_V"):
        shifts = found.surgery(answer)
        bound += unseen(shifts)
        for name, shift in shifts.items():
            tensor, part = found.place[name]
            found.values[tensor][part] += shift.view_as(found.values[tensor][part])
    assert not any(module.symbols()[bias].any() for bias in gone)
    assert (found.run({}, *inputs) - before).abs().max() <= bound * before.abs().max()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bend", [None, causal])
def test_the_attention_of_the_table_equals_that_of_pytorch(bend, groups):
    sizes = replace(SIZES[0], g=groups)
    layer = generic(Attention(sizes, bend=bend))
    x = normal(torch.Generator().manual_seed(1), 2, sizes.n, sizes.d)
    q, k, v = (layer.heads(project(x)) for project in (layer.q, layer.k, layer.v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=bend is not None)
    # 1e-12 exceeds the rounding of a few dozen products of numbers below ten in float64
    assert (layer(x) - layer.o(mixed.transpose(1, 2).flatten(2))).abs().max() < 1e-12
    other = F.scaled_dot_product_attention(q, k, v, is_causal=bend is None)
    assert (layer(x) - layer.o(other.transpose(1, 2).flatten(2))).abs().max() > 1e-3
