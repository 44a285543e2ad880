"""Graphs that tell graph neural networks apart: strongly regular families, circular skip links, CFI pairs.

Each function gives a PyG ``Data`` with ``num_nodes`` and a sorted ``edge_index`` in both directions. Families listed
by others, such as Spence's strongly regular graphs, are read with :func:`pggnn.data.formats.graph6.load_graph6`.
"""

from collections.abc import Hashable, Iterable
from itertools import combinations
from math import isqrt

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

CSL_NODES, CSL_SKIPS = 41, (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""The ten classes of the circular skip link data set (Murphy et al. 2019), no two of them isomorphic."""
LATIN_5 = "0123410342234013412042013"
"""A Latin square of order 5, row by row, that has squares of order 2 in it; the addition table has none."""
MOST_NODES = 5000
"""Graphs here are made from dense matrices."""
MOST_CFI_DEGREE = 10
"""A base node of degree d becomes 2^(d − 1) nodes and more."""


def cycle(n: int) -> Data:
    """The cycle of n nodes."""
    return csl(n, 1)


def complete(n: int) -> Data:
    """The complete graph of n nodes."""
    _check_size(n, 1, n, "a complete graph")
    return _from_adjacency(~torch.eye(n, dtype=torch.bool))


def rook(n: int = 4) -> Data:
    """The n × n rook's (lattice) graph, SRG(n², 2n − 2, n − 2, 2): cells of a board that share a row or a column.

    Example:
        >>> from pggnn.data.sets.classic import rook
        >>> rook(4).num_edges  # 48, both ways
        96
    """
    _check_size(n, 2, n * n, "a rook's graph")
    return _from_networkx(nx.cartesian_product(nx.complete_graph(n), nx.complete_graph(n)))


def shrikhande() -> Data:
    """The Shrikhande graph: SRG(16, 6, 2, 2) as the 4 × 4 rook's graph is, but without its 4-cliques.

    Example:
        >>> from pggnn.data.features.motifs import four_cliques
        >>> from pggnn.data.sets.classic import rook, shrikhande
        >>> [int(four_cliques(graph.edge_index, 16).sum()) // 4 for graph in (rook(4), shrikhande())]
        [8, 0]
    """
    torus = nx.grid_2d_graph(4, 4, periodic=True)
    torus.add_edges_from([((i, j), ((i + 1) % 4, (j + 1) % 4)) for i, j in torus])
    return _from_networkx(torus)


def triangular(n: int) -> Data:
    """The triangular graph T(n), SRG(n(n − 1)/2, 2(n − 2), n − 2, 4): pairs of n things that have one in common."""
    _check_size(n, 4, n * (n - 1) // 2, "a triangular graph")
    return _from_networkx(nx.line_graph(nx.complete_graph(n)), combinations(range(n), 2))


def chang(number: int) -> Data:
    """One of the three Chang graphs, SRG(28, 12, 6, 4) as T(8) is: made of it by switching.

    The edges between some of its nodes and all others are exchanged for those that are not there. These nodes are pairs
    of 8 things: as edges, four that do not meet (1), a triangle and a pentagon (2), or an octagon (3).
    """
    if number not in (1, 2, 3):
        raise ValueError(f"the Chang graphs are numbered 1 to 3, got {number}")
    parts = {1: ("01", "23", "45", "67"), 2: ("012", "34567"), 3: ("01234567",)}[number]
    chosen = {frozenset(pair) for part in parts for pair in zip(part, part[1:] + part[0], strict=True)}
    inside = torch.tensor([frozenset(pair) in chosen for pair in combinations("01234567", 2)])
    return _from_adjacency(adjacency_matrix(triangular(8)) ^ (inside[:, None] ^ inside))


def latin(n: int, number: int = 0) -> Data:
    """The graph of a Latin square, SRG(n², 3(n − 1), n, 6): cells that share a row, a column or a symbol.

    Number 0 is the addition table modulo n; 1 that of bits (XOR), where n is a power of 2, or the other of order 5.
    """
    _check_size(n, 3, n * n, "a Latin square graph")
    row, column = torch.arange(n * n) // n, torch.arange(n * n) % n
    if number == 0:
        symbol = (row + column) % n
    elif number == 1 and n & (n - 1) == 0:
        symbol = row ^ column
    elif number == 1 and n == 5:
        symbol = torch.tensor([int(symbol) for symbol in LATIN_5])
    else:
        raise ValueError(f"Latin squares have number 0 or, of order 5 and powers of 2, 1; got {number} of order {n}")
    alike = [line[:, None] == line for line in (row, column, symbol)]
    return _from_adjacency((alike[0] | alike[1] | alike[2]) & ~torch.eye(n * n, dtype=torch.bool))


def paley(q: int) -> Data:
    """The Paley graph, SRG(q, (q − 1)/2, (q − 5)/4, (q − 1)/4): elements of a field whose difference is a square.

    ``q`` must be a prime or the square of one, and leave 1 when divided by 4.
    """
    _check_size(q, 5, q, "a Paley graph")
    p = isqrt(q)
    if _is_prime(q) and q % 4 == 1:
        element = torch.arange(q)
        return _from_adjacency(torch.isin((element[:, None] - element) % q, element[1:] ** 2 % q))
    if p * p != q or not _is_prime(p) or p == 2:
        raise ValueError(f"a Paley graph needs a prime of the form 4k + 1 or the square of an odd prime, got {q}")
    # The field's elements are a + b√r, numbered p·a + b, where r is no square modulo p.
    a, b = torch.arange(q) // p, torch.arange(q) % p
    r = next(r for r in range(2, p) if pow(r, (p - 1) // 2, p) == p - 1)
    squares = (a * a + r * b * b) % p * p + 2 * a * b % p
    difference = (a[:, None] - a) % p * p + (b[:, None] - b) % p
    return _from_adjacency(torch.isin(difference, squares[1:]))


def csl(n: int = CSL_NODES, skip: int = CSL_SKIPS[0]) -> Data:
    """The circular skip link graph: a cycle of n nodes, each also joined to the nodes ``skip`` steps away."""
    _check_size(n, 3, n, "a cycle")
    if not 1 <= skip <= n // 2:
        raise ValueError(f"the skip must be between 1 and n/2 = {n // 2}, got {skip}")
    return _from_networkx(nx.circulant_graph(n, [1, skip]))


def cfi(base: Data, twisted: bool = False, compact: bool = False) -> Data:
    """The graph of Cai, Fürer and Immerman over a connected base graph. The twisted one is not isomorphic to it.

    A node of the base becomes inner nodes, one for each even set of its neighbours, and two outer nodes for each
    neighbour: one joined to the sets with that neighbour, the other to those without. Across an edge of the base, with
    is joined to with and without to without; if twisted, the other way round across the first edge.

    ``compact`` leaves the outer nodes out and joins inner nodes directly (Fürer 2017); the pair over the complete graph
    of four nodes is then the rook's graph and the Shrikhande graph.
    """
    adjacency = adjacency_matrix(base)
    around: list[list[int]] = [row.nonzero().flatten().tolist() for row in adjacency]
    most = max(map(len, around), default=0)
    connected = most and nx.is_connected(nx.from_numpy_array(adjacency.numpy()))
    if not adjacency.equal(adjacency.t()) or adjacency.diagonal().any() or most < 1 or not connected:
        raise ValueError(f"the base must be connected, undirected, without self-loops and with an edge, got {base}")
    if most > MOST_CFI_DEGREE:
        raise ValueError(f"the base may have degrees up to {MOST_CFI_DEGREE}, got {most}")
    inner = [[frozenset(s) for size in range(0, len(near) + 1, 2) for s in combinations(near, size)] for near in around]
    edges: list[tuple[Hashable, Hashable]] = []
    if not compact:
        edges += [((v, s), (v, w, w in s)) for v, near in enumerate(around) for s in inner[v] for w in near]
    for number, (v, w) in enumerate(adjacency.triu().nonzero().tolist()):
        twist = twisted and number == 0
        if compact:
            edges += [((v, s), (w, t)) for s in inner[v] for t in inner[w] if ((w in s) == (v in t)) != twist]
        else:
            edges += [((v, w, side), (w, v, side != twist)) for side in (False, True)]
    return _from_networkx(nx.Graph(edges))


def coloured_pair() -> tuple[Data, Data]:
    """The example of the paper's Appendix D: two squares that share an edge, and two triangles that an edge joins.

    Nodes 2 and 3 are green, ``x`` = (0, 1), the others blue, (1, 0). Sums over neighbours cannot tell them apart.

    Example:
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> [graph.num_edges // 2 for graph in coloured_pair()]
        [7, 7]
    """
    squares = _from_networkx(nx.Graph([(0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5)]))
    triangles = _from_networkx(nx.Graph([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]))
    squares.x = triangles.x = torch.eye(2)[[0, 0, 1, 1, 0, 0]]
    return squares, triangles


def adjacency_matrix(graph: Data) -> Tensor:
    """``[N, N]`` whether there is an edge from one node to the other, however often it is listed."""
    return to_dense_adj(graph.edge_index, max_num_nodes=graph.num_nodes)[0].bool()


def _from_adjacency(adjacency: Tensor) -> Data:
    return Data(edge_index=adjacency.nonzero().t().contiguous(), num_nodes=len(adjacency))


def _from_networkx(graph: nx.Graph, nodes: Iterable[Hashable] | None = None) -> Data:
    """The graph with nodes numbered in the given order; by default that in which they were added."""
    return _from_adjacency(torch.from_numpy(nx.to_numpy_array(graph, nodes and list(nodes), dtype=bool)))


def _check_size(n: int, least: int, nodes: int, what: str) -> None:
    if n < least or nodes > MOST_NODES:
        raise ValueError(f"{what} can be made from {least} upwards and with up to {MOST_NODES} nodes, got {n}")


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))
