"""RP, relational pooling over a GIN, of Murphy, Srinivasan, Rao and Ribeiro, 2019."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.baselines.gin import GIN
from pggnn.nn.labels import permute, permute_columns
from pggnn.nn.readout import check_batch
from pggnn.plan import Plan, as_plan

BESIDE = ("features", "rows", "nothing")
"""What can stand beside a node's number."""


class RP(GIN):
    """RP-GIN: GIN whose nodes read their numbers, and the mean of its scores over ways to number the nodes.

    The mean over all permutations of a graph's nodes is sampled: training sees one fresh permutation of each graph in a
    step (π-SGD, as in its paper), evaluation the mean of ``samples``. Numbers are one-hot in ``ids`` places and then
    begin anew, so that in larger graphs several nodes share one.

    A permutation is one of the whole graph, so features that depend on the numbering must follow it, or the numbers say
    nothing about them. Rows of the adjacency matrix do: its authors' code, which is for graphs without features, leaves
    them out (``"nothing"``), and GIN's first sum over neighbours restores them from the numbers, as far as those
    differ. With ``"rows"`` their columns are permuted along, which keeps nodes apart that share a number.

    Otherwise than in its paper, the GIN is that of this comparison (:class:`~pggnn.baselines.GIN`), and nodes have
    scores too.

    Args:
        in_channels: Size of each node's own features.
        beside: What a node reads beside its number: ``"features"``, which do not depend on how nodes are numbered;
            ``"rows"``, features that are rows of the adjacency matrix; or ``"nothing"``.
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
        beside: str = "features",
        ids: int = 10,
        samples: int = 8,
        **kwargs: Any,
    ) -> None:
        if ids < 1 or samples < 1:
            raise ValueError(f"ids and samples must be at least 1, got {ids} and {samples}")
        if beside not in BESIDE:
            raise ValueError(f"beside must be one of {', '.join(map(repr, BESIDE))}, got {beside!r}")
        own = 0 if beside == "nothing" else in_channels
        super().__init__(own + ids, hidden_channels, out_channels, *args, **kwargs)
        self.beside, self.ids, self.samples = beside, ids, samples

    def forward(
        self, x: Tensor, edge_index: Tensor | Plan, batch: OptTensor = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Scores each graph or node; arguments as in :class:`~pggnn.nn.model.Network`."""
        check_batch(batch, x)
        plan = as_plan(edge_index, x.size(0), self.flow)
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        places, scores = torch.arange(self.ids, device=x.device), []
        for _ in range(1 if self.training else self.samples):
            number = permute(graph)
            told = [((number % self.ids).unsqueeze(-1) == places).to(x.dtype)]
            if self.beside != "nothing":
                told.insert(0, permute_columns(x, graph, number) if self.beside == "rows" else x)
            scores.append(super().forward(torch.cat(told, dim=-1), plan, batch, *args, **kwargs))
        return torch.stack(scores).mean(0)
