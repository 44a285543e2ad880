"""IGN, the invariant graph network of Maron, Ben-Hamu, Shamir and Lipman, 2019."""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from pggnn.baselines.dense.network import PairNetwork
from pggnn.baselines.dense.pairs import Pairs
from pggnn.nn.blocks import glorot_linear


class IGN(PairNetwork):
    """2-IGN: all linear maps from n × n tensors to such that do not depend on how nodes are numbered.

    It tells apart what 1-WL does, and no more (Geerts, 2020). As in its authors' code sums over nodes are means. The
    sums that scores are made of are the invariant maps: two for graphs, of the diagonal and of the rest; three of the
    five maps to nodes, since the other two are the same for all nodes of a graph. Otherwise than there all layers have
    the same width, and normalisation and scores are those of this comparison.

    Args: see :class:`~pggnn.baselines.dense.network.PairNetwork`.

    Example:
        >>> from pggnn.baselines import IGN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = IGN(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: linear maps do not see it
        True
    """

    def layer(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """The 15 maps."""
        return EquivariantLinear(in_channels, out_channels)


class EquivariantLinear(torch.nn.Module):
    r"""The 15 linear maps of n × n tensors that commute with permutations of the nodes, and two biases (Appendix A):

    .. math::
        \mathsf{X}'_{ij} = \mathbf{W}_1 \mathsf{X}_{ij} + \mathbf{W}_2 \mathsf{X}_{ji} + \mathbf{a}_i + \mathbf{b}_j
        + \mathbf{s} + [i = j] (\mathbf{c}_i + \mathbf{t})

    :math:`\mathbf{a}_i, \mathbf{b}_i, \mathbf{c}_i` are linear in the diagonal at i and the means of row and column i:
    nine maps. :math:`\mathbf{s}, \mathbf{t}` are linear in the mean of the diagonal and of all: four maps, and biases.

    Args:
        in_channels, out_channels: Size of each pair's features before and after.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.pairs = Linear(2 * in_channels, out_channels, bias=False, weight_initializer="glorot")
        self.nodes = Linear(3 * in_channels, 3 * out_channels, bias=False, weight_initializer="glorot")
        self.graphs = glorot_linear(2 * in_channels, 2 * out_channels)

    def forward(self, rows: Tensor, pairs: Pairs) -> Tensor:
        """Runs the layer."""
        size, own = pairs.size.unsqueeze(1).to(rows.dtype), rows.index_select(0, pairs.diagonal)
        along, down = (total / size for total in pairs.sums(rows))
        means = torch.cat([own, along], dim=1) / size  # of the diagonal and, as a mean of means, of all
        whole = means.new_zeros(pairs.graphs, means.size(1)).index_add(0, pairs.graph, means)
        everywhere, diagonal = self.graphs(whole).index_select(0, pairs.graph).chunk(2, dim=1)
        at_first, at_second, at_both = self.nodes(torch.cat([own, along, down], dim=1)).chunk(3, dim=1)
        out = self.pairs(torch.cat([rows, pairs.transposed(rows)], dim=1))
        out = out.index_add(0, pairs.diagonal, at_both + diagonal)
        return pairs.spread(out, at_first + everywhere, at_second)
