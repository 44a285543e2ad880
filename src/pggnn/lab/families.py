"""Families of graphs that are hard to tell apart, made from a few that a formula gives.

Strongly regular graphs by switching: the edges between a set of nodes and all others are exchanged for those that are
not there. Graphs that this turns into each other belong to one two-graph. Where that is regular, taking out a node that
switching has isolated leaves a strongly regular graph, and members in which all nodes have the same degree are others.

Covers of a graph: each node twice, each edge twice, straight or crossed. Whichever are crossed, 1-WL cannot tell them
apart.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import combinations

import numpy as np
import torch
from torch_geometric.data import Data

from pggnn.data.sets.classic import adjacency_matrix, latin

Step = Callable[[np.ndarray], Iterable[np.ndarray]]
MOST_FREE = 16
"""Largest eigenspace whose signs are tried out: two to this power."""


def paulus() -> list[Data]:
    """The 15 strongly regular graphs (25, 12, 5, 6)."""
    return _paulus(25)


def paulus_26() -> list[Data]:
    """The ten strongly regular graphs (26, 10, 3, 4)."""
    return _paulus(26)


def latin_36() -> list[Data]:
    """Four of the 180 strongly regular graphs (36, 14, 4, 6): what switching makes of the addition table modulo 6."""
    return [_graph(one) for one in _latin_class() if one[0].sum() == 14]


def covers(count: int, nodes: int, seed: int = 0) -> list[Data]:
    """Covers of a random connected graph, no two isomorphic. 1-WL cannot tell them apart, 2-FWL can where one is
    connected and another is not, or rings differ. As in EXP (Abboud et al. 2021), what differs may be far apart.

    Args:
        count: How many.
        nodes: Nodes of the graph, each of which has two copies.
        seed: Of the graph and of the crossed edges.
    """
    if count < 1 or not 3 <= nodes <= 100:
        raise ValueError(f"covers are 1 or more of graphs of 3 to 100 nodes, got {count} of {nodes}")
    random = np.random.default_rng(seed)
    tree = np.array([[child, random.integers(child)] for child in range(1, nodes)])
    more = np.argwhere(np.triu(random.random((nodes, nodes)) < 2 / nodes, 1))
    edges = np.unique(np.sort(np.concatenate([tree, more]), axis=1), axis=0)
    found: dict[bytes, np.ndarray] = {}
    for _ in range(100 * count):
        crossed = random.random(len(edges)) < (0.5 if found else 0)  # the first is two copies of the graph
        cover = np.zeros((2 * nodes, 2 * nodes), bool)
        for (u, v), other in zip(edges, crossed, strict=True):
            for side in (0, 1):
                cover[2 * u + side, 2 * v + (side ^ other)] = True
        cover |= cover.T
        found.setdefault(canonical(cover), cover)
        if len(found) == count:
            return [*map(_graph, found.values())]
    raise ValueError(
        f"a graph of {nodes} nodes and {len(edges)} edges has no {count} covers: ask for fewer or more nodes"
    )


def switched(starts: Iterable[np.ndarray], steps: Iterable[Step]) -> list[np.ndarray]:
    """All graphs that the steps lead to, up to isomorphism, in the order in which they are found."""
    found = {canonical(one): one for one in starts}
    queue, steps = [*found.values()], [*steps]
    while queue:
        one = queue.pop()
        for step in steps:
            for other in step(one):
                if (form := canonical(other)) not in found:
                    found[form] = other
                    queue.append(other)
    return [*found.values()]


def canonical(adjacency: np.ndarray) -> bytes:
    """The same for all graphs that are isomorphic, and only for these."""
    from igraph import Graph

    place = Graph.Adjacency(adjacency.astype(int), mode="undirected").canonical_permutation()
    return np.packbits(adjacency[np.ix_(place, place)]).tobytes()


def complement(adjacency: np.ndarray) -> list[np.ndarray]:
    return [~adjacency ^ np.eye(len(adjacency), dtype=bool)]


def with_isolated(adjacency: np.ndarray) -> np.ndarray:
    """The graph and a node without edges."""
    return np.pad(adjacency, (0, 1))


def without(adjacency: np.ndarray) -> Iterator[np.ndarray]:
    """For each node: switched so that it has no edges, and then without it."""
    for node, row in enumerate(adjacency):
        kept = np.arange(len(adjacency)) != node
        yield (adjacency ^ row[:, None] ^ row)[np.ix_(kept, kept)]


def regular(adjacency: np.ndarray, degree: int) -> Iterator[np.ndarray]:
    """Switched so that all nodes have this degree, in every way.

    With x = ±1 for the nodes in the set and the others, that is S x = (n − 1 − 2 · degree) x for Seidel's matrix S,
    which has −1 for an edge and 1 for none. All x are found from their signs at as many nodes as there are dimensions.
    """
    n = len(adjacency)
    seidel = 1.0 - 2.0 * adjacency - np.eye(n)
    values, vectors = np.linalg.eigh(seidel)
    space = vectors[:, np.abs(values - (n - 1 - 2 * degree)) < 1e-6]
    free = space.shape[1]
    if not 0 < free <= MOST_FREE:
        return
    chosen: list[int] = []
    for node in range(n):  # independent rows
        if np.linalg.matrix_rank(space[[*chosen, node]], tol=1e-6) > len(chosen):
            chosen.append(node)
    signs = 1.0 - 2.0 * (np.arange(1 << (free - 1))[:, None] >> np.arange(free) & 1)  # x and −x are one set
    x = signs @ np.linalg.inv(space[chosen]).T @ space.T
    for inside in x[(np.abs(np.abs(x) - 1) < 1e-6).all(1)] > 0:
        yield adjacency ^ (inside[:, None] ^ inside)


def steiner_systems() -> list[list[frozenset[int]]]:
    """The two Steiner triple systems of 13 points: the cyclic one, and that where four triples of six points, each
    point in two of them, are exchanged for the other four (a Pasch switch)."""
    cyclic = [
        frozenset((point + shift) % 13 for point in base) for base in ((0, 1, 4), (0, 2, 7)) for shift in range(13)
    ]
    pasch = next(four for four in combinations(cyclic, 4) if len(frozenset().union(*four)) == 6)
    points = frozenset().union(*pasch)
    return [cyclic, [*set(cyclic) - {*pasch}, *(points - triple for triple in pasch)]]


@cache
def _latin_class() -> list[np.ndarray]:
    return switched(complement(adjacency_matrix(latin(6)).numpy()), [lambda one: regular(one, 14)])


def _paulus(nodes: int) -> list[Data]:
    return [_graph(one) for one in _paulus_class() if len(one) == nodes]


@cache
def _paulus_class() -> list[np.ndarray]:
    """From the Latin squares of order 5 and the triples of Steiner systems that have no point in common: up to 26 nodes
    and down again."""

    def step(one: np.ndarray) -> Iterator[np.ndarray]:
        if len(one) == 26:
            yield from without(one)
        else:
            yield from without(with_isolated(one))
            yield from regular(with_isolated(one), 10)
            yield from complement(one)

    squares = [adjacency_matrix(latin(5, number)).numpy() for number in (0, 1)]
    triples = [
        np.array([[one.isdisjoint(other) for other in system] for one in system]) for system in steiner_systems()
    ]
    return switched([*squares, *triples], [step])


def _graph(adjacency: np.ndarray) -> Data:
    return Data(edge_index=torch.from_numpy(np.stack(adjacency.nonzero())), num_nodes=len(adjacency))
