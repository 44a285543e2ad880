import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from pggnn import Plan
from pggnn.data.dataset import GraphDataset
from pggnn.data.formats.export import save_jsonl
from pggnn.data.formats.jsonl import load_jsonl
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema

WATER = {"id": "water", "node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "split": "train"}


def same(a, b):
    assert a.num_nodes == b.num_nodes
    for key in ("x", "edge_index", "edge_attr", "y"):
        one, other = a.to_dict().get(key), b.to_dict().get(key)
        assert (one is None) == (other is None), key
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other)), key


FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)


@st.composite
def datasets(draw):
    features, edge_features = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    node_level, width = draw(st.booleans()), draw(st.sampled_from([None, 1, 3]))
    number = draw(st.sampled_from([FLOATS, st.integers(0, 1)])) if width is None else FLOATS
    graphs = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 5))
        edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=6))
        graph = Data(edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous(), num_nodes=n)

        def numbers(*shape, of=FLOATS):
            size = torch.Size(shape).numel()
            return torch.tensor(draw(st.lists(of, min_size=size, max_size=size))).view(*shape)

        if features:
            graph.x = numbers(n, features)
        if edge_features:
            graph.edge_attr = numbers(len(edges), edge_features)
        rows = n if node_level else 1
        graph.y = numbers(rows, of=number) if width is None else numbers(rows, width)
        graphs.append(graph)
    return graphs


@settings(max_examples=150, deadline=None, derandomize=True)
@given(datasets())
def test_any_data_set_survives_the_round_trip(tmp_path_factory, graphs):
    folder = tmp_path_factory.mktemp("trip")
    read = load_jsonl(save_jsonl(graphs, folder / "a.jsonl", {"test": range(len(graphs))}))
    edgeless = all(graph.num_edges == 0 for graph in graphs)
    classes = (
        sorted({int(v) for graph in graphs for v in graph.y.flatten()}) if not graphs[0].y.is_floating_point() else []
    )
    assert list(read.schema.classes) == classes
    for graph, again in zip(graphs, read, strict=True):
        if classes:
            graph.y = torch.tensor([classes.index(v) for v in graph.y.tolist()])
        if edgeless and "edge_attr" in graph:
            del graph.edge_attr
        same(graph, again)
    assert read.splits["test"].tolist() == [*range(len(graphs))]
    twice = load_jsonl(save_jsonl(read, folder / "b.jsonl"))
    assert twice.schema == read.schema
    for graph, again in zip(read, twice, strict=True):
        same(graph, again)
    assert edgeless or (folder / "a.jsonl").read_text() == (folder / "b.jsonl").read_text()


def test_names_ids_and_splits_survive_the_round_trip(write, tmp_path):
    second = {"id": 5, "node_labels": ["C"], "edges": [[0, 0]], "split": "val"}
    for one, two in (
        ({"y": "no"}, {"y": "yes"}),
        ({"y": [0, 1]}, {"y": [1, 1]}),
        ({"node_y": ["a", "b", "a"]}, {"node_y": ["c"]}),
    ):
        first = WATER | one
        graphs = load_jsonl(write(first | {"edge_labels": ["-", "="]}, second | two | {"edge_labels": ["#"]}))
        again = load_jsonl(save_jsonl(graphs, tmp_path / "out.jsonl"))
        assert (again.schema, again.ids) == (graphs.schema, graphs.ids)
        assert again.splits == graphs.splits
        assert again.schema.edge_labels == ("#", "-", "=")
        for a, b in zip(graphs, again, strict=True):
            same(a, b)
        part = load_jsonl(save_jsonl(graphs[1:], tmp_path / "part.jsonl"))
        assert part.ids == [5]
        assert [*part.splits] == ["val"]


def test_neighbours_and_their_order_survive_the_other_flow(tmp_path):
    edges = torch.tensor([[0, 0, 1, 2], [2, 1, 0, 0]])  # node 0 has neighbours 2 and 1, in this order
    graphs = Graphs(
        torch.tensor([3]), torch.tensor([4]), edges, edge={"edge_attr": torch.rand(4, 1)},
        schema=Schema(edge_features=1, flow="target_to_source"),
    )  # fmt: skip
    dataset = GraphDataset(graphs)
    expected = Plan.build(edges, 3, "target_to_source")
    for form in (dataset, dataset[:1], GraphDataset(graphs, transform=lambda data: data)):
        read = load_jsonl(save_jsonl(form, tmp_path / "a.jsonl"))
        plan = Plan.build(read[0].edge_index, 3, read.schema.flow)
        assert torch.equal(plan.neighbor, expected.neighbor) and torch.equal(plan.center, expected.center)
        assert torch.equal(read[0].edge_attr[plan.edge], dataset[0].edge_attr[expected.edge])


def test_splits_are_numbers_each_once_or_masks(tmp_path):
    graphs = [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2) for _ in range(3)]
    first = torch.tensor([True, False, False])
    for splits in ({"train": first, "test": ~first}, {"train": first.numpy(), "test": [False, True, True]}):
        read = load_jsonl(save_jsonl(graphs, tmp_path / "a.jsonl", splits))
        assert {name: index.tolist() for name, index in read.splits.items()} == {"train": [0], "test": [1, 2]}
    for splits, message in (
        ({"train": [0, 1], "val": [1, 2]}, "graph 1 is in the splits twice, 'train' and 'val'"),
        ({"train": [0, 1, 2, 2]}, "graph 2 is in the splits twice"),
        ({"train": [0, 1, 3]}, "split 'train' names graph 3; they are numbered 0 to 2"),
        ({"train": [0, 1], "test": [-1]}, "split 'test' names graph -1"),
        ({"train": first[:2]}, r"split 'train', a mask, must have the shape \[3\], got \[2\]"),
        ({"train": [0.0, 1.0, 2.0]}, "split 'train' must be the numbers of its graphs, or a mask"),
    ):
        with pytest.raises(ValueError, match=message):
            save_jsonl(graphs, tmp_path / "new.jsonl", splits)
    read.splits = {"train": torch.tensor([0, 1]), "test": torch.tensor([1, 2])}
    with pytest.raises(ValueError, match="graph 1 is in the splits twice"):
        save_jsonl(read, tmp_path / "new.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_what_is_left_out_is_named(tmp_path):
    graph = Data(edge_index=torch.tensor([[0], [1]]), pos=torch.rand(2, 3), edge_weight=torch.rand(1), num_nodes=2)
    stored = Graphs(
        torch.tensor([2]), torch.tensor([1]), graph.edge_index, node={"pos": graph.pos},
        edge={"edge_weight": graph.edge_weight},
    )  # fmt: skip
    for graphs in ([graph], GraphDataset(stored), GraphDataset(stored)[:1]):
        with pytest.warns(UserWarning, match="edge_weight, pos left out: .* belongs in x or edge_attr"):
            save_jsonl(graphs, tmp_path / "a.jsonl")
    del graph.pos, graph.edge_weight
    with warnings.catch_warnings(action="error"):
        save_jsonl(load_jsonl(save_jsonl([graph], tmp_path / "a.jsonl")), tmp_path / "b.jsonl")
    assert len({(tmp_path / name).read_bytes() for name in ("a.jsonl", "b.jsonl")}) == 1


def test_features_of_16_bits_are_numbers_too(tmp_path):
    graph = Data(edge_index=torch.tensor([[0], [1]]), x=torch.rand(2, 3).bfloat16(), edge_attr=torch.rand(1, 2).half())
    (read,) = load_jsonl(save_jsonl([graph], tmp_path / "a.jsonl"))
    assert torch.equal(read.x, graph.x.float()) and torch.equal(read.edge_attr, graph.edge_attr.float())


def test_features_that_cannot_be_written(tmp_path):
    first, second, third = (Data(edge_index=torch.tensor([[0], [1]]), x=torch.rand(2, width)) for width in (2, 2, 3))
    with pytest.raises(ValueError, match=r"graph 2 .*: x has the shape \[2, 3\], that of graph 0 \[2, 2\]"):
        save_jsonl([first, second, third], tmp_path / "a.jsonl")
    first.y, second.y = torch.ones(1, 2), torch.ones(1, 3)
    with pytest.raises(ValueError, match=r"graph 1 cannot be written: y has the shape \[1, 3\]"):
        save_jsonl([first, second], tmp_path / "a.jsonl")
    third.x = torch.complex(third.x, third.x)
    with pytest.raises(ValueError, match=r"x is torch.complex64, .* torch.view_as_real"):
        save_jsonl([third], tmp_path / "a.jsonl")
    third.x = torch.view_as_real(third.x)
    assert load_jsonl(save_jsonl([third], tmp_path / "a.jsonl")).schema.features == 6


def test_whole_numbers_become_labels(tmp_path):
    graph = Data(
        x=torch.tensor([[6], [8]]),
        edge_index=torch.tensor([[0], [1]]),
        edge_attr=torch.tensor([2]),
        y=torch.tensor([0.5]),
    )
    many = Data(x=torch.ones(2, 3, dtype=torch.long), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([True]))
    many.edge_attr = torch.empty(1, 0)
    schema = load_jsonl(save_jsonl([graph], tmp_path / "a.jsonl")).schema
    assert (schema.node_labels, schema.edge_labels, schema.features) == ((6, 8), (2,), 0)
    schema = load_jsonl(save_jsonl(iter([many]), tmp_path / "b.jsonl")).schema
    assert (schema.features, schema.task, schema.classes) == (3, "classification", (1,))


def test_what_cannot_be_written_leaves_no_file(tmp_path):
    good = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=torch.tensor([1.0]))
    for bad, message in (
        (
            Data(edge_index=torch.tensor([[0], [5]]), num_nodes=2, y=torch.tensor([1.0])),
            "graph 1 .* has 2 nodes, but an edge from 0 to 5",
        ),
        (
            Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=torch.tensor([float("inf")])),
            "graph 1 cannot be written",
        ),
        (Data(edge_index=torch.empty(2, 0), num_nodes=0, y=torch.tensor([1.0])), "one node at least"),
        (Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=torch.ones(5)), r"graph 1: y of shape \[5\]"),
    ):
        with pytest.raises(ValueError, match=message):
            save_jsonl([good, bad], tmp_path / "new.jsonl")
    with pytest.raises(ValueError, match="no graphs to write"):
        save_jsonl((), tmp_path / "new.jsonl")
    with pytest.raises(ValueError, match="splits must be named train, val, test, got dev"):
        save_jsonl([good], tmp_path / "new.jsonl", {"dev": [0]})
    with pytest.raises(ValueError, match="graph 1 cannot be written: it is in none of the splits"):
        save_jsonl([good, good], tmp_path / "new.jsonl", {"train": [0]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "target", [lambda i: i, bool, lambda i: [i], lambda i: torch.tensor([[i]]), lambda i: torch.tensor([[i]]).numpy()]
)
def test_whole_targets_of_any_form_are_classes(target, tmp_path):
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(edge_index=edges, num_nodes=2, y=target(i % 2)) for i in range(4)]
    loaded = load_jsonl(save_jsonl(graphs, tmp_path / "graphs.jsonl"))
    assert (loaded.schema.level, loaded.schema.task) == ("graph", "classification")
    assert [int(graph.y) for graph in loaded] == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="graph 4 cannot be written: y must be a tensor, or numbers, got 'ring'"):
        save_jsonl([*graphs, Data(edge_index=edges, num_nodes=2, y="ring")], tmp_path / "other.jsonl")


def test_whole_targets_of_nodes_are_classes_in_a_column_too(tmp_path):
    graph = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, y=torch.tensor([[1], [0]]))
    schema = load_jsonl(save_jsonl([graph], tmp_path / "graphs.jsonl")).schema
    assert (schema.level, schema.task) == ("node", "classification")
