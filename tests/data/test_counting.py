import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_networkx

from pggnn.data.sets.counting import REGULAR, Counting, erdos_renyi, read_counting


def random_regular(graphs, seed=0):
    return [*Counting("regular", seed=seed, graphs=graphs)]


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
    regular = random_regular(200)
    assert {(g.num_nodes, g.num_edges // g.num_nodes) for g in regular} == set(REGULAR)
    assert all(g.x.size(1) == 30 for g in regular)
    for graph in regular:
        degree = torch.bincount(graph.edge_index[0])
        assert (degree == degree[0]).all()


def test_generated_sets_need_no_file_and_have_splits(tmp_path):
    sizes = {"train": 30, "val": 20, "test": 50}
    for name, task in (("er", "triangles"), ("regular", "cliques")):
        made = {split: Counting(name, task, tmp_path, split, seed=4, graphs=100) for split in sizes}
        assert {split: len(dataset) for split, dataset in made.items()} == sizes
        whole = Counting(name, task, tmp_path, seed=4, graphs=100)
        assert torch.equal(whole[30].x, made["val"][0].x)
        assert whole[0].y.dtype == torch.float32
    fours = [c for c in nx.enumerate_all_cliques(to_networkx(whole[0], to_undirected=True)) if len(c) == 4]
    assert whole[0].y.tolist() == [sum(v in four for four in fours) for v in range(whole[0].num_nodes)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "width"), [("er", 10), ("regular", 30)])
def test_published_sets(name, width, data_root):
    sizes = {split: len(Counting(name, root=data_root, split=split)) for split in ("train", "val", "test")}
    assert sizes == {"train": 1500, "val": 1000, "test": 2500}
    dataset = Counting(name, root=data_root)
    assert len(dataset) == 5000
    assert dataset.num_features == width
    with np.load(data_root / "counting" / f"{name}.npz", allow_pickle=False) as arrays:
        published, train = arrays["y_triangle"], arrays["split_train"]
    data, slices = dataset._data, dataset.slices
    per_graph = torch.nn.functional.pad(data.y.cumsum(0), (1, 0))[slices["x"]].diff() / 3
    assert torch.equal(per_graph, torch.from_numpy(published)), "the published counts of whole graphs"
    assert Counting(name, root=data_root, split="train").indices() == train.tolist()
    graph = dataset[7]
    assert torch.equal(graph.x[:, : graph.num_nodes].nonzero().t(), graph.edge_index)


def test_wrong_names_files_and_sizes_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected one of .*'er', 'regular'.* got 'er' and 'squares'"):
        Counting("er", "squares", seed=0)
    with pytest.raises(ValueError, match='split must be "train", "val", "test" or None, got \'dev\''):
        Counting("er", split="dev", seed=0, graphs=10)
    with pytest.raises(FileNotFoundError, match=r"er.npz is not there; put the file there, or name the folder"):
        Counting("er", root=tmp_path)
    with pytest.raises(ValueError, match="expected 1 graph or more"):
        Counting(seed=0, graphs=0)
    for wrong in ("x", 1.5, True, -1, 2**63):
        with pytest.raises(ValueError, match="seed must be a whole number of 0 or more"):
            Counting(seed=wrong)
    split = {f"split_{name}": np.zeros(0, np.int64) for name in ("train", "val", "test")}
    ends = {"src": np.array([0]), "dst": np.array([1])}
    np.savez(tmp_path / "large.npz", n=np.array([2, 10**6]), m=np.array([1, 0]), **ends, **split)
    with pytest.raises(ValueError, match="2 graphs of up to 1000000 nodes are too large"):
        read_counting(tmp_path / "large.npz")
    np.savez(tmp_path / "beyond.npz", n=np.array([2, 1]), m=np.array([0, 1]), **ends, **split)
    with pytest.raises(ValueError, match=r"graph 1 \(counted from 0\) has 1 nodes, but an edge from 0 to 1"):
        read_counting(tmp_path / "beyond.npz")


@pytest.mark.parametrize(
    ("task", "size"), [("cycles3", 3), ("cycles4", 4), ("cycles5", 5), ("cycles6", 6), ("chordal", 4)]
)
def test_labels_are_the_cycles_at_each_node(task, size, tmp_path, monkeypatch):
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path))
    found = 0
    for name in ("er", "regular"):
        for data in Counting(name, task, seed=2, graphs=4):
            graph, expected = to_networkx(data, to_undirected=True), [0] * data.num_nodes
            for nodes in nx.simple_cycles(graph, size):
                if len(nodes) == size:
                    chords = [graph.has_edge(*nodes[::2]), graph.has_edge(*nodes[1::2])] if task == "chordal" else [1]
                    for node in nodes:
                        expected[node] += sum(chords)
            assert data.y.tolist() == expected
            found += sum(expected)
    assert found > 20


def test_counts_of_mean_0_and_deviation_1_where_models_are_chosen_and_constant_features():
    """Over the nodes of training and validation graphs, which are the first half of those that are generated."""
    plain, data = (Counting("er", "cycles4", seed=0, graphs=40, **options) for options in (
        {}, {"rows": False, "standardize": True},
    ))  # fmt: skip
    y, scaled = (torch.cat([graph.y for graph in graphs]) for graphs in (plain, data))
    seen, others = scaled[: 20 * 10], scaled[20 * 10 :]
    assert seen.mean().abs() < 1e-6 and seen.std() == pytest.approx(1)
    assert others.mean().abs() > 1e-3, "the test graphs have no part in it"
    torch.testing.assert_close((y - y[:200].mean()) / y[:200].std(), scaled)
    assert data.num_features == 1 and all(bool((graph.x == 1).all()) for graph in data)
