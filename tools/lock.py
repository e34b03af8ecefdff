"""Write constraints.txt: the version of every package that requirements.txt pulls in.

Called by `make lock`, in the environment that it describes. What requirements.txt pins
is left out, and so are the packages that exist only beside a CUDA build of torch.
"""

import re
import sys
from importlib.metadata import distributions

from files import ROOT, Fault, in_a_sentence, write
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

OLDEST_PYTHON = "3.11.0"
HEADER = """\
# Everything that requirements.txt pulls in, pinned, torch's CUDA packages aside.
# Written by `make lock`, which first upgrades it all to the newest versions allowed.
"""
LEFT_OUT = re.compile(r"pip|wheel|triton|nvidia-.*|cuda-.*")


@in_a_sentence
def main():
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    direct = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", requirements, re.M)}
    pins = {}
    for found in distributions():
        if not SpecifierSet(found.metadata["Requires-Python"] or "").contains(OLDEST_PYTHON):
            raise Fault(
                f"{found.name} {found.version} does not run on Python {OLDEST_PYTHON}: "
                "pin an earlier version in requirements.txt, then run this again."
            )
        name = canonicalize_name(found.name)
        if name not in direct and not LEFT_OUT.fullmatch(name):
            pins[name] = found.version.partition("+")[0]
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    write(ROOT / "constraints.txt", HEADER + "".join(lines))
    print(f"constraints.txt: {len(lines)} packages pinned")


if __name__ == "__main__":
    sys.exit(main())
