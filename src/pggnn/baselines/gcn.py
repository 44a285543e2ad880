"""GCN, the graph convolutional network of Kipf and Welling, 2017."""

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.typing import OptTensor

from pggnn.baselines.messages import Messages, edges
from pggnn.baselines.rival import Rival
from pggnn.plan import Plan


class GCN(Rival):
    """PyG's ``GCNConv``: neighbours and the node itself, weighted by the roots of their degrees.

    The layer is the original; batch normalisation and the scores from every layer are the frame of this comparison,
    which its paper does not have.

    Args: see :class:`~pggnn.baselines.rival.Rival`.
    """

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """The original layer."""
        return WeightedMessages(GCNConv(in_channels, out_channels, normalize=False))


class WeightedMessages(Messages):
    """Messages with GCN's weights, which all layers on a plan share."""

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Runs the layer; there are no edge features."""
        return self.conv(x, *plan.derived(_weighted, x.dtype))


def _weighted(plan: Plan, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The edges with one loop at each node, and PyG's weights of them. Loops that are there already weigh nothing; PyG
    takes them out, and shapes then depend on how many there are."""
    loops = torch.arange(plan.num_nodes, device=plan.center.device)
    weight = torch.cat([plan.neighbor != plan.center, torch.ones_like(loops, dtype=torch.bool)]).to(dtype)
    edge_index = torch.cat([plan.derived(edges), loops.expand(2, -1)], dim=1)
    return gcn_norm(edge_index, weight, plan.num_nodes, add_self_loops=False)
