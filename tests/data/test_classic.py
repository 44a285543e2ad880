from collections import Counter

import networkx as nx
import pytest
import torch
from networkx.algorithms.isomorphism import categorical_node_match
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from pggnn.data.formats.graph6 import decode
from pggnn.data.sets.classic import (
    CSL_NODES,
    CSL_SKIPS,
    adjacency_matrix,
    cfi,
    coloured_pair,
    complete,
    csl,
    cycle,
    paley,
    rook,
    shrikhande,
    triangular,
)

pytestmark = pytest.mark.filterwarnings("ignore:The hashes produced")


def nxgraph(data):
    assert data.is_undirected() and not data.has_self_loops()
    return to_networkx(data, to_undirected=True)


def strongly_regular(graph):
    """The parameters (n, degree, λ, μ) of a strongly regular graph, counted; None of any other, or a complete one."""
    adjacency = adjacency_matrix(graph)
    common = adjacency.double() @ adjacency.double()
    apart = ~(adjacency | torch.eye(len(adjacency), dtype=torch.bool))
    counted = [values.unique().tolist() for values in (adjacency.sum(0), common[adjacency], common[apart])]
    if any(len(values) != 1 for values in counted):
        return None
    degree, joined, unjoined = (int(value) for (value,) in counted)
    return len(adjacency), degree, joined, unjoined


def isomorphic(a, b):
    return nx.faster_could_be_isomorphic(nxgraph(a), nxgraph(b)) and nx.is_isomorphic(nxgraph(a), nxgraph(b))


def wl_hash(graph, **attributes):
    return nx.weisfeiler_lehman_graph_hash(graph, iterations=len(graph), **attributes)


def wl_equivalent(a, b, **attributes):
    return wl_hash(a, **attributes) == wl_hash(b, **attributes)


@pytest.mark.parametrize(
    ("graph", "parameters"),
    [
        (shrikhande(), (16, 6, 2, 2)),
        *((rook(n), (n * n, 2 * n - 2, n - 2, 2)) for n in (2, 3, 4, 5, 8)),
        *((triangular(n), (n * (n - 1) // 2, 2 * n - 4, n - 2, 4)) for n in (4, 5, 7, 8, 10)),
        *((paley(q), (q, (q - 1) // 2, (q - 5) // 4, (q - 1) // 4)) for q in (5, 9, 13, 17, 25, 29, 49, 101, 121)),
    ],
    ids=lambda value: str(value) if isinstance(value, tuple) else "",
)
def test_parameters_of_the_strongly_regular_families(graph, parameters):
    assert strongly_regular(graph) == parameters
    n, degree, joined, apart = parameters
    plain = nxgraph(graph)
    assert plain.number_of_nodes() == n
    for u, v in nx.non_edges(plain):
        assert len(list(nx.common_neighbors(plain, u, v))) == apart
    for u, v in plain.edges:
        assert len(list(nx.common_neighbors(plain, u, v))) == joined
    assert set(dict(plain.degree).values()) == {degree}


def test_rook_and_shrikhande_differ_in_cliques_only():
    assert not isomorphic(rook(4), shrikhande())
    assert wl_equivalent(nxgraph(rook(4)), nxgraph(shrikhande()))
    largest = [max(map(len, nx.find_cliques(nxgraph(graph)))) for graph in (rook(4), shrikhande())]
    assert largest == [4, 3]


def test_known_graphs_by_other_constructions():
    assert isomorphic(paley(9), rook(3))
    assert nx.is_isomorphic(nxgraph(triangular(5)), nx.complement(nx.petersen_graph()))
    assert nx.is_isomorphic(nxgraph(rook(5)), nx.line_graph(nx.complete_bipartite_graph(5, 5)))
    assert nx.is_isomorphic(nxgraph(paley(13)), nx.paley_graph(13).to_undirected())
    assert nx.is_isomorphic(nxgraph(cycle(7)), nx.cycle_graph(7))
    assert nx.is_isomorphic(nxgraph(complete(6)), nx.complete_graph(6))
    assert nx.is_isomorphic(nxgraph(csl(12, 5)), nx.circulant_graph(12, [1, 5]))


def test_csl_graphs_are_regular_and_ten_different_ones():
    graphs = [nxgraph(csl(CSL_NODES, skip)) for skip in CSL_SKIPS]
    for graph in graphs:
        assert set(dict(graph.degree).values()) == {4}
        assert graph.number_of_nodes() == 41
    assert len({wl_hash(graph) for graph in graphs}) == 1
    for i, one in enumerate(graphs):
        for other in graphs[:i]:
            assert not nx.faster_could_be_isomorphic(one, other) or not nx.is_isomorphic(one, other)


@pytest.mark.parametrize(
    ("base", "nodes", "compact_nodes"),
    [(cycle(3), 18, 6), (cycle(5), 30, 10), (complete(4), 40, 16), (rook(2), 24, 8)],
    ids=["C3", "C5", "K4", "C4"],
)
def test_cfi_pairs_are_wl_equivalent_and_not_isomorphic(base, nodes, compact_nodes):
    for compact, expected in ((False, nodes), (True, compact_nodes)):
        plain, twisted = (cfi(base, twisted, compact) for twisted in (False, True))
        assert plain.num_nodes == twisted.num_nodes == expected
        assert wl_equivalent(nxgraph(plain), nxgraph(twisted))
        assert not nx.is_isomorphic(nxgraph(plain), nxgraph(twisted))


def test_cfi_over_known_bases():
    pair = [cfi(complete(4), twisted, compact=True) for twisted in (False, True)]
    assert sorted(isomorphic(graph, rook(4)) for graph in pair) == [False, True]
    assert sorted(isomorphic(graph, shrikhande()) for graph in pair) == [False, True]
    assert nx.is_isomorphic(nxgraph(cfi(cycle(3))), nx.disjoint_union(nx.cycle_graph(9), nx.cycle_graph(9)))
    assert nx.is_isomorphic(nxgraph(cfi(cycle(3), twisted=True)), nx.cycle_graph(18))


def test_the_coloured_pair_of_the_paper():
    pair = coloured_pair()
    squares, triangles = (nxgraph(graph) for graph in pair)
    for plain, graph in zip((squares, triangles), pair, strict=True):
        nx.set_node_attributes(plain, dict(enumerate(graph.x.argmax(1).tolist())), "colour")
        own, around = graph.x, torch.zeros(6, 2).index_add(0, graph.edge_index[0], graph.x[graph.edge_index[1]])
        assert own.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [1, 0], [1, 0]]
        assert around.tolist() == [[1, 1], [1, 1], [2, 1], [2, 1], [1, 1], [1, 1]]
    assert wl_equivalent(squares, triangles, node_attr="colour")
    assert not nx.is_isomorphic(squares, triangles, categorical_node_match("colour", None))
    assert [sum(nx.triangles(graph).values()) // 3 for graph in (squares, triangles)] == [0, 2]


def test_families_listed_by_others(data_root):
    pairs = [line.split("\t") for line in (data_root / "brec" / "brec_pairs.tsv").read_text().splitlines()]
    families = Counter()
    for _, family, *texts in pairs:
        for text in texts:
            assert decode(text).edge_index.t().tolist() == sorted(
                [u, v] for u, near in nx.from_graph6_bytes(text.encode()).adjacency() for v in near
            )
        if family in ("StronglyRegular", "4-Vertex_Condition"):
            one, other = (strongly_regular(decode(text)) for text in texts)
            assert one == other is not None
        families[family] += 1
    assert families["StronglyRegular"] == 50
    assert families.total() == 400


def test_edges_are_sorted_and_go_through_graph6():
    for graph in (rook(4), shrikhande(), csl(), cfi(complete(4), twisted=True), paley(101)):
        assert torch.equal(decode(nx.to_graph6_bytes(nxgraph(graph))).edge_index, graph.edge_index)


def test_other_graphs_are_not_strongly_regular():
    for graph in (csl(41, 5), cycle(6), complete(5), coloured_pair()[0]):
        assert strongly_regular(graph) is None
    assert strongly_regular(cycle(5)) == (5, 2, 0, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paley(7), "got 7"),
        (lambda: paley(8), "got 8"),
        (lambda: paley(15), "prime of the form 4k \\+ 1 or the square of an odd prime, got 15"),
        (lambda: paley(625), "got 625"),
        (lambda: paley(-3), "from 5 upwards"),
        (lambda: paley(10**30), "up to 5000 nodes"),
        (lambda: rook(10**9), "up to 5000 nodes"),
        (lambda: triangular(3), "a triangular graph can be made from 4 upwards"),
        (lambda: csl(10**12, 3), "up to 5000 nodes"),
        (lambda: csl(41, 21), "between 1 and n/2 = 20, got 21"),
        (lambda: csl(2, 1), "from 3 upwards"),
        (lambda: cfi(complete(1)), "with an edge"),
        (lambda: cfi(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)), "connected"),
        (lambda: cfi(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)), "undirected"),
        (lambda: cfi(complete(12)), "degrees up to 10, got 11"),
    ],
)
def test_impossible_graphs_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
