"""The random-walk estimator of triangles behind Theorem 4, its error, and the number of samples of its proof.

The walk runs on the ego net of a node v₀ with an artificial node joined to all of it. Its visited triples that close a
triangle, weighted by degree, give τ₀. The proof sums the triangles of all nodes of the ego net to 3τ₀, which holds only
if v₀ is in no 4-clique; counting a triple only if v₀ is among its three nodes makes it hold for every graph, and leaves
all else in the proof as it is. ``rooted=False`` is the letter of the paper.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from torch_geometric.data import Data

from pggnn.data.features.motifs import triangles
from pggnn.data.sets.classic import adjacency_matrix

CHUNK = 2**14


@dataclass(frozen=True)
class EgoNet:
    """A node v₀ (number 0), its neighbours, and in the end the artificial node, if there is one."""

    adjacency: np.ndarray
    artificial: bool
    triangles: int
    """τ₀, exact, without the artificial node."""

    @property
    def degree(self) -> int:
        """d₀, without the artificial node."""
        return len(self.adjacency) - 1 - self.artificial

    @property
    def stationary(self) -> np.ndarray:
        """The walk's stationary distribution."""
        return self.adjacency.sum(1) / self.adjacency.sum()

    def mixing_time(self, epsilon: float = 1 / 8) -> int:
        """Steps until the walk from any node is within ``epsilon`` of the stationary distribution, in variation."""
        if self.degree == 0:
            raise ValueError("a node without neighbours has no walk to mix")
        transition = self.adjacency / self.adjacency.sum(1, keepdims=True)
        reached = np.eye(len(transition))
        for steps in range(10_000):
            if np.abs(reached - self.stationary).sum(1).max() / 2 < epsilon:
                return steps
            reached = reached @ transition
        raise ValueError("the walk does not mix: this ego net has no triangle, add the artificial node")

    def samples_needed(self, epsilon: float = 1 / 8, delta: float = 0.2) -> int:
        """The proof's number of samples, with 1 for its constants c₁ and c₂, which are not known."""
        degree, closed = self.degree + self.artificial, self.triangles + self.artificial * self.degree
        scale = -log(delta / 2) * self.mixing_time(epsilon) / epsilon**2
        first = 2 + 216 * scale * degree * (degree + closed) / closed
        return ceil(max(first, 1296 * scale * (degree + closed) / (degree + 1)))


def ego_net(graph: Data, node: int, artificial: bool = True) -> EgoNet:
    """The subgraph of an undirected graph that a node and its neighbours induce."""
    nodes = int(graph.num_nodes or 0)
    if not 0 <= node < nodes:
        raise ValueError(f"the graph has nodes 0 to {nodes - 1}, got {node}")
    assert graph.edge_index is not None
    whole = adjacency_matrix(graph).numpy()
    whole = (whole | whole.T) & ~np.eye(nodes, dtype=bool)
    members = [node, *whole[node].nonzero()[0]]
    adjacency = np.pad(whole[np.ix_(members, members)], (0, artificial), constant_values=True)
    if artificial:
        adjacency[-1, -1] = False
    return EgoNet(adjacency, artificial, int(triangles(graph.edge_index, nodes)[node]))


def walk(net: EgoNet, length: int, walks: int = 100, seed: int = 0) -> Iterator[np.ndarray]:
    """The first ``length`` nodes of random walks that begin in equilibrium, in pieces ``[steps, walks]``."""
    random = np.random.default_rng(seed)
    degree = net.adjacency.sum(1)
    near = np.zeros((len(degree), degree.max()), np.int64)
    for node, row in enumerate(net.adjacency):
        near[node, : degree[node]] = row.nonzero()[0]
    here = random.choice(len(degree), walks, p=net.stationary)
    yield here[None]
    for first in range(1, length, CHUNK):
        path = np.empty((min(CHUNK, length - first), walks), np.int64)
        for step, chance in enumerate(random.random(path.shape)):
            here = path[step] = near[here, (chance * degree[here]).astype(np.int64)]
        yield path


def estimate(net: EgoNet, samples: Sequence[int], walks: int = 100, seed: int = 0, rooted: bool = True) -> np.ndarray:
    """``[len(samples), walks]`` estimates of τ₀ after the given numbers of nodes. Walks begin in equilibrium.

    z₀ = (n′ / 6) · Y₁ / Y₂ with n′ nodes, and d₀ less where there is an artificial one: Y₁ is the mean of a · d over
    consecutive triples, where a says that its ends are adjacent and d is the degree of its middle; Y₂ that of 1 / d.
    """
    if min(samples) < 3 or walks < 1:
        raise ValueError(f"expected at least 3 samples and 1 walk, got {min(samples)} and {walks}")
    if net.degree == 0:
        return np.zeros((len(samples), walks))
    degree = net.adjacency.sum(1)
    path = np.full((2, walks), -1)  # before the first node there is none
    closed, inverse = np.zeros((2, walks))
    found = np.empty((len(samples), walks))
    seen = 0
    for piece in walk(net, max(samples), walks, seed):
        path = np.concatenate([path[-2:], piece])
        before, middle, after = path[:-2], path[1:-1], path[2:]
        is_closed = net.adjacency[before, after] & (before >= 0)
        if rooted:
            is_closed &= (before == 0) | (middle == 0) | (after == 0)
        each_closed, each_inverse = is_closed * degree[middle], 1 / degree[after]
        for place, last in enumerate(samples):
            if seen < last <= seen + len(piece):
                part = slice(last - seen)
                ratio = (closed + each_closed[part].sum(0)) / (last - 2) / (inverse + each_inverse[part].sum(0)) * last
                found[place] = len(degree) / 6 * ratio
        closed, inverse, seen = closed + each_closed.sum(0), inverse + each_inverse.sum(0), seen + len(piece)
    return found - net.degree * net.artificial
