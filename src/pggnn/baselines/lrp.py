"""LRP, local relational pooling of Chen et al., 2020, of depth 1 and width 3 (LRP-1-3)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.nn import MLP
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import Baseline
from pggnn.plan import Plan

WIDTH = 3
"""Neighbours in a sequence."""
PAIRS = [(i, j) for i in range(WIDTH + 1) for j in range(WIDTH + 1) if i != j]
"""The places of a sequence whose nodes may be adjacent."""
MOST_SEQUENCES = 2**22
"""Sequences of a batch: a layer with 64 channels keeps 1 GiB of them for its gradient in float32."""


class LRP(Baseline):
    """Deep LRP-1-3: each layer reads a node with every ordered choice of 3 neighbours, and which of the 4 are adjacent.

    The layer is that of its authors' code for counting substructures: ReLU of a linear map of the 4 × 4 tensor (nodes
    on the diagonal, edges beside it), the mean over a node's sequences, and a factor for each channel that an MLP of
    two layers learns from the degree. Nodes with fewer than 3 neighbours have shorter sequences, whose other places
    are 0.

    It departs in its frame, which is that of this comparison: batch normalisation and ReLU after each layer instead of
    ReLU alone, and the scores from every layer, where its paper counts with a single layer and sums its nodes. Every
    edge has the feature 1, in each layer; its paper's bond types are left out. Weights start as PyTorch's linear maps
    do rather than normally distributed. Duplicate edges are one neighbour and self-loops none.

    Args: see :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import LRP
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = LRP(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: it sees which neighbours are adjacent
        False
    """

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One local relational pooling."""
        return LRPLayer(in_channels, out_channels)


class LRPLayer(torch.nn.Module):
    r"""One local relational pooling, over the sequences :math:`s = (v, u_1, u_2, u_3)` of each node.

    .. math::
        \mathbf{h}'_v = \alpha(d_v) \odot \operatorname*{mean}_s \, \mathrm{ReLU}\left(
        \sum_i \mathbf{W}_i \mathbf{h}_{s_i} + \sum_{i \ne j} A_{s_i s_j} \mathbf{w}_{ij} + \mathbf{b} \right)

    Args:
        in_channels, out_channels: Size of each node's features before and after.
        width: Nodes of a sequence beside the centre.
    """

    def __init__(self, in_channels: int, out_channels: int, width: int = WIDTH) -> None:
        super().__init__()
        self.width = width
        self.nodes = torch.nn.Linear(in_channels, (width + 1) * out_channels, bias=False)
        self.edges = torch.nn.Linear(width * (width + 1), out_channels)
        self.factor = MLP([1, 2 * out_channels, out_channels], norm=None)

    def reset_parameters(self) -> None:
        for module in (self.nodes, self.edges, self.factor):
            module.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Each node from its sequences; ``edge_attr`` is what other layers take."""
        sequences = self.sequences(plan)
        hidden = self.edges(sequences.adjacent.to(x.dtype))
        places = pad(self.nodes(x), (0, 0, 0, 1)).chunk(self.width + 1, dim=1)  # nobody's row is 0
        for place, node in zip(places, sequences.node, strict=True):
            hidden = hidden + place.index_select(0, node)
        hidden = hidden.relu()
        total = hidden.new_zeros(x.size(0) + 1, hidden.size(1)).index_add(0, sequences.node[0], hidden)[:-1]
        factor = self.factor(sequences.degree.to(x.dtype).unsqueeze(1))
        return factor * total / sequences.count.to(x.dtype).unsqueeze(1)

    def sequences(self, plan: Plan) -> "Sequences":
        """The sequences of a graph."""
        return plan.derived(_sequences)


@dataclass(frozen=True)
class Sequences:
    """All sequences of a graph, each node's after those of the one before, and those of nobody last."""

    node: Tensor
    """``[4, S]``, or of another width: who stands at each place, the centre first; the number of nodes is nobody's."""
    adjacent: Tensor
    """``[S, 12]`` whether there is an edge at each of :data:`PAIRS`: the second is a neighbour of the first."""
    count: Tensor
    """``[N]`` sequences of each node: n (n − 1) (n − 2) for 3 neighbours or more, 2 for two of them, else 1."""
    degree: Tensor
    """``[N]`` different neighbours of each node, itself not among them."""


def _sequences(plan: Plan) -> Sequences:
    """Makes room for the sequences of a graph without loops and duplicate edges, whose number is known on the host; any
    others have fewer, and the rest of theirs are nobody's. No host synchronisation."""
    nobody = plan.num_nodes
    edges = torch.sort(plan.center * (nobody + 1) + plan.neighbor)[0]
    center, neighbor = edges // (nobody + 1), edges % (nobody + 1)
    new = (edges != pad(edges, (1, 0), value=-1)[:-1]) & (center != neighbor)
    neighbor = torch.sort(torch.where(new, edges, center * (nobody + 1) + nobody))[0] % (nobody + 1)
    degree = torch.zeros_like(plan.degree).index_add(0, center, new.long())
    choices = _choices(degree)
    count = choices.prod(0)
    ends = count.cumsum(0)
    sequence = torch.arange(_room(plan.profile), device=ends.device)
    root = torch.searchsorted(ends, sequence, right=True)
    _, second, third = pad(choices, (0, 1), value=1)[:, root]
    rank = sequence - pad(ends, (1, 0))[root]
    i, j, k = rank // (second * third), rank // third % second, rank % third
    j = j + (j >= i)
    k = k + (k >= torch.minimum(i, j))
    k = k + (k >= torch.maximum(i, j))
    known, start, most = pad(neighbor, (0, 1), value=nobody), pad(plan.start, (0, 1))[root], pad(degree, (0, 1))[root]
    places = [torch.where(place < most, start + slot, plan.num_edges) for place, slot in enumerate((i, j, k))]
    node = torch.stack([root, *(known[place] for place in places)])
    asked = torch.stack([node[first] * (nobody + 1) + node[other] for first, other in PAIRS], dim=1)
    found = pad(edges, (0, 1), value=-1)[torch.searchsorted(edges, asked)]
    return Sequences(node, found == asked, count, degree)


def _choices(degree: Tensor) -> Tensor:
    """``[3, …]`` neighbours to choose from at each place, 1 where nobody is left."""
    return torch.stack([(degree - place).clamp(min=1) for place in range(WIDTH)])


def _room(profile: Tensor) -> int:
    """Sequences of a graph with these degrees."""
    degrees, nodes = profile.unbind(1)
    total = int(_choices(degrees).prod(0) @ nodes)
    if total > MOST_SEQUENCES:
        raise ValueError(
            f"LRP reads every ordered choice of 3 neighbours: {total:,} sequences in this batch, whose largest degree "
            f"is {int(degrees.max())}, but at most {MOST_SEQUENCES:,} fit; take smaller batches, or another model"
        )
    return total
