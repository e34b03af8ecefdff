"""Which parameters of a module are added, and in what part of attention: read off one run.

`Uses` is a mode of PyTorch's dispatcher.  A parameter is *added* where an operation adds it to
numbers that depend on the inputs: the bias of a matrix product, a convolution or a norm, a summand,
or a token that is put beside the others.  Gains and matrices are factors, and are not moved.

Parts of attention are words for a report; no answer depends on them.  Scores are what softmax gets
from a product of two factors that both depend on the inputs; the factor whose tokens lie along the
axis of softmax has the keys, the other one the queries; what the weights multiply has the values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
#: A table of more numbers is not moved for the one row of it that is added.
LONGEST = 2048
GATHERS = {"embedding", "index", "index_select", "gather"}


#: The numbers of a parameter with so many at most are followed one by one; a larger one is no bias.
FEW = 2**16


@dataclass
class Layer:
    """An attention: the ``width`` of a head, its largest score (``peak``), and its ``parts``.

    These are {"query" | "key" | "value" | "output": {name or key: which numbers of a bias, or rows of a
    matrix, stand there, head by head}}.
    """

    width: int
    peak: float
    parts: dict


class Uses(TorchDispatchMode):
    """The mode; after a run ``added`` names the parameters that are added, in order of their first use.

    ``parts`` is {parameter: {"query" | "key" | "value" | "output": which of its numbers}}, and
    ``tables`` names what is added to every sequence alike, but not to every token.

    For a comparison with another model, ``order`` lists all that meets numbers that depend on the inputs:
    names of what is added, and keys of ``factors``: matrices (results x summands), gains, embeddings.
    ``layers`` has a `Layer` for each attention.
    """

    def __init__(self, tensors, inputs, places=None):
        super().__init__()
        self.names = WeakTensorKeyDictionary()
        for name, tensor in tensors.items():
            self.names[tensor] = frozenset([name])
        # {tensor: whether it depends on the inputs, or only on parameters, but not linearly}
        self.tensors, self.data = tensors, WeakTensorKeyDictionary()
        for tensor in tree_leaves(inputs):
            if isinstance(tensor, torch.Tensor):
                self.data[tensor] = True
        self.images = WeakTensorKeyDictionary()  # {parameter: which of its numbers stands where}
        for name, tensor in tensors.items():
            if tensor.numel() <= FEW:
                self.images[tensor] = {name: _numbered(tensor.shape)}
        self.kinds = WeakTensorKeyDictionary()  # scores (with their product), weights, mixture
        self.aliases, self.added, self.tables, self.parts = {}, {}, {}, {}
        self.order, self.factors, self.layers = [], {}, []
        self.places = places

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        leaves = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        outs = [o for o in tree_leaves(result) if isinstance(o, torch.Tensor)]
        name = (op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else str(op)).rstrip(
            "_"
        )
        data = any(a in self.data for a in leaves)
        depends = any(map(self._depends, leaves))
        if depends:
            self._meet(name, args, leaves)
        self._own(name, args, leaves, outs, data, depends)
        self._images(name, op, args, kwargs or {}, outs)
        self._kinds(name, args, outs)
        return result

    # --- what is added

    def _own(self, name, args, leaves, outs, data, depends):
        for slot in _slots(name, args):
            self._add(args[slot])
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
                self._mark(out, depends)
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
            table = table or self.tensors[name].numel() > max(LONGEST, tensor.numel())
            where = self.places.now() if self.places else ""
            (self.tables if table else self.added).setdefault(name, where)

    def _mark(self, out, depends):
        self.data[out] = depends
        place = _place(out)
        known = self.aliases.setdefault(place, [])
        for other in known:
            if (tensor := other()) is not None:
                self.data[tensor] = depends or self._depends(tensor)
        known.append(TensorWeakRef(out))

    def _depends(self, tensor):
        """Whether a tensor depends on the inputs."""
        return self.data.get(tensor, False)

    # --- what meets numbers that depend on the inputs, in order

    def _meet(self, name, args, leaves):
        """Enter what this operation adds to such numbers, and what else of parameters meets them."""
        adds = [args[i] for i in _slots(name, args)]
        fixed, matrix, _ = self._matrix(name, args)
        for a in leaves:
            if any(a is one for one in adds) or (name in SUMS | BESIDE and a in self.names):
                self.order += sorted(self.names.get(a, frozenset()).difference(self.order))
            elif self._fixed(a) and a.is_floating_point():
                key = _key(a, a is fixed)
                self.order += [key] if key not in self.factors else []
                self.factors.setdefault(key, matrix if a is fixed else a)

    def _fixed(self, tensor):
        """Whether a tensor is made of parameters, and does not depend on the inputs."""
        return not self._depends(tensor) and (tensor in self.names or tensor in self.data)

    def _matrix(self, name, args):
        """(the fixed factor, the same as a matrix (results x summands), its rows' image) or Nones."""
        one, other = _factors(name, args)
        if one is None or self._fixed(one) == self._fixed(other):
            return None, None, None
        left = self._fixed(one)
        if name == "convolution":
            if args[6] and args[8] > 1:  # transposed, in groups
                return None, None, None
            rows = other.transpose(0, 1) if args[6] else other
            return other, rows.flatten(1), _numbered((1, len(rows), *[1] * (one.dim() - 2)))
        matrix = one if left else other.mT if other.dim() > 1 else other[None]
        matrix = matrix[:1] if matrix.dim() == 3 and matrix.stride(0) == 0 else matrix
        image = _numbered(matrix.shape[:-1])
        if min(one.dim(), other.dim()) > 1:
            image = image.unsqueeze(-1 if left else -2)
        return one if left else other, matrix.flatten(0, -2), image

    # --- which of its numbers stands where

    def _images(self, name, op, args, kwargs, outs):
        """{parameter: its numbers' places, as an image of the result}, until a product mixes them."""
        if not outs or not outs[0].is_floating_point():
            return
        found = {}
        if name in VIEWS:
            self._move(name, op, args, kwargs, outs)
            return
        first = [a for a in args[:2] if isinstance(a, torch.Tensor)]
        if name not in PRODUCTS and name != "convolution":
            for a in first:
                if a.shape == outs[0].shape:
                    found = self.images.get(a, {}) | found
                elif a in self.names and name in SUMS:
                    found |= {n: self._image(n, a, outs[0]) for n in self.names[a]}
        for slot in _slots(name, args)[:1]:
            for n in self.names.get(args[slot], ()):
                if n in self.added:
                    found[n] = self._image(n, args[slot], outs[0], name)
        fixed, _, image = self._matrix(name, args)
        if fixed is not None and self._depends(outs[0]):
            found[_key(fixed, True)] = image.expand(outs[0].shape)
        found = {n: i for n, i in found.items() if i is not None}
        if found:
            self.images[outs[0]] = found

    def _image(self, name, tensor, out, op=""):
        image = self.images.get(tensor, {}).get(name)
        if image is None and tensor.numel() != self.tensors[name].numel():
            return None
        image = _numbered(tensor.shape) if image is None else image
        if op in ("convolution", "native_group_norm", "native_batch_norm"):
            image = image.reshape(1, -1, *[1] * (out.dim() - 2))
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
        if name in ("_softmax", "_safe_softmax"):
            self._softmax(args, outs[0])
            return
        if _factors(name, args)[0] is not None:
            self._product(*_factors(name, args), outs[0])
            return
        for a in [a for a in tree_leaves(args) if isinstance(a, torch.Tensor)][:2]:
            if a in self.kinds and outs[0].numel() and name not in ("sum", "mean", "amax", "max"):
                kind = self.kinds[a]
                if kind[0] == "out" and name not in VIEWS:
                    own = (
                        (self.names.get(args[1], ()) if isinstance(args[1], torch.Tensor) else ())
                        if name in SUMS
                        else ()
                    )
                    self._name("output", kind[1], {n: self.images[outs[0]][n] for n in own
                                                   if n in self.images.get(outs[0], {})})  # fmt: skip
                    return
                if kind[0] == "scores" and name in ("mul", "div"):
                    kind = (*kind[:-1], kind[-1] * _size(args[1], name))
                for out in outs:
                    self.kinds.setdefault(out, kind)
                return

    def _softmax(self, args, out):
        """Scores, which a product made, are the weights of one attention more."""
        kind, *product = self.kinds.get(args[0], ("",))
        if kind == "scores":
            *images, width, peak = product
            last = args[1] in (-1, args[0].dim() - 1)
            self.layers.append(Layer(width, peak, {}))
            for part, image in zip(("query", "key") if last else ("key", "query"), images):
                self._name(part, -1, image)
            self.kinds[out] = ("weights", len(self.layers) - 1)

    def _product(self, one, other, out):
        both = self._depends(one) and self._depends(other)
        if not self._depends(one) or self.kinds.get(other, ("",))[0] == "weights":
            one, other = other, one
        kind, *at = self.kinds.get(one, ("",))
        if kind == "weights" and both:
            self._name("value", at[0], self.images.get(other, {}))
            self.kinds[out] = ("mixture", at[0])
        elif kind == "mixture" and not both:
            self._name("output", at[0], self.images.get(out, {}))
            self.kinds[out] = ("out", at[0])
        elif both:
            images = self.images.get(one, {}), self.images.get(other, {})
            peak = out.abs().max().item() if out.numel() else 0.0
            self.kinds[out] = ("scores", *images, one.shape[-1], peak)

    def _name(self, part, layer, images):
        """Enter that these numbers stand in a part of an attention."""
        places = self.layers[layer].parts.setdefault(part, {})
        for name, image in images.items():
            there = _in_order(image)
            places[name] = torch.cat([places.get(name, there[:0]), there])
            if name in self.tensors:
                none = torch.zeros(self.tensors[name].numel(), dtype=torch.bool)
                self.parts.setdefault(name, {}).setdefault(part, none)[there] = True


def _key(tensor, matrix):
    """What tells a factor from others: they stay where they are, while `Uses` holds them."""
    return matrix, tensor.data_ptr(), *tensor.shape, *tensor.stride()


def _slots(name, args):
    """The places of the arguments that an operation adds by itself: a bias, and a norm's own mean."""
    places = [ADDED[name]] if name in ADDED else []
    if name in ("native_batch_norm", "_native_batch_norm_legit") and not args[5]:
        places.append(3)
    return [p for p in places if len(args) > p and isinstance(args[p], torch.Tensor)]


def _factors(name, args):
    """The two factors of a product or a convolution; of other operations None, None."""
    if name == "convolution":
        return args[:2]
    return args[-2:] if name in PRODUCTS - {"dot"} else (None, None)


def _numbered(shape):
    """The numbers 1, 2, … in a shape."""
    return torch.arange(1.0, math.prod(shape) + 1, dtype=torch.float64).view(shape)


def _in_order(image):
    """The places of numbers whose image this is, in the order of their first appearance."""
    for axis in range(image.dim()):
        if image.shape[axis] and (image == image.narrow(axis, 0, 1)).all():
            image = image.narrow(axis, 0, 1)
    there = torch.tensor([*dict.fromkeys(image.flatten().tolist())], dtype=torch.long)
    return there[there > 0] - 1


def _size(factor, name):
    """By how much a product with one number changes the size of scores; of other products one."""
    if isinstance(factor, torch.Tensor) and factor.numel() > 1:
        return 1.0
    size = abs(factor.item() if isinstance(factor, torch.Tensor) else factor)
    return size if name == "mul" or not size else 1 / size


def _sizes(tensor):
    """The sizes of the axes along which a tensor is not constant, and 1 for the others."""
    same = lambda axis: bool((tensor == tensor.narrow(axis, 0, 1)).all())
    return [1 if n == 0 or same(axis) else n for axis, n in enumerate(tensor.shape)]


def _place(tensor):
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        return id(tensor)
