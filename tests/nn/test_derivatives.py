"""Derivatives beyond the first, and the transforms of ``torch.func``, against the reference and finite differences."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.functional import hessian

from pggnn import PGGNN, PGConv, Plan
from pggnn.cells import CELLS
from pggnn.nn import ChainConv, PairConv, TrioConv
from pggnn.testing import random_graph

DEGREES = (0, 1, 2, 3, 4, 7)
NODES = len(DEGREES)
KINDS = {
    "group": {},
    "ring": {"root": "linear"},
    "single": {"orderings": "single"},
    "some": {"orderings": 3, "reduce": "mean"},
    "edges and structure": {"edge_dim": 2, "structure": 2},
    "structure on rings": {"root": "linear", "structure": 1, "num_layers": 1},
    "at most three": {"max_degree": 3},
}


def penalty(conv, x, edge_index, edge_attr=None):
    """The gradients of a gradient penalty by inputs and weights."""
    wanted = [tensor for tensor in (x, edge_attr) if tensor is not None]
    out = conv(x, edge_index, edge_attr).square().sum()
    first = torch.autograd.grad(out, wanted, create_graph=True)
    second = sum(gradient.square().sum() for gradient in first)
    return [*first, *torch.autograd.grad(second, [*wanted, *conv.parameters()])]


def inputs(dtype=torch.double, edge_dim=None, device="cpu", degrees=DEGREES):
    edge_index = random_graph(degrees)
    x = torch.randn(len(degrees), 4, dtype=dtype).to(device).requires_grad_()
    edge_attr = torch.randn(edge_index.size(1), edge_dim, dtype=dtype).to(device).requires_grad_() if edge_dim else None
    return x, edge_index.to(device), edge_attr


@pytest.mark.parametrize(("kind", "cell"), [*((kind, "lstm") for kind in KINDS), *(("group", cell) for cell in CELLS)])
def test_second_derivatives_are_the_references(kind, cell):
    conv = PGConv(4, 3, cell, **KINDS[kind]).double()
    given = inputs(edge_dim=conv.edge_dim)
    found = []
    for backend in ("packed", "reference"):
        conv.backend = backend
        found.append(penalty(conv, *given))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("swift_interpreter")
def test_second_derivatives_through_the_fused_kernels():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    conv = PGConv(4, 8, structure=1, edge_dim=2).to(device)
    given = inputs(torch.float, 2, device, (0, 1, 2, 3))
    found = []
    for backend in ("triton", "reference"):
        conv.backend = backend
        found.append(penalty(conv, *given))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * theirs.detach().abs().max().item())


@pytest.mark.parametrize("degrees", [(0,), (1, 0), (2, 3, 0), (4, 5), (6, 1, 0, 0, 0, 0, 0)])
@pytest.mark.parametrize("kind", ["group", "ring", "edges and structure"])
def test_second_derivatives_by_finite_differences(kind, degrees):
    conv = PGConv(2, 2, num_layers=1, **{k: v for k, v in KINDS[kind].items() if k != "num_layers"}).double()
    edge_index = random_graph(degrees)
    x = torch.randn(len(degrees), 2).double().requires_grad_()
    edge_attr = torch.randn(edge_index.size(1), 2).double().requires_grad_() if conv.edge_dim else None
    tensors = [tensor for tensor in (x, edge_attr) if tensor is not None and tensor.numel()]

    def call(*_):
        return conv(x, edge_index, edge_attr)

    assert torch.autograd.gradgradcheck(call, (*tensors, *conv.parameters()), fast_mode=True)


@pytest.mark.parametrize("conv", [PairConv(3, 2), TrioConv(3, 2, structure=2), ChainConv(3, 2)])
def test_variants(conv):
    conv = conv.double()
    x, edge_index = torch.randn(4, 3).double().requires_grad_(), random_graph((0, 1, 3, 4))
    found = []
    for backend in ("packed", "reference"):
        conv.backend = backend
        found.append(penalty(conv, x, edge_index))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_third_derivatives():
    conv, x, edge_index = PGConv(2, 3).double(), torch.randn(4, 2).double().requires_grad_(), random_graph((0, 1, 2, 3))
    found = []
    for backend in ("packed", "reference"):
        conv.backend, value = backend, conv(x, edge_index).square().sum()
        for _ in range(3):
            (gradient,) = torch.autograd.grad(value, x, create_graph=True)
            value = gradient.square().sum()
        found.append(gradient.detach())
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_frozen_weights_and_inputs():
    """Forces: derivatives by positions of a network whose weights do not learn, and by weights alone."""
    conv, (x, edge_index, _) = PGConv(4, 3).double(), inputs()
    conv.requires_grad_(False)
    forces = []
    for backend in ("packed", "reference"):
        conv.backend = backend
        (first,) = torch.autograd.grad(conv(x, edge_index).square().sum(), x, create_graph=True)
        forces.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*forces)
    conv.backend, x = "packed", x.detach()
    weight = conv.rnn.weight_hh_l0.requires_grad_()
    (first,) = torch.autograd.grad(conv(x, edge_index).square().sum(), weight, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), weight)
    conv.backend = "reference"
    (first,) = torch.autograd.grad(conv(x, edge_index).square().sum(), weight, create_graph=True)
    torch.testing.assert_close(second, *torch.autograd.grad(first.square().sum(), weight))


def test_gradients_are_the_same_whether_a_second_may_follow():
    conv, (x, edge_index, _) = PGConv(4, 8), inputs(torch.float)
    plain, followed = (
        torch.autograd.grad(conv(x, edge_index).square().sum(), [x, *conv.parameters()], create_graph=create_graph)
        for create_graph in (False, True)
    )
    assert all(torch.equal(one, other) for one, other in zip(plain, followed, strict=True))


def test_a_network_learns_from_a_gradient_penalty_under_autocast():
    model, (x, edge_index, _) = PGGNN(4, 8, 1, num_layers=2, level="node"), inputs(torch.float)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x, edge_index)
    (force,) = torch.autograd.grad(out.float().sum(), x, create_graph=True)
    force.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.convs[0].parameters())


def test_subclasses_of_tensors_have_second_derivatives():
    class Quantity(torch.Tensor):
        pass

    conv, (x, edge_index, _) = PGConv(4, 3, edge_dim=None).double(), inputs()
    expected = penalty(conv, x, edge_index)
    found = penalty(conv, x.detach().as_subclass(Quantity).requires_grad_(), edge_index)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.as_subclass(torch.Tensor), theirs)


def test_transforms_of_functions():
    conv, (x, edge_index, _) = PGConv(4, 3, structure=1).double(), inputs()
    x = x.detach()
    plan = Plan.build(edge_index, NODES)

    def energy(x):
        return conv(x, plan).square().sum()

    wanted = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(energy(wanted), wanted)
    matrix = hessian(energy, x)
    torch.testing.assert_close(torch.func.grad(energy)(x), gradient)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(energy))(x), matrix)
    torch.testing.assert_close(torch.func.hessian(energy)(x), matrix)
    along = torch.randn_like(x)
    torch.testing.assert_close(torch.func.jvp(energy, (x,), (along,))[1], (gradient * along).sum())
    several = torch.stack([x, 2 * x])
    torch.testing.assert_close(torch.func.vmap(energy)(several), torch.stack([energy(x), energy(2 * x)]))
    each = torch.func.vmap(torch.func.grad(energy))(several)
    torch.testing.assert_close(each[0], gradient)
    parameters = dict(conv.named_parameters())
    by_weight = torch.func.grad(lambda p: torch.func.functional_call(conv, p, (x, plan)).square().sum())(parameters)
    for name, ours in zip(parameters, torch.autograd.grad(energy(x), [*parameters.values()]), strict=True):
        torch.testing.assert_close(by_weight[name], ours)


def test_edges_cannot_be_mapped_over():
    conv, x = PGConv(4, 3), torch.randn(5, 4)
    edges = torch.stack([random_graph((1, 2, 0, 1, 1))] * 2)
    with pytest.raises(ValueError, match="under vmap; all calls must have the same edges"):
        torch.func.vmap(lambda edge_index: conv(x, edge_index))(edges)


def test_forward_mode():
    """Frozen weights leave autograd with nothing to do, and PyTorch with nothing to refuse."""
    model = PGGNN(4, 6, 2, num_layers=1).double().eval().requires_grad_(False)
    x, along = torch.randn(2, NODES, 4).double()
    plan = Plan.build(random_graph(DEGREES), NODES)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, along), plan)).tangent
    ahead, behind = (model(x + step * along, plan) for step in (1e-6, -1e-6))
    torch.testing.assert_close(tangent, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-6)


def test_forward_mode_is_refused_where_it_would_be_wrong():
    """In compiled code, and where tangents enter a backward pass."""
    torch._dynamo.reset()
    model = PGGNN(4, 6, 2, num_layers=1).double().eval()
    x, along = torch.randn(2, NODES, 4).double()
    plan = Plan.build(random_graph(DEGREES), NODES)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, along)
        with pytest.raises(RuntimeError, match="forward-mode"), torch.no_grad():
            compiled(dual, plan)
        target = forward_ad.make_dual(x[:1, :2], along[:1, :2])
        with pytest.raises(RuntimeError, match="forward-mode"):
            (model(x, plan) - target).square().sum().backward()
