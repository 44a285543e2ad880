"""What one layer can see at most, rung by rung, refined to convergence.

A rung bounds every network of any depth whose layers read, invariantly, no more than this of a node's neighbours:

- ``neighbours``: their colours, which is 1-WL and PG-GNN with constant features;
- ``pairs``: pairs of them, each with the bit "are they adjacent", so triangles;
- ``triples``: triples of them with their three bits, so 4-cliques;
- ``ego net``: all of them with all bits between them;
- ``rows``: all of them with their whole adjacency rows, the features of the paper's counting experiments;
- ``rings to 6``: their colours, and the node's chordless cycles of up to 6 nodes, read from the node both ways;
- ``cycles to 6``: the same with all simple cycles, and the bits of their chords.

Each rung up to the rows sees all that the one above it sees, and so does each of the rings, and each of the cycles.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from torch_geometric.data import Data

from pggnn.baselines.fitted.colours import combine, scramble
from pggnn.data.sets.classic import adjacency_matrix
from pggnn.lab.refinement.colours import Step, Verdict, node_labels, refine

Rung = Callable[[np.ndarray], Step]


def climb(a: Data, b: Data, rung: str) -> Verdict:
    """Whether and when the rung's refinement tells two undirected graphs apart."""
    see_around = LADDER[check_rung(rung)]
    if a.num_nodes != b.num_nodes:
        return Verdict(rung, 0, 0, 2)
    labels = node_labels(a, b)
    adjacency = np.zeros((labels.size, labels.size), bool)
    for graph, part in zip((a, b), (slice(0, labels.shape[1]), slice(labels.shape[1], None)), strict=True):
        adjacency[part, part] = adjacency_matrix(graph).numpy()
    np.fill_diagonal(adjacency, False)
    see = see_around(adjacency | adjacency.T)
    return refine(rung, labels, lambda colours: see(colours.ravel()).reshape(colours.shape))


def check_rung(rung: str) -> str:
    """The rung, or an error."""
    if rung not in LADDER:
        raise ValueError(f"the rungs are {', '.join(LADDER)}; got {rung!r}")
    return rung


def see_sets(adjacency: np.ndarray, most: int) -> Step:
    """The multisets of the neighbours, of their pairs and so on up to ``most``, each set as a coloured graph."""
    listed = [_subsets(adjacency, size) for size in range(1, most + 1)]

    def see(colours: np.ndarray) -> np.ndarray:
        seen = np.zeros((most, len(adjacency)), np.uint64)
        for multiset, (v, corners) in zip(seen, listed, strict=True):
            form = np.zeros(len(v), np.uint64)
            for u in corners:
                others = [combine(colours[w], adjacency[u, w]) for w in corners if w is not u]
                form += combine(colours[u], sum(others, np.zeros_like(form)))
            np.add.at(multiset, v, scramble(form))
        return combine(*seen)

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


def see_cycles(adjacency: np.ndarray, most: int, chords: bool) -> Step:
    """The multisets of the neighbours and of the cycles of up to ``most`` nodes: colours in cyclic order from the node,
    both ways; with ``chords`` all simple cycles with their chords, else those that have none."""
    from pggnn.lab.refinement.numba_cycles import read_cycles, see_around

    first, near, distance = see_around(adjacency, most)
    neighbours = see_sets(adjacency, 1)

    def see(colours: np.ndarray) -> np.ndarray:
        hashed = scramble(colours)
        return combine(neighbours(colours), read_cycles(first, near, distance, hashed, most, chords))

    return see


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


def _subsets(adjacency: np.ndarray, size: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Each node with each set of ``size`` of its neighbours: ``[S]``, and ``[S]`` for each place of a set."""
    sets = [(v, *some) for v, row in enumerate(adjacency) for some in combinations(row.nonzero()[0].tolist(), size)]
    listed = np.array(sets, np.int64).reshape(-1, size + 1).T
    return listed[0], [*listed[1:]]


LADDER: dict[str, Rung] = {
    "neighbours": partial(see_sets, most=1),
    "pairs": partial(see_sets, most=2),
    "triples": partial(see_sets, most=3),
    "ego net": see_ego_net,
    "rows": see_rows,
    **{f"rings to {most}": partial(see_cycles, most=most, chords=False) for most in (4, 5, 6, 8, 10)},
    **{f"cycles to {most}": partial(see_cycles, most=most, chords=True) for most in (4, 5, 6)},
}
