"""PPGN, the provably powerful graph network of Maron, Ben-Hamu, Serviansky and Lipman, 2019."""

import torch
from torch import Tensor

from pggnn.baselines.dense.network import PairNetwork
from pggnn.baselines.dense.pairs import Pairs
from pggnn.nn.blocks import glorot_linear


class PPGN(PairNetwork):
    """Blocks of two MLPs of the pairs of nodes, whose results are multiplied as matrices, and a skip connection.

    It tells apart what 2-FWL, also called 3-WL, does. The "3-WL-GNN" of "Benchmarking graph neural networks" (Dwivedi
    et al.) is the same block. As in its authors' code MLPs have two layers, and every block has scores of its own,
    made from the diagonal and the rest; their code takes the maximum of each (``pool="max"``), its paper's proof sums.
    Otherwise than there each block is normalised, and the input has scores too, as all of this comparison.

    Args: see :class:`~pggnn.baselines.dense.network.PairNetwork`.

    Example:
        >>> from pggnn.baselines import PPGN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = PPGN(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: products count them
        False
    """

    def layer(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """One block."""
        return ProductConv(in_channels, out_channels)


class ProductConv(torch.nn.Module):
    r"""One block (Section 6 of the paper), on tensors :math:`\mathsf{X} \in \mathbb{R}^{n \times n \times C}`:

    .. math::
        \mathsf{X}' = \mathbf{W} \left[\mathsf{X} \,\Vert\, m_1(\mathsf{X}) \cdot m_2(\mathsf{X})\right] + \mathbf{b}

    The MLPs act on each pair alone, and matrices are multiplied channel by channel.

    Args:
        in_channels, out_channels: Size of each pair's features before and after.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first, self.second = (_mlp(in_channels, out_channels) for _ in range(2))
        self.skip = glorot_linear(in_channels + out_channels, out_channels)

    def forward(self, rows: Tensor, pairs: Pairs) -> Tensor:
        """Runs the block."""
        out: Tensor = self.skip(torch.cat([rows, pairs.product(self.first(rows), self.second(rows))], dim=1))
        return out


def _mlp(in_channels: int, out_channels: int) -> torch.nn.Sequential:
    """Two layers, each with a ReLU."""
    return torch.nn.Sequential(
        glorot_linear(in_channels, out_channels), torch.nn.ReLU(), glorot_linear(out_channels, out_channels),
        torch.nn.ReLU(),
    )  # fmt: skip
