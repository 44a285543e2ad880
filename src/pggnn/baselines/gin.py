"""GIN, the graph isomorphism network of Xu et al., 2019."""

import torch

from pggnn.baselines.baseline import Baseline
from pggnn.nn.blocks import SumConv


class GIN(Baseline):
    """GIN-0: sums of neighbours through an MLP of two layers, batch-normalised inside and outside, ε fixed at 0.

    As in its authors' code, down to the scores from every layer. With ``edge_dim`` the messages are those of GINE
    (Hu et al., 2020), which the paper does not run.

    Args: see :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import GIN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = GIN(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: a sum of neighbours does not see it
        True
    """

    reads_edges = True

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """A sum and its MLP."""
        return SumConv(in_channels, out_channels, edge_dim)
