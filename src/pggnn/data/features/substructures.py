"""Exact counts of cliques and cycles at each node and each edge, as features (Bouritsas et al., Improving Graph Neural
Network Expressivity via Subgraph Isomorphism Counting, TPAMI 2022).

A cycle is any closed path of different nodes, whether or not other edges join them: counts are not of induced cycles.
Edges count once and both ways, as if graphs were simple and undirected; an edge from a node to itself is in none. All
nodes of a clique or a cycle are alike, and so are its edges, so each of them is one column of nodes and one of edges.
"""

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pggnn.console import tracked
from pggnn.data.cache import cache_home, keep, read
from pggnn.data.features.dense import by_size, check_size
from pggnn.data.graphs import Graphs

AT_ONCE = 2**21
"""Entries of the matrices that are multiplied at a time."""
MOST_NODES = 2**12
"""Nodes of the largest graph: its paths fill matrices of as many rows and columns, and no sum below is rounded."""
SECONDS = 2.0
"""Counts that take longer have a progress bar, and are kept."""
VERSION = 1
"""Of the counts that are kept: a change of the code that changes them must change it."""
LARGEST = {"clique": 5, "cycle": 6}
Substructure = tuple[str, int]
"""``"clique"`` or ``"cycle"``, and its number of nodes."""


def up_to(cliques: int = 0, cycles: int = 0) -> list[Substructure]:
    """Cliques of 3 nodes up to ``cliques``, and cycles of 3 up to ``cycles``; the triangle, which is both, once."""
    for name, size in (("clique", cliques), ("cycle", cycles)):
        if size != 0 and not 3 <= size <= LARGEST[name]:
            raise ValueError(f"{name}s must be 0, for none, or 3 to {LARGEST[name]} nodes, got {size}")
    found = [("clique", size) for size in range(3, cliques + 1)]
    return found + [("cycle", size) for size in range(4 if found else 3, cycles + 1)]


def count(graphs: Graphs, wanted: Sequence[Substructure]) -> tuple[Tensor, Tensor]:
    """``[K, N]`` and ``[K, E]`` int64: how many of each of K substructures each node and each edge lies in."""
    check_size(graphs, MOST_NODES, "counts of cliques and cycles")
    of_nodes = torch.empty(len(wanted), int(graphs.nodes.sum()), dtype=torch.long)
    of_edges = torch.empty(len(wanted), graphs.edge_index.size(1), dtype=torch.long)
    largest = {kind: max((size for one, size in wanted if one == kind), default=3) for kind in LARGEST}
    work = int((graphs.edges * graphs.nodes).sum())
    groups = by_size(graphs, AT_ONCE)
    for some in tracked(groups, "counting", work, lambda some: len(some.edges) * some.size, SECONDS):
        adjacency = some.matrices()
        adjacency = ((adjacency + adjacency.mT) > 0).double()
        adjacency.diagonal(dim1=1, dim2=2).zero_()
        cycles = _cycles(adjacency, largest["cycle"])
        found = {"cycle": cycles, "clique": [cycles[0], *_cliques(adjacency, cycles[0], largest["clique"])]}
        for row, (kind, size) in enumerate(wanted):
            at_edges = found[kind][size - 3].long()
            of_edges[row, some.edges] = at_edges[some.place]
            of_nodes[row, some.nodes] = at_edges.sum(2).view(-1) // (2 if kind == "cycle" else size - 1)
    return of_nodes, of_edges


def log_counts(graphs: Graphs, wanted: Sequence[Substructure]) -> tuple[Tensor, Tensor]:
    """``[N, K]`` and ``[E, K]`` float32: log(1 + count), as counts grow with powers of the degree. Those that took long
    are kept in the user's cache, a file for each substructure."""
    bare = graphs.structure_digest()
    files = {one: cache_home() / "counts" / f"{one[0]}{one[1]}-{VERSION}-{bare}.npz" for one in wanted}
    found = {one: arrays for one, file in files.items() if (arrays := read(file)) is not None}
    if missing := [one for one in wanted if one not in found]:
        began = time.monotonic()
        counted = count(graphs, missing)
        took_long = time.monotonic() - began > SECONDS
        for one, *counts in zip(missing, *counted, strict=True):
            of_nodes, of_edges = (of.double().log1p().float().numpy() for of in counts)
            found[one] = {"node": of_nodes, "edge": of_edges}
            if took_long:
                keep(found[one], files[one])
    columns = [[torch.from_numpy(found[one][level]) for one in wanted] for level in ("node", "edge")]
    return torch.stack(columns[0], dim=1), torch.stack(columns[1], dim=1)


def _cycles(adjacency: Tensor, longest: int) -> list[Tensor]:
    """``[G, n, n]`` for 3 nodes up to ``longest``: at each edge, the cycles through it.

    Cycles through an edge are paths between its ends. A path of k edges from i to j is an edge i → a and a path of
    k - 1 edges from a to j that does not pass i; those that do are subtracted. Entries stay below n⁴, and exact.
    """
    degree = adjacency.sum(2, keepdim=True)
    two = adjacency @ adjacency
    at_edges = adjacency * two
    found = [at_edges]
    if longest > 3:
        three = adjacency @ two - adjacency * (degree + degree.mT - 1)
        three.diagonal(dim1=1, dim2=2).zero_()
        found.append(adjacency * three)
    if longest > 4:
        closed = at_edges.sum(2, keepdim=True)  # walks i → a → b → i
        four = adjacency @ three
        four -= two * (degree - 1 - adjacency)  # i → a → i → b → j
        four -= adjacency * (closed - 2 * two)  # i → a → b → i → j
        four.diagonal(dim1=1, dim2=2).zero_()
        found.append(adjacency * four)
    if longest > 5:
        squares = found[1].sum(2, keepdim=True)  # walks i → a → b → c → i without repetition
        fans = at_edges @ adjacency
        five = adjacency @ four
        five -= (degree - 2) * three - fans + two  # i → a → i → b → c → j, where i and j are neighbours
        five -= two * (closed + 2 - 2 * two) - 2 * fans  # i → a → b → i → c → j
        five -= squares - 2 * three - two * (two - 1)  # i → a → b → c → i → j
        found.append(adjacency * five)
    return found


def _cliques(adjacency: Tensor, triangles: Tensor, largest: int) -> Tensor:
    """``[largest - 3, G, n, n]``: at each edge, the cliques of 4 nodes, and of 5, that it lies in."""
    found = adjacency.new_zeros(largest - 3, *adjacency.shape)
    inner = adjacency.bool() & (triangles > 1)  # edges of 4-cliques lie in two triangles or more
    for number in inner.flatten(1).any(1).nonzero().view(-1).tolist() if largest > 3 else ():
        found[:, number] = torch.from_numpy(_cliques_of(inner[number].numpy(), largest))
    return found


def _cliques_of(adjacency: np.ndarray, largest: int) -> np.ndarray:
    """``[largest - 3, n, n]``, as :func:`_cliques`, of one graph, whose adjacency matrix is of type bool.

    Cliques at an edge are edges, and triangles, among the common neighbours of its ends. Adjacent nodes with the
    same neighbours are taken as one of some weight: where people work in teams, most nodes have such twins.
    """
    found = np.zeros((largest - 3, *adjacency.shape))
    kept = np.flatnonzero(adjacency.any(1))
    closed = _among(adjacency, kept) | np.eye(len(kept), dtype=bool)
    _, first, twin, weight = np.unique(
        np.packbits(closed, axis=1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    near, weight, twin = _among(closed, first).astype(np.float32), weight.astype(np.float32), twin.reshape(-1)
    table = np.zeros((largest - 3, len(first), len(first)))
    for u in range(len(first)):
        around = np.flatnonzero(near[u])
        later = int(np.searchsorted(around, u + (weight[u] < 2)))  # a pair of nodes is the same both ways
        values = _cliques_at(_among(near, around), weight[around], later, largest)
        table[:, u, around[later:]] = table[:, around[later:], u] = values
    found[:, kept[:, None], kept] = table[:, twin[:, None], twin]
    return found * adjacency


def _cliques_at(near: np.ndarray, weight: np.ndarray, first: int, largest: int) -> np.ndarray:
    """``[largest - 3, n - first]``: 4-cliques and 5-cliques of a node and each of its neighbours from ``first`` on.

    Sums over neighbours x, y, z that the two have in common, themselves included, which may be equal or adjacent:
    from the numbers of such pairs and triples follow those of edges and triangles.

    Args:
        near: ``[n, n]``, 1 where two of the node's neighbours, itself included, are equal or adjacent.
        weight: ``[n]``, how many nodes each stands for.
    """
    common = (near * weight) @ near
    ones = (near @ weight)[first:].astype(np.float64)
    pairs = ((common * near) @ weight)[first:].astype(np.float64)
    edges = (pairs - ones) / 2 - 2 * (ones - 2) - 1  # without the two nodes, which are neighbours of all
    if largest == 4:
        return edges[None]
    triples = ones**3  # where all are adjacent
    for place in np.flatnonzero(pairs < ones**2):
        both = np.flatnonzero(near[first + place])
        inside, some = _among(near, both), weight[both]
        triples[place] = ((((inside * some) @ inside) * inside) @ some).astype(np.float64) @ some
    triangles = (triples - 3 * pairs + 2 * ones) / 6 - 2 * edges - (ones - 2)
    return np.stack([edges, triangles])


def _among(matrix: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Rows and columns of these nodes."""
    return matrix.take(nodes, 0).take(nodes, 1)  # several times as fast as np.ix_
