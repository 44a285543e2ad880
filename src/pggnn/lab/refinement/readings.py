"""The cycles at each node as an RNN reads them where all nodes look alike: bits alone, each different sequence once.

A graph of BREC has up to millions of cycles, but few different ones: a cycle of six has 512 patterns of chords. What an
RNN makes of a sequence depends on its pattern alone as long as features are constant, so it is enough to read an
example of each, and to know how often it occurs at each node.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pggnn.data.graphs import starts
from pggnn.lists import ListPlan, expand_lists


class Readings(NamedTuple):
    """What the nodes of one or several graphs read: cycles from a node round to itself, both ways."""

    node: Tensor
    """``[K]`` who reads."""
    pattern: Tensor
    """``[K]`` which sequence, rising for each node."""
    times: Tensor
    """``[K]`` how often."""
    examples: Tensor
    """Nodes of an example of each sequence, one after the other."""
    size: Tensor
    """``[P]`` length of each."""
    key: Tensor
    """``[P]`` hash of its bits, by which sequences of other graphs are the same or not."""

    def relabelled(self, label: Tensor) -> "Readings":
        """The same with other numbers of nodes."""
        return self._replace(node=label[self.node], examples=label[self.examples])


def count_readings(adjacency: np.ndarray, most: int, limit: int, structure: int) -> Readings:
    """All simple cycles of 3 to ``most`` nodes, as a layer with ``structure`` structural bits reads them.

    Sequences that it sees alike are one, since sums of the same parts have to round in the same way. Fails where nodes
    have more than ``limit`` sequences to read in all.
    """
    from pggnn.lab.refinement.numba_cycles import see_around
    from pggnn.lab.refinement.numba_readings import count_at

    first, near, distance = see_around(adjacency, most)
    found, left = [], limit
    for root in range(len(adjacency)):
        keys, times, members = count_at(root, first, near, distance, most, left, structure)
        left -= int(times.sum())
        if left < 0:
            raise ValueError(f"more than {limit:,} readings of cycles of up to {most} nodes")
        found.append((np.full(len(keys), root), keys, times, members))
    node, keys, times, members = (np.concatenate(parts) for parts in zip(*found, strict=True))
    key, example, pattern = np.unique(keys.view(np.int64), return_index=True, return_inverse=True)
    read = np.concatenate([members[example], node[example, None]], axis=1)  # back to where it began
    kept = np.concatenate([members[example] >= 0, np.ones((len(key), 1), bool)], axis=1)
    arrays = node, pattern, times, read[kept], kept.sum(1), key
    return Readings(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))


def share_readings(graphs: Sequence[Readings], offsets: Sequence[int], edges: Tensor, nodes: int) -> ListPlan:
    """What the nodes of a batch read, each different sequence once. Graphs are copies of two, by turns.

    Args:
        graphs: What their nodes read.
        offsets: The first node of each.
        edges, nodes: The batch's edges, and its number of nodes.
    """
    key, inverse = torch.cat([one.key for one in graphs[:2]]).unique(return_inverse=True)
    example = torch.empty_like(key).scatter_(0, inverse, torch.arange(len(inverse)))
    first = starts(torch.cat([one.size for one in graphs[:2]]))[example]
    size = torch.cat([one.size for one in graphs[:2]])[example]
    index = torch.cat([one.examples + offset for one, offset in zip(graphs[:2], offsets, strict=False)])
    place = torch.arange(int(size.sum())) + (first - starts(size)[:-1]).repeat_interleave(size)
    found = expand_lists("lists", index[place], size, edges, nodes)
    number = inverse[: len(graphs[0].key)], inverse[len(graphs[0].key) :]
    pattern = torch.cat([number[i % 2][one.pattern] for i, one in enumerate(graphs)])
    reader = torch.cat([one.node + offset for one, offset in zip(graphs, offsets, strict=True)])
    times = torch.cat([one.times for one in graphs]).float()
    table = torch.sparse_coo_tensor(torch.stack([reader, pattern]), times, (nodes, len(key)), check_invariants=False)
    return found._replace(times=table.coalesce())
