"""Deep LRP-l-1, the local relational pooling along paths of Chen et al., 2020: LRP-7-1 for molecules."""

from typing import Any

import torch

from pggnn.baselines.baseline import Baseline
from pggnn.baselines.lrp import MOST_SEQUENCES, LRPLayer, Sequences
from pggnn.plan import Plan


class DeepLRP(Baseline):
    """Deep LRP-l-1: each layer reads a node with every path of ``depth`` edges from it, and who of them are adjacent.

    Its truncated breadth-first search goes on with one neighbour of each node that it finds, so a sequence is a path
    without repeated nodes; one that cannot go on is shorter. The layer is that of :class:`~pggnn.baselines.LRP` on
    these sequences: with the edges among all nodes of a path it sees rings of up to ``depth`` + 1 nodes. It departs in
    its frame as LRP does.

    Args:
        depth: l, the edges of a path.
        **kwargs: As in :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import DeepLRP
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = DeepLRP(2, 16, 1, depth=3).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: it sees the edges among nodes of a path
        False
    """

    recordable, skips = False, True

    def __init__(self, *args: Any, depth: int = 7, **kwargs: Any) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self.depth = depth
        super().__init__(*args, **kwargs)

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One local relational pooling along paths."""
        return PathPooling(in_channels, out_channels, self.depth)


class PathPooling(LRPLayer):
    """:class:`~pggnn.baselines.lrp.LRPLayer` on paths of ``width`` edges."""

    def sequences(self, plan: Plan) -> Sequences:
        """The paths of a graph."""
        return plan.derived(find_paths, self.width)


def find_paths(plan: Plan, depth: int) -> Sequences:
    """All paths of ``depth`` edges from each node, and shorter ones that cannot go on."""
    nobody = plan.num_nodes
    key = (plan.center * (nobody + 1) + plan.neighbor)[plan.center != plan.neighbor].unique()
    center, neighbor = key // (nobody + 1), key % (nobody + 1)
    degree = torch.zeros_like(plan.degree).index_add(0, center, torch.ones_like(center))
    start = degree.cumsum(0) - degree
    path, ended = torch.arange(nobody, device=key.device).unsqueeze(1), []
    for step in range(depth):
        choices = degree[path[:, -1]]
        row = torch.arange(len(path), device=key.device).repeat_interleave(choices)
        slot = torch.arange(len(row), device=key.device) - (choices.cumsum(0) - choices)[row]
        following = neighbor[start[path[row, -1]] + slot]
        new = (path[row] != following.unsqueeze(1)).all(1)
        row, following = row[new], following[new]
        goes_on = torch.zeros(len(path), dtype=torch.bool, device=key.device).index_fill(0, row, True)
        ended.append(torch.nn.functional.pad(path[~goes_on], (0, depth - step), value=nobody))
        path = torch.cat([path[row], following.unsqueeze(1)], dim=1)
        if len(path) > MOST_SEQUENCES:
            raise ValueError(
                f"Deep-LRP reads every path: {len(path):,} of {step + 1} edges in this batch, but at most "
                f"{MOST_SEQUENCES:,} fit; take smaller batches, a smaller model.depth, or another model"
            )
    node = torch.cat([*ended, path]).t().contiguous()
    places = range(depth + 1)
    asked = torch.stack([node[i] * (nobody + 1) + node[j] for i in places for j in places if i != j], dim=1)
    known = torch.cat([key, key.new_full((1,), -1)])
    adjacent = known[torch.searchsorted(key, asked)] == asked
    count = torch.zeros_like(plan.degree).index_add(0, node[0], torch.ones_like(node[0]))
    return Sequences(node, adjacent, count, degree)
