"""RP, relational pooling over a GIN, of Murphy, Srinivasan, Rao and Ribeiro, 2019."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.baselines.gin import GIN
from pggnn.nn.labels import permute, permute_columns
from pggnn.plan import Plan

INPUTS = ("features", "rows", "nothing")
"""What a node can read in addition to its number."""


class RP(GIN):
    """RP-GIN: GIN whose nodes read their numbers, and the mean of its scores over ways to number the nodes.

    The mean over all permutations of a graph's nodes is sampled: training sees one fresh permutation of each graph in a
    step (π-SGD, as in its paper), evaluation the mean of ``samples``. Numbers are one-hot in ``ids`` places and then
    start again, so that in larger graphs several nodes share one.

    A permutation is one of the whole graph, so features that depend on the numbering must follow it, or the numbers say
    nothing about them. Rows of the adjacency matrix do: its authors' code, which is for graphs without features, leaves
    them out (``"nothing"``), and GIN's first sum over neighbours recovers them from the numbers, as far as those
    differ. With ``"rows"`` their columns are permuted along, which keeps nodes apart that share a number.

    Otherwise than in its paper, the GIN is that of this comparison (:class:`~pggnn.baselines.GIN`), and nodes have
    scores too.

    Args:
        in_channels: Size of each node's own features.
        inputs: What a node reads in addition to its number: ``"features"``, which do not depend on how nodes are
            numbered; ``"rows"``, features that are rows of the adjacency matrix; or ``"nothing"``.
        ids: Size of the one-hot numbers.
        samples: Permutations in evaluation.
        **kwargs: As in :class:`~pggnn.baselines.GIN`.

    Example:
        >>> from pggnn.baselines import RP
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = RP(2, 16, 1).eval()
        >>> squares, _ = coloured_pair()
        >>> one, again = (network(squares.x, squares.edge_index) for _ in range(2))
        >>> one.equal(again)  # permutations are drawn in every call
        False
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *args: Any,
        inputs: str = "features",
        ids: int = 10,
        samples: int = 8,
        **kwargs: Any,
    ) -> None:
        if ids < 1 or samples < 1:
            raise ValueError(f"ids and samples must be at least 1, got {ids} and {samples}")
        if inputs not in INPUTS:
            raise ValueError(f"inputs must be one of {', '.join(map(repr, INPUTS))}, got {inputs!r}")
        own = 0 if inputs == "nothing" else in_channels
        super().__init__(own + ids, hidden_channels, out_channels, *args, **kwargs)
        self.inputs, self.ids, self.samples = inputs, ids, samples

    def score(self, x: Tensor, plan: Plan, batch: OptTensor, *args: Any) -> Tensor:
        """The mean of the scores over permutations."""
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        places, scores = torch.arange(self.ids, device=x.device), []
        for _ in range(1 if self.training else self.samples):
            number = permute(graph)
            read = [((number % self.ids).unsqueeze(-1) == places).to(x.dtype)]
            if self.inputs != "nothing":
                read.insert(0, permute_columns(x, graph, number) if self.inputs == "rows" else x)
            scores.append(super().score(torch.cat(read, dim=-1), plan, batch, *args))
        return torch.stack(scores).mean(0)
