"""A pretended accelerator, on which every notebook runs (``make nightly ONLY=device``).

The CPU computes its results, but the device is as separate as a GPU: tensors of the two devices do
not mix, numpy cannot read its memory, and its random numbers differ.  A tensor that a notebook
forgets to move causes an error when it is combined with a moved one; ``start_up`` reports a check
that moves nothing.  A real GPU's different last digits are simulated in ``tests/processors``.

A tensor on the device is CPU memory with another device label.  The label is changed in a DLPack
struct, through which array libraries share memory; torch reserves a label there for one more
backend ("PrivateUse1").  Torch looks up a backend's kernel by the name of an operation; here one
function, ``run``, is the kernel of nearly all operations.  Like a GPU's kernels, it comes below
autograd, below functorch, and below the operations that torch composes from others.

Torch provides no allocator for a backend written in Python, so a file cannot be loaded onto the
device, a storage cannot grow, and there is no generator.  No notebook needs these.
"""

import ctypes
from contextlib import contextmanager
from functools import partial
from numbers import Number

import torch
import torch.nn.attention
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

NAME = "pretended"
#: Values of DLDeviceType in dlpack.h: kDLCPU, and kDLExtDev for the pretended device.
IN_DLPACK = {"cpu": 1, NAME: 12}
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
NESTED_ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensorCPU)
FUSED = torch.nn.attention.SDPBackend.FLASH_ATTENTION.value
DICE = torch.Generator()  # generates the device's random numbers
aten = torch.ops.aten

#: As on a GPU, these operations accept indices (INDEXING) or 0-dim tensors that are on the CPU.
INDEXING = {"index", "index_put", "_index_put_impl", "_unsafe_index", "_unsafe_index_put"}
TAKE_A_NUMBER = INDEXING | {"where", "masked_fill", "index_fill", "fill"}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


# ---- labels -----------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """The first fields of DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    ]


is_there = lambda thing: isinstance(thing, torch.Tensor) and thing.device.type == NAME
seen_by_cpu = lambda thing: relabelled(thing, "cpu") if is_there(thing) else thing


def relabelled(tensor, device_type):
    """A tensor of this device type in the same memory, with the same strides and offset zero."""
    if tensor.is_nested:  # such a tensor stores rows of different lengths in one buffer
        about = (aten.values, aten._nested_tensor_size, aten._nested_tensor_strides)
        about += (aten._nested_tensor_storage_offsets,)
        memory, *shapes = (op.default.redispatch(NESTED_ON_CPU, tensor) for op in about)
        return aten._nested_view_from_buffer(relabelled(memory, device_type), *shapes)
    capsule = torch._C._to_dlpack(tensor)
    label = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    label.device_type, label.device_id = IN_DLPACK[device_type], 0
    again = torch._C._from_dlpack(capsule)
    # DLPack loses the mark of a conjugation or negation that torch has not yet computed.
    again = torch._conj(again) if tensor.is_conj() else again
    return torch._neg_view(again) if tensor.is_neg() else again


# ---- operations that are computed, and those that are refused ---------------------------


class Operations:
    """A counter of the operations that had a tensor on the device as an argument."""

    count = 0


def run(op, *args, **kwargs):
    """Run an operation that has no kernel in `OWN`; refuse to mix devices."""
    if op.is_view or torch.Tag.inplace_view in op.tags:
        keys = NESTED_ON_CPU if args[0].is_nested else ON_CPU
        return op.redispatch(keys, *args, **kwargs)  # a view changes sizes and strides only
    refuse_a_mix(op, args, kwargs)
    if kwargs.get("generator") is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu'")
    with own_dice(op):
        return compute(op, args, kwargs)


def compute(op, args, kwargs):
    """Run an operation on the CPU, in the same memory, and label results with their device."""
    there = [x for x in tree_leaves((args, kwargs)) if is_there(x)]
    Operations.count += bool(there)
    asked = kwargs.get("device")
    belongs = bool(there) if asked is None else torch.device(asked).type == NAME
    if asked is not None:
        kwargs = {**kwargs, "device": "cpu"}
    twins = {id(x): twin(x) for x in there}
    args, kwargs = tree_map(lambda x: twins.get(id(x), x), (args, kwargs))
    if takes_a_number(op, args):
        op = op.overloadpacket
    result = op(*args, **kwargs)
    for x in there:
        adopt(x, twins[id(x)])
    itself = {id(twins[id(x)]): x for x in there}  # an in-place operation returns its argument

    def labelled(x):
        if id(x) in itself:
            return itself[id(x)]
        return relabelled(x, NAME) if belongs and isinstance(x, torch.Tensor) else x

    return tree_map(labelled, result)


def takes_a_number(op, args):
    """Whether torch has unwrapped a tensor argument into a number."""
    declared = op._schema.arguments
    return any(isinstance(x, Number) and str(a.type) == "Tensor" for a, x in zip(declared, args))


def twin(tensor):
    """A CPU tensor that shares the memory of a tensor on the device.

    The twin of an empty tensor has its own memory, as an operation may enlarge an empty ``out=``.
    """
    if tensor.is_nested or tensor.numel():
        return relabelled(tensor, "cpu")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def adopt(tensor, twin):
    """Give an empty tensor the memory of its twin if an operation has enlarged the twin."""
    if not tensor.is_nested and tensor.shape != twin.shape:
        memory = relabelled(twin, NAME).untyped_storage()
        place = (tensor, memory, 0, twin.shape, twin.stride())
        aten.set_.source_Storage_storage_offset.redispatch(ON_CPU, *place)


def refuse_a_mix(op, args, kwargs):
    """Raise RuntimeError, as a GPU does, if an operation's tensors are on both devices."""
    name = op._schema.name.removeprefix("aten::").removesuffix("_")
    if name in INDEXING and is_there(args[0]):
        args = (args[0], *args[2:])
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    if torch.Tag.pointwise in op.tags or name in TAKE_A_NUMBER:
        tensors = [x for x in tensors if x.dim() or is_there(x)]
    if len({x.device for x in tensors}) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{NAME}:0 and cpu! (when calling {op})"
        )


@contextmanager
def own_dice(op):
    """Let a random operation use the device's generator, and leave the CPU's as it was."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(DICE.get_state())
        yield
        DICE.set_state(torch.get_rng_state())


# ---- operations that need their own kernel, or involve both devices -----------------------


def copy_from(source, destination, non_blocking=False):
    """Copy numbers between the devices, or between two tensors on the device."""
    seen_by_cpu(destination).copy_(seen_by_cpu(source))
    return destination


def attention(query, key, value, mask=None, dropout=0.0, causal=False, *, scale=None, **rest):
    """Choose a fused kernel or plain operations; torch does so only for devices that it knows."""
    rest["scale"] = scale
    choice = aten._fused_sdp_choice(query, key, value, mask, dropout, causal, **rest)
    if choice < 0:
        raise RuntimeError("No viable backend for scaled_dot_product_attention was found.")
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -torch.inf)
    if choice != FUSED or (mask is not None and mask.requires_grad):
        plain = aten._scaled_dot_product_attention_math
        return plain(query, key, value, mask, dropout, causal, **rest)[0]
    fused = aten._scaled_dot_product_flash_attention_for_cpu
    return fused(query, key, value, dropout, causal, attn_mask=mask, scale=scale)[0]


OWN = {
    "_copy_from": copy_from,
    # Torch represents vanishing derivatives by zeros without memory; here they have memory.
    "_efficientzerotensor": lambda size, **kwargs: torch.zeros(size, **kwargs),
    "convolution_overrideable": partial(run, aten.convolution.default),
    # A GPU has kernels for these two; if torch composed them, the last digits would differ.
    "native_layer_norm": partial(run, aten.native_layer_norm.default),
    "native_group_norm": partial(run, aten.native_group_norm.default),
}


# ---- registration with torch --------------------------------------------------------------

OF_TORCH = torch.Tensor.data
KEPT = []  # a kernel is unregistered when its library is garbage-collected


class Module(backend_registration._DummyBackendModule):
    """``torch.pretended``, which corresponds to ``torch.cuda`` for a GPU."""

    def manual_seed_all(self, seed):
        """Seed the device for ``torch.manual_seed``; its numbers differ from the CPU's."""
        DICE.manual_seed(seed ^ 0x5EED)

    def get_rng_state(self, device=None):
        return DICE.get_state()

    def set_rng_state(self, state, device=None):
        DICE.set_state(state)


def install():
    """Register the device, so that ``torch.accelerator`` reports it; call this before any use."""
    module = Module()
    backend_registration._setup_privateuseone_for_python_backend(NAME, module)
    module.manual_seed_all(0)
    for key in ("PrivateUse1", "NestedTensorPrivateUse1"):
        library("_").fallback(run, key)
    for name, kernel in OWN.items():
        library("aten").impl(name, kernel, "PrivateUse1")
    library("aten").impl("scaled_dot_product_attention", attention, "AutogradPrivateUse1")
    # Torch evaluates a lazy conjugate or negative by copying, so `_copy_from` must accept its mark.
    for mark in ("Conjugate", "Negative"):
        library("aten").impl("_copy_from", torch.library.fallthrough_kernel, mark)
    torch.storage._StorageBase.clone = copy_of_storage
    torch.Tensor.data = property(OF_TORCH.__get__, set_data)
    # As on a GPU, a moved module keeps its parameter objects, so that tied parameters stay tied.
    torch.__future__.set_swap_module_params_on_conversion(True)


def library(namespace):
    """A library in which kernels stay registered while the process lives."""
    KEPT.append(torch.library.Library(namespace, "IMPL"))
    return KEPT[-1]


def set_data(tensor, numbers):
    """Set ``tensor.data`` even across devices, which torch allows only for its own devices."""
    if is_there(tensor) == is_there(numbers):
        return OF_TORCH.__set__(tensor, numbers)
    torch._C._swap_tensor_impl(tensor, numbers.detach().requires_grad_(tensor.requires_grad))


def copy_of_storage(storage):
    """Copy a storage for ``deepcopy``; torch's own method would need an allocator in C++."""
    if storage.device.type != NAME:
        return type(storage)(storage.nbytes(), device=storage.device).copy_(storage)
    numbers = torch.empty(0, dtype=torch.uint8, device=NAME).set_(storage)
    return numbers.clone().untyped_storage()
