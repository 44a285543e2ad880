"""Finds the rings, paths and hops of one graph: lists of nodes to read, as a node reads its neighbours.

Each function returns ``index`` (``[P]`` nodes of all lists, one list after the other) and ``size`` (``[R]`` length of
each list), both int64, as :func:`pggnn.neighbourhoods.own_lists` takes them. Edges may be given in any order, in one
direction or both; self-loops and repeated edges do not count. None of this changes the result.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pggnn.neighbourhoods import check_edges, whole


def find_rings(
    edge_index: Tensor, num_nodes: int, max_size: int = 18, chords: bool = False, limit: int = 10_000
) -> tuple[Tensor, Tensor]:
    """Every ring once, in cyclic order: from its smallest node, towards the smaller of that node's two neighbours.

    Rings are in lexicographic order.

    Args:
        edge_index: ``[2, E]``, int64.
        num_nodes: Number of nodes.
        max_size: Most nodes of a ring, at least 3.
        chords: Also rings with chords: edges between nodes that do not follow each other, as in naphthalene's 10-ring.
        limit: Most rings. A graph with more is refused, and so is a search of more than 500 steps for each of them.

    Example:
        >>> import torch
        >>> from pggnn.search import find_rings
        >>> square = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])  # with one diagonal
        >>> find_rings(square, 4)[1], find_rings(square, 4, chords=True)[1]
        (tensor([3, 3]), tensor([3, 4, 3]))
    """
    what = f"{'simple' if chords else 'chordless'} cycles of 3 to {max_size} nodes"
    neighbours = _neighbours(edge_index, num_nodes)
    search = _Search(neighbours, what, "max_size", max_size, 3, limit, 500)
    _drop_ends(neighbours, range(num_nodes))
    for root in range(num_nodes):
        near = sorted(neighbours[root])
        for i in range(1, len(near)):
            _find_rings_at(search, root, near[:i], near[i:], chords)
        for node in near:  # the root's rings are all found
            neighbours[node].remove(root)
        neighbours[root] = set()
        _drop_ends(neighbours, near)
    return _flat(sorted(search.found), edge_index.device)


def find_paths(
    edge_index: Tensor, num_nodes: int, length: int, shortest: bool = False, limit: int = 100_000
) -> tuple[Tensor, Tensor]:
    """Every path of 2 to ``length`` edges once, without a node twice, from the smaller of its ends to the larger.

    A path of one edge is left out: a node's neighbours are read as its star. Paths are in lexicographic order.

    Args:
        edge_index: ``[2, E]``, int64.
        num_nodes: Number of nodes.
        length: Most edges of a path, at least 2.
        shortest: Only paths whose ends no shorter path joins.
        limit: Most paths. A graph with more is refused, and so is a search of more than 100 steps for each of them.

    Example:
        >>> import torch
        >>> from pggnn.search import find_paths
        >>> find_paths(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4, length=3)
        (tensor([0, 1, 2, 0, 1, 2, 3, 1, 2, 3]), tensor([3, 4, 3]))
    """
    what = f"{'shortest' if shortest else 'simple'} paths of 2 to {length} edges"
    neighbours = _neighbours(edge_index, num_nodes)
    search = _Search(neighbours, what, "length", length, 2, limit, 100)
    for start in range(num_nodes):
        layers = [*search.layers({start}, set(), length), set()] if shortest else []
        stack: list[tuple[int, ...]] = [(start,)]
        while stack:
            path = stack.pop()
            near, edges = neighbours[path[-1]], len(path)
            search.spend(len(near) + edges)
            for node in near & layers[edges] if shortest else near.difference(path):
                if edges > 1 and node > start:
                    search.add((*path, node))
                if edges < length:
                    stack.append((*path, node))
    return _flat(sorted(search.found), edge_index.device)


def find_hops(edge_index: Tensor, num_nodes: int, hops: int, limit: int = 1_000_000) -> tuple[Tensor, Tensor, Tensor]:
    """For each node and each distance from 1 to ``hops``: the node, then all nodes at that distance, rising.

    There is no list for a distance at which a node has none. Lists are in the order of nodes, then of distances.

    Args:
        edge_index: ``[2, E]``, int64.
        num_nodes: Number of nodes.
        hops: Largest distance, at least 1.
        limit: Most places of all lists. A graph with more is refused, and so is a search of more than 10 steps for
            each of them.

    Returns:
        ``index``, ``size``, and ``distance``: ``[R]`` distance of each list.

    Example:
        >>> import torch
        >>> from pggnn.search import find_hops
        >>> index, size, distance = find_hops(torch.tensor([[0, 1], [1, 2]]), 3, hops=2)
        >>> size, distance
        (tensor([2, 2, 3, 2, 2]), tensor([1, 2, 1, 1, 2]))
    """
    search = _Search(_neighbours(edge_index, num_nodes), f"places within distance {hops}", "hops", hops, 1, limit, 10)
    distances: list[int] = []
    for node in range(num_nodes):
        for distance, layer in enumerate(search.layers({node}, set(), hops)):
            if distance > 0:
                search.add((node, *sorted(layer)), len(layer) + 1)
                distances.append(distance)
    device = edge_index.device
    return *_flat(search.found, device), torch.tensor(distances, dtype=torch.long, device=device)


class TooMany(ValueError):
    """A graph has more lists than the limit, or their search takes too long.

    Args:
        found: What was found.
        advice: What to do.
    """

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}; {advice}")
        self.found, self.advice = found, advice


@dataclass
class _Search:
    """What a search has found, and an error once it finds too much or takes too long."""

    neighbours: list[set[int]]
    what: str
    option: str
    """Name of the option that bounds the search, its value and the least one."""
    size: int
    least: int
    limit: int
    steps_each: int
    found: list[tuple[int, ...]] = field(default_factory=list)
    number: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        for name, value, least in ((self.option, self.size, self.least), ("limit", self.limit, 1)):
            if whole(name, value) < least:
                raise ValueError(f"{name} must be {least} or more, got {value}")

    @property
    def advice(self) -> str:
        """What to do about too many."""
        return f"lower {self.option}={self.size}, or raise limit={self.limit}"

    def add(self, nodes: tuple[int, ...], number: int = 1) -> None:
        """Keeps a list, and counts it."""
        self.found.append(nodes)
        self.number += number
        if self.number > self.limit:
            raise TooMany(
                f"a graph of {len(self.neighbours):,} nodes has more than {self.limit:,} {self.what}", self.advice
            )

    def spend(self, steps: int) -> None:
        """Counts nodes that were looked at or copied."""
        self.steps += steps
        if self.steps > self.steps_each * self.limit:
            raise TooMany(
                f"the search for {self.what} in a graph of {len(self.neighbours):,} nodes found {self.number:,} and "
                f"did not end within {self.steps_each * self.limit:,} steps, {self.steps_each} times the limit",
                self.advice,
            )

    def layers(self, layer: set[int], seen: set[int], most: int) -> Iterator[set[int]]:
        """Breadth-first: the given layer, then up to ``most`` more, each the nodes next to the one before."""
        yield layer
        for _ in range(most):
            seen = seen | layer
            if len(seen) == len(self.neighbours):
                return
            near = [self.neighbours[node] for node in layer]
            self.spend(len(seen) + sum(map(len, near)))
            layer = set().union(*near) - seen
            if not layer:
                return
            yield layer


def _find_rings_at(search: _Search, root: int, starts: list[int], ends: list[int], chords: bool) -> None:
    """Depth-first: rings that leave the root for the last of ``starts`` and return to it from one of ``ends``.

    All are neighbours of the root, rising, so no ring is found in both directions.
    """
    closed = {root, starts[-1]} if chords else {root, *starts}  # any other of the starts would make a chord
    half = search.size // 2
    layers = search.layers(set(ends), closed, half - 1)
    distance = {node: d for d, layer in enumerate(layers, 1) for node in layer}  # to the root, up to half
    stack: list[tuple[tuple[int, ...], set[int]]] = [((root, starts[-1]), closed)]
    while stack:
        path, closed = stack.pop()
        near, left = search.neighbours[path[-1]], search.size - len(path)
        search.spend(len(near) + len(closed))
        inner: set[int] | None = None
        for node in near - closed:
            back = distance.get(node, half + 1)
            if back > left:
                continue
            if back == 1:
                search.add((*path, node))
                if not chords:
                    continue
            if chords:
                inner = closed | {node}
            elif inner is None:  # a further node beside one inside the path would make a chord
                inner = closed | near
            stack.append(((*path, node), inner))


def _neighbours(edge_index: Tensor, num_nodes: int) -> list[set[int]]:
    """The neighbours of each node, along edges of either direction. Checks the edges."""
    edges = check_edges(edge_index, whole("num_nodes", num_nodes))[0].tolist()
    neighbours: list[set[int]] = [set() for _ in range(num_nodes)]
    for a, b in zip(*edges, strict=True):
        if a != b:
            neighbours[a].add(b)
            neighbours[b].add(a)
    return neighbours


def _drop_ends(neighbours: list[set[int]], nodes: Iterable[int]) -> None:
    """Removes the edges of nodes that have one, again and again: no ring has them. What is left is the 2-core."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if len(neighbours[node]) == 1:
            other = neighbours[node].pop()
            neighbours[other].remove(node)
            stack.append(other)


def _flat(lists: list[tuple[int, ...]], device: torch.device) -> tuple[Tensor, Tensor]:
    """All lists one after the other, and their lengths."""
    members = [node for nodes in lists for node in nodes]
    sizes = [len(nodes) for nodes in lists]
    return (
        torch.tensor(members, dtype=torch.long, device=device),
        torch.tensor(sizes, dtype=torch.long, device=device),
    )
