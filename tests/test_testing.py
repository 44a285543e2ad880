"""The property checks must be able to fail."""

import pytest
import torch
from torch_geometric.nn import GINConv, SimpleConv
from torch_geometric.nn.aggr import LSTMAggregation

from pggnn.testing import (
    check_aggregator,
    check_batch_independence,
    check_edge_order,
    check_empty,
    check_gradients,
    check_relabelling,
    check_repeatable,
    random_graph,
    sensitivity,
)


def test_an_invariant_layer_passes():
    conv = GINConv(torch.nn.Linear(4, 6))
    check_aggregator(conv, 4)
    check_gradients(conv.double(), 4)
    assert sensitivity(conv, 4) < 1e-5


def test_padding_breaks_batch_independence():
    """PyG's LSTM aggregation returns the state after the padding."""
    aggregation = LSTMAggregation(4, 6)

    def layer(x, edge_index):
        edge_index = edge_index[:, edge_index[1].sort(stable=True).indices]
        return aggregation(x[edge_index[0]], edge_index[1], dim_size=x.size(0))

    with pytest.raises(AssertionError, match="differs from itself alone"):
        check_batch_independence(layer, 4)


def test_position_breaks_the_others():
    total = SimpleConv(aggr="sum")
    with pytest.raises(AssertionError, match="interleaved"):
        check_edge_order(lambda x, edges: total(x, edges) + x[edges[0, 0]], 4)
    with pytest.raises(AssertionError, match="relabelling"):
        check_relabelling(lambda x, edges: total(x, edges) + torch.arange(x.size(0))[:, None], 4)
    with pytest.raises(AssertionError, match="two runs differ"):
        check_repeatable(lambda x, edges: total(x, edges) + torch.rand(1), 4)
    with pytest.raises(AssertionError, match="not finite"):
        check_empty(lambda x, edges: x / edges.size(1), 4)


def test_wrong_gradients_are_found():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check_gradients(Scaled(Wrong), 4)
    with pytest.raises(ValueError, match="need float64"):
        check_gradients(torch.nn.Bilinear(4, 4, 1), 4)


class Scaled(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 2, dtype=torch.double))
        self.function = function

    def forward(self, x, edge_index):
        return self.function.apply(x) @ self.weight


def test_random_graph_has_the_degrees_asked_for():
    degrees = (3, 0, 5)
    assert torch.bincount(random_graph(degrees)[1], minlength=3).tolist() == list(degrees)
