"""Exact counts of triangles, wedges and 4-cliques at each node, of many graphs at once or of one large graph.

Rows of the adjacency matrix are kept as bits, so a common neighbourhood is an AND and its size a population count.
Columns are taken in blocks, so memory does not grow with the square of the nodes.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

BLOCK_BYTES = 2**27
CHUNK = 2**19


def triangles(edge_index: Tensor, ptr: Tensor | int, directed: bool = False) -> Tensor:
    """The number of triangles at each node, τ = ½ A² ⊙ A · 1 (Eq. 6).

    Args:
        edge_index: ``[2, E]``, ids counted over all graphs. Self-loops and repeated edges do not count; an undirected
            edge may be given in one direction or both.
        ptr: ``[G + 1]``, the first node of each graph, as in PyG's batches; or the number of nodes of one graph.
        directed: Count directed 3-cycles, τ = A² ⊙ Aᵀ · 1, instead.
    """
    local, nodes = _local_ids(ptr)
    u, v = _simple_edges(edge_index, nodes, directed)
    found = np.zeros(len(u), np.int64)
    for rows, columns in _bit_rows(u, v, local, directed):
        for first in range(0, len(u), CHUNK):
            part = slice(first, first + CHUNK)
            found[part] += _size(rows[v[part]] & columns[u[part]])  # paths v → w → u for the edge u → v
    if directed:
        return torch.from_numpy(_add_up(nodes, v, found))
    return torch.from_numpy((_add_up(nodes, u, found) + _add_up(nodes, v, found)) // 2)


def four_cliques(edge_index: Tensor, ptr: Tensor | int) -> Tensor:
    """The number of 4-cliques at each node of undirected graphs; arguments as of :func:`triangles`.

    Edges are directed to the node of higher degree, which leaves few to each node. A 4-clique is then a triangle among
    the nodes to which its lowest corner leads.
    """
    nodes = _local_ids(ptr)[1]
    ends = np.stack(_simple_edges(edge_index, nodes, directed=False))
    rank = np.empty(nodes, np.int64)
    rank[np.argsort(np.bincount(ends.ravel(), minlength=nodes), kind="stable")] = np.arange(nodes)
    ends = np.take_along_axis(ends, np.argsort(rank[ends], axis=0), axis=0)
    low, high = ends[:, np.lexsort((rank[ends[1]], ends[0]))]
    start = np.searchsorted(low, np.arange(nodes + 1))
    later = start[low + 1] - np.arange(len(low)) - 1  # edges of the same low end that follow
    first = np.repeat(np.arange(len(low)), later)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(later) - later, later)
    closed = np.isin(high[first] * nodes + high[second], low * nodes + high)
    found = triangles(torch.from_numpy(np.stack([first, second])[:, closed]), torch.from_numpy(start)).numpy()
    return torch.from_numpy(_add_up(nodes, low, found) // 3 + _add_up(nodes, high, found))


def wedges(edge_index: Tensor, ptr: Tensor | int) -> Tensor:
    """The number of pairs of a node's neighbours that are not adjacent; arguments as of :func:`triangles`."""
    nodes = _local_ids(ptr)[1]
    degree = np.bincount(np.concatenate(_simple_edges(edge_index, nodes, directed=False)), minlength=nodes)
    return torch.from_numpy(degree * (degree - 1) // 2) - triangles(edge_index, ptr)


def _local_ids(ptr: Tensor | int) -> tuple[np.ndarray, int]:
    """The id of each node within its graph, and the number of nodes."""
    pointers = np.array([0, ptr]) if isinstance(ptr, int) else ptr.cpu().numpy()
    nodes = int(pointers[-1])
    return np.arange(nodes) - np.repeat(pointers[:-1], np.diff(pointers)), nodes


def _simple_edges(edge_index: Tensor, nodes: int, directed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Each edge once, without self-loops; undirected ones from the lower to the higher node."""
    u, v = edge_index.cpu().numpy().astype(np.int64, copy=False)
    if not directed:
        u, v = np.minimum(u, v), np.maximum(u, v)
    keys = np.sort((u * nodes + v)[u != v])  # np.unique, which hashes, takes a hundred times as long
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return keys // max(nodes, 1), keys % max(nodes, 1)


def _bit_rows(
    u: np.ndarray, v: np.ndarray, local: np.ndarray, directed: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For blocks of columns: rows of A, and of Aᵀ, as bits in words of 64."""
    nodes = len(local)
    size = int(local.max(initial=-1)) + 1
    width = min(max(BLOCK_BYTES // max(nodes, 1), 64), max(size, 1) + 63) // 64 * 64
    pairs = [(u, v)] if directed else [(u, v), (v, u)]
    for first in range(0, size, width):
        rows = _pack(pairs, local, first, width)
        yield rows, (_pack([(v, u)], local, first, width) if directed else rows)


def _pack(pairs: list[tuple[np.ndarray, np.ndarray]], local: np.ndarray, first: int, width: int) -> np.ndarray:
    """Rows as bits, of the columns from ``first`` on."""
    dense = np.zeros((len(local), width), bool)
    for rows, columns in pairs:
        ids = local[columns] - first
        inside = (ids >= 0) & (ids < width)
        dense[rows[inside], ids[inside]] = True
    return np.packbits(dense, axis=1).view(np.uint64)


def _size(bits: np.ndarray) -> np.ndarray:
    return np.bitwise_count(bits).sum(axis=1, dtype=np.int64)


def _add_up(nodes: int, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    total = np.zeros(nodes, np.int64)
    np.add.at(total, at, values)
    return total
