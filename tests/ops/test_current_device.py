"""Where kernels run, if there are several GPUs."""

import pytest
import torch

from pggnn import PGConv

pytest.importorskip("triton")

from triton.runtime.interpreter import GridExecutor

from pggnn.ops.fused.norm import RowNormalisation
from pggnn.ops.fused.sum import RowSum


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are watched in Triton's interpreter")
def test_kernels_run_where_their_tensors_lie(monkeypatch):
    """Triton's run on the current device, which need not be that of the tensors where there are several GPUs. What is
    watched is the forward pass: autograd sees to the other."""
    current, launched, launch = [], [], GridExecutor.__call__

    class DeviceOf:
        def __init__(self, tensor):
            self.tensor = tensor

        def __enter__(self):
            current.append(self.tensor)

        def __exit__(self, *_):
            current.pop()

    def watched(self, *args, **kwargs):
        launched.append(len(current))
        return launch(self, *args, **kwargs)

    monkeypatch.setattr(torch.cuda, "device_of", DeviceOf)
    monkeypatch.setattr(GridExecutor, "__call__", watched)
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1, 2], [1, 2, 1]])
    conv = PGConv(3, 8, backend="triton", structure=1)
    conv(x, edge_index)
    with torch.no_grad():
        conv(x, edge_index)
    RowSum.apply(x, torch.tensor([0, 0, 1, 1]), 2)
    ones, none = torch.ones(3), torch.zeros(3)
    RowNormalisation.apply(x, torch.ones(4, dtype=torch.bool), ones, none, none, ones, torch.zeros(1), 1e-5, 0.1)
    assert len(launched) > 6
    assert set(launched) == {1}
