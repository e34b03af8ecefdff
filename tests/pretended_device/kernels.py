"""What the device computes: every operation on the CPU, over the same memory, if nothing is mixed.

Torch asks a backend for a kernel by the name of the operation.  Here one function answers for
nearly all of them (a "fallback" for torch's spare backend).  It stands where a GPU's kernels do:
below autograd, below functorch, and below the operations that torch composes of others.
"""

import functools

import torch
import torch.nn.attention

from .labels import NAME, NESTED_ON_CPU, ON_CPU, aten, is_there, relabelled

FUSED = torch.nn.attention.SDPBackend.FLASH_ATTENTION.value

#: Indices may lie on the CPU; so may a number without a shape (0-dim), here and in what is pointwise.
INDEXING = {"index", "index_put", "_index_put_impl", "_unsafe_index", "_unsafe_index_put"}
TAKE_A_NUMBER = INDEXING | {"where", "masked_fill", "index_fill", "fill"}


class Operations:
    """How many operations have read a tensor of the device."""

    count = 0


def run(op, *args, **kwargs):
    """The kernel of every operation that has none of its own here."""
    if op.is_view or torch.Tag.inplace_view in op.tags:
        keys = NESTED_ON_CPU if args[0].is_nested else ON_CPU
        return op.redispatch(keys, *args, **kwargs)  # sizes and strides; no number is read
    refuse_a_mix(op, args, kwargs)
    refuse_a_generator_of_the_cpu(kwargs)
    with Dice(op):
        return compute(op, args, kwargs)


def compute(op, args, kwargs):
    """Run on the CPU, over the same memory; results are labelled with the device they belong to."""
    there = [x for x in tensors_in(args, kwargs) if is_there(x)]
    Operations.count += bool(there)
    asked = kwargs.get("device")
    belongs = bool(there) if asked is None else torch.device(asked).type == NAME
    if asked is not None:
        kwargs = {**kwargs, "device": "cpu"}
    twins = {id(x): twin(x) for x in there}
    args, kwargs = each((args, kwargs), lambda x: twins.get(id(x), x))
    result = taking_numbers(op, args)(*args, **kwargs)
    for x in there:
        adopt(x, twins[id(x)])
    itself = {id(twins[id(x)]): x for x in there}  # what is written in place is returned
    return each(result, lambda x: itself[id(x)] if id(x) in itself else labelled(x, belongs))


def tensors_in(args, kwargs):
    """The tensors among the arguments of an operation, those in lists included."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, list | tuple):
            yield from tensors_in(x, {})


def each(thing, change):
    """The same lists and dictionaries with what is in them changed."""
    if isinstance(thing, list | tuple):
        return type(thing)([each(x, change) for x in thing])
    if isinstance(thing, dict):
        return {name: each(x, change) for name, x in thing.items()}
    return change(thing)


def taking_numbers(op, args):
    """Of an operation of two tensors the one of a tensor and a number, where one is a number.

    Torch hands a number over as a tensor, and Python makes a number of it again.
    """
    for place in tensors_wanted(op):
        if place < len(args) and isinstance(args[place], bool | int | float | complex):
            return op.overloadpacket
    return op


@functools.cache
def tensors_wanted(op):
    """Which arguments of an operation are tensors, by its declaration."""
    return [n for n, argument in enumerate(op._schema.arguments) if str(argument.type) == "Tensor"]


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
        set_memory(tensor, memory, 0, twin.shape, twin.stride())


def set_memory(*args):
    aten.set_.source_Storage_storage_offset.redispatch(ON_CPU, *args)


def labelled(thing, belongs):
    """A result of the CPU, as one of the device where it belongs there."""
    if not belongs or not isinstance(thing, torch.Tensor):
        return thing
    return relabelled(thing, NAME)


def seen_by_cpu(tensor):
    return relabelled(tensor, "cpu") if is_there(tensor) else tensor


def refuse_a_mix(op, args, kwargs):
    """RuntimeError where tensors of both devices meet, as on a GPU."""
    name = op._schema.name.removeprefix("aten::").removesuffix("_")
    if name in INDEXING and is_there(args[0]):
        args = (args[0], *args[2:])
    tensors = list(tensors_in(args, kwargs))
    if torch.Tag.pointwise in op.tags or name in TAKE_A_NUMBER:
        tensors = [x for x in tensors if x.dim() or is_there(x)]
    if len({x.device for x in tensors}) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{NAME}:0 and cpu! (when calling {op})"
        )


def refuse_a_generator_of_the_cpu(kwargs):
    """RuntimeError, as on a GPU, where the CPU's generator is to fill a tensor of the device."""
    if kwargs.get("generator") is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu'")


class Dice:
    """Random numbers of the device are others than the CPU's, which go on undisturbed."""

    state = None

    def __init__(self, op):
        self.random = torch.Tag.nondeterministic_seeded in op.tags

    def __enter__(self):
        if self.random:
            self.of_the_cpu = torch.get_rng_state()
            torch.set_rng_state(Dice.state)

    def __exit__(self, *_):
        if self.random:
            Dice.state = torch.get_rng_state()
            torch.set_rng_state(self.of_the_cpu)

    @classmethod
    def seed(cls, seed):
        """What ``torch.manual_seed`` does to each device: the same seed, other numbers."""
        cls.state = torch.Generator().manual_seed(seed ^ 0x5EED).get_state()


def copy_from(source, destination, non_blocking=False):
    """Bring numbers from one device to the other, or from one place on the device to another."""
    seen_by_cpu(destination).copy_(seen_by_cpu(source))
    return destination


def zeros(size, **kwargs):
    """Zeros in memory; the CPU has none for these, as they stand for a derivative that vanishes."""
    return torch.zeros(size, **kwargs)


def convolution_backward(gradient, image, weight, *how):
    """The CPU's kernel takes one argument more: the shape that a bias has."""
    op, *how, wanted = aten.convolution_backward.default, *how
    return run(op, gradient, image, weight, [gradient.shape[1]], *how, wanted)


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


#: What torch does not leave to a fallback, or what is about both devices.
OWN = {
    "_copy_from": copy_from,
    "_efficientzerotensor": zeros,
    "convolution_overrideable": functools.partial(run, aten.convolution.default),
    "convolution_backward_overrideable": convolution_backward,
    # A GPU has kernels for these two; else torch composes them, and the last digits are others.
    "native_layer_norm": functools.partial(run, aten.native_layer_norm.default),
    "native_group_norm": functools.partial(run, aten.native_group_norm.default),
}

#: The same, above autograd.
OWN_ABOVE = {"scaled_dot_product_attention": attention}
