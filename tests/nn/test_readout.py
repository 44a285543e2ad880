import pytest
import torch

from pggnn.nn import readout
from pggnn.ops import HAS_TRITON

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("kind", readout.READOUTS)
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
@pytest.mark.parametrize(("nodes", "channels", "graphs"), [(0, 3, 2), (1, 1, 1), (70, 16, 5), (300, 261, 3)])
def test_kernel_is_pygs_readout(nodes, channels, graphs, dtype, kind, monkeypatch):
    """Graphs without nodes too, and nodes in any order."""
    x = torch.randn(nodes, channels, device=DEVICE).to(dtype)
    batch = torch.randint(graphs, (nodes,), device=DEVICE)
    batch[batch == 1] = 0
    outcomes = []
    for kernel in (True, False):
        monkeypatch.setattr(readout, "_has_kernel", lambda _, kernel=kernel: kernel)
        leaf = x.clone().requires_grad_() if kernel else x.double().requires_grad_()
        out = readout.read_out(leaf, batch, graphs, kind)
        d_out = torch.linspace(-2, 3, out.numel(), device=DEVICE).sin().to(out.dtype).view_as(out)
        outcomes.append([out, *torch.autograd.grad(out, leaf, d_out)])
    for ours, exact in zip(*outcomes, strict=True):
        assert ours.dtype == dtype
        tolerance = 0.02 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(ours.double(), exact, atol=tolerance, rtol=tolerance)


@pytest.mark.skipif(not HAS_TRITON or torch.cuda.is_available(), reason="an error on a GPU ends the process")
@pytest.mark.parametrize("wrong", [-1, 3])
def test_nodes_of_graphs_that_are_not_there_are_refused(wrong, monkeypatch):
    monkeypatch.setattr(readout, "_has_kernel", lambda _: True)
    with pytest.raises(RuntimeError, match="numbers must be from 0 to 2"):
        readout.read_out(torch.randn(4, 5), torch.tensor([0, 1, wrong, 2]), 3, "sum")
