"""Rings, paths and distances of the graphs of a data set: found, kept, batched and padded."""

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from torch_geometric.data import Batch

from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.padding import Padding
from pggnn.data.features import lists as features
from pggnn.data.features.lists import find_lists
from pggnn.data.formats.jsonl import load_jsonl
from pggnn.data.graphs import Graphs
from pggnn.lists import read_lists
from pggnn.plan import PaddedPlan
from pggnn.search import TooMany, find_hops, find_paths, find_rings

FINDERS = {"rings": (find_rings, 18), "paths": (find_paths, 3), "hops": (find_hops, 2)}


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Rings, trees, a graph without edges and one without nodes on rings; edges in no order, with features."""
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
    lines = []
    for number, edges in enumerate(
        ([[2, 0], [0, 1], [1, 2], [3, 2]], [[0, 1]], [], [[4, 0], [3, 4], [0, 1], [1, 2], [2, 3], [1, 3], [5, 0]])
    ):
        nodes = 1 + max((node for edge in edges for node in edge), default=1)
        attributes = torch.randint(9, (len(edges), 2)).tolist()
        lines.append({"x": torch.rand(nodes, 2).tolist(), "edges": edges, "y": float(number), "edge_attr": attributes})
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return load_jsonl(path)


def with_lists(data, kind):
    finder, most = FINDERS[kind]
    name = kind[:-1]
    for part, value in zip(("index", "size", "distance"), finder(data.edge_index, data.num_nodes, most), strict=False):
        data[f"{name}_{part}"] = value
    return data


def same_lists(ours, theirs, edges):
    for field in ("neighbor", "center", "edge", "degree", "start", "profile"):
        assert torch.equal(getattr(ours.plan, field), getattr(theirs.plan, field)), field
    assert ours.plan.num_neighbors == theirs.plan.num_neighbors
    assert torch.equal(ours.owner, theirs.owner) and torch.equal(ours.head, theirs.head)
    assert ours.plan.edge.max() <= edges


@pytest.mark.parametrize("kind", FINDERS)
@pytest.mark.parametrize("chosen", [[0], [3, 0, 1, 2, 3], [1, 2], [2]], ids=str)
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_batches_have_what_pyg_batches(kind, chosen, flow, dataset):
    graphs = Graphs.of(dataset)
    graphs = replace(graphs, schema=replace(graphs.schema, flow=flow))
    collater = Collater(graphs, lists={kind: find_lists(graphs, kind, FINDERS[kind][1])})
    batch = collater.collate(torch.tensor(chosen))
    theirs = Batch.from_data_list([with_lists(dataset[i], kind) for i in chosen])
    assert torch.equal(batch.edge_index, theirs.edge_index)
    expected = read_lists(kind, theirs, flow)
    if expected.plan.num_edges:
        same_lists(batch.lists[kind], expected, batch.edge_index.size(1))
    else:
        assert batch.lists[kind].plan.num_edges == 0


def test_lists_are_found_once(dataset, monkeypatch):
    graphs, said = Graphs.of(dataset), io.StringIO()
    first = find_lists(graphs, "rings", 18, Console(file=said))
    monkeypatch.setitem(features.FINDERS, "rings", None)
    again = find_lists(graphs, "rings", 18, Console(file=said))
    assert said.getvalue() == "Finding rings in graphs: 0 of 4\n"
    assert torch.equal(first.index, again.index) and torch.equal(first.counts, again.counts)
    assert first.counts.tolist() == [1, 0, 0, 2]
    with pytest.raises(TypeError):
        find_lists(graphs, "rings", 17)  # another search, which is not kept


def test_what_cannot_be_searched_is_named(dataset, monkeypatch):
    def refuse(edges, nodes, most):
        raise TooMany("too many", "take fewer")

    monkeypatch.setitem(features.FINDERS, "paths", refuse)
    with pytest.raises(TooMany, match=r"^graph 0 \(counted from 0\): too many; take fewer$"):
        find_lists(Graphs.of(dataset), "paths", 3)


@pytest.mark.parametrize("kind", FINDERS)
def test_padded_batches_hold_the_lists(kind, dataset):
    graphs = Graphs.of(dataset)
    collater = Collater(graphs, lists={kind: find_lists(graphs, kind, FINDERS[kind][1])})
    batches = Batches(collater, 2, "shuffle")
    padding = Padding(collater, torch.arange(4), 2, exact=False)
    padding.extend(batches.chosen())
    tables = padding.epoch(batches.chosen())
    size = sum(table.nbytes for name, table in tables.items() if name not in ("y", "counts"))
    assert padding.nbytes * len(batches) == size
    shapes = set()
    for number, batch in enumerate(batches):
        row = {name: table[number] for name, table in tables.items()}
        padded, real = padding.batch(row, padding.plan(row)), batch.lists[kind]
        found = padded.lists[kind]
        sequences, places = len(real.owner), real.plan.num_edges
        assert isinstance(found.plan, PaddedPlan)
        assert torch.equal(found.owner[:sequences], real.owner)
        assert (found.owner[sequences:] == len(padded.real) - 1).all() and not padded.real[-1]
        for field in ("neighbor", "center"):
            assert torch.equal(getattr(found.plan, field)[:places], getattr(real.plan, field)), field
        assert torch.equal(found.plan.degree[:sequences], real.plan.degree)
        assert (found.plan.degree[sequences:] == 0).all()
        if kind != "hops":
            none, real_none = len(found.head), len(real.head)
            there = real.plan.edge < real_none
            assert torch.equal(found.plan.edge[:places] < none, there)
            ours = padded.edge_attr[found.plan.edge[:places][there]]
            assert torch.equal(ours, batch.edge_attr[real.plan.edge[there]]), "the same features"
            assert torch.equal(found.head[found.plan.edge[:places][there]], real.head[real.plan.edge[there]])
        shapes.add((found.plan.profile.tolist().__str__(), len(found.owner), found.plan.num_edges))
    assert len(shapes) == 1
