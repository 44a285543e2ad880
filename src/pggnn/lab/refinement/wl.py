"""The k-WL test of the paper's Appendix C, colour refinement (1-WL), and the k-FWL (folklore) test.

In the paper's count 2-WL sees what 1-WL sees, and 3-WL what 2-FWL sees. An atomic type is that of an ordered tuple:
which of its nodes are equal, which adjacent, and each node's features ``x`` where the graphs have any.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from torch_geometric.data import Data

from pggnn.baselines.fitted.colours import combine, scramble, see_neighbours
from pggnn.data.sets.classic import adjacency_matrix
from pggnn.lab.refinement.colours import Step, Verdict, node_labels, refine

MOST_TUPLES, MOST_STEPS = 2**23, 2**28
"""Tuples of one graph that k-WL colours at most, and tuples that k-FWL looks at: 203 and 128 nodes for k = 3."""


def colour_refinement(a: Data, b: Data) -> Verdict:
    """1-WL: a node sees the multiset of its neighbours' colours; with directed edges, both ways. Sparse.

    Example:
        >>> from pggnn.data.sets.classic import rook, shrikhande
        >>> from pggnn.lab.refinement.wl import colour_refinement
        >>> print(colour_refinement(rook(4), shrikhande()))
        1-WL: never, stable after 0, 1 colours
    """
    if a.num_nodes != b.num_nodes:
        return Verdict("1-WL", 0, 0, 2)
    labels = node_labels(a, b)
    nodes = labels.shape[1]
    edges = [graph.edge_index.numpy() for graph in (a, b) if graph.edge_index is not None]
    source, target = np.concatenate([edges[0], edges[1] + nodes], axis=1)

    return refine(
        "1-WL", labels, lambda colours: see_neighbours(colours.ravel(), source, target).reshape(colours.shape)
    )


def k_wl(a: Data, b: Data, k: int) -> Verdict:
    """The paper's k-WL: a tuple sees, for each place j, the multiset of the tuples that differ from it there only.

    Example:
        >>> from pggnn.data.sets.classic import rook, shrikhande
        >>> from pggnn.lab.refinement.wl import k_wl
        >>> print(k_wl(rook(4), shrikhande(), 2))
        2-WL: never, stable after 0, 3 colours
    """
    if k == 1:
        return colour_refinement(a, b)

    def see_places(colours: np.ndarray) -> np.ndarray:
        hashed = scramble(colours)
        return combine(*(hashed.sum(axis=place, keepdims=True) for place in range(1, k + 1)))

    return _test(f"{k}-WL", a, b, k, see_places, int(MOST_TUPLES ** (1 / k)))


def k_fwl(a: Data, b: Data, k: int) -> Verdict:
    """k-FWL: a tuple sees the multiset, over all nodes u, of the k tuples with u at the 1st, …, k-th place together.

    Example:
        >>> from pggnn.data.sets.classic import rook, shrikhande
        >>> from pggnn.lab.refinement.wl import k_fwl
        >>> k_fwl(rook(4), shrikhande(), 2).apart, k_fwl(rook(4), shrikhande(), 3).apart
        (False, True)
    """
    if k == 1:
        return colour_refinement(a, b)

    def see_nodes(colours: np.ndarray) -> np.ndarray:
        seen = np.zeros(colours.shape, np.uint64)
        for u in range(colours.shape[1]):
            seen += combine(*(colours.take([u], axis=place) for place in range(1, k + 1)))
        return seen

    return _test(f"{k}-FWL", a, b, k, see_nodes, int(MOST_STEPS ** (1 / (k + 1))))


def _test(test: str, a: Data, b: Data, k: int, step: Step, most: int) -> Verdict:
    if a.num_nodes != b.num_nodes:
        return Verdict(test, 0, 0, 2)
    if int(a.num_nodes or 0) > most:
        raise ValueError(f"{test} takes graphs of up to {most} nodes, got {a.num_nodes}")
    return refine(test, _types(a, b, k), step)


def _types(a: Data, b: Data, k: int) -> np.ndarray:
    """``[2, n, …, n]`` atomic type of each k-tuple of nodes."""
    labels = node_labels(a, b)
    nodes = labels.shape[1]
    adjacency = np.stack([adjacency_matrix(graph).long().numpy() for graph in (a, b)])
    pair = 2 * adjacency + adjacency.swapaxes(1, 2) + 4 * np.eye(nodes, dtype=np.int64)
    places = range(1, k + 1)
    parts = [np.expand_dims(labels, [p for p in places if p != place]) for place in places]
    parts += [np.expand_dims(pair, [p for p in places if p not in (i, j)]) for j in places for i in range(1, j)]
    return combine(*parts)


TESTS: dict[str, Callable[[Data, Data], Verdict]] = {
    "1-WL": colour_refinement,
    "2-WL": partial(k_wl, k=2),
    "3-WL": partial(k_wl, k=3),
    "2-FWL": partial(k_fwl, k=2),
    "3-FWL": partial(k_fwl, k=3),
}
