"""The cycles through each node as hashed sequences of colours, added up as they are found: none of them is kept.

BREC has strongly regular graphs with 48 million cycles of six, so this is compiled by Numba.
"""

import numba
import numpy as np

from pggnn.baselines.fitted.colours import ODD, scramble

MOST = 20
"""Largest cycles that can be read: there is a weight for each set of their members."""


def read_cycles(first, near, distance, colours, most, chords):
    """``[N]`` for each node, the sum of the hashes of its cycles, each read from the node, both ways.

    A sequence has the colour of each member and, as bits, the earlier members that it is adjacent to. The hash of a
    cycle is that of its members up to the last but one, times the colour of the last, times the weight of its bits.

    Args:
        first, near: The neighbours of node v are ``near[first[v]:first[v + 1]]``.
        distance: ``[N, N]`` edges of a shortest path, ``most`` where there is none so short.
        colours: ``[N]``, hashed.
        most: Members of the largest cycle, 3 to :data:`MOST`.
        chords: Whether cycles may have chords.
    """
    bits = np.arange(1 << most, dtype=np.uint64)
    closes = (bits < 1 << (most - 1)) & (bits & 1 > 0) if chords else bits == 1
    return _read(first, near, distance, colours, np.where(closes, scramble(bits), 0), most, chords)


def see_around(adjacency, most):
    """What a search for cycles takes: ``first``, ``near`` and ``distance`` of a symmetric adjacency matrix."""
    near = adjacency.nonzero()
    first = np.searchsorted(near[0], np.arange(len(adjacency) + 1))
    distance, reached = np.where(adjacency, 1, most), adjacency
    for steps in range(2, most):
        reached = reached @ adjacency
        distance[reached & (distance == most)] = steps
    return first, near[1], distance


@numba.njit(cache=True)
def _read(first, near, distance, colours, weights, most, chords):
    found = np.zeros(len(colours), np.uint64)
    path, turn, keys = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.uint64)
    beside = np.zeros(len(colours), np.int64)  # bit i: is adjacent to place i of the path; the highest: lies on it
    on_path = 1 << (most - 1)
    for root in range(len(colours)):
        path[0], turn[0], keys[0], depth = root, first[root], colours[root], 0
        beside[root] ^= on_path
        for u in near[first[root] : first[root + 1]]:
            beside[u] ^= 1
        while depth >= 0:
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
            if bits & on_path or distance[root, node] > left + 1 or not (chords or bits == 1 << depth):
                continue
            key = hash_key(keys[depth] + hash_key(colours[node] ^ np.uint64(bits)))
            around, last = near[first[node] : first[node + 1]], np.uint64(0)
            for u in around:  # nothing is added where u does not close a cycle
                last += colours[u] * weights[beside[u]]
            found[root] += key * last
            if left > 1:
                depth += 1
                path[depth], turn[depth], keys[depth] = node, first[node], key
                beside[node] ^= on_path
                for u in around:
                    beside[u] ^= 1 << depth
    return found


@numba.njit(cache=True)
def hash_key(key):
    """As :func:`pggnn.baselines.fitted.colours.scramble`."""
    key = key + ODD[0]
    key = (key ^ (key >> np.uint64(30))) * ODD[1]
    key = (key ^ (key >> np.uint64(27))) * ODD[2]
    return key ^ (key >> np.uint64(31))
