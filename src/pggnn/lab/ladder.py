"""What one layer can see at most, rung by rung, refined to convergence.

A rung bounds every network of any depth whose layers read, invariantly, no more than this of a node's neighbours:

- ``neighbours``: their colours, which is 1-WL and PG-GNN with constant features;
- ``pairs``: pairs of them, each with the bit "are they adjacent", so triangles;
- ``triples``: triples of them with their three bits, so 4-cliques;
- ``ego net``: all of them with all bits between them;
- ``rows``: all of them with their whole adjacency rows, the features of the paper's counting experiments.

Each rung sees all that the one above it sees.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
from torch_geometric.data import Data

from pggnn.data.sets.classic import adjacency_matrix
from pggnn.lab.colours import Step, Verdict, combine, node_labels, refine, scramble

Rung = Callable[[np.ndarray], Step]


def climb(a: Data, b: Data, rung: str) -> Verdict:
    """Whether and when the rung's refinement tells two undirected graphs apart."""
    if rung not in LADDER:
        raise ValueError(f"the rungs are {', '.join(LADDER)}; got {rung!r}")
    if a.num_nodes != b.num_nodes:
        return Verdict(rung, 0, 0, 2)
    labels = node_labels(a, b)
    adjacency = np.zeros((labels.size, labels.size), bool)
    for graph, part in zip((a, b), (slice(0, labels.shape[1]), slice(labels.shape[1], None)), strict=True):
        adjacency[part, part] = adjacency_matrix(graph).numpy()
    np.fill_diagonal(adjacency, False)
    see = LADDER[rung](adjacency | adjacency.T)
    return refine(rung, labels, lambda colours: see(colours.ravel()).reshape(colours.shape))


def see_neighbours(adjacency: np.ndarray) -> Step:
    """The multiset of the neighbours' colours."""
    u, v = adjacency.nonzero()
    return lambda colours: _gather(len(adjacency), v, scramble(colours)[u])


def see_pairs(adjacency: np.ndarray) -> Step:
    """The multiset of pairs of neighbours, each with its colours and its bit."""
    v, (u, w) = _subsets(adjacency, 2)
    bit = adjacency[u, w]
    single = see_neighbours(adjacency)

    def see(colours: np.ndarray) -> np.ndarray:
        hashed = scramble(colours)
        return combine(single(colours), _gather(len(adjacency), v, combine(bit, hashed[u] + hashed[w])))

    return see


def see_triples(adjacency: np.ndarray) -> Step:
    """The multiset of triples of neighbours, each as a coloured graph of three nodes."""
    v, corners = _subsets(adjacency, 3)
    bits = {(i, j): adjacency[corners[i], corners[j]] for i in range(3) for j in range(3) if i != j}
    pairs = see_pairs(adjacency)

    def see(colours: np.ndarray) -> np.ndarray:
        of = [colours[corner] for corner in corners]
        sides = {(i, j): combine(of[j], bit) for (i, j), bit in bits.items()}
        triple = sum(combine(of[i], sides[i, (i + 1) % 3] + sides[i, (i + 2) % 3]) for i in range(3))
        return combine(pairs(colours), _gather(len(adjacency), v, scramble(np.asarray(triple))))

    return see


def see_ego_net(adjacency: np.ndarray) -> Step:
    """The neighbours and all edges between them, as a coloured graph up to isomorphism."""
    around = [row.nonzero()[0] for row in adjacency]
    return _see_forms([(nodes, adjacency[np.ix_(nodes, nodes)], np.zeros(len(nodes), int)) for nodes in around])


def see_rows(adjacency: np.ndarray) -> Step:
    """The neighbours and all edges that end at one of them, as a coloured graph up to isomorphism."""
    parts = []
    for v, row in enumerate(adjacency):
        nodes = (row | adjacency[row].any(0)).nonzero()[0]
        inside = adjacency[np.ix_(nodes, nodes)] & (row[nodes][:, None] | row[nodes])
        parts.append((nodes, inside, 1 - row[nodes] + (nodes == v)))
    return _see_forms(parts)


def _see_forms(parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Step:
    """Canonical forms of graphs, given by their nodes, adjacency and marks, with marks and colours."""
    from igraph import Graph

    graphs = [(nodes, matrix, Graph.Adjacency(matrix, mode="undirected"), mark) for nodes, matrix, mark in parts]

    def see(colours: np.ndarray) -> np.ndarray:
        numbers: dict[Any, int] = {}
        keys = []
        for nodes, matrix, graph, mark in graphs:
            colour = mark * len(colours) + colours[nodes]
            place = graph.canonical_permutation(color=colour.tolist())
            form = colour[place].tobytes(), matrix[np.ix_(place, place)].tobytes()
            keys.append(numbers.setdefault(form, len(numbers)))
        return np.array(keys)

    return see


def _subsets(adjacency: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Each node with each set of ``size`` of its neighbours: ``[S]`` and ``[size, S]``."""
    sets = [(v, *some) for v, row in enumerate(adjacency) for some in combinations(row.nonzero()[0].tolist(), size)]
    listed = np.array(sets, np.int64).reshape(-1, size + 1).T
    return listed[0], listed[1:]


def _gather(nodes: int, at: np.ndarray, hashed: np.ndarray) -> np.ndarray:
    seen = np.zeros(nodes, np.uint64)
    np.add.at(seen, at, hashed)
    return seen


LADDER: dict[str, Rung] = {
    "neighbours": see_neighbours,
    "pairs": see_pairs,
    "triples": see_triples,
    "ego net": see_ego_net,
    "rows": see_rows,
}
