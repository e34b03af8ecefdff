"""Numbers that test a line: exact counterexamples, and runs in torch.

``evaluation`` interprets terms without the kernel; ``counterexamples`` searches small sizes;
``torch_runs`` also runs each proved line.
"""

from .counterexamples import Counterexample, NoCounterexample, counterexample
from .torch_runs import run_in_torch, torch_is_here

__all__ = ["Counterexample", "NoCounterexample", "counterexample", "run_in_torch", "torch_is_here"]
