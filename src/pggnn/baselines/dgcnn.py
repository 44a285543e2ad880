"""DGCNN, the deep graph convolutional network with sort pooling of Zhang et al., 2018."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, max_pool1d
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import SortAggregation
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import refuse_options
from pggnn.baselines.gcn import WEIGHTINGS
from pggnn.nn.blocks import ListPlans
from pggnn.nn.messages import Messages
from pggnn.nn.model import Network
from pggnn.ops.operator import without_autocast
from pggnn.plan import Plan

FILTERS, SPAN, DENSE = (16, 32), 5, 128
"""Channels of the two convolutions over sorted nodes, how many nodes the second spans, and the width after it."""
LEAST = 2 * SPAN
"""Nodes that must be kept, for the second convolution to have one place."""


class DGCNN(Network):
    r"""Graph convolutions, the nodes of a graph in the order of their last channel, and convolutions along that order.

    .. math::
        \mathbf{Z}_{t+1} = \tanh\left(\tilde{\mathbf{D}}^{-1} (\mathbf{A} + \mathbf{I}) \mathbf{Z}_t \mathbf{W}_t\right)

    The last convolution has one channel. Nodes are sorted by it (PyG's ``SortAggregation``), the first ``kept`` stay,
    smaller graphs are filled up with zeros. Their channels of all layers, side by side, go through a convolution of 16
    filters that spans one node, a maximum over two, a convolution of 32 filters that spans five, and a dense layer of
    128 with dropout, as in its paper. The order is that of colours of Weisfeiler and Leman, so it does not depend on
    how nodes are numbered.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, dropout, flow: As in :class:`~pggnn.PGGNN`; the last
            layer is that of one channel.
        kept: Nodes that stay. Its paper takes so many that 60 % of the graphs have more.
        **options: Those of other networks that must stay as they are by default: it has a frame of its own.

    Example:
        >>> from pggnn.baselines import DGCNN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = DGCNN(2, 16, 1, kept=10).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: colours do not see it
        True
    """

    recordable = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        dropout: float = 0.5,
        flow: str = "source_to_target",
        kept: int = 30,
        **options: Any,
    ) -> None:
        refuse_options("DGCNN", options)
        if num_layers < 1 or kept < LEAST:
            raise ValueError(f"DGCNN needs a layer or more and keeps {LEAST} nodes or more, got {num_layers}, {kept}")
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), 1]
        convs = [
            Messages(GCNConv(before, after, normalize=False), WEIGHTINGS["mean"]) for before, after in pairwise(widths)
        ]
        super().__init__(
            convs, [*widths[:-1], DENSE], out_channels, dropout=dropout, flow=flow, scores="last",
            numbering=options.get("numbering", "given"), numberings=options.get("numberings", 1),
        )  # fmt: skip
        self.norms = torch.nn.ModuleList()
        channels = sum(widths[1:])
        self.sort = SortAggregation(kept)
        self.first = torch.nn.Conv1d(1, FILTERS[0], channels, channels)
        self.second = torch.nn.Conv1d(*FILTERS, SPAN)
        self.dense = torch.nn.Linear(FILTERS[1] * (kept // 2 - SPAN + 1), DENSE)

    def score(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None, real: OptTensor,
        lists: ListPlans | None = None,
    ) -> Tensor:  # fmt: skip
        """The scores in one numbering; arguments as in :meth:`forward`."""
        states = [x]
        for conv in self.convs:
            states.append(conv(states[-1], plan).tanh())
        graph = x.new_zeros(len(x), dtype=torch.long) if batch is None else batch
        size = batch_size or (int(graph.max()) + 1 if len(graph) else 1)
        with without_autocast(x):
            nodes = torch.cat(states[1:], dim=1).to(self.dense.weight.dtype)
            if len(nodes):
                rows = self.sort(nodes, graph, dim_size=size)
            else:
                rows = nodes.new_zeros(size, self.sort.k * nodes.size(1))
            hidden = max_pool1d(self.first(rows.unsqueeze(1)).relu(), 2, 2)
            hidden = self.dense(self.second(hidden).relu().flatten(1)).relu()
            out: Tensor = self.scores[0](dropout(self.scales[0](hidden), self.dropout, self.training))
        return out
