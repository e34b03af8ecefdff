"""Another processor, imagined: sums and transcendental functions end in other last digits.

Two processors agree on elementwise +, -, *, / and on conversions, which IEEE 754 fixes.  They differ
in the order of a sum, in fused multiply-adds, and in their exp, log and sin.  So here each entry
of such a result becomes its neighbour above or below, or stays: one unit in the last place.  Square
roots are among them, although IEEE 754 fixes them: a device may make them of a reciprocal.  The sum
of n numbers moves by up to sqrt(n) units, which is what n independent roundings come to, and by 16
at most: longer sums are made of blocks, and the blocks' sums are added in pairs.  Where a sum is kept
in more digits than are stored (bfloat16, float16) it is rounded once, and moves by one unit.
Normalisations are taken apart, so that the mean and the variance in them move as well.

It is deterministic.  How far an entry goes is read off its significand and the seed, so equal
computations stay equal, and a change of sign or a factor of two commutes with it, as on a real
processor.  A whole number stays if it is made of whole numbers, or if half of the digits of its
format suffice for it, as they do for those below 2^26 in float64: such sums are exact everywhere.

The idea is stochastic arithmetic: CESTAC (Vignes), CADNA, Verrou, Verificarlo.  Those perturb every
operation at random, to see how many digits mean something.  Here a run is to print what is stored.
"""

import math
import re

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

# Operations are named as PyTorch names them below autograd, without the underscore of those in place.

#: Products of matrices: the last factor's rows are counted, or the length of a vector.
PRODUCTS = frozenset("mm bmm addmm baddbmm mv addmv dot vdot".split())

#: A result is made of as many numbers as it is smaller than the first argument.
REDUCTIONS = frozenset(
    "sum nansum mean prod std std_mean var var_mean norm linalg_vector_norm".split()
)

#: Normalisations are taken apart where torch says how.
NORMS = re.compile(r"_?(native|fused)?_?(layer|group|batch|rms)_norm(?!.*backward)")

#: a + alpha b: one rounding if alpha is 1 or -1, else fused on some processors.
SCALED = frozenset("add sub rsub".split())

#: One operation of IEEE 754 on each entry, or none: numbers are moved, compared, made or chosen.
#: What stands in no list may end in another digit.
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

#: The integers of the same width, and the bits of the significand that are stored.
LAYOUT = {
    torch.float64: (torch.int64, 52),
    torch.float32: (torch.int32, 23),
    torch.float16: (torch.int16, 10),
    torch.bfloat16: (torch.int16, 7),
}
GOLDEN = 0x9E3779B97F4A7C15  # odd; its products spread the bits of small numbers


class OtherProcessor(TorchDispatchMode):
    """While it is entered, what torch computes is what another processor might have computed."""

    def __init__(self, seed):
        super().__init__()
        self.multiplier = (GOLDEN * (2 * seed + 1) + 2**63) % 2**64 - 2**63

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if called(func) == "_local_scalar_dense" and not isinstance(args[0], torch.Tensor):
            return args[0]  # a number that torch had wrapped, and has unwrapped for this mode
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
        """Each entry, moved by up to so many neighbours: in bits, the number that much larger.

        ``counted`` says that it is made of whole numbers.
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
    """The name of an operation, the same in place and not."""
    return func._schema.name.split("::")[1].rstrip("_")


def may_differ(func, kwargs):
    """Whether processors may round an operation differently."""
    if func.is_view or torch.Tag.inplace_view in func.tags or called(func) in FIXED:
        return False
    return called(func) not in SCALED or abs(kwargs.get("alpha", 1)) != 1


def units(func, args, part):
    """By how many units in the last place the entries of a result may move: see above."""
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
    """The results of an operation: of a list or a nested tensor each part, of a complex one both."""
    if isinstance(out, torch.Tensor) and out.is_nested:
        out = out.unbind()
    if isinstance(out, (tuple, list)):
        return [part for each in out for part in flat(each)]
    if isinstance(out, torch.Tensor) and out.is_complex() and not out.is_conj():
        out = torch.view_as_real(out)
    return [out]


def holds_numbers(part):
    """Whether it has floating-point numbers that can be changed: no fake tensor, and not empty."""
    return (
        type(part) in (torch.Tensor, torch.nn.Parameter)
        and part.dtype in LAYOUT
        and part.numel() > 0
        and not (part.is_meta or part._is_zerotensor())
    )


def is_whole(argument):
    """Whether an argument has whole numbers only, or is none."""
    return not holds_numbers(argument) or bool((argument == argument.round()).all())
