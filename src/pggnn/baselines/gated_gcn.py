"""GatedGCN, the residual gated graph convolutional network of Bresson and Laurent, 2017, whose edges have states."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import Baseline
from pggnn.nn.blocks import ListPlans, glorot_linear
from pggnn.nn.norm import norm_layer
from pggnn.nn.readout import read_out, unpool
from pggnn.plan import Plan

EPSILON = 1e-6
"""Added to the sum of a node's gates."""


class GatedGCN(Baseline):
    r"""Neighbours through gates that an edge's state opens, and edges that learn from their ends.

    .. math::
        \hat{\mathbf{e}}_{uv} = \mathbf{C} \mathbf{e}_{uv} + \mathbf{D} \mathbf{h}_v + \mathbf{E} \mathbf{h}_u, \qquad
        \mathbf{h}'_v = \mathbf{h}_v + \mathrm{ReLU}\left(\mathrm{BN}\left(\mathbf{A} \mathbf{h}_v + \sum_u
        \frac{\sigma(\hat{\mathbf{e}}_{uv})}{\sum_{u'} \sigma(\hat{\mathbf{e}}_{u'v}) + \varepsilon} \odot
        \mathbf{B} \mathbf{h}_u\right)\right), \qquad
        \mathbf{e}'_{uv} = \mathbf{e}_{uv} + \mathrm{ReLU}(\mathrm{BN}(\hat{\mathbf{e}}_{uv}))

    As in benchmarking-gnns (Dwivedi et al., 2020), whose figures the paper quotes. PyG's ``ResGatedGraphConv`` has the
    gates, but no states of edges. Edges start with their features, or with a 1 where there are none. The first layer
    adds no input where it has another width. Scores come from every layer, as in the frame of this comparison.

    Args: see :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import GatedGCN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = GatedGCN(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: gates do not see it
        True
    """

    reads_edges, recordable, skips = True, False, True

    def __init__(self, in_channels: int, hidden_channels: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(in_channels, hidden_channels, *args, **kwargs)
        self.reads = kwargs.get("edge_dim") is not None
        self.edge_encoder = glorot_linear(kwargs.get("edge_dim") or 1, hidden_channels)
        layers = len(self.convs) - 1  # the last one's edges are not read
        self.edge_norms = torch.nn.ModuleList(norm_layer("batch", hidden_channels) for _ in range(layers))

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """Gates and messages."""
        return GatedLayer(in_channels, out_channels)

    def states(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None,
        lists: ListPlans | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """What the nodes are before the first layer, and after each."""
        graphs = (batch, batch_size) if self.norm == "graph" else ()
        if self.reads and edge_attr is None:
            raise ValueError("the network was made with edge_dim, and there is no edge_attr")
        features = x.new_ones(plan.num_edges, 1)
        if self.reads and edge_attr is not None:
            features = edge_attr.index_select(0, plan.edge)
        edges = self.edge_encoder(features)
        states = [x if self.encoder is None else self.encoder(x)]
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            read, gates = conv(states[-1], plan, edges)
            states.append(self.follow(number, states[-1], norm(read, *graphs).relu(), *graphs))
            if number < len(self.edge_norms):
                edges = edges + self.edge_norms[number](gates).relu()
        return states


class GatedLayer(torch.nn.Module):
    """The sums of :class:`GatedGCN`, before normalisation, of nodes and of edges.

    Args:
        in_channels: Size of each node's features before.
        out_channels: Size of each node's features after, and of the edges' states.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.nodes = Linear(in_channels, 4 * out_channels, weight_initializer="glorot", bias_initializer="zeros")
        self.edges = Linear(out_channels, out_channels, weight_initializer="glorot", bias_initializer="zeros")

    def reset_parameters(self) -> None:
        self.nodes.reset_parameters()
        self.edges.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes and edges, the latter by the plan's slots."""
        own, message, center, neighbor = self.nodes(x).chunk(4, dim=1)
        gates = self.edges(edges) + unpool(center, plan.center, plan) + unpool(neighbor, plan.neighbor, plan)
        opened = gates.sigmoid()
        both = torch.cat([opened * unpool(message, plan.neighbor, plan), opened], dim=1)
        total, weight = read_out(both, plan.center, plan.num_nodes, "sum", plan).chunk(2, dim=1)
        return own + total / (weight + EPSILON), gates
