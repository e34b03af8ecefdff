"""The moves that take a constant from its place, and the biases that absorb what that changes.

    drop    b_K = 0 where the weights ignore a constant in a row of scores (S): Theorems 3.3, 5.4
    fold    b_V = 0 and b_O + W_O b_V where every row of weights sums to one (R): Theorem 4.3
    slide   a norm's shift beta + t; a Linear that reads the norm gets b - W t, and where a
            residual carries it, the Linear added to it gets b - t:
            Theorems 6.3, 8.4, 8.5, 8.6
    share   Linears added in one sum have one bias between them: Theorem 8.7
    centre  the mean of a bias that only LayerNorms hear is dropped: Theorem 8.1

With W_Q t = b_Q, slide takes the query bias; with t = b_2 the second bias of a post-norm network;
with t = -beta the shift itself.  Where a reader has no bias for it, a move is not begun.  The model
runs on several inputs, and what reads a norm must be the same in all of them; what no input reaches
might read anything, and stops a move that it might hear.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace

import torch
from torch import nn

from .kinds import MOVES, REWRITES
from .layers import Place, Projection, find_attention
from .layout import with_true_layout
from .precision import generic_copy
from .predict import predict
from .record import record_of
from .wiring import trace

#: A shift t longer than this costs more digits than it is worth: the bias stays.
LONGEST = 1e4
#: What counts as "W_Q t = b_Q has a solution": the part of b_Q that is missed, relative to it.
IN_RANGE = 1e-9
#: A change below this share of the largest entry is none.
NOTHING = 1e-12
#: A mean below this share of the largest entry is what rounding to float32 leaves of zero.
NO_MEAN = 1e-6

READS, CARRIES = "reads", "carries"


@dataclass(frozen=True)
class Row:
    """What became of one constant.  ``verdict`` is "moved", "kept" or "refused".

    ``absorbed`` counts the numbers of it that went into the weight beside it, and ``price`` is
    what that costs: the change of the weight relative to it, 1 / |kappa|, and by what factor the
    bias is rounded more coarsely.
    """

    verdict: str
    place: str
    constant: str
    text: str
    absorbed: int = 0
    price: tuple = ()


class Stays(Exception):
    """Why a constant, or a part of it, stays; ``verdict`` is "kept" or "refused"."""

    def __init__(self, reason, verdict="refused"):
        super().__init__(reason)
        self.verdict = verdict


class Surgeon:
    """The moves, on a model in float64 that is changed in place.

    ``batches`` are the inputs that it runs on; the operations are read from the first, unless
    it is known what is ``predicted``.
    ``rows`` is the account, ``longest`` the length of the longest shift that was moved.
    """

    def __init__(self, model, batches, move, add_bias=False, predicted=None):
        self.model, self.move, self.add_bias = model, move, add_bias
        self.names = {module: name for name, module in model.named_modules()}
        self.predicted, self.layers = predicted, find_attention(model)
        if predicted is None:
            self.predict(((), batches[0]))
        self.runs = [trace(model, batch) for batch in batches]
        self.wiring = self.runs[0]
        self.unused = [m for m in self.names if matrices(m) and not self.is_used(m)]
        self.rows, self.lent, self.longest = [], set(), 0.0
        self.compensated = set()  # the Linears whose bias took in -W t

    def predict(self, call):
        """Predict what is redundant, on a copy with random weights; read how matrices are cut."""
        generic = generic_copy(self.model)
        true = [with_true_layout(generic, layer, call) for layer in find_attention(generic)]
        self.predicted = predict(generic, call, true)
        self.layers = [cut_like(*pair) for pair in zip(self.layers, true)]

    @torch.no_grad()
    def operate(self):
        """Do everything that was asked for; returns the account."""
        if "shifts" in self.move:
            for norm in self.norms():
                self.attempt(self.clear_shift, self.names[norm], "beta", norm)
        for role, step, constant in (
            ("query", self.clear_query, "b_Q"),
            ("key", self.drop_key, "b_K"),
            ("value", self.fold_value, "b_V"),
        ):
            for layer in self.layers if role in self.move else ():
                if nonzero(layer.projections[role].bias()):
                    self.attempt(step, layer.name, constant, layer)
        if "second" in self.move:
            for linear in self.writers():
                self.attempt(self.clear_second, self.names[linear], "b_2", linear)
        self.take_back()
        return self.rows

    def take_back(self):
        """Take a bias that was lent, and is zero, away again."""
        for linear in self.lent:
            if linear.bias is not None and not linear.bias.any():
                linear.bias = None

    def attempt(self, step, place, constant, subject):
        """Take one step, and write into the account what it says or why it was not taken."""
        try:
            for result in step(subject):
                verdict = getattr(result, "verdict", "moved")
                self.rows.append(Row(verdict, place, constant, str(result)))
        except Stays as reason:
            self.rows.append(Row(reason.verdict, place, constant, str(reason)))

    # --- attention ---

    def clear_query(self, layer):
        """b_Q = 0, with t in the shift of the norm before, W_Q t = b_Q."""
        norm, W, b = self.norm_before(layer), layer.query.weight(), layer.query.bias()
        t = torch.linalg.pinv(W, rtol=1e-12) @ b
        if (W @ t - b).norm() > IN_RANGE * b.norm():
            raise Stays("no t has W_Q t = b_Q: W_Q has not the rank for it", "kept")
        if t.norm() > LONGEST:
            raise Stays("W_Q is nearly singular: the shift t with W_Q t = b_Q is too long")
        absorbing = self.slide(norm, t)
        layer.query.set_bias(torch.zeros_like(b))
        yield f"into {self.names[norm]}.bias; absorbed by the biases of {absorbing}"

    def drop_key(self, layer):
        """b_K = 0 in the directions that add one constant to each row of scores."""
        why, free = self.of_key(layer)
        b = layer.key.bias()
        left = b - free.T @ (free @ b)
        left[free.square().sum(0) > 1 - NOTHING] = 0
        if (left - b).abs().max() > NOTHING * b.abs().max():
            layer.key.set_bias(left)
            some = "" if len(free) == len(b) else f" in {len(free)} of {len(b)} dimensions"
            if layer.key.biases.module not in self.lent:
                yield f"to nowhere{some}: softmax does not hear it"
        if len(free) < len(b):
            moved = layer.key.weights.module in self.compensated
            took = "; there it absorbs W_K t" if moved else ""
            yield Stays(f"in {len(b) - len(free)} of {len(b)} dimensions: {why}{took}", "kept")

    def of_key(self, layer):
        """(why, a basis of the directions of b_K that softmax does not hear); raises Stays."""
        found = self.predicted[layer.name, "key"]
        self.demand_all_used(layer.module)
        if found.dimension is None:
            raise Stays(f"not known: {found.why[-1]}")
        if found.directions is None:
            raise Stays(found.why[0])
        return found.why[-1], found.directions.to(layer.key.bias())

    def fold_value(self, layer):
        """b_V = 0, and b_O + W_O b_V."""
        found, out = self.predicted[layer.name, "value"], layer.output
        self.demand_all_used(layer.module)
        if found.dimension is None:
            raise Stays(f"not known: {found.why[-1]}")
        if found.dimension < layer.value.size:
            raise Stays(found.why[-1])
        if layer.module.training and (rate := dropout_rate(layer.module)):
            raise Stays(f"in training, dropout of {rate} makes the sums of the weights random")
        if not (out.has_bias or self.add_bias):
            raise Stays(f"{out.bias_name} does not exist; add_bias=True makes one")
        b = layer.value.bias().view(layer.key_value_heads, -1)
        each = b.repeat_interleave(layer.group, 0).flatten()
        if len(each) != out.weight().shape[1]:
            raise Stays(f"{out.weight_name} reads more than the values of the heads")
        made = ", which is new" if out.inject_bias() else ""
        out.add_to_bias(out.weight() @ each)
        layer.value.set_bias(torch.zeros_like(b).flatten())
        if layer.value.biases.module not in self.lent:
            yield f"into {out.bias_name}{made}"

    # --- norms and feed-forward networks ---

    def clear_shift(self, norm):
        """beta = 0, moved into everything that reads the norm."""
        yield f"absorbed by the biases of {self.slide(norm, -norm.bias)}"

    def clear_second(self, linear):
        """b_2 = 0 in post-norm and parallel blocks; its mean in pre-norm."""
        b = linear.bias
        self.demand_all_used(self.model)
        norm, partner = self.norm_carried(linear), self.partner(linear)
        if norm is not None:
            absorbing = self.slide(norm, b.clone())
            yield f"into {self.names[norm]}.bias; absorbed by the biases of {absorbing}"
        elif partner is not None:
            partner.add_to_bias(b)
            b.zero_()
            yield f"into {partner.bias_name}: one sum needs one bias"
        else:
            if not self.only_layer_norms_hear(linear):
                raise Stays("no other constant is written where it is", "kept")
            if b.mean().abs() > NO_MEAN * b.abs().max():
                b -= b.mean()
                yield "its mean, to nowhere: LayerNorms subtract it"
            if b.abs().max() > 0:
                yield Stays("less its mean: no other constant is written where it is", "kept")

    def slide(self, norm, t):
        """beta + t in a norm, absorbed by all that reads it; says by what.  Outputs stay equal."""
        bills = self.bills(norm)
        norm.bias += t
        for linear, how in bills:
            if linear.bias is None:
                linear.bias = nn.Parameter(t.new_zeros(len(weight_of(linear))))
                self.lent.add(linear)
            linear.bias -= weight_of(linear) @ t if how == READS else t
            self.compensated.add(linear)
        self.longest = max(self.longest, t.norm().item())
        names = [".".join(self.names[linear].split(".")[-2:]) for linear, _ in bills]
        return ", ".join(dict.fromkeys(names))

    def bills(self, norm):
        """(Linear, READS or CARRIES) for all that hear a norm's shift; raises Stays for others."""
        self.demand_none_skipped()
        self.demand_all_used(self.model)
        heard = [run for run in self.runs if run.calls[norm]]
        found = [self.bills_in(run, norm) for run in heard or self.runs]
        paying = {linear for linear, _ in found[0]}
        strangers = [run for run in self.runs if run not in heard and paying & {*run.calls}]
        if strangers or any({*other} != {*found[0]} for other in found):
            raise Stays(f"who reads {self.names[norm]} depends on the inputs")
        return found[0]

    def bills_in(self, run, norm):
        """The bills as one run shows them."""
        call, name = run.only_call(norm), self.names[norm]
        if call is None:
            raise Stays(f"{name} runs more than once, or not at all, in one run of the model")
        found = []
        for reader in run.readers(call):
            linear, how = reader.module, READS
            if reader.kind == "add":
                linear, how = self.payer(run, reader, call), CARRIES
                if linear is None:
                    mode = "; a dropout may stand between" if self.model.training else ""
                    raise Stays(
                        f"a sum carries {name} on, and nothing beside it can absorb it{mode}"
                    )
            elif not (is_linear(linear) and run.only_call(linear)):
                raise Stays(f"{name} is read by {reader}, which cannot absorb it")
            elif linear.bias is None and not (self.add_bias or self.forgives(linear)):
                raise Stays(f"{self.names[linear]} reads {name} and has no bias to absorb it")
            found.append((linear, how))
        return found

    def payer(self, run, total, carried):
        """A Linear with a bias whose output goes into this sum only; None if there is none."""
        for source in total.sources:
            if source is carried or run.readers(source) != [total]:
                continue
            if source.kind == "add" and (linear := self.payer(run, source, carried)):
                return linear
            if is_linear(source.module) and source.module.bias is not None:
                whole = source.module.bias.shape == carried.module.bias.shape
                return source.module if whole and run.only_call(source.module) else None
        return None

    def is_used(self, module):
        """Whether some run gave the parameters of a module to an operation."""
        return any(run.uses(p) for run in self.runs for p in matrices(module))

    def demand_none_skipped(self):
        """Raises Stays where layers are left out at random: what a run showed was chance."""
        if rate := skips_layers(self.model):
            raise Stays(f"in training, {rate} leaves out whole layers, with what would absorb it")

    def demand_all_used(self, module):
        """Raises Stays where a matrix in a module is not used at these inputs."""
        for inside in self.unused:
            if inside in {*module.modules()}:
                rate = skips_layers(self.model)
                advice = (
                    f"{rate} left it out; fold in eval mode" if rate else "give inputs that use it"
                )
                raise Stays(
                    f"{self.names[inside]} is not used at these inputs, and might hear it: {advice}"
                )

    def forgives(self, linear):
        """Whether a bias of this Linear, if it had one, would be dropped or folded at once."""
        for layer in self.layers:
            roles = [r for r, p in layer.projections.items() if p.weights.module is linear]
            found = self.predicted.get((layer.name, roles[0])) if len(roles) == 1 else None
            if found and roles[0] in self.move and roles[0] in ("key", "value"):
                folds = layer.output is not None and layer.output.has_bias
                whole = found.dimension == found.size and not layer.module.training
                return whole and (roles[0] == "key" or folds)
        return False

    # --- who stands where ---

    def norms(self):
        """The norms with a shift that is not zero."""
        return [module for module in self.names if has_shift(module) and nonzero(module.bias)]

    def writers(self):
        """Linears with a bias that write into a sum, those of attention left out."""
        attention = {p.weights.module for layer in self.layers for p in layer.projections.values()}
        return [
            module
            for module in self.names
            if is_linear(module) and module not in attention
            if nonzero(module.bias) and self.wiring.sum_of(module)
        ]

    def norm_before(self, layer):
        """The norm that the queries of a layer are made from; raises Stays."""
        self.demand_none_skipped()
        linear = layer.query.weights.module
        source = self.wiring.source(linear)
        if not is_linear(linear):
            raise Stays(f"{self.names[linear]} makes its queries inside, where no wire is seen")
        if source is None:
            raise Stays(f"{self.names[linear]} runs more than once, or not at all, in one run")
        if source.module is None or "Norm" not in type(source.module).__name__:
            raise Stays(f"no norm stands directly before it: its queries are made from {source}")
        if not has_shift(source.module):
            kind = type(source.module).__name__
            raise Stays(f"the norm before, {source} ({kind}), has no shift to take it", "kept")
        return source.module

    def norm_carried(self, linear):
        """The norm that the residual adds to a Linear's output, if its shift can take b_2."""
        for total in self.wiring.sums_of(linear):
            for source in total.sources:
                if not has_shift(source.module):
                    continue
                try:
                    bills = self.bills(source.module)
                except Stays:
                    continue
                queries = {layer.query.weights.module for layer in self.layers}
                if (linear, CARRIES) in bills and not queries & {m for m, _ in bills}:
                    return source.module
        return None

    def partner(self, linear):
        """The output projection with a bias that is added in the same sum as a Linear, or None."""
        for layer in self.layers:
            out = layer.output
            if out is not None and out.has_bias:
                both = linear, out.weights.module
                sums = [[run.sum_of(one) for one in both] for run in self.runs]
                if sums[0][0] and all(one is other for one, other in sums):
                    return out
        return None

    def only_layer_norms_hear(self, linear):
        """Whether everything that reads the stream from here on is a LayerNorm, in every run."""
        return all(self._only_layer_norms_hear(run, call) for run in self.runs
                   for call in run.calls[linear])  # fmt: skip

    def _only_layer_norms_hear(self, run, call):
        waiting, seen = [call], set()
        while waiting:
            for reader in run.readers(waiting.pop()):
                if reader.kind == "add" and reader not in seen:
                    seen.add(reader)
                    waiting.append(reader)
                elif reader.kind != "add" and not is_layer_norm(reader.module):
                    return False
        return True


def cut_like(layer, true):
    """An attention layer whose fused matrix is cut as in its twin, which was seen to run."""
    parts = {
        role: replace(
            p,
            weights=replace(p.weights, rows=true.projections[role].weights.rows),
            biases=replace(p.biases, rows=true.projections[role].biases.rows),
        )
        for role, p in layer.projections.items()
    }
    return replace(layer, **parts)


def matrices(module):
    """The parameters of a module itself that multiply: no vectors, and no tables of embeddings."""
    own = [] if isinstance(module, nn.Embedding) else module.parameters(recurse=False)
    return [parameter for parameter in own if parameter.squeeze().ndim > 1]


def skips_layers(model):
    """The setting by which a model in training leaves out layers at random; None if none does."""
    for holder in (*model.modules(), getattr(model, "config", None)) if model.training else ():
        for name, value in vars(holder).items() if holder is not None else ():
            if re.search("layer_?drop", name) and isinstance(value, int | float) and value > 0:
                return f"{name} = {value}"
    return None


def dropout_rate(attention):
    """The largest dropout rate that an attention module knows of, wherever it acts."""
    rates = [m.p for m in attention.modules() if isinstance(m, nn.Dropout)]
    rates += [getattr(attention, name, 0.0) for name in ("dropout", "attention_dropout")]
    return max((rate for rate in rates if isinstance(rate, float)), default=0.0)


def is_linear(module):
    """Whether a module computes x W^T + b: nn.Linear, or the Conv1D of GPT-2."""
    if type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers."):
        return runs_as(module, type(module))
    return runs_as(module, nn.Linear)


def is_layer_norm(module):
    """Whether a module computes what nn.LayerNorm does."""
    return runs_as(module, nn.LayerNorm)


def runs_as(module, kind):
    """Whether a module is of a class and runs its code and no other: no hook, no code of its own."""
    own = getattr(getattr(module, "forward", None), "__func__", None)
    hooks = own and (module._forward_hooks or module._forward_pre_hooks)
    return isinstance(module, kind) and own is kind.forward and not hooks


def has_shift(module):
    """Whether a module is a norm that adds a vector of its own at the end, and does nothing more."""
    bias = getattr(module, "bias", None)
    if "Norm" not in type(module).__name__ or not isinstance(bias, nn.Parameter):
        return False
    return bias.ndim == 1 and (is_layer_norm(module) or adds_its_bias(module))


def adds_its_bias(module):
    """Whether a run of a module alone does nothing to its bias but add it."""
    module = copy.deepcopy(module).eval()
    place = Place(module, "bias", torch.arange(len(module.bias)), "bias")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, len(module.bias), generator=generator).to(module.bias)
    try:
        with torch.enable_grad():
            record = record_of(module, ((x,), {}), Projection("bias", place, place))
    except Exception:  # whatever a module raises that reads something else
        return False
    if record is None or record.hidden:
        return False
    added = {"Add": [(0,), (1,)], "NativeLayerNorm": [(2,)]}
    return all(
        step.name in MOVES - REWRITES | {"IndexAdd"} or step.places in added.get(step.name, ())
        for step in record
    )


def weight_of(linear):
    """The weight of a linear module as (out x in)."""
    return linear.weight if isinstance(linear, nn.Linear) else linear.weight.T


def nonzero(bias):
    return bias is not None and bool(bias.any())
