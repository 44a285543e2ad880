"""GCN, the graph convolutional network of Kipf and Welling, 2017."""

import torch
from torch_geometric.nn import GCNConv

from pggnn.baselines.messages import Messages
from pggnn.baselines.rival import Rival


class GCN(Rival):
    """PyG's ``GCNConv``: neighbours and the node itself, weighted by the roots of their degrees.

    The layer is the original; batch normalisation and the scores from every layer are the frame of this comparison,
    which its paper does not have.

    Args: see :class:`~pggnn.baselines.rival.Rival`.
    """

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """The original layer."""
        return Messages(GCNConv(in_channels, out_channels))
