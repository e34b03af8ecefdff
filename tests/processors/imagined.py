"""An imagined processor, on which sums and transcendental functions have different last digits.

Processors agree on elementwise +, -, *, / and on conversions, which IEEE 754 fixes.  They differ in
the order of a sum, in fused multiply-adds, and in their exp, log and sin.  This module therefore
changes each entry of the results of other operations by up to one unit in the last place.  Square
roots are changed as well, although IEEE 754 fixes them, because a device may compute them from a
reciprocal.  A sum of n numbers changes by up to sqrt(n) units, the size of n independent roundings,
but by at most 16, because processors add long sums in blocks, and then the blocks' sums in pairs.
A sum in bfloat16 or float16, which is computed with more digits and rounded once, changes by one
unit at most.  Normalisations are decomposed, so that their means and variances change as well.

The change is deterministic.  It depends on an entry's significand and the seed, so equal
computations stay equal, and it commutes with a change of sign or a factor of two, as on a real
processor.  A whole number stays if it was computed from whole numbers, or if half of its format's
digits suffice for it (below 2^26 in float64), because such sums are exact everywhere.

The method is stochastic arithmetic, as in CESTAC (Vignes), CADNA, Verrou and Verificarlo.  They
measure how many digits are significant; here, a notebook must print its stored output.
"""

import math
import re

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

# The names are those of PyTorch's operations below autograd, without a final underscore.

#: Matrix products, whose sums have as many terms as the last factor has rows.
PRODUCTS = frozenset("mm bmm addmm baddbmm mv addmv dot vdot".split())

#: Reductions, whose sums have (size of the first argument) / (size of the result) terms.
REDUCTIONS = frozenset(
    "sum nansum mean prod std std_mean var var_mean norm linalg_vector_norm".split()
)

#: Normalisations, which are decomposed if torch has a decomposition.
NORMS = re.compile(r"_?(native|fused)?_?(layer|group|batch|rms)_norm(?!.*backward)")

#: a + alpha b is rounded once if alpha is 1 or -1; otherwise, some processors fuse * and +.
SCALED = frozenset("add sub rsub".split())

#: Operations that apply one operation of IEEE 754 to each entry, or only move, compare, create or
#: select numbers.  Results of operations in no list may change by one unit in the last place.
FIXED = frozenset(
    """
abs mul div floor_divide neg reciprocal remainder fmod floor ceil round trunc frac sign sgn square
positive maximum minimum fmax fmin clamp clamp_min clamp_max relu leaky_relu hardtanh threshold
threshold_backward leaky_relu_backward hardtanh_backward where masked_fill masked_scatter nan_to_num
max min amax amin aminmax sort topk kthvalue median cummax cummin copysign nextafter
_to_copy copy clone lift_fresh lift_fresh_copy contiguous empty empty_like empty_strided new_empty
new_empty_strided new_full full full_like scalar_tensor fill resize resize_as set cat stack
concat repeat roll flip tril triu gather scatter index index_put _index_put_impl _unsafe_index
_unsafe_index_put index_select index_copy index_fill take masked_select select_scatter slice_scatter
diagonal_scatter select_backward slice_backward diagonal_backward embedding constant_pad_nd
reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d max_pool2d_with_indices
max_pool2d_with_indices_backward unfold_backward native_dropout bernoulli uniform rand random
_reshape_alias _unsafe_view _local_scalar_dense item diag_embed diag block_diag unique_dim _unique2
im2col col2im view_as_real view_as_complex complex expand_copy _nested_tensor_from_mask
_nested_tensor_from_tensor_list to_padded_tensor send recv allgather
""".split()
)

#: {dtype: (integer dtype of the same width, number of stored bits of the significand)}
LAYOUT = {
    torch.float64: (torch.int64, 52),
    torch.float32: (torch.int32, 23),
    torch.float16: (torch.int16, 10),
    torch.bfloat16: (torch.int16, 7),
}
GOLDEN = 0x9E3779B97F4A7C15  # an odd number whose products spread the bits of small numbers


class OtherProcessor(TorchDispatchMode):
    """A mode in which torch computes what another processor might have computed."""

    def __init__(self, seed):
        super().__init__()
        self.multiplier = (GOLDEN * (2 * seed + 1) + 2**63) % 2**64 - 2**63

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if called(func) == "_local_scalar_dense" and not isinstance(args[0], torch.Tensor):
            return args[0]
        if NORMS.match(called(func)) and func in decomposition_table and args[0].numel():
            with self:
                out = decomposition_table[func](*args, **kwargs)
        else:
            out = func(*args, **kwargs)
        parts = [part for part in flat(out) if holds_numbers(part)]
        if parts and may_differ(func, kwargs):
            counted = called(func) in PRODUCTS | REDUCTIONS and all(map(is_whole, flat(args)))
            for part in parts:
                part.copy_(self.moved(part, units(func, args, part), counted))
        return out

    def moved(self, part, most, counted):
        """Move each entry by up to ``most`` units in the last place, by adding to its bits.

        ``counted`` says that the operation's arguments are whole numbers.
        """
        integers, digits = LAYOUT[part.dtype]
        bits = part.detach().clone().contiguous().view(integers)
        significand = (bits & (2**digits - 1)).long()
        step = (((significand + 1) * self.multiplier) >> 33) % (2 * most + 1) - most
        neighbour = (bits + step.to(integers)).view(part.dtype)
        short = significand % 2 ** (digits // 2 + 1) == 0  # the lower half of the digits is zero
        countable = part.abs() <= 2 ** max(digits + 1, 24)  # half precision is summed in float32
        exact = (part == part.round()) & (short | countable & counted)
        infinite = ~(torch.isfinite(part) & torch.isfinite(neighbour))
        return torch.where(exact | infinite, part, neighbour)


def called(func):
    """The name of an operation, which is the same for its in-place form."""
    return func._schema.name.split("::")[1].rstrip("_")


def may_differ(func, kwargs):
    """Whether processors may round the result of an operation differently."""
    once = called(func) in SCALED and abs(kwargs.get("alpha", 1)) == 1
    view = func.is_view or torch.Tag.inplace_view in func.tags
    return not (view or once or called(func) in FIXED)


def units(func, args, part):
    """The number of units in the last place by which the entries of a result may change."""
    if part.dtype not in (torch.float64, torch.float32):
        return 1
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    length = 1
    if called(func) in PRODUCTS:
        length = tensors[-1].shape[-1 if tensors[-1].dim() == 1 else -2]
    if called(func) in REDUCTIONS:
        length = tensors[0].numel() / part.numel()
    return min(math.ceil(math.sqrt(length)), 16)


def flat(out):
    """The results of an operation as a list of tensors, with complex ones viewed as real."""
    if isinstance(out, torch.Tensor) and out.is_nested:
        out = out.unbind()
    if isinstance(out, (tuple, list)):
        return [part for each in out for part in flat(each)]
    if isinstance(out, torch.Tensor) and out.is_complex() and not out.is_conj():
        out = torch.view_as_real(out)
    return [out]


def holds_numbers(part):
    """Whether a result has floating-point numbers to change; a fake or empty tensor has none."""
    return (
        type(part) in (torch.Tensor, torch.nn.Parameter)
        and part.dtype in LAYOUT
        and part.numel() > 0
        and not (part.is_meta or part._is_zerotensor())
    )


def is_whole(argument):
    """Whether all floating-point numbers in an argument, if there are any, are whole."""
    return not holds_numbers(argument) or bool((argument == argument.round()).all())
