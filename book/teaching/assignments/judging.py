"""The process that judges one submission: it runs the assignment's cells, and asks for answers.

``grade.py`` starts it and sends it the steps.  Setup and tests run here; students' programs run in
a process behind a wall, and only data comes back from there.  A formula of a student is read here.
"""

import base64
import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import time
import types
from fractions import Fraction
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import formula_reader  # noqa: E402
from answering import limit  # noqa: E402
from walls import keep_to_itself  # noqa: E402

#: What an answer may return besides numbers, texts, lists and tensors.  A test reads the parameters
#: of a module and does not run it.
READ = [
    nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm,
    nn.GroupNorm, nn.RMSNorm, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.Sequential,
    nn.modules.linear.NonDynamicallyQuantizableLinear, nn.Dropout, nn.Identity, nn.ReLU, nn.GELU,
    nn.functional.relu, nn.functional.gelu, Fraction,
]  # fmt: skip
torch.serialization.add_safe_globals(READ)
LARGEST = 256 << 20  # bytes in one message of an answer


class Gone(Exception):
    """The process in which the answers ran has ended."""


class Failed(Exception):
    """An answer is wrong; the message is the reason."""


class Question(pickle.Pickler):
    """Writes a request; a function of the assignment is replaced by its number."""

    def __init__(self, file, functions):
        super().__init__(file)
        self.functions = functions

    def persistent_id(self, x):
        if not isinstance(x, (types.FunctionType, Answer)) or x.__module__ != "assignment":
            return None
        self.functions.append(x)
        return len(self.functions) - 1


class Answers:
    """The process of the answers, as seen from here."""

    def __init__(self, wall, folder, megabytes):
        program = (HERE / "answering.py").read_text(encoding="utf-8")
        self.process = subprocess.Popen(
            [*wall, sys.executable, "-c", program, str(megabytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
            start_new_session=True,  # or a signal to its group would reach this process, too
        )  # fmt: skip

    def ask(self, *request):
        """The value that the process returns; raises Failed, or Gone."""
        functions = []
        self._send(request, functions)
        while True:
            match self._received():
                case ("done", value):
                    return value
                case ("failed", str(error)):
                    raise Failed(f"stops with {error}")
                case ("call", int(number), tuple(args), dict(named)):
                    try:
                        reply = False, functions[number](*args, **named)
                    except Exception as error:
                        reply = True, f"{type(error).__name__}: {error}"
                    self._send(reply, functions)
                case _:
                    raise Failed("is not read: it wrote on the pipe that carries answers")

    def _send(self, message, functions):
        file = io.BytesIO()  # whole, or nothing is sent
        Question(file, functions).dump(message)
        try:
            self.process.stdin.write(file.getvalue())
            self.process.stdin.flush()
        except OSError:
            raise Gone from None

    def _received(self):
        line = self.process.stdout.readline(LARGEST)
        if not line.endswith(b"\n"):
            raise Gone
        try:
            return torch.load(io.BytesIO(base64.b64decode(line)), weights_only=True)
        except Exception:
            raise Failed("is not made of numbers, texts, lists and tensors") from None


class Answer:
    """A function that an answer defines; calling it asks the answers' process."""

    __module__ = "assignment"

    def __init__(self, answers, name):
        self.answers, self.__name__ = answers, name

    def __call__(self, *args, **named):
        returned, changed = self.answers.ask("use", self.__name__, args, named)
        for mine, theirs in zip(args, changed, strict=True):
            _follow(mine, theirs)
        return returned


@torch.no_grad()
def _follow(mine, theirs):
    """Change an argument as the answer has changed its copy of it."""
    if isinstance(mine, torch.Tensor):
        mine.copy_(theirs) if mine.is_leaf else None
    elif isinstance(mine, nn.Module) and isinstance(theirs, nn.Module):
        state = nn.Module.state_dict(theirs)
        for name in mine.state_dict().keys() - state.keys():
            owner, _, last = name.rpartition(".")
            setattr(mine.get_submodule(owner), last, None)
        mine.load_state_dict(state, strict=False)
        mine.train(theirs.training is True)


class Judge:
    """Runs the steps of one submission, in a namespace that no answer reaches."""

    def __init__(self, answers):
        self.answers = answers
        sys.modules["assignment"] = module = types.ModuleType("assignment")
        self.names, self.given = vars(module), {}

    def setup(self, step):
        before = dict(self.names)
        self.tests(step)
        self.given.update({k: v for k, v in self.names.items() if before.get(k, self) is not v})
        with contextlib.suppress(Failed):  # a cell of the student spoils it for the answers alone
            self.answers.ask("setup", step["source"])

    def tests(self, step):
        exec(compile(step["source"], step["name"], "exec"), self.names)

    def answer(self, step):
        """Run an answer, and take the names that it should define; tests say which are missing."""
        values, functions = self.answers.ask("run", step["source"], step["names"])
        for name in step["names"]:
            if name in functions:
                self.names[name] = Answer(self.answers, name)
            elif name in values:
                self.names[name] = values[name]

    added = answer  # a cell that the student added; its ``names`` are those of the last answer

    def formulas(self, step):
        given = {name: x for name, x in self.given.items() if name[0] != "_"}
        found = formula_reader.read(step["source"], given)
        self.names.update({name: found[name] for name in step["names"] if name in found})

    def error_in(self, step):
        """What is wrong with a step, or ""."""
        try:
            getattr(self, step["kind"])(step)
        except AssertionError as error:
            return str(error) or "an assertion fails"
        except (Failed, formula_reader.NotAFormula) as error:
            return str(error)
        except Gone:
            raise
        except Exception as error:
            return f"stops with {type(error).__name__}: {error}"
        return ""


def main():
    """Read the task from standard input; write what is wrong with each step, or "", as JSON.

    Then wait for ``grade.py``, which looks for all that was started here, and kills it.
    """
    events, task = os.fdopen(os.dup(1), "w"), json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    keep_to_itself()
    limit(task["megabytes"])
    sys.path.insert(0, os.getcwd())
    judge = Judge(Answers(task["wall"], task["folder"], task["megabytes"]))
    with events, contextlib.suppress(Gone):
        for step in task["steps"]:
            print(json.dumps(judge.error_in(step)), file=events, flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main()
