"""An accelerator for machines without one: every notebook runs on it (``make nightly ONLY=device``).

It computes with the CPU's numbers and keeps them apart as a GPU does: tensors of the two devices do
not mix, numpy sees none of its memory, its random numbers are others.  What a notebook forgets to
move is found where it meets what was moved, and a check that moves nothing at its end (``start_up``).
What a GPU computes differently is not found: ``tests/processors`` imagines that.

A tensor of the device is the CPU's memory with another label on it.  The label is exchanged in a
DLPack struct, by which array libraries hand memory to one another, as torch keeps a place free there
for one more backend ("PrivateUse1").  Torch asks a backend for a kernel by the name of the
operation; here one function, ``run``, answers for nearly all of them.  It stands where a GPU's
kernels do: below autograd, below functorch, and below the operations that torch composes of others.

Torch leaves a backend of Python no allocator: nothing can be loaded to the device from a file, a
place that holds numbers cannot grow, and there is no generator to be had.  No notebook asks for it.
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
#: DLDeviceType of dlpack.h: kDLCPU, and kDLExtDev for the pretended device.
IN_DLPACK = {"cpu": 1, NAME: 12}
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
NESTED_ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensorCPU)
FUSED = torch.nn.attention.SDPBackend.FLASH_ATTENTION.value
DICE = torch.Generator()  # what the device draws comes next in it
aten = torch.ops.aten

#: Indices may lie on the CPU; so may a number without a shape (0-dim), here and in what is pointwise.
INDEXING = {"index", "index_put", "_index_put_impl", "_unsafe_index", "_unsafe_index_put"}
TAKE_A_NUMBER = INDEXING | {"where", "masked_fill", "index_fill", "fill"}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


# ---- labels -----------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """The beginning of a DLTensor: its address and its device."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    ]


def is_there(thing):
    """Whether this is a tensor on the pretended device."""
    return isinstance(thing, torch.Tensor) and thing.device.type == NAME


def relabelled(tensor, device_type):
    """The same memory as a tensor of this device type; strides are kept, the offset is zero."""
    if tensor.is_nested:  # rows of different lengths in one memory
        about = (aten.values, aten._nested_tensor_size, aten._nested_tensor_strides)
        about += (aten._nested_tensor_storage_offsets,)
        memory, *shapes = (op.default.redispatch(NESTED_ON_CPU, tensor) for op in about)
        return aten._nested_view_from_buffer(relabelled(memory, device_type), *shapes)
    capsule = torch._C._to_dlpack(tensor)
    label = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    label.device_type, label.device_id = IN_DLPACK[device_type], 0
    again = torch._C._from_dlpack(capsule)
    # DLPack knows neither of the marks that put off a computation.
    again = torch._conj(again) if tensor.is_conj() else again
    return torch._neg_view(again) if tensor.is_neg() else again


def seen_by_cpu(thing):
    return relabelled(thing, "cpu") if is_there(thing) else thing


# ---- what is computed, and what is refused ----------------------------------------------


class Operations:
    """How many operations have read a tensor of the device."""

    count = 0


def run(op, *args, **kwargs):
    """The kernel of every operation that has none of its own here: the CPU's, if nothing is mixed."""
    if op.is_view or torch.Tag.inplace_view in op.tags:
        keys = NESTED_ON_CPU if args[0].is_nested else ON_CPU
        return op.redispatch(keys, *args, **kwargs)  # sizes and strides; no number is read
    refuse_a_mix(op, args, kwargs)
    if kwargs.get("generator") is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu'")
    with own_dice(op):
        return compute(op, args, kwargs)


def compute(op, args, kwargs):
    """Run on the CPU, over the same memory; results are labelled with the device they belong to."""
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
    itself = {id(twins[id(x)]): x for x in there}  # what is written in place is returned

    def labelled(x):
        if id(x) in itself:
            return itself[id(x)]
        return relabelled(x, NAME) if belongs and isinstance(x, torch.Tensor) else x

    return tree_map(labelled, result)


def takes_a_number(op, args):
    """Whether a number stands where a tensor is declared: torch had made a tensor of it."""
    declared = op._schema.arguments
    return any(isinstance(x, Number) and str(a.type) == "Tensor" for a, x in zip(declared, args))


def twin(tensor):
    """What the CPU is given for a tensor of the device: the same memory.

    An empty one gets memory of its own: as ``out=`` it is made larger by the operation.
    """
    if tensor.is_nested or tensor.numel():
        return relabelled(tensor, "cpu")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def adopt(tensor, twin):
    """An empty tensor that the operation has made larger takes the memory of its twin."""
    if not tensor.is_nested and tensor.shape != twin.shape:
        memory = relabelled(twin, NAME).untyped_storage()
        place = (tensor, memory, 0, twin.shape, twin.stride())
        aten.set_.source_Storage_storage_offset.redispatch(ON_CPU, *place)


def refuse_a_mix(op, args, kwargs):
    """RuntimeError where tensors of both devices meet, as on a GPU."""
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
    """Random numbers of the device are others than the CPU's, which go on undisturbed."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(DICE.get_state())
        yield
        DICE.set_state(torch.get_rng_state())


# ---- what torch does not leave to a fallback, or what is about both devices ---------------


def copy_from(source, destination, non_blocking=False):
    """Bring numbers from one device to the other, or from one place on the device to another."""
    seen_by_cpu(destination).copy_(seen_by_cpu(source))
    return destination


def attention(query, key, value, mask=None, dropout=0.0, causal=False, *, scale=None, **rest):
    """Torch chooses between a fused kernel and plain operations, and asks only devices it knows."""
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
    # Zeros that stand for a derivative that vanishes; the CPU has no memory for them.
    "_efficientzerotensor": lambda size, **kwargs: torch.zeros(size, **kwargs),
    "convolution_overrideable": partial(run, aten.convolution.default),
    # A GPU has kernels for these two; else torch composes them, and the last digits are others.
    "native_layer_norm": partial(run, aten.native_layer_norm.default),
    "native_group_norm": partial(run, aten.native_group_norm.default),
}


# ---- how torch learns of it ---------------------------------------------------------------

OF_TORCH = torch.Tensor.data
KEPT = []  # what is registered goes when its library is collected


class Module(backend_registration._DummyBackendModule):
    """``torch.pretended``: for this device what ``torch.cuda`` is for a GPU."""

    def manual_seed_all(self, seed):
        """What ``torch.manual_seed`` does to each device: the same seed, other numbers."""
        DICE.manual_seed(seed ^ 0x5EED)

    def get_rng_state(self, device=None):
        return DICE.get_state()

    def set_rng_state(self, state, device=None):
        DICE.set_state(state)


def install():
    """Register the device, before anything asks for one; ``torch.accelerator`` then reports it."""
    module = Module()
    backend_registration._setup_privateuseone_for_python_backend(NAME, module)
    module.manual_seed_all(0)
    for key in ("PrivateUse1", "NestedTensorPrivateUse1"):
        library("_").fallback(run, key)
    for name, kernel in OWN.items():
        library("aten").impl(name, kernel, "PrivateUse1")
    library("aten").impl("scaled_dot_product_attention", attention, "AutogradPrivateUse1")
    # A copy writes out what is only marked as conjugate or negative, so it must not ask for a copy.
    for mark in ("Conjugate", "Negative"):
        library("aten").impl("_copy_from", torch.library.fallthrough_kernel, mark)
    torch.storage._StorageBase.clone = copy_of_storage
    torch.Tensor.data = property(OF_TORCH.__get__, set_data)
    # A module that is moved keeps its parameters, as on a GPU; two that are one remain one.
    torch.__future__.set_swap_module_params_on_conversion(True)


def library(namespace):
    """Where kernels are registered, for as long as the process lives."""
    KEPT.append(torch.library.Library(namespace, "IMPL"))
    return KEPT[-1]


def set_data(tensor, numbers):
    """``tensor.data = numbers`` where the device changes too, as torch does among its own devices."""
    if is_there(tensor) == is_there(numbers):
        return OF_TORCH.__set__(tensor, numbers)
    torch._C._swap_tensor_impl(tensor, numbers.detach().requires_grad_(tensor.requires_grad))


def copy_of_storage(storage):
    """What ``deepcopy`` asks of a storage; torch's own would look for an allocator in C++."""
    if storage.device.type != NAME:
        return type(storage)(storage.nbytes(), device=storage.device).copy_(storage)
    numbers = torch.empty(0, dtype=torch.uint8, device=NAME).set_(storage)
    return numbers.clone().untyped_storage()
