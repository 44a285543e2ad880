"""Exact counts of triangles, wedges and 4-cliques at each node, of many graphs at once or of one large graph.

Rows of the adjacency matrix are kept as bits, so a common neighbourhood is an AND and its size a population count.
Columns are taken in blocks, so memory does not grow with the square of the nodes.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from pggnn.search import TooMany

BLOCK_BYTES = 2**27
CHUNK = 2**19


def triangles(edge_index: Tensor, ptr: Tensor | int, directed: bool = False) -> Tensor:
    """The number of triangles at each node, τ = ½ A² ⊙ A · 1 (Eq. 6).

    Args:
        edge_index: ``[2, E]``, ids counted over all graphs. Self-loops and repeated edges do not count; an undirected
            edge may be given in one direction or both.
        ptr: ``[G + 1]``, the first node of each graph, as in PyG's batches; or the number of nodes of one graph.
        directed: Count directed 3-cycles, τ = A² ⊙ Aᵀ · 1, instead.

    Example:
        >>> import torch
        >>> from pggnn.data.features.motifs import triangles
        >>> edges = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])  # a triangle, and node 3
        >>> triangles(edges, 4)
        tensor([1, 1, 1, 0])
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

    Example:
        >>> import torch
        >>> from pggnn.data.features.motifs import four_cliques
        >>> four_cliques(torch.combinations(torch.arange(5)).t(), 5)  # all edges among five nodes
        tensor([4, 4, 4, 4, 4])
    """
    local, nodes = _local_ids(ptr)
    u, v = _simple_edges(edge_index, nodes, directed=False)
    corners = np.concatenate([np.empty((3, 0), np.int64), *_list_triangles(u, v, nodes)], axis=1)
    found = np.zeros(corners.shape[1], np.int64)
    for rows, _ in _bit_rows(u, v, local, directed=False):
        for first in range(0, corners.shape[1], CHUNK):
            a, b, c = corners[:, first : first + CHUNK]
            found[first : first + CHUNK] += _size(rows[a] & rows[b] & rows[c])
    # each 4-clique at a node is seen from its three triangles there
    return torch.from_numpy(sum(_add_up(nodes, corner, found) for corner in corners) // 3)


def wedges(edge_index: Tensor, ptr: Tensor | int) -> Tensor:
    """The number of pairs of a node's neighbours that are not adjacent; arguments as of :func:`triangles`."""
    nodes = _local_ids(ptr)[1]
    degree = np.bincount(np.concatenate(_simple_edges(edge_index, nodes, directed=False)), minlength=nodes)
    return torch.from_numpy(degree * (degree - 1) // 2) - triangles(edge_index, ptr)


def find_triangles(edge_index: Tensor, num_nodes: int, size: int = 3, limit: int = 100_000) -> tuple[Tensor, Tensor]:
    """Every triangle of a graph once, as :func:`pggnn.search.find_rings` gives rings: ``index`` and ``size``.

    Args:
        edge_index, num_nodes: The graph.
        size: 3.
        limit: Most triangles. A graph with more is refused.
    """
    u, v = _simple_edges(edge_index, num_nodes, directed=False)
    found = [np.empty((3, 0), np.int64)]
    for part in _list_triangles(u, v, num_nodes):
        found.append(part)
        if sum(one.shape[1] for one in found) > limit:
            raise TooMany(
                f"a graph of {num_nodes:,} nodes has more than {limit:,} triangles", "choose a model without them"
            )
    corners = np.sort(np.concatenate(found, axis=1), axis=0)
    corners = corners[:, np.lexsort(corners[::-1])]
    return torch.from_numpy(corners.T.reshape(-1).copy()), torch.full((corners.shape[1],), size)


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
        block = None if width >= size else (first, first + width)
        rows = _pack(pairs, local, width, block)
        yield rows, (_pack([(v, u)], local, width, block) if directed else rows)


def _pack(
    pairs: list[tuple[np.ndarray, np.ndarray]], local: np.ndarray, width: int, block: tuple[int, int] | None
) -> np.ndarray:
    """Rows as bits; of all columns, or of those in a block."""
    dense = np.zeros((len(local), width), bool)
    for rows, columns in pairs:
        ids = local[columns]
        if block is None:
            dense[rows, ids] = True
        else:
            inside = (ids >= block[0]) & (ids < block[1])
            dense[rows[inside], ids[inside] - block[0]] = True
    return np.packbits(dense, axis=1).view(np.uint64)


def _size(bits: np.ndarray) -> np.ndarray:
    return np.bitwise_count(bits).sum(axis=1, dtype=np.int64)


def _add_up(nodes: int, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    total = np.zeros(nodes, np.int64)
    np.add.at(total, at, values)
    return total


def _list_triangles(u: np.ndarray, v: np.ndarray, nodes: int) -> Iterator[np.ndarray]:
    """Each triangle once, ``[3, T]`` in chunks: edges point to the node of higher degree, which keeps fans small."""
    degree = np.bincount(u, minlength=nodes) + np.bincount(v, minlength=nodes)
    order = np.argsort(degree, kind="stable")
    rank = np.empty(nodes, np.int64)
    rank[order] = np.arange(nodes)
    keys = np.sort(np.minimum(rank[u], rank[v]) * nodes + np.maximum(rank[u], rank[v]))
    low, high = keys // max(nodes, 1), keys % max(nodes, 1)
    start = np.searchsorted(low, np.arange(nodes + 1))
    fan = np.diff(start)[high]
    bounds = np.searchsorted(np.cumsum(fan), np.arange(0, fan.sum(), CHUNK), side="right")
    for first, last in zip(bounds, [*bounds[1:], len(fan)], strict=False):
        count = fan[first:last]
        edge = np.repeat(np.arange(first, last), count)
        step = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
        third = high[start[high[edge]] + step]
        wanted = low[edge] * nodes + third
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        closed = keys[at] == wanted
        yield order[np.stack([low[edge], high[edge], third])[:, closed]]
