from typing import get_args, get_type_hints

import pytest
import torch
import torch_geometric.nn

from pggnn.nn import readout
from pggnn.nn.model import Norm
from pggnn.nn.norm import NORMS, GraphNorm, RowNorm, masked_rows
from pggnn.ops import HAS_TRITON
from pggnn.train.config import ModelConfig

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")


def outcome(x, real, kernel, monkeypatch):
    monkeypatch.setattr(RowNorm, "_has_kernel", lambda self, x: kernel)
    norm = RowNorm(x.size(1)).to(x.device)
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(-1, 2, norm.num_features))
        norm.bias.copy_(torch.linspace(3, 1, norm.num_features))
    x = x.clone().requires_grad_()
    with masked_rows(norm, real):
        for _ in range(2):
            out = norm(x)
    d_out = torch.linspace(-2, 3, out.numel(), device=x.device).sin().to(out.dtype).view_as(out)
    gradients = torch.autograd.grad(out, [x, norm.weight, norm.bias], d_out)
    return [out, *gradients, norm.running_mean, norm.running_var, norm.num_batches_tracked]


@needs_triton
@pytest.mark.usefixtures("swift_interpreter")
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
@pytest.mark.parametrize(("rows", "channels"), [(1, 1), (3, 5), (70, 16), (300, 12), (1100, 9), (4500, 130)])
def test_kernel_is_the_formula(rows, channels, dtype, monkeypatch):
    x = (3 * torch.randn(rows, channels, device=DEVICE) + 1).to(dtype)
    real = torch.rand(rows, device=DEVICE) < 0.7
    real[0] = True
    ours, formula = (outcome(x, real, kernel, monkeypatch) for kernel in (True, False))
    for a, b in zip(ours, formula, strict=True):
        assert a.dtype == b.dtype
        tolerance = {"atol": 0.03, "rtol": 0.02} if a.dtype == torch.bfloat16 else {"atol": 1e-4, "rtol": 1e-4}
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("momentum", [0.0, 0.3, None])
def test_statistics_move_as_those_of_pytorch(momentum):
    ours, theirs = RowNorm(3, momentum=momentum), torch.nn.BatchNorm1d(3, momentum=momentum)
    for _ in range(3):
        x = torch.randn(7, 3)
        with masked_rows(ours, torch.ones(7, dtype=torch.bool)):
            torch.testing.assert_close(ours(x), theirs(x))
    for name, buffer in theirs.named_buffers():
        torch.testing.assert_close(ours.get_buffer(name), buffer)


@pytest.mark.usefixtures("swift_interpreter")
@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=needs_triton)])
@pytest.mark.parametrize("batch", [None, [0, 0, 0, 2, 2, 3]], ids=["one graph", "some, and an empty one"])
def test_graphs_are_normalised_as_by_pyg(batch, kernel, monkeypatch):
    monkeypatch.setattr(readout, "_has_kernel", lambda _: kernel)
    dtype = torch.float if kernel else torch.double
    ours, theirs = (norm(5).to(DEVICE) for norm in (GraphNorm, torch_geometric.nn.GraphNorm))
    for weight in ours.parameters():
        torch.nn.init.normal_(weight)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(6, 5, device=DEVICE)
    graphs = (None, None) if batch is None else (torch.tensor(batch, device=DEVICE), 5)
    outcomes = []
    for norm, kind in ((ours, dtype), (theirs, torch.double)):
        leaf = x.to(kind).requires_grad_()
        out = norm.to(kind)(leaf, *graphs)
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), [leaf, *norm.parameters()])])
    for mine, exact in zip(*outcomes, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), exact, rtol=1e-4, atol=1e-4)
    half = ours.float()(x.bfloat16(), *graphs)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), outcomes[0][0].double(), rtol=0.05, atol=0.05)


def test_the_config_the_network_and_the_layers_know_the_same_names():
    assert get_args(Norm) == get_args(get_type_hints(ModelConfig)["norm"]) == tuple(NORMS)
