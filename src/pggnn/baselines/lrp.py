"""LRP, local relational pooling of Chen et al., 2020, of depth 1 and width 3 (LRP-1-3)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.nn import MLP
from torch_geometric.typing import OptTensor

from pggnn.baselines.rival import Rival
from pggnn.plan import Plan

WIDTH = 3
"""Neighbours in a sequence."""
PAIRS = [(i, j) for i in range(WIDTH + 1) for j in range(WIDTH + 1) if i != j]
"""The places of a sequence whose nodes may be adjacent."""
MOST_SEQUENCES = 2**22
"""Sequences of a batch: a layer with 64 channels keeps 1 GiB of them for its gradient in float32."""


class LRP(Rival):
    """Deep LRP-1-3: each layer reads a node with every ordered choice of 3 neighbours, and which of the 4 are adjacent.

    The layer is that of its authors' code for counting substructures: ReLU of a linear map of the 4 × 4 tensor (nodes
    on the diagonal, edges beside it), the mean over a node's sequences, and a factor for each channel that an MLP of
    two layers learns from the degree. Nodes with fewer than 3 neighbours have shorter sequences, whose other places
    are 0.

    It departs in its frame, which is that of this comparison: batch normalisation and ReLU after each layer instead of
    ReLU alone, and the scores from every layer, where its paper counts with a single layer and sums its nodes. Every
    edge has the feature 1, in each layer; its paper's bond types are left out. Weights start as PyTorch's linear maps
    do rather than normally distributed. Duplicate edges are one neighbour and self-loops none.

    Args: see :class:`~pggnn.baselines.rival.Rival`.
    """

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One local relational pooling."""
        return LRPLayer(in_channels, out_channels)


class LRPLayer(torch.nn.Module):
    r"""One local relational pooling, over the sequences :math:`s = (v, u_1, u_2, u_3)` of each node.

    .. math::
        \mathbf{h}'_v = \alpha(d_v) \odot \operatorname*{mean}_s \, \mathrm{ReLU}\Big(
        \sum_i \mathbf{W}_i \mathbf{h}_{s_i} + \sum_{i \ne j} A_{s_i s_j} \mathbf{w}_{ij} + \mathbf{b} \Big)

    Args:
        in_channels, out_channels: Size of each node's features before and after.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.nodes = torch.nn.Linear(in_channels, (WIDTH + 1) * out_channels, bias=False)
        self.edges = torch.nn.Linear(len(PAIRS), out_channels)
        self.factor = MLP([1, 2 * out_channels, out_channels], norm=None)

    def reset_parameters(self) -> None:
        for module in (self.nodes, self.edges, self.factor):
            module.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Each node from its sequences; ``edge_attr`` is what other layers take."""
        sequences = plan.derived(_sequences)
        hidden = self.edges(sequences.adjacent.to(x.dtype))
        places = pad(self.nodes(x), (0, 0, 0, 1)).chunk(WIDTH + 1, dim=1)  # nobody's row is 0
        for place, node in zip(places, sequences.node, strict=True):
            hidden = hidden + place.index_select(0, node)
        hidden = hidden.relu()
        total = hidden.new_zeros(x.size(0), hidden.size(1)).index_add(0, sequences.node[0], hidden)
        factor = self.factor(sequences.degree.to(x.dtype).unsqueeze(1))
        return factor * total / sequences.count.to(x.dtype).unsqueeze(1)


@dataclass(frozen=True)
class Sequences:
    """All sequences of a graph, each node's after those of the one before."""

    node: Tensor
    """``[4, S]`` who stands at each place, the centre first; the number of nodes stands for nobody."""
    adjacent: Tensor
    """``[S, 12]`` whether there is an edge at each of :data:`PAIRS`: the second is a neighbour of the first."""
    count: Tensor
    """``[N]`` sequences of each node: n (n − 1) (n − 2) for 3 neighbours or more, 2 for two of them, else 1."""
    degree: Tensor
    """``[N]`` different neighbours of each node, itself not among them."""


def _sequences(plan: Plan) -> Sequences:
    nobody = plan.num_nodes
    edges = torch.unique(plan.center * (nobody + 1) + plan.neighbor)  # sorted, so each node's neighbours are together
    center, neighbor = edges // (nobody + 1), edges % (nobody + 1)
    edges, center, neighbor = (values[center != neighbor] for values in (edges, center, neighbor))
    degree = torch.bincount(center, minlength=nobody)
    choices = torch.stack([(degree - place).clamp(min=1) for place in range(WIDTH)])
    count = choices.prod(0)
    total = int(count.sum())
    if total > MOST_SEQUENCES:
        raise ValueError(
            f"LRP reads every ordered choice of 3 neighbours: {total:,} sequences in this batch, whose largest degree "
            f"is {int(degree.max())}, but at most {MOST_SEQUENCES:,} fit; take smaller batches, or another model"
        )
    root = torch.repeat_interleave(count, output_size=total)
    rank = torch.arange(total, device=root.device) - (count.cumsum(0) - count)[root]
    _, second, third = choices[:, root]
    i, j, k = rank // (second * third), rank // third % second, rank % third
    j = j + (j >= i)
    k = k + (k >= torch.minimum(i, j))
    k = k + (k >= torch.maximum(i, j))
    known, start = pad(neighbor, (0, 1), value=nobody), (degree.cumsum(0) - degree)[root]
    slots = [torch.where(place < degree[root], start + slot, neighbor.numel()) for place, slot in enumerate((i, j, k))]
    node = torch.stack([root, *(known[slot] for slot in slots)])
    first, other = torch.tensor(PAIRS, device=root.device).unbind(1)
    return Sequences(node, torch.isin(node[first] * (nobody + 1) + node[other], edges).T, count, degree)
