"""On small modules, the rules of the shift calculus agree with the Jacobian and with finite moves."""

from itertools import count

import pytest
import torch
from architectures import ARCHITECTURES
from redundancy.measure.measurement import Measurement, unseen
from redundancy.measure.precision import one_thread_if_small
from redundancy.measure.subject import Subject, exactly
from redundancy.shift.following import follow

#: A change in an output counts as seen if it exceeds this share of the output's largest number.
SEEN = 1e-3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by PyTorch's compiler
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("title", ARCHITECTURES)
def test_the_calculus_finds_what_the_jacobian_measures(title):
    case = ARCHITECTURES[title]
    subject = Subject(case.build(), case.training, seed=case.seed)
    calls = lambda: (((case.input(seed),), {}) for seed in count())
    vectors = {name: p for name, p in subject.tensors.items() if p.dim() == 1}
    added = {name: p for name, p in vectors.items() if not name.endswith("weight")}
    with exactly(), one_thread_if_small(subject.model):
        with torch.no_grad():
            found = follow((lambda call=call: subject.run(call) for call in calls()), added)
        measured, move = Measurement(subject, calls(), added), found.moves.drawn(0)
        unknown = [
            event.words for event in found.labels if event.kind == "unknown"
        ] or found.unclear
        if case.unknown:  # the calculus must give up, or a move must change outputs
            assert unknown or measured.shows(move, SEEN)
        else:
            assert not unknown
            assert len(found.moves) == (case.redundant if case.finds is None else case.finds)
            assert not measured.shows(move, unseen(move), more=True)
        assert len(measured.basis()) == (case.redundant if case.counts is None else case.counts)
