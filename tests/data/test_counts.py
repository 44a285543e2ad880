from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.utils import from_networkx

from pggnn.data.features import motifs as counts
from pggnn.data.features.motifs import four_cliques, triangles, wedges


def brute_force_cliques(graph):
    found = [0] * graph.number_of_nodes()
    for four in combinations(range(graph.number_of_nodes()), 4):
        if all(graph.has_edge(u, v) for u, v in combinations(four, 2)):
            for v in four:
                found[v] += 1
    return found


def random_graphs(count):
    return [nx.gnp_random_graph(2 + seed % 13, 0.15 + 0.7 * (seed % 7) / 6, seed=seed) for seed in range(count)]


def test_500_random_graphs_at_once_against_networkx_and_brute_force():
    graphs = random_graphs(500)
    batch = Batch.from_data_list([from_networkx(graph) for graph in graphs])
    expected = [count for graph in graphs for count in nx.triangles(graph).values()]
    assert triangles(batch.edge_index, batch.ptr).tolist() == expected
    expected = [count for graph in graphs for count in brute_force_cliques(graph)]
    assert max(expected) > 50
    assert four_cliques(batch.edge_index, batch.ptr).tolist() == expected


def test_wedges_against_networkx():
    graphs = random_graphs(100)
    batch = Batch.from_data_list([from_networkx(graph) for graph in graphs])
    apart = [nx.non_edges(graph.subgraph(graph[v])) for graph in graphs for v in graph]
    assert wedges(batch.edge_index, batch.ptr).tolist() == [len(list(pairs)) for pairs in apart]


@pytest.mark.parametrize("small", [False, True])
def test_one_larger_graph_in_blocks_and_chunks(small, monkeypatch):
    if small:
        monkeypatch.setattr(counts, "BLOCK_BYTES", 64 * 200)
        monkeypatch.setattr(counts, "CHUNK", 100)
    graph = nx.powerlaw_cluster_graph(200, 6, 0.8, seed=1)
    edge_index = from_networkx(graph).edge_index
    assert triangles(edge_index, 200).tolist() == list(nx.triangles(graph).values())
    cliques = [0] * 200
    for clique in nx.enumerate_all_cliques(graph):
        if len(clique) == 4:
            for v in clique:
                cliques[v] += 1
    assert sum(cliques) > 0
    assert four_cliques(edge_index, 200).tolist() == cliques


def test_direction_repetition_and_loops_of_edges_do_not_matter():
    once = torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, 0, 3, 3, 3]])
    messy = torch.cat([once, once.flip(0), once, torch.tensor([[2], [2]])], dim=1)
    for edges in (once, messy):
        assert triangles(edges, 4).tolist() == [3, 3, 3, 3]
        assert four_cliques(edges, 4).tolist() == [1, 1, 1, 1]


def test_directed_cycles_follow_the_papers_formula():
    adjacency = (np.random.RandomState(0).rand(40, 40) < 0.3) & ~np.eye(40, dtype=bool)
    expected = ((adjacency.astype(int) @ adjacency) * adjacency.T).sum(1)  # A² ⊙ Aᵀ · 1
    edge_index = torch.from_numpy(np.stack(np.nonzero(adjacency)))
    assert triangles(edge_index, 40, directed=True).tolist() == expected.tolist()
    assert expected.sum() == np.trace(np.linalg.matrix_power(adjacency.astype(int), 3))


def test_graphs_without_edges_or_nodes():
    empty = torch.empty(2, 0, dtype=torch.long)
    for count in (triangles, four_cliques, wedges):
        assert count(empty, 3).tolist() == [0, 0, 0]
        assert count(empty, 0).tolist() == []
        assert count(empty, torch.tensor([0, 0, 2])).tolist() == [0, 0]


def test_facebook(data_root):
    with np.load(data_root / "large" / "facebook_combined.npz", allow_pickle=False) as arrays:
        edges, nodes = torch.from_numpy(arrays["edges"].T.astype(np.int64)), int(arrays["n"])
    assert edges.size(1) == 88_234
    assert int(triangles(edges, nodes).sum()) == 3 * 1_612_010  # as published by SNAP
    assert int(four_cliques(edges, nodes).sum()) == 4 * 30_004_668
