"""What the device refuses, and what it computes.

Run by ``test_pretended_device`` in a process of its own: a process has one accelerator at most,
and keeps it, and the other tests are to have none.
"""

import copy
import operator
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal, start, with_random_biases
from torch import nn
from torch.func import functional_call, hessian, jacfwd, jacrev, vmap

from tests.pretended_device.device import install
from tests.pretended_device.kernels import Operations

#: What torch says of itself: deprecated parts that it loads, and a slow way through vmap.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]

install()
DEVICE = start()


@pytest.fixture
def here():
    return normal(3, 4)


@pytest.fixture
def there():
    return normal(3, 4, device=DEVICE)


def test_torch_reports_an_accelerator_and_the_notebooks_take_it():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == DEVICE.type == "pretended"
    assert not torch.cuda.is_available()


#: Each mixes the devices, and raises on a GPU.
MIXES = {
    "a sum": lambda here, there: there + here,
    "a sum in place": lambda here, there: there.add_(here),
    "a sum in place on the CPU": lambda here, there: here.add_(there),
    "a product": lambda here, there: there @ here.T,
    "an einsum": lambda here, there: torch.einsum("ij,kj->ik", there, here),
    "rows put together": lambda here, there: torch.cat([there, here]),
    "rows stacked": lambda here, there: torch.stack([there, here]),
    "a choice": lambda here, there: torch.where(there > 0, here, there),
    "a mask of the CPU": lambda here, there: there.masked_fill(here > 0, 0.0),
    "an index of the device": lambda here, there: here[torch.tensor([0], device=DEVICE)],
    "a mask of the device as an index": lambda here, there: here[there > 0],
    "rows written": lambda here, there: there.index_put((torch.tensor([0]),), here[:1]),
    "a row looked up": lambda here, there: there.index_select(0, torch.tensor(0)),
    "an embedding": lambda here, there: F.embedding(torch.tensor([0]), there),
    "a module of the CPU": lambda here, there: nn.Linear(4, 4).double()(there),
    "a module of the device": lambda here, there: nn.Linear(4, 4).double().to(DEVICE)(here),
    "a norm": lambda here, there: nn.LayerNorm(4).double()(there),
    "a convolution": lambda here, there: F.conv1d(there[:, None], here[:, None]),
    "attention": lambda here, there: F.scaled_dot_product_attention(there, here, here),
    "a loss": lambda here, there: F.mse_loss(there, here),
    "a comparison": lambda here, there: torch.equal(there, here),
    "a tolerance": lambda here, there: torch.allclose(there, here),
    "a place to write": lambda here, there: torch.add(here, here, out=there),
    "a lstsq": lambda here, there: torch.linalg.lstsq(there, here),
    "vmap": lambda here, there: vmap(torch.dot, in_dims=(0, None))(there, here[0]),
    "a Jacobian": lambda here, there: jacrev(lambda x: x @ here.T)(there),
}


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_it_does_not_mix_with_the_cpu(mix, here, there):
    with pytest.raises(RuntimeError, match="same device|on cpu or on the same device"):
        mix(here, there)


def test_numpy_does_not_see_it(there):
    for look in (there.numpy, lambda: np.asarray(there), lambda: np.array([there[0], there[1]])):
        with pytest.raises(TypeError, match="to numpy. Use Tensor.cpu"):
            look()
    assert there.cpu().numpy().shape == (3, 4)


#: Each brings numbers from one device to the other, and is right on a GPU as well.
MEETINGS = {
    "a number without a shape": lambda x, y: x * y.sum(),
    "a number filled in": lambda x, y: x.masked_fill(x > 0, y.sum()),
    "an index of the CPU": lambda x, y: x[torch.tensor([1, 0])],
    "an index in a list": lambda x, y: x[[1, 0], 2],
    "a mask of the CPU as an index": lambda x, y: x[y > 0],
    "numbers copied": lambda x, y: x.clone().copy_(2 * y),
    "rows set": lambda x, y: with_first_row(x, 2 * y[0]),
}


def with_first_row(x, row):
    changed = x.clone()
    changed[0] = row
    return changed


@pytest.mark.parametrize("meeting", MEETINGS.values(), ids=MEETINGS)
def test_what_a_gpu_takes_from_the_cpu_it_takes(meeting, here, there):
    found = meeting(there, here)
    assert found.device.type == DEVICE.type and torch.equal(found.cpu(), meeting(here, here))


def layer(x, **options):
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, **options)
    return with_random_biases(module, x.dtype, x.device)


def without_gradients(x):
    with torch.no_grad():  # PyTorch takes its fast path
        return layer(x)(x[None], src_key_padding_mask=(x[None, :, 0] > 2))


def ragged(x):
    encoder = nn.TransformerEncoder(layer(x), 2).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype, says PyTorch
        return encoder(x[None], src_key_padding_mask=torch.arange(3).to(x)[None] > 1)


def attend(x, **options):
    return F.scaled_dot_product_attention(x[None], x[None], x[None], **options)


def trained(x, optimiser):
    module = layer(x).train()
    step = optimiser(module.parameters(), lr=0.1)
    for _ in range(3):
        step.zero_grad()
        module(x[None]).square().sum().backward()
        step.step()
    return module(x[None])


def jacobian(x):
    module = layer(x)
    of = lambda parameters: functional_call(module, parameters, (x[None],))
    return jacrev(of)(dict(module.named_parameters()))["linear1.weight"]


def gradient(x, function):
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(function(x).square().sum(), x)
    return found


def written_through_a_view(x):
    y = x.clone()
    y[1:, ::2].mul_(2)
    return y.T.reshape(-1)[2:7]


def image(x):
    return x[None, None]


#: Each is computed on the device of x, and is the same on both up to rounding.
SAME = {
    "views, and writing through them": written_through_a_view,
    "a product": lambda x: x @ x.T,
    "numbers on the right and on the left": lambda x: torch.remainder(2**x, 3) - 1 / x,
    "whole numbers": lambda x: x.round().long() % 4 // 2,
    "complex numbers": lambda x: torch.polar(x, x).conj() * torch.fft.fft(x),
    "a convolution": lambda x: F.conv2d(image(x), image(x[:2, :2]), padding=1),
    "the gradient of a convolution": lambda x: gradient(
        x, lambda y: F.conv2d(image(y), image(y[:2, :2]))
    ),
    "attention": lambda x: attend(x),
    "the gradient of attention": lambda x: gradient(x[None], attend),
    "attention that is masked": lambda x: attend(x, attn_mask=x[:, :3] > -2),
    "attention that is masked by numbers": lambda x: attend(x, attn_mask=x[:, :3]),
    "causal attention": lambda x: attend(x, is_causal=True),
    "attention of several heads": lambda x: attend(x[None], attn_mask=x[:, :3] > -2),
    "a layer": lambda x: layer(x)(x[None]),
    "the fast path": without_gradients,
    "the fast path with rows of different lengths": ragged,
    "SGD": lambda x: trained(x, torch.optim.SGD),
    "AdamW": lambda x: trained(x, torch.optim.AdamW),
    "vmap": lambda x: vmap(lambda row: row.softmax(0).sin().sum())(x),
    "a Jacobian": jacobian,
    "a Jacobian, forwards": lambda x: jacfwd(lambda y: y.sin() @ y.T)(x),
    "a Hessian": lambda x: hessian(lambda y: y.sin().sum().square())(x),
    "a deep copy": lambda x: copy.deepcopy(layer(x))(x[None]),
    "an empty place that grows": lambda x: torch.sub(x, 1, out=x.new_empty(0)),
    "singular values": torch.linalg.svdvals,
    "where it is positive": lambda x: torch.nonzero(x > 0),
    "bfloat16": lambda x: (x.bfloat16() @ x.bfloat16().T).double(),
    "a batch norm": lambda x: nn.BatchNorm1d(4).to(x)(x),
    "a layer norm of one number": lambda x: 1e20 * nn.LayerNorm(1).to(x)(x[..., None]),
    "a group norm": lambda x: nn.GroupNorm(2, 4).to(x)(x),
    "nothing": lambda x: x[:0].sum(0),
}


@pytest.mark.parametrize("compute", SAME.values(), ids=SAME)
def test_it_computes_what_the_cpu_computes(compute, here, there):
    before = Operations.count
    found = compute(there).detach()
    assert found.device.type == DEVICE.type and Operations.count > before
    assert torch.allclose(found.cpu(), compute(here).detach(), rtol=1e-12, atol=1e-12)


def test_a_module_that_is_moved_keeps_its_weights():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    weights = list(module.parameters())
    module.to(DEVICE).double()
    assert module[0].weight is module[1].weight is weights[0]
    assert all(map(operator.is_, weights, module.parameters()))
    assert {type(w) for w in weights} == {nn.Parameter}
    assert {(w.device.type, w.dtype) for w in weights} == {(DEVICE.type, torch.float64)}
    weights[0].data = torch.zeros(4, 4)
    assert module[1].weight.device.type == "cpu" and module[1].weight.requires_grad


def test_a_module_can_be_moved_with_its_gradients_and_while_a_graph_holds_it():
    module, x = nn.Linear(4, 4), torch.ones(2, 4)
    module(x).square().sum().backward()
    gradient, held = module.weight.grad.clone(), module(x).sum()
    module.to(DEVICE, torch.float64)
    assert torch.equal(module.weight.grad.cpu(), gradient.double()) and held.requires_grad
    module.zero_grad()
    module(x.to(module.weight)).square().sum().backward()
    assert torch.allclose(module.weight.grad.cpu().float(), gradient)


def draws(device):
    return F.dropout(torch.ones(64, device=device)).cpu(), torch.rand(64, device=device).cpu()


def test_its_random_numbers_are_its_own():
    start(seed=3)
    one = draws(DEVICE) + draws("cpu")
    start(seed=3)
    other = draws("cpu"), draws(DEVICE)
    for first, second in zip(one[:2] + one[2:], other[1] + other[0]):
        assert torch.equal(first, second)
    assert not torch.equal(one[0], one[2]) and not torch.equal(one[1], one[3])


def test_its_random_numbers_can_be_put_back():
    with torch.random.fork_rng():
        one = draws(DEVICE)
    assert all(map(torch.equal, one, draws(DEVICE)))


def test_it_does_not_take_the_dice_of_the_cpu():
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.randn(3, device=DEVICE, generator=torch.Generator())
