import networkx as nx
import pytest
import torch
from torch_geometric.utils import to_networkx

from pggnn.data.counting import REGULAR, counting_graph, erdos_renyi, random_regular


@pytest.mark.parametrize("make", [erdos_renyi, random_regular])
def test_labels_are_the_triangles_at_each_node(make):
    for graph in make(20, seed=3):
        counts = nx.triangles(to_networkx(graph, to_undirected=True))
        assert graph.y.tolist() == [counts[v] for v in range(graph.num_nodes)]
        adjacency = graph.x[:, : graph.num_nodes]
        assert torch.equal(adjacency, adjacency.t())
        assert not adjacency.diagonal().any()
        assert torch.equal(adjacency.nonzero().t(), graph.edge_index)


def test_the_same_seed_gives_the_same_graphs():
    for make in (erdos_renyi, random_regular):
        first, second, other = make(5, seed=1), make(5, seed=1), make(5, seed=2)
        assert all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(first, second, strict=True))
        assert not all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(first, other, strict=True))


def test_graphs_are_of_the_papers_kind():
    graphs = erdos_renyi(400)
    assert {graph.num_nodes for graph in graphs} == {10}
    assert sum(graph.num_edges for graph in graphs) / 400 == pytest.approx(2 * 45 * 0.3, rel=0.03)
    regular = random_regular(60)
    assert {(g.num_nodes, g.num_edges // g.num_nodes) for g in regular} == set(REGULAR)
    assert all(g.x.size(1) == 30 for g in regular)


def test_a_graph_too_large_for_its_features_is_refused():
    with pytest.raises(ValueError, match="11 nodes does not fit features of width 10"):
        counting_graph(torch.zeros(11, 11), 10)
