from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import from_networkx

from pggnn.data.batching.collate import Collater
from pggnn.data.features import substructures
from pggnn.data.features.added import AddedFeatures
from pggnn.data.features.motifs import four_cliques, triangles
from pggnn.data.features.substructures import count, log_counts, up_to
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load

ALL = up_to(5, 6)
RING = {"node_labels": ["C", "C", "O"], "edges": [[0, 1], [1, 2], [2, 0]], "edge_labels": ["a", "b", "b"], "y": 0.5}
CHAIN = {"node_labels": ["O", "C"], "edges": [[0, 1]], "edge_labels": ["a"], "y": 1.5}


def as_graphs(*several):
    edges = [from_networkx(graph).edge_index for graph in several]
    sizes = torch.tensor([[graph.number_of_nodes(), one.size(1)] for graph, one in zip(several, edges, strict=True)])
    return Graphs(sizes[:, 0], sizes[:, 1], torch.cat(edges, dim=1))


def by_networkx(graph):
    """Counts at nodes and at edges of one graph, by listing all cliques and cycles."""
    at_nodes, at_edges = ({one: Counter() for one in ALL} for _ in range(2))
    found = [("clique", one) for one in nx.enumerate_all_cliques(graph) if 3 <= len(one) <= 5]
    for kind, one in found + [("cycle", one) for one in nx.simple_cycles(graph, 6) if len(one) > 3]:
        at_nodes[kind, len(one)].update(one)
        edges = combinations(one, 2) if kind == "clique" else zip(one, [*one[1:], one[0]], strict=True)
        at_edges[kind, len(one)].update(map(frozenset, edges))
    return at_nodes, at_edges


@pytest.mark.parametrize("at_once", [1, substructures.AT_ONCE])
def test_random_graphs_against_networkx(at_once, monkeypatch):
    monkeypatch.setattr(substructures, "AT_ONCE", at_once)
    several = [nx.gnp_random_graph(seed % 10, 0.2 + 0.8 * (seed % 7) / 6, seed=seed) for seed in range(70)]
    several += [nx.gnp_random_graph(14, 0.5, seed=0), nx.powerlaw_cluster_graph(40, 3, 0.9, seed=1)]
    graphs = as_graphs(*several)
    of_nodes, of_edges = count(graphs, ALL)
    expected = [by_networkx(graph) for graph in several]
    links = [[frozenset(pair) for pair in from_networkx(graph).edge_index.t().tolist()] for graph in several]
    for row, one in enumerate(ALL):
        assert of_nodes[row].tolist() == [
            at_nodes[one][v] for graph, (at_nodes, _) in zip(several, expected, strict=True) for v in graph
        ]
        assert of_edges[row].tolist() == [
            at_edges[one][link] for some, (_, at_edges) in zip(links, expected, strict=True) for link in some
        ]
        assert of_nodes[row].max() > 20


@pytest.mark.parametrize(
    "graph, whole",
    [
        (nx.complete_graph(5), [10, 5, 1, 15, 12, 0]),
        (nx.complete_graph(6), [20, 15, 6, 45, 72, 60]),
        (nx.petersen_graph(), [0, 0, 0, 0, 12, 10]),
        (nx.hypercube_graph(3), [0, 0, 0, 6, 0, 16]),
        (nx.complete_bipartite_graph(3, 3), [0, 0, 0, 9, 0, 6]),
        (nx.cycle_graph(6), [0, 0, 0, 0, 0, 1]),
    ],
    ids=["K5", "K6", "Petersen", "cube", "K3,3", "ring"],
)
def test_named_graphs(graph, whole):
    of_nodes, of_edges = count(as_graphs(nx.convert_node_labels_to_integers(graph)), ALL)
    sizes = torch.tensor([size for _, size in ALL])
    edges = torch.tensor([size if kind == "cycle" else size * (size - 1) // 2 for kind, size in ALL])
    assert (of_nodes.sum(1) // sizes).tolist() == whole
    assert (of_edges.sum(1) // 2 // edges).tolist() == whole
    assert all(len(set(row.tolist())) == 1 for row in (*of_nodes, *of_edges))  # all nodes, and all edges, are alike


def test_numbers_that_single_precision_rounds():
    """All edges of the complete graph with n nodes are in (n - 2)(n - 3)(n - 4)(n - 5) cycles of six."""
    n = 150
    of_nodes, of_edges = count(as_graphs(nx.complete_graph(n)), [("cycle", 6), ("clique", 5)])
    paths = (n - 2) * (n - 3) * (n - 4) * (n - 5)
    assert of_edges.unique(dim=1).tolist() == [[paths], [(n - 2) * (n - 3) * (n - 4) // 6]]
    assert of_nodes.unique(dim=1).tolist() == [[paths * (n - 1) // 2], [(n - 1) * (n - 2) * (n - 3) * (n - 4) // 24]]


def test_a_larger_graph_is_as_by_bits():
    teams = nx.random_partition_graph([12, 20, 30, 60, 3, 3, 3], 0.9, 0.08, seed=0)
    graphs = as_graphs(nx.Graph(teams))
    of_nodes, _ = count(graphs, [("clique", 3), ("clique", 4)])
    bits = [counted(graphs.edge_index, int(graphs.nodes)) for counted in (triangles, four_cliques)]
    assert torch.equal(of_nodes, torch.stack(bits)) and of_nodes.max() > 10_000


def test_direction_repetition_and_loops_of_edges():
    once = torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, 0, 3, 3, 3]])
    messy = torch.cat([once, once.flip(0), once, torch.tensor([[2], [2]])], dim=1)
    for edges in (once, messy):
        graph = Graphs(torch.tensor([4]), torch.tensor([edges.size(1)]), edges)
        of_nodes, of_edges = count(graph, ALL)
        assert of_nodes.t().tolist() == [[3, 1, 0, 3, 0, 0]] * 4
        expected = [[2, 1, 0, 2, 0, 0] if u != v else [0] * 6 for u, v in edges.t().tolist()]
        assert of_edges.t().tolist() == expected


def test_columns_and_sizes():
    assert up_to() == [] and up_to(3) == [("clique", 3)] and up_to(cycles=4) == [("cycle", 3), ("cycle", 4)]
    assert up_to(4, 5) == [("clique", 3), ("clique", 4), ("cycle", 4), ("cycle", 5)]
    assert up_to(4, 3) == up_to(4)
    with pytest.raises(ValueError, match="cliques must be 0, for none, or 3 to 5 nodes, got 6"):
        AddedFeatures(cliques=6)
    with pytest.raises(ValueError, match="cycles must be 0, for none, or 3 to 6 nodes, got 2"):
        AddedFeatures(cycles=2)
    large = Graphs(torch.tensor([3, 5000]), torch.tensor([0, 0]), torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="at most 4,096 nodes, got one of 5,000: leave them out"):
        AddedFeatures(cycles=3).add_to(large)


def test_features_of_a_file(write):
    dataset = load(write(RING, CHAIN), walks=2, cliques=4, cycles=4)
    log2 = pytest.approx(np.log(2))
    assert dataset.schema.features == 5 and dataset.schema.edge_features == 3
    assert dataset[0].x.tolist() == [[0, 0.5, log2, 0, 0, 1, 0], [0, 0.5, log2, 0, 0, 1, 0], [0, 0.5, log2, 0, 0, 0, 1]]
    assert dataset[0].edge_attr[:3, 0].tolist() == [log2] * 3 and (dataset[0].edge_attr[:, 3:].sum(1) == 1).all()
    assert dataset[1].x.tolist() == [[0, 1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 1, 0]]
    assert dataset[1].edge_attr.tolist() == [[0, 0, 0, 1, 0]] * 2
    batch = Collater(Graphs.of(dataset)).collate(torch.tensor([1, 0]))
    assert batch.x.tolist() == [*dataset[1].x.tolist(), *dataset[0].x.tolist()]
    assert batch.edge_attr.tolist() == [*dataset[1].edge_attr.tolist(), *dataset[0].edge_attr.tolist()]
    later = load(write(CHAIN), walks=2, cliques=4, cycles=4, schema=dataset.schema)
    assert later.schema == dataset.schema and later[0].x.tolist() == dataset[1].x.tolist()


def test_graphs_without_features_edges_or_nodes(write):
    plain = {"num_nodes": 3, "edges": [[0, 1], [1, 2], [2, 0]]}
    dataset = load(write(plain), cycles=3)
    assert dataset[0].x.shape == (3, 1) and dataset[0].edge_attr.shape == (6, 1)
    empty = torch.empty(2, 0, dtype=torch.long)
    for sizes in ([0, 2], []):
        graphs = Graphs(torch.tensor(sizes, dtype=torch.long), torch.zeros(len(sizes), dtype=torch.long), empty)
        made = AddedFeatures(cliques=5, cycles=6).add_to(graphs)
        assert made.node["x"].tolist() == [[0] * 6] * sum(sizes) and made.edge["edge_attr"].shape == (0, 6)


def test_what_took_long_is_counted_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path))
    graphs = as_graphs(nx.complete_graph(5), nx.petersen_graph())
    first = log_counts(graphs, ALL)
    assert not any(tmp_path.iterdir())  # it was quick
    monkeypatch.setattr(substructures, "SECONDS", -1.0)
    log_counts(graphs, ALL[:2])
    asked = []
    real = count
    monkeypatch.setattr(substructures, "count", lambda graphs, wanted: asked.append(wanted) or real(graphs, wanted))
    for _ in range(2):
        assert all(map(torch.equal, log_counts(graphs, ALL), first))
    assert asked == [ALL[2:]]
    other = as_graphs(nx.complete_graph(5), nx.cycle_graph(10))
    assert log_counts(other, ALL[:1])[0].sum() > 0 and asked[1:] == [ALL[:1]]


def test_a_bar_is_shown_where_it_takes_a_while(monkeypatch, capsys):
    graphs = as_graphs(nx.complete_graph(5), nx.complete_graph(4))
    monkeypatch.setenv("FORCE_COLOR", "1")  # stands for a terminal
    count(graphs, ALL)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(substructures, "SECONDS", 0.0)
    count(graphs, ALL)
    assert "counting" in capsys.readouterr().err
    monkeypatch.delenv("FORCE_COLOR")
    count(graphs, ALL)
    assert capsys.readouterr().err == "counting: 0%\n"  # a line in a log
