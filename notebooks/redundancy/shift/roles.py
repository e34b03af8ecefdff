"""Find the added parameters of a module, and the parts of attention they are in, from one run.

`Roles` is a mode of PyTorch's dispatcher.  A parameter is *added* if an operation adds it to
numbers that depend on the inputs, as with the bias of a matrix product, a convolution or a norm, or
if it is a token that is concatenated with others.  Gains and matrices are factors; they are not
moved.

Whether a number is redundant does not depend on the parts of attention; they decide how biases are
split into rows, ordered and paired.  Softmax
receives scores, products of two factors.  The factor whose tokens lie along the axis of softmax
contains the keys and depends on the inputs; the other factor contains the queries, which may be
learned tokens.  The weights multiply the values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from .liveness import Watching, name_of, tensors_in

#: {operation: the position of the bias among the arguments}.
ADDED = {
    "addmm": 0, "baddbmm": 0, "addmv": 0, "addbmm": 0, "convolution": 2, "native_layer_norm": 3,
    "native_group_norm": 2, "native_batch_norm": 2, "_native_batch_norm_legit": 2,
}  # fmt: skip
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"}
SUMS = {"add", "sub", "rsub"}
BESIDE = {"cat", "stack", "copy", "where", "index_put", "slice_scatter", "select_scatter"}
#: Operations that only rearrange numbers.
VIEWS = set(
    "view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze split "
    "unsafe_split split_with_sizes unbind clone alias detach _to_copy contiguous flip roll repeat "
    "index_select constant_pad_nd narrow chunk cat stack copy diagonal unfold index".split()
)
#: A parameter with more numbers than this counts as a table if only a part of it is added.
LONGEST = 2048
GATHERS = {"embedding", "index", "index_select", "gather"}
#: Numbers are followed only in parameters of at most this size; a larger parameter is no bias.
FEW = 2**16


@dataclass
class Layer:
    """An attention layer: the ``width`` of a head, the largest score (``peak``), and the ``parts``.

    ``parts`` is {"query" | "key" | "value" | "output": {name of a bias, or identifier of a
    matrix: its numbers or its rows in that part, head by head}}.
    """

    width: int
    peak: float
    parts: dict


class Roles(Watching):
    """A dispatch mode; after a run, ``added`` names the added parameters in order of first use.

    ``parts`` is {parameter: {"query" | "key" | "value" | "output": a mask of its numbers}};
    ``tables`` names added parameters that differ between tokens, but not between sequences.

    ``unused`` names the vectors that no operation of the run used, ``bent`` the vectors that an
    operation changed nonlinearly before they were added; ``layers`` has a `Layer` for each
    attention layer.
    """

    def __init__(self, tensors: dict[str, torch.Tensor], inputs: Any):
        super().__init__()
        self.tensors, self.names = tensors, WeakTensorKeyDictionary()
        # data: {tensor: True if it depends on inputs, False if nonlinearly on parameters alone}
        # images: {tensor: {parameter: places in this parameter}}
        # kinds: {tensor: (its role in attention, …)}
        self.data, self.images, self.kinds = (WeakTensorKeyDictionary() for _ in range(3))
        self.data.update(dict.fromkeys(tensors_in(inputs), True))
        for name, tensor in tensors.items():
            self.names[tensor] = frozenset([name])
            if tensor.numel() <= FEW:
                self.images[tensor] = {name: numbered(tensor.shape)}
        self.added, self.tables, self.parts, self.layers, self.bent = {}, {}, {}, [], {}
        self.unused = [name for name, tensor in tensors.items() if tensor.dim() == 1]

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = op(*args, **kwargs)
        leaves, outs, name = tensors_in((args, kwargs)), tensors_in(result), name_of(op)
        data = any(a in self.data for a in leaves)
        self._own(name, args, leaves, outs, data, any(map(self._depends, leaves)))
        if outs and outs[0].is_floating_point():
            self._images(name, op, args, kwargs, outs)
            self._kinds(name, args, outs)
        return result

    # --- added parameters

    def _own(self, name, args, leaves, outs, data, depends):
        for slot in added_places(name, args):
            self._add(args[slot])
        own = {n for a in leaves for n in self.names.get(a, ())}
        if own and name not in VIEWS:
            self.unused = [n for n in self.unused if n not in own]
        for a in leaves if own and data and name in SUMS | BESIDE else ():
            self._add(a, outs[0], name in BESIDE)
        bent = own and not data and not self._passes(name, args, leaves)
        if bent:
            self.bent |= dict.fromkeys(n for n in sorted(own) if self.tensors[n].dim() == 1)
        for out in outs:
            if data or bent:
                self._mark(out, depends)
            elif own:
                self.names[out] = frozenset(own)

    def _passes(self, name, args, leaves):
        """Whether an operation on parameters alone is linear in them."""
        if name in GATHERS:  # linear if the indices are fixed, like those of positions
            return not any(a in self.data for a in leaves)
        if name in ("mul", "div"):
            return sum(a in self.names for a in leaves) == 1 and args[0] in self.names
        return name in VIEWS | SUMS | {"sum", "mean", "neg", "zeros_like", "where", "masked_fill"}

    def _add(self, tensor, into=None, beside=False):
        names = self.names.get(tensor, ())
        sizes = _sizes(tensor)
        varies = sum(n > 1 for n in sizes)
        spread = into is None or into.dim() - varies > 1
        table = bool(names) and varies > 1 and (beside or not spread)
        for name in sorted(names):
            table = table or self.tensors[name].numel() > max(LONGEST, tensor.numel())
            (self.tables if table else self.added)[name] = True

    def _mark(self, out, depends):
        self.data[out] = depends
        for tensor in self.beside(out):
            self.data[tensor] = depends or self._depends(tensor)
        self.know(out)

    def _depends(self, tensor):
        return self.data.get(tensor, False)

    # --- the places of a parameter's numbers

    def _images(self, name, op, args, kwargs, outs):
        """Record an image of the result: for each number, its place in a parameter."""
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
        for slot in added_places(name, args)[:1]:
            for n in self.names.get(args[slot], ()):
                if n in self.added:
                    found[n] = self._image(n, args[slot], outs[0], name)
        found = {n: i for n, i in found.items() if i is not None}
        if found:
            self.images[outs[0]] = found

    def _image(self, name, tensor, out, op=""):
        image = self.images.get(tensor, {}).get(name)
        if image is None and tensor.numel() != self.tensors[name].numel():
            return None
        image = numbered(tensor.shape) if image is None else image
        if op in ("convolution", "native_group_norm", "native_batch_norm"):
            image = image.reshape(1, -1, *[1] * (out.dim() - 2))
        return image.expand(out.shape)

    def _move(self, name, op, args, kwargs, outs):
        """Apply a view to the images of its arguments."""
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
        """Record the roles of the results in attention."""
        if name in ("_softmax", "_safe_softmax"):
            self._softmax(args, outs[0])
        elif factors_of(name, args)[0] is not None:
            self._product(name, args, outs[0])
        elif outs[0].numel() and name not in ("sum", "mean", "amax", "max"):
            kinds = [self.kinds[a] for a in tensors_in(args)[:2] if a in self.kinds]
            # prefer any other kind to "mapped", a matrix product that may be scores
            for kind in sorted(kinds, key=lambda kind: kind[0] == "mapped")[:1]:
                self._pass(kind, name, args, outs)

    def _pass(self, kind, name, args, outs):
        """Pass on a kind (role in attention) through an operation that is not a product."""
        if kind[0] == "out" and name not in VIEWS:
            added = name in SUMS and isinstance(args[1], torch.Tensor)
            own, images = self.names.get(args[1], ()) if added else (), self.images.get(outs[0], {})
            self._name("output", kind[1], {n: images[n] for n in own if n in images})
            return
        if kind[0] in ("scores", "mapped") and name in ("mul", "div"):
            kind = (*kind[:-1], kind[-1] * _size(args[1], name))
        for out in outs:
            self.kinds.setdefault(out, kind)

    def _softmax(self, args, out):
        """If softmax receives scores, record an attention layer, with the result as its weights."""
        kind, *product = self.kinds.get(args[0], ("",))
        last = args[1] in (-1, args[0].dim() - 1)
        if kind == "mapped":  # scores of learned queries, unless softmax runs over features
            images = self.images.get(args[0], {}).values()  # a bias differs from feature to feature
            alike = (bool((i == i.narrow(args[1], 0, 1)).all()) for i in images)
            kind = "scores" if product.pop(0) == last and all(alike) else ""
        if kind == "scores":
            *images, width, peak = product
            self.layers.append(Layer(width, peak, {}))
            for part, image in zip(("query", "key") if last else ("key", "query"), images):
                self._name(part, -1, image)
            self.kinds[out] = ("weights", len(self.layers) - 1)

    def _product(self, name, args, out):
        one, other = factors = factors_of(name, args)
        both, second = self._depends(one) and self._depends(other), not self._depends(one)
        if second or self.kinds.get(other, ("",))[0] == "weights":
            one, other = other, one
        kind, *at = self.kinds.get(one, ("",))
        if kind == "weights" and both:
            self._name("value", at[0], self.images.get(other, {}))
            self.kinds[out] = ("mixture", at[0])
        elif kind == "mixture" and not both:
            self._name("output", at[0], self.images.get(out, {}))
            self.kinds[out] = ("out", at[0])
        elif kind == "scores" and not both:  # still scores after heads are mixed
            self.kinds[out] = (kind, *at)
        elif self._depends(one) and name != "convolution":
            images = [self.images.get(factor, {}) for factor in factors]
            peak = out.abs().max().item() if out.numel() else 0.0
            made = (*images, factors[0].shape[-1], peak)
            self.kinds[out] = ("scores", *made) if both else ("mapped", second, *made)

    def _name(self, part, layer, images):
        """Record that these numbers belong to a part of an attention layer."""
        places = self.layers[layer].parts.setdefault(part, {})
        for name, image in images.items():
            there = _in_order(image)
            places[name] = torch.cat([places.get(name, there[:0]), there])
            if name in self.tensors:
                none = torch.zeros(self.tensors[name].numel(), dtype=torch.bool)
                self.parts.setdefault(name, {}).setdefault(part, none)[there] = True


def added_places(name, args):
    """The positions of the arguments that an operation adds: a bias, and a norm's stored mean."""
    places = [ADDED[name]] if name in ADDED else []
    if name in ("native_batch_norm", "_native_batch_norm_legit") and not args[5]:
        places.append(3)
    return [p for p in places if len(args) > p and isinstance(args[p], torch.Tensor)]


def factors_of(name, args):
    """The two factors of a product or a convolution; for other operations, None, None."""
    if name == "convolution":
        return args[:2]
    return args[-2:] if name in PRODUCTS - {"dot"} else (None, None)


def numbered(shape):
    """A tensor of the given shape with the entries 1, 2, 3, …."""
    return torch.arange(1.0, math.prod(shape) + 1, dtype=torch.float64).view(shape)


def _in_order(image):
    """The places in a parameter that an image contains, in the order of first appearance."""
    for axis in range(image.dim()):
        if image.shape[axis] and (image == image.narrow(axis, 0, 1)).all():
            image = image.narrow(axis, 0, 1)
    there = torch.tensor([*dict.fromkeys(image.flatten().tolist())], dtype=torch.long)
    return there[there > 0] - 1


def _size(factor, name):
    """The size of the number by which an operation scales scores; 1 if the factor is an array."""
    if isinstance(factor, torch.Tensor) and factor.numel() > 1:
        return 1.0
    size = abs(factor.item() if isinstance(factor, torch.Tensor) else factor)
    return size if name == "mul" or not size else 1 / size


def _sizes(tensor):
    """The size of each axis along which a tensor varies, and 1 for each other axis."""
    same = lambda axis: bool((tensor == tensor.narrow(axis, 0, 1)).all())
    return [1 if n == 0 or same(axis) else n for axis, n in enumerate(tensor.shape)]
