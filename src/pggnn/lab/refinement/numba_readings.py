"""The different sequences that one node reads, with the number of times, by Numba: cycles are counted as found."""

import numba
import numpy as np

from pggnn.lab.refinement.numba_cycles import hash_key


@numba.njit(cache=True)
def count_at(root, first, near, distance, most, limit, bits_seen):
    """For one node: the hash of each different sequence, how often it occurs, and one that has it, −1 behind its end.

    A sequence is, for each member and then for the node itself, which of the ``bits_seen`` members just before are
    adjacent: what an RNN with so many structural bits reads. Ends early beyond ``limit`` sequences.
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
        older = max(depth + 1 - bits_seen, 0)  # places that this node does not see
        key = hash_key(keys[depth] + hash_key(np.uint64(bits >> older)))
        if depth > 0 and bits & 1:
            closing = 1
            for place in range(max(depth + 2 - bits_seen, 0), depth + 1):
                closing |= (beside[path[place]] & 1) << (depth + 1 - place)
            whole = hash_key(key + hash_key(np.uint64(closing)))
            at = _place(table, found, whole)
            if table[at] < 0:
                table[at] = known
                found[known], members[known, : depth + 1], members[known, depth + 1] = whole, path[: depth + 1], node
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
