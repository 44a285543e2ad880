"""The paper's claims, each as a check that says what it looked at and whether it held.

Claims about arrangements are checked on what a layer reads, :meth:`pggnn.orderings.Reading.slot`, and on ``PGConv``.
The permutations of :mod:`pggnn.groups` are the definition to compare with.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GINConv

from pggnn import groups
from pggnn.data.features.motifs import triangles
from pggnn.data.sets.classic import adjacency_matrix, complete, csl, cycle, rook, shrikhande
from pggnn.data.sets.counting import erdos_renyi
from pggnn.lab.appendix import appendix_d, graphsage
from pggnn.lab.check import Check
from pggnn.lab.construction import CountingConv, NextCountingConv, WalkingConv
from pggnn.lab.named_graphs import read_graph
from pggnn.lab.refinement.wl import k_wl
from pggnn.lab.walks import ego_net, estimate, walk
from pggnn.nn import PGConv
from pggnn.orderings import Frame, Reading
from pggnn.testing import DEGREES, random_graph, renumbered

EPSILON, DELTA = 1 / 8, 0.2
WALKS = (3, 10, 100, 1000)
"""Lengths of the walks that the constructed RNN reads."""


def sequences_read(n: int, frame: Frame = "merged") -> np.ndarray:
    """``[|𝔊|, steps]``: the neighbour that a layer reads at each step, and -1 for the centre."""
    reading = Reading(frame=frame)
    return reading.slot(np.arange(reading.count(n))[:, None], np.arange(reading.length(n))[None], n)


def arrangements_read(n: int) -> np.ndarray:
    """``[|𝔊|, n]``: the neighbours between the two ends of the default layer's sequences."""
    return sequences_read(n)[:, 1:-1]


def theorem_1(largest: int = 200) -> Check:
    """Arrangements that cover all pairs."""
    holds = True
    for n in range(4, largest + 1):
        pairs, disjoint, covering = n * (n - 1) // 2, (n - 1) // 2, n // 2
        rings = sequences_read(n, "closed")
        apart = rings if n % 2 else _powers_of_the_proof(n)
        holds &= _pairs_covered(apart[:disjoint]) == disjoint * n <= pairs < (disjoint + 1) * n
        holds &= _pairs_covered(rings[:covering]) == pairs > (covering - 1) * n
        holds &= _pairs_covered(rings, ordered=True) == 2 * pairs
        holds &= _pairs_covered(arrangements_read(n)) == pairs
    return Check(
        holds,
        f"n = 4…{largest}: ⌊(n−1)/2⌋ arrangements (as read for odd n, of the proof's σ′ for even n) share no pair, and "
        "more cannot; the first ⌊n/2⌋ that a layer reads cover all n(n−1)/2 pairs, and fewer cannot; all of them cover "
        "both directions as rings (Eq. 3), and every pair as open sequences with v at both ends",
    )


def lemma_2(largest: int = 200, tables: int = 24) -> Check:
    """The powers of σ are a cyclic group."""
    holds = True
    for n in range(1, largest + 1):
        elements = arrangements_read(n)
        size = len(elements)
        holds &= size == max(n - n % 2, 1) == len(np.unique(elements, axis=0))
        holds &= np.array_equal(elements[1 % size], groups.sigma(n).images)
        holds &= np.array_equal(elements[(np.arange(size) + 1) % size], elements[1 % size][elements])
        holds &= np.array_equal(elements[0], np.arange(n))
        if n <= tables:
            power = np.add.outer(np.arange(size), np.arange(size)) % size
            holds &= np.array_equal(elements[power], elements[:, elements])
    return Check(
        bool(holds),
        f"n = 1…{largest}: a layer reads e, σ, σ², … with σ of Eq. 2: n (even) or n − 1 (odd) different permutations, "
        f"and then e again; n = 1…{tables}: σⁱσʲ = σⁱ⁺ʲ for all i, j, as in Z",
    )


@torch.no_grad()
def corollary_3(largest: int = 24, layers: int = 9) -> Check:
    """The group acts on the neighbours."""
    holds = True
    for n in range(1, largest + 1):
        action = arrangements_read(n)
        elements = [*groups.group(n)]
        place = {g: k for k, g in enumerate(elements)}
        holds &= np.array_equal(action, [g.images for g in elements]) and np.array_equal(action[0], np.arange(n))
        holds = holds and all(
            np.array_equal(action[place[g * h]], action[i][action[j]])
            for i, g in enumerate(elements)
            for j, h in enumerate(elements)
        )
    inside, outside = 0.0, float("inf")
    for n in range(2, layers + 1):
        same, other = _changes_by_renumbering(n)
        inside, outside = max(inside, same), min(outside, other if n > 3 else outside)
    holds &= inside < 1e-10 < 1e-6 < outside
    return Check(
        bool(holds),
        f"n = 1…{largest}: e·s = s and (gh)·s = g·(h·s) for all g, h ∈ 𝔊 and s ∈ S, with g·s as a layer reads it. "
        f"n = 2…{layers}: PGConv's output is the same to 1e-10 when neighbours are renumbered by an element of 𝔊, and "
        "changes when the first two are swapped (n > 3)",
    )


def equation_6(graphs: int = 100) -> Check:
    """Triangles as a matrix product."""
    holds = True
    for graph, a in _random_graphs(graphs):
        listed, cycles = np.zeros((2, len(a)), int)
        d = _directed(a)
        for u, v, w in combinations(range(len(a)), 3):
            listed[[u, v, w]] += a[u, v] & a[v, w] & a[u, w]
            cycles[[u, v, w]] += (d[u, v] & d[v, w] & d[w, u]) + (d[u, w] & d[w, v] & d[v, u])
        holds &= bool(((a @ a * a).sum(1) == 2 * listed).all()) and bool(((d @ d * d.T).sum(1) == cycles).all())
        holds &= triangles(graph.edge_index, len(a)).tolist() == listed.tolist()
        holds &= triangles(_edges(d), len(a), directed=True).tolist() == cycles.tolist()
    return Check(
        holds,
        f"{graphs} random graphs: ½ A² ⊙ A · 1 counts the triangles that were listed one by one, and A² ⊙ Aᵀ · 1 the "
        "directed ones",
    )


def trace(graphs: int = 500) -> Check:
    """The trace of A³."""
    holds = True
    for graph, a in _random_graphs(graphs):
        found = int(triangles(graph.edge_index, len(a)).sum())
        d = _directed(a)
        directed = int(triangles(_edges(d), len(a), directed=True).sum())
        holds &= 2 * found == int(np.trace(a @ a @ a)) and directed == int(np.trace(d @ d @ d))
    return Check(holds, f"{graphs} random graphs: 1ᵀτ = tr(A³)/2, and tr(A³) for directed graphs")


def theorem_4(walks: int = 40, graphs: tuple[Data, ...] = (complete(3), csl(7, 2))) -> Check:
    """The random-walk estimator, after as many samples as the proof asks for, and the RNN that is this estimator."""
    holds, found = True, []
    for graph in graphs:
        net = ego_net(graph, 0)
        samples = net.samples_needed(EPSILON, DELTA)
        error = np.abs(estimate(net, [samples], walks)[0] - net.triangles)
        share = float((error <= EPSILON * net.triangles).mean())
        holds &= share >= 1 - DELTA
        found.append(
            f"d = {net.degree}, τ = {net.triangles}: within ε in {share:.0%} of {walks} walks of {samples:,} samples "
            f"(largest error {error.max():.3f})"
        )
    holds &= rnn_difference() < 1e-10
    net = ego_net(complete(5), 0)
    letter = estimate(net, [20_000], walks, rooted=False).mean()
    return Check(
        holds,
        f"ε = 1/8, δ = {DELTA}, artificial node, 1 for the constants c₁, c₂ that are not known; {'; '.join(found)}. "
        "One PGConv with constructed weights (SRN with ReLU) reads walks as a node's neighbours and gives both sums "
        f"of the estimator; their ratio is the estimate to 1e-10, at all nodes of two random graphs, for walks of "
        f"{', '.join(map(str, WALKS[:-1]))} and {WALKS[-1]:,} samples",
        "The proof's Σ τ′ᵢ = 3τ₀ counts only triangles at v₀, but the ego net has others: with the artificial node the "
        "estimator as it is written tends to 2τ₀ + κ₀ (κ₀: 4-cliques at v₀). In K₅, where τ₀ = 6 and κ₀ = 4, it gives "
        f"{letter:.2f}. Checked here is the same estimator with triples counted only if v₀ is among their nodes. The "
        "proof bounds its error by ε(d₀ + τ₀), ε being relative to τ₀⁽ᵃ⁾; those found are within the theorem's ετ₀. "
        "The RNN's inputs are the nodes' numbers, adjacency rows and degrees in the ego net, not the degrees d_v "
        "alone. Not checked: that an RNN gives the ratio of its two sums; it is taken outside.",
    )


def rnn_difference() -> float:
    """The largest difference between the estimator and the RNN that is constructed to be it."""
    layer, largest = WalkingConv(10), 0.0
    for graph in erdos_renyi(2, 8, 0.6):
        for net in (ego_net(graph, node) for node in range(8)):
            for samples in WALKS:
                read = layer(net, np.concatenate([*walk(net, samples, 3)]))
                largest = max(largest, float(np.abs(read - estimate(net, [samples], 3)[0]).max()))
    return largest


def proposition_5(graphs: int = 20, numberings: int = 20) -> Check:
    """Between the tests: what PG-GNN can do that 2-WL and 3-WL cannot."""
    holds = gin_difference() < 1e-5
    with torch.no_grad():
        two_triangles, hexagon = read_graph("cycle:3+cycle:3"), cycle(6)
        holds &= not k_wl(two_triangles, hexagon, 2).apart and not k_wl(rook(), shrikhande(), 3).apart
        for graph, expected in ((two_triangles, (1, 0)), (hexagon, (0, 0)), (rook(), (6, 2)), (shrikhande(), (6, 0))):
            layer = CountingConv(int(graph.num_nodes or 0))
            for seed in range(numberings):
                graph.edge_index = renumbered(graph.edge_index, seed)
                counted = (set(count.tolist()) for count in layer(graph))
                holds &= all(count == {number} for count, number in zip(counted, expected, strict=True))
        remembering = CountingConv(10), CountingConv(10, orderings="single")
        whole, single = NextCountingConv(10), NextCountingConv(10, orderings=1)
        wrong = []
        for graph in erdos_renyi(graphs, 10, 0.5):
            exact = triangles(graph.edge_index, 10)
            holds &= all(torch.equal(layer(graph)[0].long(), exact) for layer in remembering)
            holds &= torch.equal(whole(graph), exact.float())
            wrong.append((single(graph) != exact).float().mean())
        share = float(torch.stack(wrong).mean())
        holds &= share > 0
    return Check(
        bool(holds),
        "GIN is PGConv with an SRN (U = I, identity). 2-WL cannot tell two triangles from a hexagon, nor 3-WL the "
        "rook's from the Shrikhande graph. PGConv can, with constructed weights and distinguishable nodes: it counts 1 "
        f"and 0 triangles, 2 and 0 4-cliques at every node, in {numberings} numberings, and the triangles of {graphs} "
        "random graphs. With a memory of one node it counts the triangles of these graphs, too, as the group brings "
        f"each pair side by side; a single ordering is then wrong at {share:.0%} of the nodes",
        "With constant features PG-GNN sees no more than 1-WL: the claim needs distinguishable nodes. It says that a "
        "layer can count, not that the group matters: weights that remember all nodes read so far count with a single "
        "ordering as well. The group matters where the memory is short, as in the last sentence above.",
    )


@torch.no_grad()
def linear_group(largest: int = 40) -> Check:
    """The linear cell's sum over the group, without its arrangements."""
    difference = 0.0
    for n in range(largest + 1):
        torch.manual_seed(n)
        conv = PGConv(4, 6, cell="linear").double()
        x, edges = (
            torch.randn(n + 1, 4, dtype=torch.double),
            torch.stack([torch.arange(1, n + 1), torch.zeros(n).long()]),
        )
        ends = conv.rnn(x)
        a, b = (conv.rnn(x) + conv.lin_center(x[:1])).chunk(2, dim=1)
        total = torch.zeros(6, dtype=torch.double)
        for element in groups.group(n):
            h = ends[0, 6:].relu()
            for j in element.images:
                h = a[1 + j].sigmoid() * h + b[1 + j].relu()
            total += ends[0, :6].sigmoid() * h + ends[0, 6:].relu()
        difference = max(difference, float(((conv(x, edges)[0] - total).abs() / (1 + total.abs())).max()))
    return Check(
        difference < 1e-10,
        f"n = 0…{largest}: PGConv with the linear cell joins arcs of σ's cycle in O(n) steps. Its output is the sum "
        "over all arrangements, one by one, to 1e-10",
    )


@torch.no_grad()
def gin_difference() -> float:
    """The largest difference between GIN with ε = 1 and PGConv with U = I and identity activation.

    v stands at both ends of a sequence, so ε is 1; the whole group gives |𝔊| times the sum.
    """
    x, edge_index = torch.randn(len(DEGREES), 4, generator=torch.Generator().manual_seed(0)), random_graph()
    linear = torch.nn.Linear(4, 6, bias=False)
    expected = GINConv(linear, eps=1.0)(x, edge_index)
    differences = []
    for conv, times in (
        (PGConv(4, 6, cell="srn-identity", num_layers=1, orderings="single"), torch.ones(len(DEGREES))),
        (PGConv(4, 6, cell="srn-identity", num_layers=1), Reading().count(torch.tensor(DEGREES))),
    ):
        conv.rnn.weight_ih_l0.data = linear.weight.data
        conv.rnn.weight_hh_l0.data = torch.eye(6)
        differences.append(float((conv(x, edge_index) / times[:, None] - expected).abs().max()))
    return max(differences)


def _powers_of_the_proof(n: int) -> np.ndarray:
    """Rings of the powers of the proof's σ′, which for even n differs from σ: it fixes the first neighbour."""
    cycle = (*range(1, n, 2), *reversed(range(2, n, 2)))
    step = np.arange(n)
    step[[*cycle]] = np.roll(cycle, -1)
    rings = [np.arange(n)]
    for _ in range(n - 2):
        rings.append(step[rings[-1]])
    return np.stack([[*ring, ring[0]] for ring in rings])


def _pairs_covered(sequences: np.ndarray, ordered: bool = False) -> int:
    """Different pairs of neighbours that are read one after the other."""
    first, second = sequences[:, :-1], sequences[:, 1:]
    if not ordered:
        first, second = np.minimum(first, second), np.maximum(first, second)
    return len(np.unique(first * sequences.shape[1] + second))


def _changes_by_renumbering(n: int) -> tuple[float, float]:
    """How far the output of a layer with random weights changes when n neighbours are renumbered by elements of 𝔊, at
    most, and when the first two are swapped. The larger of both for v at the ends and for rings."""
    torch.manual_seed(0)
    swapped = (1, 0, *range(2, n))
    numberings = torch.tensor([*(g.images for g in groups.group(n)), swapped])
    edges = torch.stack([numberings.flatten(), torch.arange(len(numberings)).repeat_interleave(n)])
    x, center = torch.randn(n, 4, dtype=torch.double), torch.randn(1, 4, dtype=torch.double)
    changes = []
    for root in ("merged", "linear"):
        conv = PGConv(4, 6, root=root).double()
        out = conv((x, center.expand(len(numberings), -1)), edges)
        changes.append((out - out[0]).abs().amax(1))
    *inside, outside = torch.stack(changes).amax(0).tolist()
    return max(inside), outside


def _random_graphs(graphs: int) -> list[tuple[Data, np.ndarray]]:
    drawn = []
    for nodes, probability in ((8, 0.7), (12, 0.3)):
        for graph in erdos_renyi(graphs // 2, nodes, probability):
            drawn.append((graph, adjacency_matrix(graph).long().numpy()))
    return drawn


def _directed(adjacency: np.ndarray) -> np.ndarray:
    """Some of the edges, each in one direction or both."""
    return adjacency * (np.random.default_rng(0).random(adjacency.shape) < 0.6)


def _edges(adjacency: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack(adjacency.nonzero()))


CLAIMS: dict[str, Callable[[], Check]] = {
    "Theorem 1": theorem_1,
    "Lemma 2": lemma_2,
    "Corollary 3": corollary_3,
    "Eq. 6": equation_6,
    "tr(A³)/2": trace,
    "Theorem 4": theorem_4,
    "Proposition 5": proposition_5,
    "Linear cell": linear_group,
    "Appendix D": appendix_d,
    "GraphSAGE": graphsage,
}
