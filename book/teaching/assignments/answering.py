"""The process in which students' programs run.  It answers requests; nobody trusts what it says.

Requests come as pickles from the process that judges.  A reply is a line of base64 of what
``torch.save`` writes, and is read with ``weights_only=True``: numbers, texts, lists, tensors, and
some modules.
"""

import base64
import builtins
import contextlib
import io
import os
import pickle
import sys
import types

import torch


class Asked(pickle.Unpickler):
    """Reads a request; a function of the judging process arrives as one that asks it back."""

    persistent_load = staticmethod(lambda number: lambda *args, **named: call(number, args, named))


def call(number, args, named):
    """Call a function of the judging process from a student's program."""
    send("call", number, args, named)
    raised, value = Asked(source).load()
    if raised:
        raise RuntimeError(value)
    return value


def send(*message):
    file = io.BytesIO()
    torch.save(message, file)
    target.write(base64.b64encode(file.getvalue()) + b"\n")
    target.flush()


def setup(code):
    """Run a cell of the assignment and remember the names that it defines."""
    before = dict(names)
    exec(compile(code, "the setup", "exec"), names)
    given.update({k: v for k, v in names.items() if before.get(k, given) is not v})


def run(code, wanted):
    """Run a cell of the student; return its values, {name: value}, and names of its functions.

    The names of the setup and of Python are restored before the cell runs.
    """
    for name in [n for n in dir(builtins) if n in names and n[:2] != "__"]:
        del names[name]
    names.update(given)
    exec(compile(code, "the answer", "exec"), names)
    found = {name: names[name] for name in wanted if name in names}
    is_data = lambda x: not callable(x) or isinstance(x, torch.nn.Module)
    values = {name: x for name, x in found.items() if is_data(x)}
    return values, [name for name in found if name not in values]


def use(name, args, named):
    """What an answer's function returns, and its arguments, which it may have changed."""
    returned = names[name](*args, **named)
    keep = lambda x: x.detach() if isinstance(x, torch.Tensor) else x
    changed = [x if isinstance(x, (torch.Tensor, torch.nn.Module)) else None for x in args]
    return keep(returned), [keep(x) for x in changed]


def serve():
    asked = {"setup": setup, "run": run, "use": use}
    while True:
        what, *parts = Asked(source).load()
        try:
            reply = ("done", asked[what](*parts))
        except BaseException as error:  # also the SystemExit of an answer that calls exit()
            said = "" if isinstance(error, MemoryError) else str(error)
            reply = ("failed", f"{type(error).__name__}: {said}")
        try:
            send(*reply)
        except Exception as error:
            send("failed", f"TypeError: the answer cannot be handed in as data: {error}")


def limit(megabytes):
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    # Programs read nothing from the pipes and write nothing to the terminal.
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    sys.path.insert(0, os.getcwd())
    sys.modules["assignment"] = assignment = types.ModuleType("assignment")
    names, given = vars(assignment), {}
    limit(int(sys.argv[1]))
    serve()
