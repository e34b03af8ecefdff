"""`python -m tools` lists its commands and runs them, or says in a sentence what is wrong."""

import pytest

from tools.__main__ import COMMANDS, first_sentence, main


def test_the_list_names_every_command_and_what_it_does(capsys):
    assert main() == 0
    said = capsys.readouterr().out
    for name, module in COMMANDS.items():
        assert f"  {name} " in said and first_sentence(module) in said


@pytest.mark.parametrize(
    ("given", "complaint"),
    [(["nothing"], "no command nothing"), (["rocq", "a", "b", "c"], "too many")],
)
def test_what_cannot_be_run_is_refused(given, complaint, capsys):
    assert main(*given) == 1
    assert complaint in capsys.readouterr().err
