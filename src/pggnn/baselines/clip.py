"""CLIP, the coloured local iterative procedure of Dasoulas, Dos Santos, Scaman and Virmaux, 2020."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.typing import OptTensor

from pggnn.baselines.gin import GIN
from pggnn.ops.operator import without_autocast
from pggnn.plan import Plan


class CLIP(GIN):
    r"""GIN whose nodes read colours that tell those apart that look alike, and the maximum over draws of them.

    .. math::
        \mathbf{s} = \psi\left(\max_{c \in \{c_1, \ldots, c_k\}} \sum_v \mathbf{h}_v([\mathbf{x}, c])\right)

    Nodes of a graph with the same features form a group. A draw numbers the nodes of each group from 0 in random order;
    the number is one-hot in ``colours`` places, and numbers that are larger start again. With as many places as the
    largest group has nodes, the maximum over all draws tells any two graphs apart; k are drawn.

    The maximum is taken of each column. It departs in its frame, which is that of this comparison
    (:class:`~pggnn.baselines.GIN`): sums and maximum are those of every layer, and ψ adds up their scores.

    Args:
        in_channels: Size of each node's own features.
        colours: Size of the one-hot colours.
        draws: k, in training as well as in evaluation.
        **kwargs: As in :class:`~pggnn.baselines.GIN`.

    Example:
        >>> from pggnn.baselines import CLIP
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = CLIP(2, 16, 1).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: colours tell their nodes apart
        False
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *args: Any, colours: int = 16, draws: int = 4,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if colours < 1 or draws < 1:
            raise ValueError(f"colours and draws must be at least 1, got {colours} and {draws}")
        super().__init__(in_channels + colours, hidden_channels, out_channels, *args, **kwargs)
        self.colours, self.draws = colours, draws

    def score(self, x: Tensor, plan: Plan, batch: OptTensor, *args: Any) -> Tensor:
        """The scores of the maximum over draws."""
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        alike, places, draws = hash_rows(x), torch.arange(self.colours, device=x.device), []
        for _ in range(self.draws):
            drawn = number_groups(graph, alike) % self.colours
            colour = (drawn.unsqueeze(-1) == places).to(x.dtype)
            draws.append(self.pooled(torch.cat([x, colour], dim=-1), plan, batch, *args))
        with without_autocast(x):
            return self.add_up([torch.stack(layer).amax(0) for layer in zip(*draws, strict=True)])


def hash_rows(x: Tensor) -> Tensor:
    """``[N]`` a hash of each row, the same for equal rows. It asks the device nothing."""
    whole = (x.float() + 0.0).view(torch.int32).long()  # −0 + 0 is 0
    mixed = torch.arange(1, x.size(1) + 1, device=x.device) * -7046029254386353131
    mixed = (mixed ^ (mixed >> 29)) * -4658895280553007687
    return (whole * (2 * mixed + 1)).sum(1)


def number_groups(graph: Tensor, alike: Tensor) -> Tensor:
    """Numbers the nodes of each group, those of one graph that look alike, from 0 in random order."""
    order = torch.rand(len(graph), device=graph.device).argsort()
    order = order[alike[order].argsort(stable=True)]
    order = order[graph[order].argsort(stable=True)]
    keys, places = torch.stack([graph[order], alike[order]]), torch.arange(len(order), device=order.device)
    new = (keys != pad(keys, (1, 0), value=-1)[:, :-1]).any(0)
    first = torch.where(new, places, 0).cummax(0).values if len(order) else places
    return torch.empty_like(order).index_copy(0, order, places - first)
