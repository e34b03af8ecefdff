"""Turn the LayerNorms of a pre-norm model into RMSNorms, and return an equal model.

LayerNorm is centring, then RMSNorm (Theorem 7.3), and centring is linear: it may as well be
done by whatever writes to the stream (Theorem 14.2).  So every Linear and every embedding that
writes there loses the mean of its output, and every LayerNorm that reads the stream becomes an
RMSNorm with the same gain and eps.  The shifts move into what reads them (Theorem 6.3), except
where nothing can take one; there the norm keeps it.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from .equality import CannotFold
from .folding import operated
from .surgery import Row, Surgeon, is_layer_norm, is_linear


class ShiftedRMSNorm(nn.RMSNorm):
    """An RMSNorm that adds a shift, as LayerNorm does: for a shift that nothing else can take."""

    def __init__(self, size, eps, bias):
        super().__init__(size, eps)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return super().forward(x) + self.bias


def as_rms_norm(model, inputs=None, *, add_bias=False):
    """A `Folded` whose model has an RMSNorm wherever the model given has a LayerNorm.

    ``add_bias=True`` lets a head without a bias take the last shift.  Raises CannotFold with a
    reason where something besides LayerNorms reads the stream, or writes to it and cannot be
    centred; NotEqual where outputs would change.
    """
    if not isinstance(model, nn.Module):
        raise CannotFold(f"a model is needed, not {type(model).__name__}")

    def operate(after, batches):
        surgeon = Surgeon(after, batches, ("shifts",), add_bias)
        rows = surgeon.operate()
        with torch.no_grad():
            for writer in centred(surgeon):
                rows.append(Row("moved", surgeon.names[writer], "mean", "to nowhere"))
            replace_norms(after)
        return rows, surgeon.longest

    return operated(model, inputs, operate, shaped=with_norms_of)


def centred(surgeon):
    """The modules that write to the stream, each centred; raises CannotFold before the first."""
    surgeon.demand_all_used(surgeon.model)
    norms = [m for m in surgeon.names if is_layer_norm(m)]
    writers = dict.fromkeys(writer for norm in norms for writer in written_by(surgeon, norm))
    for writer in writers:
        demand_unheard(surgeon, writer)
    for writer in writers:
        weight = writer.weight
        rows = weight.T if isinstance(writer, nn.Linear) else weight  # (anything x features)
        rows -= rows.mean(1, keepdim=True)
        if getattr(writer, "bias", None) is not None:
            writer.bias -= writer.bias.mean()
    return list(writers)


def written_by(surgeon, norm):
    """The modules whose outputs are added up in what a LayerNorm reads, in any run."""
    reads = surgeon.names[norm]
    waiting, found = [run.source(norm) for run in surgeon.runs if run.calls[norm]], []
    if not waiting or None in waiting:
        raise CannotFold(f"{reads} runs more than once, or not at all, in one run of the model")
    while waiting:
        node = waiting.pop()
        if node.kind == "add":
            waiting += node.sources
        elif is_linear(node.module) or isinstance(node.module, nn.Embedding):
            found.append(node.module)
        else:
            raise CannotFold(f"{reads} reads what {node} wrote, which cannot be centred")
    return found


def demand_unheard(surgeon, writer):
    """Raises CannotFold unless only LayerNorms hear the mean, and the weight is not shared."""
    name = surgeon.names[writer]
    for other, parameter in surgeon.model.named_parameters(remove_duplicate=False):
        if parameter is writer.weight and other != f"{name}.weight":
            raise CannotFold(f"{other} is tied to {name}.weight, which is to be centred: untie it")
    if not surgeon.only_layer_norms_hear(writer):
        raise CannotFold(f"not only LayerNorms read what {name} writes")


def replace_norms(model):
    """Every LayerNorm becomes an RMSNorm with its gain, its eps, and its shift if it has one."""
    for holder in list(model.modules()):
        for name, norm in list(holder.named_children()):
            if is_layer_norm(norm):
                setattr(holder, name, rms_norm_of(norm))


def with_norms_of(model, changed):
    """A copy of a model with the norms of another in the place of its LayerNorms."""
    made = copy.deepcopy(model)
    for name, norm in list(made.named_modules(remove_duplicate=False)):
        if is_layer_norm(norm):
            made.set_submodule(name, copy.deepcopy(changed.get_submodule(name)).to(norm.weight))
    return made


def rms_norm_of(norm):
    size, eps = norm.normalized_shape, norm.eps
    shifted = norm.bias is not None and norm.bias.any()
    made = ShiftedRMSNorm(size, eps, norm.bias.detach()) if shifted else nn.RMSNorm(size, eps)
    made.weight = norm.weight
    return made.to(norm.weight.device).train(norm.training)
