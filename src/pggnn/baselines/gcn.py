"""GCN, the graph convolutional network of Kipf and Welling, 2017."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from pggnn.baselines.baseline import Baseline
from pggnn.nn.messages import Messages, edges
from pggnn.plan import Plan


class GCN(Baseline):
    """PyG's ``GCNConv``: neighbours and the node itself, weighted by the roots of their degrees.

    The layer is the original; batch normalisation and the scores from every layer are the frame of this comparison,
    which its paper does not have. Kipf's later code in PyTorch (pygcn) takes the mean instead, which does not tell a
    node how many neighbours it has.

    Args:
        weighting: ``"symmetric"`` as in its paper, or ``"mean"``.
        **kwargs: As in :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import GCN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = GCN(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: a sum of neighbours does not see it
        True
    """

    def __init__(self, *args: Any, weighting: str = "symmetric", **kwargs: Any) -> None:
        if weighting not in WEIGHTINGS:
            raise ValueError(f"weighting must be one of {', '.join(map(repr, WEIGHTINGS))}, got {weighting!r}")
        self.weighting = weighting
        super().__init__(*args, **kwargs)

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """The original layer."""
        return Messages(GCNConv(in_channels, out_channels, normalize=False), WEIGHTINGS[self.weighting])


def _looped(plan: Plan, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The edges with one loop at each node, each with weight 1. Loops that are there already weigh nothing; PyG takes
    them out, and shapes then depend on how many there are."""
    loops = torch.arange(plan.num_nodes, device=plan.center.device)
    weight = torch.cat([plan.neighbor != plan.center, torch.ones_like(loops, dtype=torch.bool)]).to(dtype)
    return torch.cat([plan.derived(edges), loops.expand(2, -1)], dim=1), weight


def _symmetric(plan: Plan, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The edges with loops, and PyG's weights of them."""
    return gcn_norm(*_looped(plan, dtype), plan.num_nodes, add_self_loops=False)


def _mean(plan: Plan, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The edges with loops, where those to a node weigh the same and 1 together."""
    edge_index, weight = _looped(plan, dtype)
    total = weight.new_zeros(plan.num_nodes).index_add(0, edge_index[1], weight)
    return edge_index, weight / total[edge_index[1]]


WEIGHTINGS = {"symmetric": _symmetric, "mean": _mean}
