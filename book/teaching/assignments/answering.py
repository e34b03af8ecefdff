"""The process in which students' programs run.  It answers requests; nobody trusts what it says.

Requests come as pickles from the process that judges.  Replies go back as ``torch.save`` writes
them, and are read with ``weights_only=True``: numbers, texts, lists, tensors, and some modules.
"""

import builtins
import contextlib
import io
import os
import pickle
import struct
import sys
import types

import torch


class Channel:
    """Messages, each after its length in eight bytes, over two pipes."""

    def __init__(self, source, target, largest=1 << 40):
        self.source, self.target, self.largest = source, target, largest

    def receive(self):
        """The next message, as bytes; raises EOFError at the end, or if a message is too large."""
        (size,) = struct.unpack("<Q", self._exactly(8))
        if size > self.largest:
            raise EOFError
        return self._exactly(size)

    def _exactly(self, size):
        data = self.source.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def send(self, data):
        self.target.write(struct.pack("<Q", len(data)) + data)
        self.target.flush()


class Asked(pickle.Unpickler):
    """Reads a request; a function of the judging process arrives as one that asks it back."""

    persistent_load = staticmethod(lambda number: lambda *args, **named: call(number, args, named))


def call(number, args, named):
    """Call a function of the judging process from a student's program."""
    send("call", number, args, named)
    raised, value = Asked(io.BytesIO(channel.receive())).load()
    if raised:
        raise RuntimeError(value)
    return value


def send(*message):
    file = io.BytesIO()
    torch.save(message, file)
    channel.send(file.getvalue())


def setup(source):
    """Run a cell of the assignment and remember the names that it defines."""
    before = dict(names)
    exec(compile(source, "the setup", "exec"), names)
    given.update({k: v for k, v in names.items() if before.get(k, given) is not v})


def run(source):
    """Run a cell of the student, after restoring the names of the setup and of Python."""
    for name in [n for n in dir(builtins) if n in names and n[:2] != "__"]:
        del names[name]
    names.update(given)
    exec(compile(source, "the answer", "exec"), names)


def value(name):
    """("function",) or ("value", the value) of a name that an answer defines."""
    found = names[name]
    is_data = not callable(found) or isinstance(found, torch.nn.Module)
    return ("value", found) if is_data else ("function",)


def use(name, args, named):
    """What an answer's function returns, and its arguments, which it may have changed."""
    returned = names[name](*args, **named)
    keep = lambda x: x.detach() if isinstance(x, torch.Tensor) else x
    changed = [x if isinstance(x, (torch.Tensor, torch.nn.Module)) else None for x in args]
    return keep(returned), [keep(x) for x in changed]


def serve():
    asked = {"setup": setup, "run": run, "value": value, "use": use}
    while True:
        what, *parts = Asked(io.BytesIO(channel.receive())).load()
        try:
            reply = ("done", asked[what](*parts))
        except MemoryError:
            reply = ("failed", "MemoryError", "")
        except BaseException as error:  # also the SystemExit of an answer that calls exit()
            reply = ("failed", type(error).__name__, str(error))
        try:
            send(*reply)
        except Exception as error:  # the answer is no data
            kind = type(reply[1]).__name__
            send("failed", "TypeError", f"a {kind} cannot be handed in as data: {error}")


def limit(megabytes):
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    # Programs read nothing from the pipes and write nothing to the terminal.
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    sys.path.insert(0, os.getcwd())
    assignment = types.ModuleType("assignment")
    sys.modules["assignment"] = assignment
    names, given = vars(assignment), {}
    limit(int(sys.argv[1]))
    serve()
