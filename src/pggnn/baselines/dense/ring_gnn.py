"""Ring-GNN, of Chen, Villar, Chen and Bruna, 2019."""

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset

from pggnn.baselines.dense.ign import EquivariantLinear
from pggnn.baselines.dense.network import PairNetwork
from pggnn.baselines.dense.pairs import Pairs


class RingGNN(PairNetwork):
    """The linear maps of IGN, and products of two of their results as matrices.

    Products count walks, so it tells strongly regular graphs of different parameters apart, which IGN does not. The
    name is that of the algebra; rings of a graph have no part in it. As in its paper and its authors' code there is
    one product in a layer. Its weight begins at 0.1, in their runs at half the inverse of the mean number of nodes.
    Normalisation and scores are those of this comparison.

    Args: see :class:`~pggnn.baselines.dense.network.PairNetwork`.

    Example:
        >>> from pggnn.baselines import RingGNN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = RingGNN(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: products count them
        False
    """

    def layer(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """Maps and their product."""
        return RingConvolution(in_channels, out_channels)


class RingConvolution(torch.nn.Module):
    r"""One layer (Section 5 of the paper), with the maps :math:`L` of
    :class:`~pggnn.baselines.dense.ign.EquivariantLinear`:

    .. math::
        \mathsf{X}' = k_1 \mathrm{ReLU}(L_1(\mathsf{X})) + k_2 \mathrm{ReLU}(L_2(\mathsf{X}) \cdot L_3(\mathsf{X}))

    Args:
        in_channels, out_channels: Size of each pair's features before and after.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear, self.first, self.second = (EquivariantLinear(in_channels, out_channels) for _ in range(3))
        self.share = torch.nn.Parameter(torch.empty(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of maps as Glorot says, those of the two terms 1 and 0.1."""
        reset(torch.nn.ModuleList([self.linear, self.first, self.second]))
        with torch.no_grad():
            self.share.copy_(self.share.new_tensor([1, 0.1]))

    def forward(self, rows: Tensor, pairs: Pairs) -> Tensor:
        """Runs the layer."""
        product = pairs.product(self.first(rows, pairs), self.second(rows, pairs))
        return self.share[0] * self.linear(rows, pairs).relu() + self.share[1] * product.relu()
