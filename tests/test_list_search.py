"""Rings, paths and hops, against networkx and against molecules whose rings are known."""

from collections import Counter
from itertools import combinations

import networkx as nx
import pytest
import torch

from pggnn.data.loading import load
from pggnn.neighbourhoods import own_lists
from pggnn.search import find_hops, find_paths, find_rings


def edges_of(graph):
    """A networkx graph, with nodes 0, 1, …, as edges and their number of nodes."""
    return torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).t(), len(graph)


def listed(index, size, *rest):
    return [tuple(part.tolist()) for part in index.split(size.tolist())]


def molecule(graph):
    return edges_of(nx.convert_node_labels_to_integers(graph))


def fullerene():
    """C60: a ball of atoms around each corner of an icosahedron, one on each edge that meets there."""
    corners, atoms = nx.icosahedral_graph(), nx.Graph()
    atoms.add_edges_from(((u, v), (v, u)) for u, v in corners.edges)
    for u in corners:
        atoms.add_edges_from(((u, a), (u, b)) for a, b in combinations(corners[u], 2) if corners.has_edge(a, b))
    return atoms


def random_graphs(number, most_nodes=11):
    for seed in range(number):
        draw = torch.Generator().manual_seed(seed)
        nodes, density = (
            int(torch.randint(1, most_nodes + 1, (), generator=draw)),
            torch.rand((), generator=draw).item(),
        )
        yield nx.gnp_random_graph(nodes, density, seed=seed), int(torch.randint(3, 8, (), generator=draw))


def from_smallest(ring):
    at = ring.index(min(ring))
    turned = (*ring[at:], *ring[:at])
    return turned if turned[1] < turned[-1] else (turned[0], *turned[:0:-1])


def test_rings_are_those_of_networkx():
    for graph, most in random_graphs(300):
        for chords, search in ((False, nx.chordless_cycles), (True, nx.simple_cycles)):
            expected = sorted(from_smallest(ring) for ring in search(graph, length_bound=most))
            assert listed(*find_rings(*edges_of(graph), most, chords, limit=100_000)) == expected


def test_rings_of_sparse_graphs_are_those_of_networkx():
    """Here rings are long, and the search ends where the way back is too far."""
    for seed in range(40):
        graph = nx.random_regular_graph(3, 16, seed=seed)
        graph.remove_edges_from(list(graph.edges)[:: 3 + seed % 5])
        for most in (4, 7, 9, 12, 16, 18):
            for chords, search in ((False, nx.chordless_cycles), (True, nx.simple_cycles)):
                expected = sorted(from_smallest(ring) for ring in search(graph, length_bound=most))
                assert listed(*find_rings(*edges_of(graph), most, chords)) == expected


def test_paths_are_those_of_networkx():
    for graph, most in random_graphs(100, most_nodes=8):
        most = min(most, 5)
        ends = list(combinations(graph, 2))
        simple = [tuple(path) for u, v in ends for path in nx.all_simple_paths(graph, u, v, most) if len(path) > 2]
        assert listed(*find_paths(*edges_of(graph), most)) == sorted(simple)
        joined = [(u, v) for u, v in ends if nx.has_path(graph, u, v)]
        shortest = [tuple(path) for u, v in joined for path in nx.all_shortest_paths(graph, u, v)]
        expected = sorted(path for path in shortest if 3 <= len(path) <= most + 1)
        assert listed(*find_paths(*edges_of(graph), most, shortest=True)) == expected


def test_hops_are_those_of_networkx():
    for graph, _ in random_graphs(100):
        for hops in (1, 2, 4):
            expected = {}
            for node in graph:
                for other, distance in sorted(nx.single_source_shortest_path_length(graph, node, hops).items()):
                    if distance > 0:
                        expected.setdefault((node, distance), [node]).append(other)
            index, size, distance = find_hops(*edges_of(graph), hops)
            found = listed(index, size)
            starts = [nodes[0] for nodes in found]
            assert list(zip(starts, distance.tolist(), strict=True)) == sorted(expected)
            assert found == [tuple(expected[key]) for key in sorted(expected)]


@pytest.mark.parametrize(
    ("graph", "sizes", "with_chords"),
    [
        (nx.cycle_graph(6), {6: 1}, {6: 1}),
        (nx.hexagonal_lattice_graph(1, 2), {6: 2}, {6: 2, 10: 1}),  # naphthalene
        (nx.hexagonal_lattice_graph(1, 3), {6: 3}, {6: 3, 10: 2, 14: 1}),  # anthracene
        (nx.hypercube_graph(3), {4: 6, 6: 4}, {4: 6, 6: 16, 8: 6}),  # cubane
        (nx.balanced_tree(2, 4), {}, {}),
        (nx.path_graph(1), {}, {}),
        (nx.empty_graph(0), {}, {}),
    ],
)
def test_rings_of_molecules(graph, sizes, with_chords):
    edges = molecule(graph)
    assert Counter(map(len, listed(*find_rings(*edges)))) == sizes
    assert Counter(map(len, listed(*find_rings(*edges, chords=True)))) == with_chords


def test_fullerene_has_12_pentagons_and_20_hexagons():
    edges = molecule(fullerene())
    assert Counter(map(len, listed(*find_rings(*edges, max_size=6)))) == {5: 12, 6: 20}
    assert Counter(map(len, listed(*find_rings(*edges, max_size=5)))) == {5: 12}


def test_least_and_largest_ring():
    assert listed(*find_rings(*edges_of(nx.complete_graph(3)), max_size=3)) == [(0, 1, 2)]
    assert listed(*find_rings(*edges_of(nx.cycle_graph(2000)), max_size=2000)) == [(*range(2000),)]
    assert listed(*find_rings(*edges_of(nx.cycle_graph(2000)), max_size=1999)) == []


@pytest.mark.parametrize(
    "find", [find_rings, lambda *graph: find_paths(*graph, 3), lambda *graph: find_hops(*graph, 2)]
)
def test_order_and_direction_of_edges_do_not_matter(find):
    edge_index, nodes = molecule(nx.hexagonal_lattice_graph(2, 3))
    expected = find(edge_index, nodes)
    loops = torch.arange(nodes).repeat(2, 1)
    for edges in (edge_index.flip(0), torch.cat([edge_index, loops, edge_index.flip(0), edge_index[:, :5]], dim=1)):
        found = find(edges[:, torch.randperm(edges.size(1))], nodes)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert all(part.dtype == torch.long for part in found)


@pytest.mark.parametrize("nodes", [0, 5])
def test_a_graph_without_edges_has_empty_lists(nodes):
    edges = torch.empty(2, 0, dtype=torch.long)
    for found in (find_rings(edges, nodes), find_paths(edges, nodes, 3), find_hops(edges, nodes, 2)):
        assert all(part.shape == (0,) and part.dtype == torch.long for part in found)
        assert own_lists(*found[:2], nodes)[1] == nodes


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (
            find_rings,
            r"graph of 50 nodes has more than 10,000 chordless cycles of 3 to 18.*lower max_size=18, or raise",
        ),
        (lambda *graph: find_rings(*graph, chords=True), "more than 10,000 simple cycles"),
        (lambda *graph: find_paths(*graph, 4), "more than 100,000 simple paths of 2 to 4 edges; lower length=4"),
        (lambda *graph: find_hops(*graph, 1, limit=2000), "more than 2,000 places within distance 1; lower hops=1"),
        (lambda *graph: find_hops(*graph, 2, limit=3000), r"did not end within 30,000 steps.*or raise limit=3000"),
        (lambda *graph: find_paths(*graph, 4, True, limit=100), "found 0 and did not end within 10,000 steps"),
    ],
)
def test_a_complete_graph_is_refused_at_once(find, message):
    edge_index, _ = edges_of(nx.complete_graph(49))
    with pytest.raises(ValueError, match=message):
        find(edge_index, 50)  # beside a node that no search reaches


def test_a_long_search_that_finds_little_is_refused():
    graph = edges_of(nx.random_regular_graph(3, 2000, seed=0))
    with pytest.raises(ValueError, match=r"found \d\d and did not end within 100,000 steps.*lower max_size=9"):
        find_rings(*graph, max_size=9, limit=200)
    assert len(find_rings(*graph, max_size=9)[1]) < 200


def test_what_has_no_ring_is_not_searched():
    """A tree on a ring takes no step, however its nodes are numbered."""
    graph = nx.disjoint_union(nx.cycle_graph(3), nx.balanced_tree(2, 9))
    graph.add_edge(0, 3)
    edge_index, nodes = edges_of(graph)
    assert len(find_rings(torch.randperm(nodes)[edge_index], nodes, limit=1)[1]) == 1


def test_limit_is_how_many_there_may_be():
    edges = edges_of(nx.complete_graph(5))
    for find, number in (
        (lambda limit: find_rings(*edges, limit=limit)[1].numel(), 10),
        (lambda limit: find_paths(*edges, 2, limit=limit)[1].numel(), 30),
        (lambda limit: find_hops(*edges, 1, limit=limit)[0].numel(), 25),
    ):
        assert find(number) == number
        with pytest.raises(ValueError, match=f"more than {number - 1} "):
            find(number - 1)


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (lambda *graph: find_rings(*graph, max_size=2), "max_size must be 3 or more, got 2"),
        (lambda *graph: find_paths(*graph, 1), "length must be 2 or more, got 1"),
        (lambda *graph: find_hops(*graph, 0), "hops must be 1 or more, got 0"),
        (lambda *graph: find_rings(*graph, limit=0), "limit must be 1 or more, got 0"),
        (lambda edges, nodes: find_rings(edges, nodes - 1), "refers to node 5, but there are 5 nodes"),
        (lambda *graph: find_rings(*graph, max_size=4.0), "max_size must be a whole number, got 4.0"),
        (lambda *graph: find_paths(*graph, None), "length must be a whole number, got None"),
        (lambda *graph: find_hops(*graph, 2, limit="1"), "limit must be a whole number, got '1'"),
        (lambda edges, nodes: find_hops(edges, float(nodes), 2), "num_nodes must be a whole number, got 6.0"),
    ],
)
def test_what_cannot_be_found_is_refused(find, message):
    with pytest.raises((ValueError, IndexError, TypeError), match=message):
        find(*edges_of(nx.cycle_graph(6)))


@pytest.mark.parametrize("graph", [nx.hexagonal_lattice_graph(9, 9), nx.hexagonal_lattice_graph(1, 50), fullerene()])
def test_large_molecules_are_searched_to_the_end(graph):
    """Measured: 25 to 50 ms. A search that takes too many steps is refused."""
    assert len(find_rings(*molecule(graph))[1]) > 0


def test_rings_of_zinc(data_root):
    """2.78 chordless rings in a training molecule, 95 % of 5 or 6 atoms; 63 % of atoms lie in one. Every fifth is read:
    all of them have 27,833 rings."""
    molecules = load("ZINC", data_root, split="train")[::5]
    sizes, atoms, inside = Counter(), 0, 0
    for data in molecules:
        index, size = find_rings(data.edge_index, data.num_nodes)
        sizes.update(size.tolist())
        atoms, inside = atoms + data.num_nodes, inside + len(set(index.tolist()))
    assert sizes.total() / len(molecules) == pytest.approx(2.783, abs=0.01)
    assert (sizes[5] + sizes[6]) / sizes.total() == pytest.approx(0.955, abs=0.005)
    assert inside / atoms == pytest.approx(0.633, abs=0.005)
    assert max(sizes) == 18
