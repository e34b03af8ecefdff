"""What happens to a bias on its way: the operations that PyTorch records for gradients.

    record = Record([output], bias)
    for step in record: print(step)      # Addmm, View, Transpose, Bmm, Softmax, Bmm, …

When only one bias asks for a gradient, the recorded graph holds exactly the operations that the
bias passes through on its way to the output, whatever the code that ran is called.  `predict`
reads this record, and applies to each operation what a theorem says of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from .by_hand import with_softmax
from .hidden import Hidden, Watch
from .kinds import MOVES, PARTS, Unknown
from .precision import double_precision, plain_kernels

#: So many rows of a Jacobian are computed at a time: each takes as much room as the layer's run.
CHUNK = 128
NO_GRADIENT = "no gradient passes the layer: it is not run, or by operations of its own"
#: How an operation in place on a view is called where it is not in place.
_IN_PLACE = {
    **{"add_": "Add", "__iadd__": "Add"},
    **{"__setitem__": "SliceScatter", "copy_": "SliceScatter"},
}


@dataclass(eq=False)
class Step:
    """One operation: its ``name``, the ``shape`` of what it made, and the steps it read.

    ``reads`` holds, for each input that depends on the bias, (place among the inputs, step,
    which of that step's outputs).
    """

    name: str
    node: object
    shapes: list
    reads: list = field(default_factory=list)
    given: dict = field(default_factory=dict)  # what is known of it besides what PyTorch saves

    @property
    def shape(self):
        return self.shapes[0]

    @property
    def places(self):
        """Which of its inputs depend on the bias."""
        return tuple(place for place, _, _ in self.reads)

    def saved(self, name):
        """A number or tensor that was saved for the gradient, or None."""
        if name in self.given:
            return self.given[name]
        try:
            return getattr(self.node, f"_saved_{name}", None)
        except RuntimeError:
            return None

    def __str__(self):
        return f"{self.name} {tuple(self.shape)}"


class Record:
    """The steps from a bias (a leaf that asks for a gradient) to some outputs, in their order.

    ``watch`` saw the run: ``hidden`` are the operations that no gradient shows (`hidden`).
    """

    def __init__(self, outputs, bias, watch):
        self.bias, self.steps, self.hidden = bias, [], list(watch.found)
        self.made = made = {}
        for node in _in_order([output.grad_fn for output in outputs]):
            step = Step(
                _name(node, watch), node, [torch.Size(m.shape) for m in node._input_metadata]
            )
            for place, (before, which) in enumerate(node.next_functions):
                if before in made and self._carries(made[before], which):
                    step.reads.append((place, made[before], which))
            if step.reads or getattr(node, "variable", None) is bias:
                made[node] = step
                self.steps.append(step)
                if step.name not in MOVES and node not in watch.accounted:
                    self.hidden.append(Hidden("a function out of Python's sight", node))
        self.steps = with_softmax(self.steps)
        self.ends = {made[output.grad_fn] for output in outputs if output.grad_fn in made}
        self.edges = [get_gradient_edge(o) for o in outputs if o.grad_fn in made]
        self.readers = {step: [] for step in self.steps}
        for step in self.steps:
            for place, before, _ in step.reads:
                self.readers[before].append((step, place))

    def __iter__(self):
        return iter(self.steps)

    def _carries(self, step, which):
        """Whether this output depends on the bias, where a step hands on parts of a whole."""
        if step.name not in PARTS:
            return True
        cotangent = torch.randn(
            step.shapes[which], dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        )
        return bool(self.pull_back(step, which, cotangent).any())

    def pull_back(self, step, which, cotangent):
        """The gradient of <cotangent, that output of the step> by the bias."""
        (found,) = torch.autograd.grad(
            [GradientEdge(step.node, which)], [self.bias], [cotangent.to(self.bias.device)],
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
        return torch.zeros_like(self.bias) if found is None else found

    def jacobian(self, step, which=0):
        """The Jacobian of a step's output by the bias, of shape (*output, bias)."""
        shape = step.shapes[which]
        count, found = shape.numel(), []
        for start in range(0, count, CHUNK):
            rows = self.bias.new_zeros(min(CHUNK, count - start), count)
            rows[:, start : start + CHUNK].fill_diagonal_(1)
            found.append(self.pull_back_all(step, which, rows.view(-1, *shape)))
        return torch.cat(found).view(*shape, -1)

    def pull_back_all(self, step, which, cotangents):
        """The gradients of <cotangent, that output of the step> by the bias, one row for each."""
        try:
            (found,) = torch.autograd.grad(
                [GradientEdge(step.node, which)], [self.bias], [cotangents.to(self.bias.device)],
                retain_graph=True, is_grads_batched=True,
            )  # fmt: skip
        except RuntimeError:  # a function of somebody's own that takes one at a time
            found = torch.stack([self.pull_back(step, which, one) for one in cotangents])
        return found

    def used(self, step):
        """Where the outputs depend on what a step made: a gradient that is not zero."""
        generator = torch.Generator().manual_seed(0)
        shapes = [edge.node._input_metadata[edge.output_nr].shape for edge in self.edges]
        drawn = [torch.randn(tuple(s), dtype=torch.float64, generator=generator) for s in shapes]
        (found,) = torch.autograd.grad(
            self.edges, [GradientEdge(step.node, 0)], [d.to(self.bias.device) for d in drawn],
            retain_graph=True,
        )  # fmt: skip
        return found != 0

    def behind(self, step):
        """The steps that a step depends on, and itself, in their order."""
        found = {step}
        for later in reversed(self.steps):
            if later in found:
                found |= {before for _, before, _ in later.reads}
        return [s for s in self.steps if s in found]

    def until(self, stops, start=None):
        """The steps reached from the bias (or from a step) without going through ``stops``."""
        reached = {start or self.steps[0]}
        for step in self.steps:
            if any(before in reached and before not in stops for _, before, _ in step.reads):
                reached.add(step)
        return [step for step in self.steps if step in reached]


def whole(record):
    """The record; raises Unknown where there is none, or where it does not hold everything."""
    if record is None:
        raise Unknown(NO_GRADIENT)
    if record.hidden:
        raise Unknown(
            f"{record.hidden[0].name} reads numbers that depend on the bias, and no gradient "
            "shows what it makes of them"
        )
    return record


def _name(node, watch):
    """ "Addmm" of "AddmmBackward0"; a function that is not PyTorch's may be called like one of its."""
    name = re.sub(r"Backwards?\d*$", "", node.name()).rpartition("::")[2]
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return f"the function {name}"
    if getattr(node, "_saved_rounding_mode", None):
        return "a division that rounds"
    return _IN_PLACE.get(watch.written.get(node), name) if name == "CopySlices" else name


def _in_order(nodes):
    """All nodes below some nodes of the graph, each after those it reads."""
    order, seen, waiting = [], set(), [(node, False) for node in nodes]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        elif node is not None and node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(before, False) for before, _ in node.next_functions]
    return order


# --- one run of the model ---------------------------------------------------------------------


def run(model, inputs, shifts):
    """What the model returns when some of its biases are shifted: {projection: vector}."""
    values = {}
    for projection, shift in shifts.items():
        whole = values.get(projection.bias_name, projection.biases.parameter)
        moved = whole.view(-1).index_add(0, projection.rows.to(shift.device), shift)
        values[projection.bias_name] = moved.view_as(whole)
    positional, named = inputs
    with double_precision(), plain_kernels():
        return torch.func.functional_call(model, values, positional, named)


def tensors(outputs):
    """The numbers that a model returns: not its attention weights, hidden states or caches."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if hasattr(outputs, "items"):
        hidden = ("hidden_states", "attentions", "past_key_values", "loss")
        outputs = [v for k, v in outputs.items() if not k.endswith(hidden)]
    return [t for t in outputs if isinstance(t, torch.Tensor) and t.is_floating_point()]


def record_of(model, inputs, projections, module=None):
    """The `Record` from a bias to the first output of a module's call, or to those of the model.

    More than one projection: their biases move by the same vector.  None where the inputs do
    not reach the module.
    """
    projections = projections if isinstance(projections, tuple) else (projections,)
    place = projections[0].biases.parameter.device
    shift = torch.zeros(projections[0].size, dtype=torch.float64, device=place, requires_grad=True)
    caught, watch = [], Watch()

    def catch(module, args, out):
        caught.append(out)
        watch.active = False  # what comes after the layer is not asked about

    hook = module and module.register_forward_hook(catch)
    try:
        with watch:
            found = run(model, inputs, dict.fromkeys(projections, shift))
    finally:
        if hook:
            hook.remove()
    calls = [tensors(found)] if module is None else [_first_tensor(out) for out in caught]
    for outputs in ([t for t in call if t.requires_grad] for call in calls):
        record = Record(outputs, shift, watch) if outputs else None
        if record is not None and record.ends:
            return record
    return None


def _first_tensor(outputs):
    """The first tensor of what a module returns, however deep it is wrapped; a list of it."""
    while not isinstance(outputs, torch.Tensor):
        if not outputs:
            return []
        outputs = next(iter(outputs.values() if hasattr(outputs, "values") else outputs))
    return [outputs]
