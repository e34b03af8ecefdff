"""Which parameters of a module are added, and in what part of attention: read off one run.

`Uses` is a mode of PyTorch's dispatcher.  A parameter is *added* where an operation adds it to
numbers that depend on the inputs: the bias of a matrix product, a convolution or a norm, a summand,
or a token that is put beside the others.  Gains and matrices are factors, and are not moved.

Parts of attention are words for a report; no answer depends on them.  Scores are what softmax gets
from a product of two factors that both depend on the inputs; the factor whose tokens lie along the
axis of softmax has the keys, the other one the queries; what the weights multiply has the values.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

#: The place of the argument that an operation adds, one number for each feature.
ADDED = {
    "addmm": 0, "baddbmm": 0, "addmv": 0, "addbmm": 0, "convolution": 2, "native_layer_norm": 3,
    "native_group_norm": 2, "native_batch_norm": 2, "_native_batch_norm_legit": 2,
}  # fmt: skip
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"}
SUMS = {"add", "sub", "rsub"}
BESIDE = {"cat", "stack", "copy", "where", "index_put", "slice_scatter", "select_scatter"}
#: Operations that hand numbers on as they are, in other places.
VIEWS = set(
    "view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze split "
    "unsafe_split split_with_sizes unbind clone alias detach _to_copy contiguous flip roll repeat "
    "index_select constant_pad_nd narrow chunk cat stack copy diagonal unfold index".split()
)
GATHERS = {"embedding", "index", "index_select", "gather"}


class Uses(TorchDispatchMode):
    """The mode; after a run ``added`` names the parameters that are added, in order of their first use.

    ``parts`` is {parameter: {"query" | "key" | "value" | "output": which of its numbers}}, and
    ``tables`` names what is added to every sequence alike, but not to every token.
    """

    def __init__(self, tensors, inputs, places=None):
        super().__init__()
        self.names = WeakTensorKeyDictionary()
        for name, tensor in tensors.items():
            self.names[tensor] = frozenset([name])
        self.tensors, self.data = tensors, WeakTensorKeyDictionary()
        for tensor in tree_leaves(inputs):
            if isinstance(tensor, torch.Tensor):
                self.data[tensor] = True
        self.images = WeakTensorKeyDictionary()  # {parameter: which of its numbers stands where}
        self.kinds = WeakTensorKeyDictionary()  # scores (with their product), weights, mixture
        self.aliases, self.added, self.tables, self.parts = {}, {}, {}, {}
        self.places = places

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        leaves = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        outs = [o for o in tree_leaves(result) if isinstance(o, torch.Tensor)]
        name = (op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else str(op)).rstrip(
            "_"
        )
        data = any(a in self.data for a in leaves)
        self._own(name, args, leaves, outs, data)
        self._images(name, op, args, kwargs or {}, outs)
        self._kinds(name, args, outs)
        return result

    # --- what is added

    def _own(self, name, args, leaves, outs, data):
        slot = ADDED.get(name)
        if slot is not None and len(args) > slot and isinstance(args[slot], torch.Tensor):
            self._add(args[slot])
        if name in ("native_batch_norm", "_native_batch_norm_legit") and not args[5]:
            self._add(args[3])
        own = {n for a in leaves for n in self.names.get(a, ())}
        if own and data and name in SUMS:
            for a in leaves:
                self._add(a, outs[0])
        elif own and data and name in BESIDE:
            for a in leaves:
                self._add(a, beside=True)
        bent = own and not data and not self._passes(name, args, leaves)
        for out in outs:
            if data or bent:
                self._mark(out)
            elif own:
                self.names[out] = frozenset(own)

    def _passes(self, name, args, leaves):
        """Whether an operation on parameters alone is linear in them."""
        if name in GATHERS:
            places = args[1] if isinstance(args[1], torch.Tensor) else args[1][0]
            return places is None or bool((places == places.flatten()[0]).all())
        if name in ("mul", "div"):
            return sum(a in self.names for a in leaves) == 1 and args[0] in self.names
        return name in VIEWS | SUMS | {"sum", "mean", "neg", "zeros_like", "where", "masked_fill"}

    def _add(self, tensor, into=None, beside=False):
        names = self.names.get(tensor, ())
        sizes = _sizes(tensor)
        wide = sum(n > 1 for n in sizes) > 1
        spread = into is None or into.dim() - sum(n > 1 for n in sizes) > 1
        table = bool(names) and wide and (beside or not spread)
        for name in sorted(names):
            where = self.places.now() if self.places else ""
            (self.tables if table else self.added).setdefault(name, where)

    def _mark(self, out):
        self.data[out] = True
        place = _place(out)
        known = self.aliases.setdefault(place, [])
        for other in known:
            if (tensor := other()) is not None:
                self.data[tensor] = True
        known.append(TensorWeakRef(out))

    # --- which of its numbers stands where

    def _images(self, name, op, args, kwargs, outs):
        """{parameter: its numbers' places, as an image of the result}, until a product mixes them."""
        if not outs or not outs[0].is_floating_point():
            return
        slot, found = ADDED.get(name), {}
        if name in VIEWS:
            self._move(name, op, args, kwargs, outs)
            return
        first = [a for a in args[:2] if isinstance(a, torch.Tensor)]
        if name not in PRODUCTS and name != "convolution":
            for a in first:
                if a.shape == outs[0].shape:
                    found |= self.images.get(a, {})
                elif a in self.names and name in SUMS:
                    found |= {n: self._image(n, a, outs[0]) for n in self.names[a]}
        if slot is not None and len(args) > slot and isinstance(args[slot], torch.Tensor):
            for n in self.names.get(args[slot], ()):
                if n in self.added:
                    found[n] = self._image(n, args[slot], outs[0], name)
        found = {n: i for n, i in found.items() if i is not None}
        if found:
            self.images[outs[0]] = found

    def _image(self, name, tensor, out, op=""):
        if tensor.numel() != self.tensors[name].numel():
            known = self.images.get(tensor, {}).get(name)
            return None if known is None else known.expand(out.shape)
        image = torch.arange(1.0, tensor.numel() + 1, dtype=torch.float64).view(tensor.shape)
        if op in ("convolution", "native_group_norm", "native_batch_norm"):
            image = image.view(1, -1, *[1] * (out.dim() - 2))
        return image.expand(out.shape)

    def _move(self, name, op, args, kwargs, outs):
        """Apply a view to the images."""
        many = args[0] if isinstance(args[0], list | tuple) else None
        names = {n for a in (many or args[:1]) for n in self.images.get(a, {})}
        for n in names:
            if name == "copy":
                made = self.images.get(args[1], {}).get(n)
            elif many:
                made = op([self.images.get(a, {}).get(n, torch.zeros(a.shape)) for a in many],
                          *args[1:], **kwargs)  # fmt: skip
            elif name in ("view", "_unsafe_view"):
                made = self.images[args[0]][n].reshape(outs[0].shape)
            elif name == "_to_copy":
                made = self.images[args[0]][n]
            else:
                made = op(self.images[args[0]][n], *args[1:], **kwargs)
            for out, image in zip(outs, made if isinstance(made, list | tuple) else [made]):
                if image is not None and image.shape == out.shape:
                    self.images.setdefault(out, {})[n] = image

    # --- parts of attention

    def _kinds(self, name, args, outs):
        if not outs or not outs[0].is_floating_point():
            return
        tensors = [a for a in tree_leaves(args) if isinstance(a, torch.Tensor)]
        if name in ("_softmax", "_safe_softmax"):
            kind, *product = self.kinds.get(args[0], ("",))
            if kind == "scores":
                last = args[1] in (-1, args[0].dim() - 1)
                for part, images in zip(("query", "key") if last else ("key", "query"), product):
                    self._name(part, images)
                self.kinds[outs[0]] = ("weights",)
            return
        if name in PRODUCTS:
            self._product(args[-2:], args, outs[0])
            return
        for a in tensors[:2]:
            if a in self.kinds and outs[0].numel() and name not in ("sum", "mean", "amax", "max"):
                for out in outs:
                    self.kinds.setdefault(out, self.kinds[a])
                return

    def _product(self, factors, args, out):
        one, other = factors
        kind = self.kinds.get(one, ("",))[0]
        if kind == "weights" and other in self.data:
            self._name("value", self.images.get(other, {}))
            self.kinds[out] = ("mixture",)
        elif kind == "mixture":
            self._name("output", self.images.get(out, {}))
            self.kinds[out] = ("out",)
        elif one in self.data and other in self.data:
            self.kinds[out] = "scores", self.images.get(one, {}), self.images.get(other, {})

    def _name(self, part, images):
        for name, image in images.items():
            mine = self.parts.setdefault(name, {})
            mask = mine.setdefault(part, torch.zeros(self.tensors[name].numel(), dtype=torch.bool))
            there = image.unique().long()
            mask[there[there > 0] - 1] = True


def _sizes(tensor):
    """The sizes of the axes along which a tensor is not constant, and 1 for the others."""
    same = lambda axis: bool((tensor == tensor.narrow(axis, 0, 1)).all())
    return [1 if n == 0 or same(axis) else n for axis, n in enumerate(tensor.shape)]


def _place(tensor):
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        return id(tensor)
