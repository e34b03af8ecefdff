"""Numbers that contradict a line: exact counterexamples, and runs in torch.

``evaluation`` interprets terms without the kernel; ``counterexamples`` searches small sizes;
``torch_runs`` also runs each proved line.
"""
