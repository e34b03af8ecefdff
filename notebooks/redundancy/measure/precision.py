"""Copy a model to float64, run it in float64 throughout, and move it to a generic point.

    model = float64_copy(model)             # float64, eval, eager attention
    with double_precision() as patch:       # float32 that the code requests
        outputs = model(**inputs)           # is replaced by float64 here
    patch.caught                            # the functions in which this happened

Many models request float32 explicitly: `softmax(…, dtype=torch.float32)`, `.float()`, or
`.to(torch.float32)` in a norm.  In a float64 model this rounds intermediate numbers to 24 bits, and
exact identities then hold only to about 1e-7.
"""

from __future__ import annotations

import contextlib
import copy
import sys

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

#: A model with fewer numbers than this is small.
FEW_NUMBERS = 5_000_000
_NARROW = {torch.float32, torch.bfloat16, torch.float16}
_ROUNDING = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


class CannotRead(TypeError):
    """The parameters have no readable values: they are on a meta device, or quantised."""


def demand_values(model: nn.Module) -> None:
    """Raise CannotRead unless every parameter is a plain floating-point tensor with values."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a model (torch.nn.Module), not {type(model).__name__}")
    again = "load it in float32 or bfloat16, and try again"
    if getattr(model, "is_quantized", False) or getattr(model, "hf_quantizer", None):
        raise CannotRead(f"the model is quantised: {again}")
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise CannotRead(
                f"{name} is on the meta device and has no values: load the weights, or build the "
                "model outside torch.device('meta')"
            )
        plain = parameter.is_floating_point() and parameter.dtype.itemsize >= 2
        if not (plain or parameter.is_complex()):
            kind = str(parameter.dtype).removeprefix("torch.")
            raise CannotRead(f"{name} is stored as {kind}: the model is quantised; {again}")
        if parameter.sum().isnan() and parameter.isnan().any():  # the sum is a quick first test
            raise CannotRead(f"{name} holds NaN: the weights were not loaded, or training diverged")
    for name, module in model.named_modules():
        if "quantized" in type(module).__module__ or hasattr(module, "_packed_params"):
            raise CannotRead(f"{name or 'the model'} is quantised: {again}")


class double_precision(TorchFunctionMode):  # noqa: N801, used like a function
    """A context in which no change of dtype rounds a float64 tensor to fewer bits.

    ``caught`` lists where that would have happened, for example "LlamaRMSNorm.forward".
    """

    def __init__(self):
        super().__init__()
        self.caught = set()

    def __enter__(self):
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *problem):
        torch.set_default_dtype(self._default)
        return super().__exit__(*problem)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensor = args[0] if args else kwargs.get("input")
        if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float64:
            if function in _ROUNDING:
                self._catch()
                return tensor
            asked = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, torch.dtype)]
            if not _NARROW.isdisjoint(asked):
                self._catch()
                args = tuple(torch.float64 if _is_dtype(a) else a for a in args)
                kwargs = {k: torch.float64 if _is_dtype(v) else v for k, v in kwargs.items()}
        return function(*args, **kwargs)

    def _catch(self):
        frame = sys._getframe(2)
        ours = ("/torch/", "/redundancy/measure/measurement.py")
        while frame.f_back and any(part in frame.f_code.co_filename for part in ours):
            frame = frame.f_back
        self.caught.add(frame.f_code.co_qualname)


def _is_dtype(value):
    return isinstance(value, torch.dtype) and value.is_floating_point


def float64_copy(model: nn.Module) -> nn.Module:
    """A deep copy on the CPU, in float64 and eval mode, with eager attention and without gradients.

    The model itself is not changed.  Raises CannotRead as `demand_values` does.
    """
    demand_values(model)
    with torch.no_grad():  # so that tensors converted in a scripted module remain leaves
        copied = plainly_attending(copy.deepcopy(model).cpu().double().eval())
    for parameter in copied.parameters():
        parameter.requires_grad_(False)
    for module in copied.modules():  # a run may have left tensors in attributes
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                value = value.detach().cpu()
                setattr(module, name, value.double() if value.is_floating_point() else value)
    return copied


def plainly_attending(copied):
    """Switch the model, in place, to eager attention and experts, without caches; return it."""
    for switch in ("set_attn_implementation", "set_experts_implementation"):
        with contextlib.suppress(Exception):  # some models have only one implementation
            getattr(copied, switch)("eager")
    if hasattr(copied, "config"):
        for config in _configs(copied.config):
            if getattr(config, "use_cache", False):
                config.use_cache = False
    return copied


def _configs(config):
    yield config
    for value in list(getattr(config, "__dict__", {}).values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _configs(value)


def with_every_bias_random(model: nn.Module, seed: int = 0) -> nn.Module:
    """Add random numbers to every vector of the model, in place: biases, gains, sinks, bias tables.

    If biases are zero and gains are one, as initialised, a check may pass that should fail.
    """
    generator = torch.Generator().manual_seed(seed)
    tables = {id(module.weight) for name, module in model.named_modules()
              if isinstance(module, nn.Embedding) and "bias" in name}  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2 or id(parameter) in tables or _is_vector(parameter):
                parameter.add_(_normal(parameter, generator) / 3)
    return model


def with_every_weight_random(model: nn.Module, seed: int = 0, scale: float = 1.0) -> nn.Module:
    """Replace every matrix of the model, in place, by Gaussians of deviation scale / sqrt(fan-in).

    New models have small weights, so their scores are close to zero and softmax is nearly uniform.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    transposed = {id(m.weight) for m in model.modules() if type(m).__name__ == "Conv1D"}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2 and not _is_vector(parameter):
                fan_in = parameter.shape[0] if id(parameter) in transposed else parameter[0].numel()
                alone = id(parameter) in embeddings or parameter.shape[0] == 1
                deviation = scale if alone else scale * fan_in**-0.5
                parameter.copy_(deviation * _normal(parameter, generator))
    return model


def _is_vector(parameter):
    return parameter.numel() == max(parameter.shape, default=1)


def _normal(parameter, generator):
    numbers = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return numbers.to(parameter.device, parameter.dtype)


@contextlib.contextmanager
def one_thread_if_small(model):
    """A context in which a small model uses one thread, because more would mostly wait."""
    threads = torch.get_num_threads()
    if sum(p.numel() for p in model.parameters()) < FEW_NUMBERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
