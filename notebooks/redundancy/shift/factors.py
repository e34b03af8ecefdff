"""List the parameters that are added to or multiply numbers that depend on inputs, in order of use."""

from __future__ import annotations

from .roles import BESIDE, SUMS, Roles, added_places, factors_of, numbered


class Factors(Roles):
    """A dispatch mode; after a run, ``order`` lists the added parameters and keys of ``factors``.

    A factor is made of parameters and multiplies numbers that depend on the inputs: a gain, an
    embedding or a matrix, which is stored as (results x summands).
    """

    def __init__(self, tensors, inputs):
        super().__init__(tensors, inputs)
        self.order, self.factors = [], {}

    def _own(self, name, args, leaves, outs, data, depends):
        if depends:
            self._meet(name, args, leaves)
        super()._own(name, args, leaves, outs, data, depends)

    def _images(self, name, op, args, kwargs, outs):
        super()._images(name, op, args, kwargs, outs)
        fixed, _, image = self._matrix(name, args)
        if fixed is not None and self._depends(outs[0]):
            self.images.setdefault(outs[0], {})[_key(fixed, True)] = image.expand(outs[0].shape)

    def _meet(self, name, args, leaves):
        """Record the parameters that this operation adds, and the factors that it multiplies by."""
        adds = [args[i] for i in added_places(name, args)]
        fixed, matrix, _ = self._matrix(name, args)
        for a in leaves:
            if any(a is one for one in adds) or (name in SUMS | BESIDE and a in self.names):
                self.order += sorted(self.names.get(a, frozenset()).difference(self.order))
            elif self._fixed(a) and a.is_floating_point():
                key = _key(a, a is fixed)
                self.order += [key] if key not in self.factors else []
                self.factors.setdefault(key, matrix if a is fixed else a)

    def _fixed(self, tensor):
        """Whether a tensor is made of parameters and does not depend on the inputs."""
        return not self._depends(tensor) and (tensor in self.names or tensor in self.data)

    def _matrix(self, name, args):
        """(the fixed factor, its matrix, which row makes each result), or (None, None, None)."""
        one, other = factors_of(name, args)
        if one is None or self._fixed(one) == self._fixed(other):
            return None, None, None
        left = self._fixed(one)
        if name == "convolution":
            if args[6] and args[8] > 1:  # a grouped transposed convolution is not one matrix
                return None, None, None
            rows = other.transpose(0, 1) if args[6] else other
            return other, rows.flatten(1), numbered((1, len(rows), *[1] * (one.dim() - 2)))
        matrix = one if left else other.mT if other.dim() > 1 else other[None]
        matrix = matrix[:1] if matrix.dim() == 3 and matrix.stride(0) == 0 else matrix
        image = numbered(matrix.shape[:-1])
        if min(one.dim(), other.dim()) > 1:
            image = image.unsqueeze(-1 if left else -2)
        return one if left else other, matrix.flatten(0, -2), image


def _key(tensor, matrix):
    """A key for a factor; the address in it is not reused while `Roles` holds the tensor."""
    return matrix, tensor.data_ptr(), *tensor.shape, *tensor.stride()
