"""The cycles at each node as an RNN reads them where all nodes look alike: bits alone, each different sequence once.

A graph of BREC has up to millions of cycles, but few different ones: a cycle of six has 512 patterns of chords. What an
RNN makes of a sequence depends on its pattern alone as long as features are constant, so it is enough to read an
example of each, and to know how often it occurs at each node.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from pggnn.data.graphs import starts
from pggnn.lab.refinement.numba_cycles import hash_key, see_around
from pggnn.lists import ListPlan, expand_lists


class Readings(NamedTuple):
    """What the nodes of one or several graphs read: cycles from a node round to itself, both ways."""

    node: Tensor
    """``[K]`` who reads."""
    pattern: Tensor
    """``[K]`` which sequence, rising for each node."""
    times: Tensor
    """``[K]`` how often."""
    index: Tensor
    """Nodes of an example of each sequence, one after the other."""
    size: Tensor
    """``[P]`` length of each."""
    key: Tensor
    """``[P]`` hash of its bits, by which sequences of other graphs are the same or not."""

    def relabelled(self, label: Tensor) -> "Readings":
        """The same with other numbers of nodes."""
        return self._replace(node=label[self.node], index=label[self.index])


def count_readings(adjacency: np.ndarray, most: int, limit: int) -> Readings:
    """All simple cycles of 3 to ``most`` nodes. Fails where nodes have more than ``limit`` sequences to read in all."""
    first, near, distance = see_around(adjacency, most)
    found, left = [], limit
    for root in range(len(adjacency)):
        keys, times, members = _count_at(root, first, near, distance, most, left)
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
    index = torch.cat([one.index + offset for one, offset in zip(graphs[:2], offsets, strict=False)])
    place = torch.arange(int(size.sum())) + (first - starts(size)[:-1]).repeat_interleave(size)
    found = expand_lists("lists", index[place], size, edges, nodes)
    number = inverse[: len(graphs[0].key)], inverse[len(graphs[0].key) :]
    pattern = torch.cat([number[i % 2][one.pattern] for i, one in enumerate(graphs)])
    reader = torch.cat([one.node + offset for one, offset in zip(graphs, offsets, strict=True)])
    times = torch.cat([one.times for one in graphs]).float()
    table = torch.sparse_coo_tensor(torch.stack([reader, pattern]), times, (nodes, len(key)), check_invariants=False)
    return found._replace(times=table.coalesce())


@numba.njit(cache=True)
def _count_at(root, first, near, distance, most, limit):
    """For one node: the hash of each different sequence, how often it occurs, and one that has it, −1 behind its end.

    A sequence is, for each member, which of those before it are adjacent. Ends early beyond ``limit`` sequences.
    """
    table, room, known, total = np.full(128, -1), 64, 0, 0  # the table: number of each sequence, at its hash or behind
    found, times, members = np.zeros(room, np.uint64), np.zeros(room, np.int64), np.full((room, most), -1)
    path, turn, keys = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.uint64)
    beside = np.zeros(len(first) - 1, np.int64)  # bit i: is adjacent to place i of the path; the highest: lies on it
    path[0], turn[0], depth, on_path = root, first[root], 0, 1 << (most - 1)
    beside[root] ^= on_path
    for u in near[first[root] : first[root + 1]]:
        beside[u] ^= 1
    while depth >= 0 and total <= limit:
        end = path[depth]
        if turn[depth] == first[end + 1]:
            beside[end] ^= on_path
            for u in near[first[end] : first[end + 1]]:
                beside[u] ^= 1 << depth
            depth -= 1
            continue
        node, left = near[turn[depth]], most - depth - 2  # members that may follow this node
        turn[depth] += 1
        bits = beside[node]
        if bits & on_path or distance[root, node] > left + 1:
            continue
        key = hash_key(keys[depth] + hash_key(np.uint64(bits)))
        if depth > 0 and bits & 1:
            at = _place(table, found, key)
            if table[at] < 0:
                table[at] = known
                found[known], members[known, : depth + 1], members[known, depth + 1] = key, path[: depth + 1], node
                known += 1
            times[table[at]] += 1
            if known == room:
                room *= 2
                found, times = _longer(found), _longer(times)
                members = np.concatenate((members, np.full((known, most), -1)))
                table = np.full(2 * room, -1)
                for number in range(known):
                    table[_place(table, found, found[number])] = number
            total += 1
        if left > 0:
            depth += 1
            path[depth], turn[depth], keys[depth] = node, first[node], key
            beside[node] ^= on_path
            for u in near[first[node] : first[node + 1]]:
                beside[u] ^= 1 << depth
    return found[:known], times[:known], members[:known]


@numba.njit(cache=True)
def _place(table, found, key):
    """Where a hash is in the table, or would be."""
    at = np.int64(key & np.uint64(len(table) - 1))
    while table[at] >= 0 and found[table[at]] != key:
        at = (at + 1) & (len(table) - 1)
    return at


@numba.njit(cache=True)
def _longer(array):
    """Twice as long, with zeros."""
    return np.concatenate((array, np.zeros_like(array)))
