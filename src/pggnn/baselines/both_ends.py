"""Both ends: messages that see the neighbour and the centre, a control for the recurrent layers."""

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import Baseline
from pggnn.nn.messages import Messages


class BothEnds(Baseline):
    """Sums of messages from both ends of an edge, and no recurrence.

    It is no published model, but a control. Where features are rows of the adjacency matrix, one hidden unit can say
    whether both ends have a 1 in some column, so a message counts the common neighbours of its ends. These are the
    triangles at the edge, and it takes no arrangement of neighbours to see them.

    Args: see :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import BothEnds
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = BothEnds(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: it takes rows of the adjacency matrix to see it
        True
    """

    reads_edges = True

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One sum of messages."""
        return Messages(BothEndsConv(in_channels, out_channels, edge_dim))


class BothEndsConv(MessagePassing):
    r"""One sum of messages from both ends of an edge; without neighbours it is zero.

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{u \in \mathcal{N}(v)} \mathrm{ReLU}\left(
        \mathbf{W} \mathbf{x}_u + \mathbf{V} \mathbf{x}_v + \mathbf{U} \mathbf{e}_{uv} + \mathbf{b} \right)

    Args:
        in_channels, out_channels: Size of each node's features before and after.
        edge_dim: Size of the edge features; None for none.
    """

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int | None = None) -> None:
        super().__init__(aggr="sum")
        self.lin_neighbor = Linear(in_channels, out_channels, weight_initializer="glorot", bias_initializer="zeros")
        self.lin_center = Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
        self.lin_edge = (
            None if edge_dim is None else Linear(edge_dim, out_channels, bias=False, weight_initializer="glorot")
        )

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for linear in (self.lin_neighbor, self.lin_center, self.lin_edge):
            if linear is not None:
                linear.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: OptTensor = None) -> Tensor:
        """Runs the layer."""
        edges = None if self.lin_edge is None else self.lin_edge(edge_attr)
        out: Tensor = self.propagate(edge_index, neighbor=self.lin_neighbor(x), center=self.lin_center(x), edges=edges)
        return out

    def message(self, neighbor_j: Tensor, center_i: Tensor, edges: OptTensor) -> Tensor:
        """The message of each edge."""
        both = neighbor_j + center_i
        return (both if edges is None else both + edges).relu()
