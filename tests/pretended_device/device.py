"""The device as torch sees it: ``install()``, once in a process, before anything asks for one."""

import torch
from torch.utils import backend_registration

from . import kernels
from .labels import NAME, is_there

OF_TORCH = torch.Tensor.data
KEPT = []  # what is registered goes when its library is collected


class Module(backend_registration._DummyBackendModule):
    """``torch.pretended``: for this device what ``torch.cuda`` is for a GPU."""

    def manual_seed_all(self, seed):
        kernels.Dice.seed(seed)

    def get_rng_state(self, device=None):
        return kernels.Dice.state

    def set_rng_state(self, state, device=None):
        kernels.Dice.state = state


def install():
    """Register the device; from now on ``torch.accelerator`` reports it."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, Module())
    kernels.Dice.seed(0)
    for key in ("PrivateUse1", "NestedTensorPrivateUse1"):
        library("_").fallback(kernels.run, key)
    for name, kernel in kernels.OWN.items():
        library("aten").impl(name, kernel, "PrivateUse1")
    for name, kernel in kernels.OWN_ABOVE.items():
        library("aten").impl(name, kernel, "AutogradPrivateUse1")
    # A copy writes out what is only marked as conjugate or negative, so it must not ask for a copy.
    for mark in ("Conjugate", "Negative"):
        library("aten").impl("_copy_from", torch.library.fallthrough_kernel, mark)
    torch.storage._StorageBase.clone = copy_of_storage
    torch._has_compatible_shallow_copy_type = is_the_same_kind
    torch.Tensor.data = property(OF_TORCH.__get__, set_data)


def library(namespace):
    """Where kernels are registered, for as long as the process lives."""
    KEPT.append(torch.library.Library(namespace, "IMPL"))
    return KEPT[-1]


def is_the_same_kind(input: torch.Tensor, from_: torch.Tensor) -> bool:
    """Whether ``input.data = from_`` will do; torch compares the names and annotations given here."""
    return input.layout == from_.layout


def set_data(tensor, numbers):
    """``tensor.data = numbers`` where the device changes too: the tensor stays the same object.

    Torch does so among its own devices alone.  By this a module is moved: its weights stay what an
    optimiser was given, and two that are one remain one.
    """
    if is_there(tensor) == is_there(numbers):
        return OF_TORCH.__set__(tensor, numbers)
    gradient, numbers = tensor.grad, numbers.detach().requires_grad_(tensor.requires_grad)
    torch._C._swap_tensor_impl(tensor, numbers)
    if gradient is not None:
        tensor.grad = gradient.to(tensor)


def copy_of_storage(storage):
    """What ``deepcopy`` asks of a storage; torch's own would look for an allocator in C++."""
    if storage.device.type != NAME:
        return type(storage)(storage.nbytes(), device=storage.device).copy_(storage)
    numbers = torch.empty(0, dtype=torch.uint8, device=NAME).set_(storage)
    return numbers.clone().untyped_storage()
