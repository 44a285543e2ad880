import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddRandomWalkPE

from pggnn.data.batching.collate import Collater
from pggnn.data.features import walks
from pggnn.data.features.added import AddedFeatures
from pggnn.data.features.walks import return_probabilities
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load

MOLECULE = {"node_labels": ["C", "C", "O"], "edges": [[0, 1], [1, 2], [2, 0]], "y": 0.5}
CHAIN = {"node_labels": ["O", "C"], "edges": [[0, 1]], "y": 1.5}
ALONE = {"node_labels": ["O"], "edges": [], "y": 2.5}


def random_graphs(seed, sizes):
    torch.manual_seed(seed)
    edges = [(torch.rand(n, n) < 0.3).fill_diagonal_(False).nonzero().t() for n in sizes]
    counts = torch.tensor([one.size(1) for one in edges])
    return Graphs(torch.tensor(sizes), counts, torch.cat([torch.empty(2, 0, dtype=torch.long), *edges], dim=1)), edges


@pytest.mark.parametrize("at_once", [1, walks.AT_ONCE])
def test_are_those_of_pyg(at_once, monkeypatch):
    monkeypatch.setattr(walks, "AT_ONCE", at_once)
    sizes = [5, 0, 9, 5, 1, 9, 2, 30]
    graphs, edges = random_graphs(0, sizes)
    theirs = AddRandomWalkPE(6, attr_name="walks")
    expected = [theirs(Data(edge_index=one, num_nodes=n)).walks for one, n in zip(edges, sizes, strict=True) if n]
    torch.testing.assert_close(return_probabilities(graphs, 6), torch.cat(expected))


def test_rings_and_chains(write):
    dataset = load(write(MOLECULE, CHAIN, ALONE), walks=3)
    assert dataset.schema.in_channels == dataset[0].x.size(1) == 5
    assert dataset.schema.features == 3 and dataset.schema.node_labels == ("C", "O")
    assert dataset[0].x.tolist() == [[0, 0.5, 0.25, 1, 0], [0, 0.5, 0.25, 1, 0], [0, 0.5, 0.25, 0, 1]]
    assert dataset[1].x.tolist() == [[0, 1, 0, 0, 1], [0, 1, 0, 1, 0]]
    assert dataset[2].x.tolist() == [[0, 0, 0, 0, 1]]
    batch = Collater(Graphs.of(dataset)).collate(torch.tensor([2, 0]))
    assert batch.x.tolist() == [*dataset[2].x.tolist(), *dataset[0].x.tolist()]


def test_later_files(write):
    first = load(write(MOLECULE, CHAIN), walks=2)
    later = load(write({"node_labels": ["C", "O"], "edges": [[0, 1]]}), walks=2, schema=first.schema)
    assert later.schema == first.schema and later[0].x.tolist() == [[0, 1, 1, 0], [0, 1, 0, 1]]


def test_edges_count_as_often_as_they_are_there_and_have_a_direction():
    twice = Graphs(torch.tensor([3]), torch.tensor([4]), torch.tensor([[0, 0, 0, 1], [1, 1, 2, 0]]))
    assert return_probabilities(twice, 2).tolist() == [[0, pytest.approx(2 / 3)], [0, pytest.approx(2 / 3)], [0, 0]]


def test_without_features_and_without_graphs():
    graphs, _ = random_graphs(1, [4, 3])
    made = AddedFeatures(walks=2).add_to(graphs)
    assert made.schema.in_channels == 2 and made.node["x"].shape == (7, 2) and "x" not in graphs.node
    assert AddedFeatures().add_to(graphs) == graphs
    none, _ = random_graphs(1, [])
    assert AddedFeatures(walks=2).add_to(none).node["x"].shape == (0, 2)


def test_refuses_what_would_not_fit():
    graphs = Graphs(torch.tensor([3, 20_000]), torch.tensor([0, 0]), torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="at most 16,384 nodes, got one of 20,000: leave them out"):
        AddedFeatures(walks=4).add_to(graphs)
    with pytest.raises(ValueError, match="0 or more, got -1"):
        AddedFeatures(walks=-1)


def test_splits_stay(write):
    path = write(MOLECULE | {"split": "train"}, CHAIN | {"split": "test"})
    dataset = load(path, split="test").with_features(AddedFeatures(walks=2))
    assert len(dataset) == 1 and dataset[0].x.tolist() == [[0, 1, 0, 1], [0, 1, 1, 0]]
