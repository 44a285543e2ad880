import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose
from torch_geometric.utils import erdos_renyi_graph

import pggnn
from pggnn import AddHops, AddPaths, AddRings
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.plan import plans_of
from pggnn.search import find_hops, find_paths, find_rings

ADDED = {
    AddRings(): ("ring_index", "ring_size"),
    AddPaths(): ("path_index", "path_size"),
    AddHops(): ("hop_index", "hop_size", "hop_distance"),
}
ALL = Compose(list(ADDED))


def graphs():
    """Some have no ring, one no edge, one no node."""
    edges = [erdos_renyi_graph(nodes, 0.4) for nodes in (7, 4, 9)]
    edges += [torch.tensor([[0, 1], [1, 2]]), torch.empty(2, 0, dtype=torch.long), torch.empty(2, 0, dtype=torch.long)]
    nodes = (7, 4, 9, 3, 2, 0)
    return [Data(x=torch.randn(n, 3), edge_index=edge_index) for n, edge_index in zip(nodes, edges, strict=True)]


def test_attributes_are_what_was_found():
    for data in graphs():
        added = ALL(data)
        expected = [
            find_rings(data.edge_index, data.num_nodes),
            find_paths(data.edge_index, data.num_nodes, 3),
            find_hops(data.edge_index, data.num_nodes, 2),
        ]
        assert set(added.keys()) == set(data.keys()).union(*ADDED.values())
        for names, tensors in zip(ADDED.values(), expected, strict=True):
            for name, tensor in zip(names, tensors, strict=True):
                assert torch.equal(added[name], tensor)
                assert added[name].dtype == torch.long
        assert set(data.keys()) == {"x", "edge_index"}, "the graph itself stays as it is"


def test_options_are_handed_on():
    """A square with one diagonal."""
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    data = Data(edge_index=edges, num_nodes=4)
    assert AddRings()(data).ring_size.tolist() == [3, 3]
    assert AddRings(chords=True)(data).ring_index.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 2, 3]
    assert AddRings(3, True)(data).ring_size.tolist() == [3, 3]
    assert AddPaths(2)(data).path_size.unique().tolist() == [3]
    assert AddPaths(shortest=True)(data).path_index.tolist() == [1, 0, 3, 1, 2, 3]
    assert AddHops(1)(data).hop_distance.tolist() == [1, 1, 1, 1]
    assert AddHops()(data).hop_index.tolist() == [0, 1, 2, 3, 1, 0, 2, 1, 3, 2, 0, 1, 3, 3, 0, 2, 3, 1]


def test_batched_by_pyg_as_alone():
    added = [ALL(data) for data in graphs()]
    (batch,) = DataLoader(added, batch_size=len(added))
    shift = batch.ptr.tolist()
    for name in (name for names in ADDED.values() for name in names):
        alone = [data[name] + (first if "index" in name else 0) for data, first in zip(added, shift, strict=False)]
        assert torch.equal(batch[name], torch.cat(alone))
    for data, again in zip(added, batch.to_data_list(), strict=True):
        assert all(torch.equal(data[name], again[name]) for names in ADDED.values() for name in names)
    assert set(plans_of(batch)) == {"star", "ring", "path", "hop"}


@pytest.mark.parametrize("transform", ADDED, ids=repr)
def test_a_second_time_changes_nothing(transform):
    for data in graphs():
        once = transform(data)
        twice = transform(copy.copy(once))
        assert once.keys() == twice.keys()
        assert all(torch.equal(once[name], twice[name]) for name in ADDED[transform])


@pytest.mark.parametrize("transform", ADDED, ids=repr)
def test_an_older_result_is_replaced(transform):
    first, second = graphs()[0], graphs()[3]
    data = transform(first)
    data.edge_index, data.x = second.edge_index, second.x
    fresh = transform(second)
    assert all(torch.equal(transform(data)[name], fresh[name]) for name in ADDED[transform])


def test_errors_name_the_attribute():
    full = Data(edge_index=torch.combinations(torch.arange(9)).t(), num_nodes=9)
    for transform, message in (
        (AddRings(limit=80), "ring_index: a graph of 9 nodes has more than 80 chordless cycles of 3 to 18 nodes"),
        (AddPaths(limit=80), "path_index: a graph of 9 nodes has more than 80 simple paths of 2 to 3 edges"),
        (AddHops(limit=80), "hop_index: a graph of 9 nodes has more than 80 places within distance 2"),
    ):
        with pytest.raises(ValueError, match=message):
            transform(full)
        with pytest.raises(ValueError, match=r"_index is found along edges: the graph needs edge_index, got Data\(x="):
            transform(Data(x=torch.randn(3, 2)))
        with pytest.raises(TypeError, match="one kind of nodes, Data, got HeteroData"):
            transform(HeteroData())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AddRings(2), "max_size must be 3 or more, got 2"),
        (lambda: AddPaths(1), "length must be 2 or more, got 1"),
        (lambda: AddHops(0), "hops must be 1 or more, got 0"),
        (lambda: AddRings(limit=0), "limit must be 1 or more, got 0"),
    ],
)
def test_options_are_checked_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_like_transforms_of_pyg():
    assert repr(AddRings(8)) == "AddRings(max_size=8, chords=False, limit=10000)"
    assert repr(AddPaths()) == "AddPaths(length=3, shortest=False, limit=100000)"
    assert repr(AddHops()) == "AddHops(hops=2, limit=1000000)"
    assert pickle.loads(pickle.dumps(AddPaths(4))) == AddPaths(4)
    assert {"AddHops", "AddPaths", "AddRings"} <= set(pggnn.__all__)


def test_functional_names():
    from torch_geometric.data.datapipes import DatasetAdapter

    data = graphs()[:2]
    (first, second) = DatasetAdapter(data).add_rings(max_size=4).add_paths().add_hops(hops=1)
    assert torch.equal(first.ring_size, AddRings(4)(data[0]).ring_size)
    assert torch.equal(second.hop_index, AddHops(1)(data[1]).hop_index)
    assert "path_index" in second


def test_data_sets_take_them(tmp_path):
    """Before training, too: rings are no attribute of nodes, edges or graphs."""
    file = tmp_path / "square.jsonl"
    lines = ['{"num_nodes": 4, "edges": [[0, 1], [1, 2], [2, 3], [3, 0]], "y": 0.5}']
    lines.append('{"num_nodes": 2, "edges": [[0, 1]], "y": 1.5}')
    file.write_text("\n".join(lines))
    dataset = load(file, pre_transform=AddRings())
    assert [one.ring_size.tolist() for one in dataset] == [[4], []]
    assert dataset.schema.task == "regression"
    found = Graphs.of(dataset)
    assert [*found.node, *found.edge, *found.graph] == ["y"]
