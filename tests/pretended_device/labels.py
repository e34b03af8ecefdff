"""A tensor's memory with another device's label on it.

DLPack is the protocol by which array libraries hand memory to one another: a struct with the
address, the shape and the label of the device.  Torch writes and reads it for its own backends and
for one more, whose place it keeps free ("PrivateUse1").  Here a tensor is written, the label is
exchanged, and the struct is read again: the same numbers at the same address, on another device.
"""

import ctypes

import torch

NAME = "pretended"
#: DLDeviceType of dlpack.h: kDLCPU, and kDLExtDev for the one more.
IN_DLPACK = {"cpu": 1, NAME: 12}

ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
NESTED_ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensorCPU)
aten = torch.ops.aten

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


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
    if tensor.is_nested:
        return _relabelled_rows(tensor, device_type)
    capsule = torch._C._to_dlpack(tensor)
    label = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    label.device_type, label.device_id = IN_DLPACK[device_type], 0
    again = torch._C._from_dlpack(capsule)
    # DLPack knows neither of the marks that put off a computation.
    again = torch._conj(again) if tensor.is_conj() else again
    return torch._neg_view(again) if tensor.is_neg() else again


def _relabelled_rows(tensor, device_type):
    """The same of a nested tensor, rows of different lengths in one memory."""
    about = (aten.values, aten._nested_tensor_size, aten._nested_tensor_strides)
    about += (aten._nested_tensor_storage_offsets,)
    memory, *shapes = (op.default.redispatch(NESTED_ON_CPU, tensor) for op in about)
    return aten._nested_view_from_buffer(relabelled(memory, device_type), *shapes)
