"""RP, relational pooling over a GIN, of Murphy, Srinivasan, Rao and Ribeiro, 2019."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.baselines.gin import GIN
from pggnn.plan import Plan


class RP(GIN):
    """RP-GIN: GIN whose nodes are told their numbers, and the mean of its scores over ways to number the nodes.

    The mean over all permutations of a graph's nodes is sampled: training sees one fresh permutation of each graph in a
    step (π-SGD, as in its paper), evaluation the mean of ``samples``. Numbers are one-hot in ``ids`` places and then
    begin anew, so that in larger graphs several nodes share one. Otherwise than in its paper, the GIN is that of this
    comparison (:class:`~pggnn.baselines.GIN`), with scores from every layer, and nodes have scores too.

    Args:
        in_channels: Size of each node's own features.
        ids: Size of the one-hot numbers.
        samples: Permutations in evaluation.
        **kwargs: As in :class:`~pggnn.baselines.GIN`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *args: Any,
        ids: int = 10,
        samples: int = 8,
        **kwargs: Any,
    ) -> None:
        if ids < 1 or samples < 1:
            raise ValueError(f"ids and samples must be at least 1, got {ids} and {samples}")
        super().__init__(in_channels + ids, hidden_channels, out_channels, *args, **kwargs)
        self.ids, self.samples = ids, samples

    def forward(
        self, x: Tensor, edge_index: Tensor | Plan, batch: OptTensor = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Scores each graph or node; arguments as in :class:`~pggnn.nn.model.Network`."""
        plan = edge_index if isinstance(edge_index, Plan) else Plan.build(edge_index, x.size(0), self.flow)
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        places, scores = torch.arange(self.ids, device=x.device), []
        for _ in range(1 if self.training else self.samples):
            one_hot = (permute(graph) % self.ids).unsqueeze(-1) == places
            told = torch.cat([x, one_hot.to(x.dtype)], dim=-1)
            scores.append(super().forward(told, plan, batch, *args, **kwargs))
        return torch.stack(scores).mean(0)


def permute(batch: Tensor) -> Tensor:
    """A uniformly random numbering, from 0, of the nodes of each graph. No host synchronisation."""
    shuffle = torch.rand_like(batch, dtype=torch.double).argsort()
    graph, by_graph = torch.sort(batch[shuffle], stable=True)
    rank = torch.arange(len(batch), device=batch.device) - torch.searchsorted(graph, graph)
    return torch.empty_like(batch).index_copy(0, shuffle[by_graph], rank)
