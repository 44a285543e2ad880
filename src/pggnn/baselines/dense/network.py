"""What the dense models have in common: features of pairs of nodes in the frame of this comparison."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import refuse_block
from pggnn.baselines.dense.pairs import Pairs
from pggnn.nn.blocks import ListPlans
from pggnn.nn.model import Level, Network, Readout
from pggnn.nn.norm import masked_rows
from pggnn.nn.readout import SIDE_BY_SIDE
from pggnn.ops.operator import without_autocast
from pggnn.plan import Plan


class PairNetwork(Network):
    """A network of equal layers, :meth:`layer`, on features of all pairs of a graph's nodes.

    Its input is the n × n tensor of the adjacency matrix, the edges' features and, on the diagonal, those of nodes. The
    adjacency matrix is not divided by degrees, as it is by PPGN's authors. Normalisation and ReLU after each layer and
    scores from each, the input included, are those of this comparison, over pairs instead of nodes. Memory grows with
    n², and time with n³ where matrices are multiplied.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, level, readout, edge_dim: As in
            :class:`~pggnn.baselines.baseline.Baseline`.
        pool: What a graph's score is made of: ``"readout"`` of the diagonal and of the rest, or ``"max"`` of each.
        **frame: As there, without a choice of ``block``.

    Example:
        >>> from pggnn.baselines import PPGN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> squares, _ = coloured_pair()
        >>> PPGN(2, 8, 3, num_layers=1, pool="max")(squares.x, squares.edge_index).shape
        torch.Size([1, 3])
    """

    recordable = False
    reads_pairs = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        level: Level = "graph",
        readout: Readout = "sum",
        edge_dim: int | None = None,
        pool: str = "readout",
        **frame: Any,
    ) -> None:
        if pool not in ("readout", "max"):
            raise ValueError(f'pool must be "readout" or "max", got {pool!r}')
        if pool == "max" and level == "graph" and readout in SIDE_BY_SIDE:
            raise ValueError(f'pool "max" stands in for readout: leave readout {readout!r} out')
        refuse_block(self, frame)
        widths = [1 + (edge_dim or 0) + in_channels, *[hidden_channels] * num_layers]
        convs = [self.layer(width, hidden_channels) for width in widths[:-1]]
        parts = 2 if level == "graph" else 3
        super().__init__(convs, widths, out_channels, level, readout, parts=parts, **frame)
        self.pool, self.edge_dim = pool, edge_dim

    @abstractmethod
    def layer(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """One layer, which is called as ``layer(rows, pairs)``."""

    def score(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None, real: OptTensor,
        lists: ListPlans | None = None,
    ) -> Tensor:  # fmt: skip
        """The scores in one numbering; arguments as in :meth:`forward`."""
        if (self.edge_dim is None) != (edge_attr is None):
            given = "missing" if edge_attr is None else "given"
            raise ValueError(f"edge_attr is {given}, but the network was made with edge_dim={self.edge_dim}")
        pairs = Pairs.build(plan, batch, batch_size)
        states, graphs = [pairs.features(x, plan, edge_attr)], ()
        if self.norm == "graph":
            graphs = (pairs.graph_of_row, pairs.graphs)  # type: ignore[assignment]
        with masked_rows(self, real):
            for conv, norm in zip(self.convs, self.norms, strict=True):
                states.append(norm(conv(states[-1], pairs), *graphs).relu())
        with without_autocast(x):
            most = self.pool == "max"
            return self.add_up([pairs.read_out(one, self.level, self.readout, most) for one in self.scored(states)])
