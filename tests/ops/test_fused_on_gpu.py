"""The fused kernels on a GPU alone: sizes too large for the interpreter, CUDA graphs, no waiting for the GPU."""

import pytest
import torch
from test_fused import DEVICE, assert_only_rounds, problem

from pggnn import PGConv
from pggnn.ops import group_recurrence
from pggnn.orderings import Reading

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="no GPU on this machine")


@pytest.mark.parametrize(
    ("hidden", "dtype", "precision", "tolerance"),
    [
        (64, torch.bfloat16, "highest", 0.02), (128, torch.bfloat16, "highest", 0.02),
        (200, torch.bfloat16, "highest", 0.02), (256, torch.half, "highest", 0.005),
        (128, torch.float, "highest", 1e-5), (256, torch.float, "highest", 1e-5),
        (128, torch.float, "high", 0.005), (256, torch.float, "high", 0.005),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("cell", "structure"), [("lstm", 0), ("gru", 0), ("srn", 0), ("lstm", 3)])
def test_large(cell, structure, hidden, dtype, precision, tolerance, monkeypatch):
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    degrees = [d % 14 for d in range(1000)]  # too many sequences for the smallest tiles
    assert_only_rounds(degrees, Reading(), cell, hidden, dtype, tolerance, structure)


@pytest.mark.parametrize(
    ("dtype", "precision", "tolerance"),
    [(torch.bfloat16, "highest", 0.02), (torch.float, "high", 0.005), (torch.float, "highest", 1e-5)],
)
@pytest.mark.parametrize("limit", [None, 4, 1])
def test_dense(limit, dtype, precision, tolerance, monkeypatch):
    """Neighbourhoods as large as those of COLLAB."""
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    degrees = [0, 1, 2, *range(30, 230, 7)]
    assert_only_rounds(degrees, Reading(limit=limit), "lstm", 64, dtype, tolerance)


@pytest.mark.parametrize("hidden", [64, 256])
def test_no_host_synchronisation_and_cuda_graphs(hidden):
    torch.use_deterministic_algorithms(False)
    plan, rnn, gates = problem(hidden, torch.bfloat16)

    def step():
        gates.grad = None
        group_recurrence(gates, rnn.recurrent_weights, plan, reading=Reading(), cell="lstm").float().sum().backward()
        return gates.grad

    expected = step().clone()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    captured.zero_()
    graph.replay()
    torch.testing.assert_close(captured, expected)


def test_a_hub():
    torch.use_deterministic_algorithms(False)
    leaves = 100_000
    star = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)]).to(DEVICE)
    conv, x = PGConv(8, 16, orderings=64).to(DEVICE), torch.randn(leaves + 1, 8, device=DEVICE, requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        out = conv(x, star)
    out[0].sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
