"""Shards are written and read; those that are damaged are refused."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from numbered_graphs import assert_equal, made, numbers, one
from torch_geometric.data import Data, InMemoryDataset

from pggnn.data.batching.batches import Batches
from pggnn.data.batching.stream import StreamedBatches
from pggnn.data.dataset import GraphDataset
from pggnn.data.formats import shards
from pggnn.data.formats.archives import read_npz
from pggnn.data.formats.shards import Shards, save_shards
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.data.schema import Schema


@pytest.fixture
def small_pieces(monkeypatch):
    """Single graphs are put together 32 at a time."""
    monkeypatch.setattr(shards, "PIECE", 32)


class Own(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_graphs_of_pyg_are_written_as_they_come(tmp_path):
    graphs = [one(number, x=torch.randint(9, (2, 3)), pos=torch.rand(2, 2)) for number in range(20)]
    graphs[7].edge_index = torch.empty(2, 0, dtype=torch.long)
    for written in (graphs, iter(graphs), Own(graphs)):
        folder = save_shards(written, tmp_path / str(type(written)), 6)
        streamed = StreamedBatches(folder, 6)
        assert streamed.schema == Schema("graph", "regression", features=3)
        assert read_npz(sorted(folder.iterdir())[0])["edge_index"].dtype == np.uint8, "as small as it can be"
        for ours, theirs in zip(streamed, Batches(Own(graphs), 6), strict=True):
            assert_equal(ours, theirs)


def test_parts_of_a_data_set_and_single_graphs_without_features(tmp_path):
    dataset = GraphDataset(made(30))[torch.tensor([7, 3, 3, 29, 11])]
    for ours, theirs in zip(
        StreamedBatches(save_shards(dataset, tmp_path / "a", 2), 5), Batches(dataset, 5), strict=True
    ):
        assert_equal(ours, theirs)
    lonely = [Data(num_nodes=4, edge_index=torch.empty(2, 0, dtype=torch.long)) for _ in range(3)]
    (batch,) = StreamedBatches(save_shards(lonely, tmp_path / "b", 2), 3)
    assert batch.num_nodes == 12 and batch.plan.num_nodes == 12


def test_graphs_are_written_while_they_come(tmp_path, small_pieces):
    """No more than a shard, and some single graphs, are held."""
    seen = []

    def many():
        for number in range(200):
            if number == 160:
                seen.extend(tmp_path.glob(".all.*/*.npz"))
            yield one(number)

    save_shards(many(), tmp_path / "all", 20)
    assert len(seen) >= 6
    assert [path.name for path in tmp_path.iterdir()] == ["all"]
    assert Shards(tmp_path / "all").counts.tolist() == [20] * 10


def test_classes_may_come_late(tmp_path, small_pieces):
    graphs = [one(0, y=torch.tensor([number // 40])) for number in range(90)]
    found = Shards(save_shards(graphs, tmp_path / "all", 30))
    assert found.schema.classes == (0, 1, 2) and found.schema.task == "classification"
    assert found.read(0).schema == found.schema


def test_a_schema_of_ones_own(tmp_path):
    graphs = [one(number, y=torch.tensor([number])) for number in range(4)]
    schema = Schema("graph", "regression", features=3)
    assert StreamedBatches(save_shards(graphs, tmp_path / "a", schema=schema)).schema == schema
    with pytest.raises(ValueError, match=r"graphs 0 to 3: node.x is float32 of width 3, but its schema has 5 columns"):
        save_shards(graphs, tmp_path / "b", schema=replace(schema, features=5))


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    save_shards([one(0)], tmp_path / "all")
    with pytest.raises(FileExistsError, match="all is there already: choose another folder"):
        save_shards([one(1)], tmp_path / "all")
    assert numbers(StreamedBatches(tmp_path / "all")) == [[0]]


def source(ends=False, late_y=1, **late):
    """Graphs that are alike up to the first pieces that are put together, and then have something else."""
    for number in range(50):
        if ends and number == 45:
            raise OSError("the source ended")
        yield one(number, y=torch.tensor([late_y if number >= 32 else 1]), **(late if number >= 32 else {}))


REFUSED = {
    "the source ended": source(ends=True),
    "there are no graphs to write": [],
    "graph 1: expected PyG's Data with edge_index, x, y like graph 0, got": [one(0), Data(x=torch.ones(1, 3))],
    "graph 0: expected PyG's Data, got 3": [3],
    "graphs 0 to 1 do not fit together": [one(0), one(1, x=torch.ones(2, 4))],
    "graphs 0 to 1: graph 1 .* an edge from 5 to 5": [one(0), one(1, edge_index=torch.full((2, 1), 5))],
    "graphs 32 to 49: graph.z is float32, but missing in graphs 0 to 31": source(z=torch.ones(1)),
    "node.x is float64 of width 3, but float32 of width 3": source(x=torch.ones(2, 3).double()),
    r"save_shards\(…, schema=…\) gives one schema to all": source(late_y=-1),
    "BFloat16": [one(0, x=torch.ones(2, 3).bfloat16())],
    "graph.z of complex64": [one(0, z=torch.zeros(1, dtype=torch.complex64))],
    "1 graphs take 33,624 bytes, too many for a shard: lower shard_size": [one(0, x=torch.ones(2, 4200))],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_written_leaves_nothing_behind(message, tmp_path, monkeypatch, small_pieces):
    monkeypatch.setenv("PGGNN_MAX_BYTES", "30000")
    with pytest.raises((ValueError, OSError), match=message):
        save_shards(REFUSED[message], tmp_path / "all", 20)
    assert list(tmp_path.iterdir()) == []


def test_a_shard_of_no_graphs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="shard_size must be 1 or more, got 0"):
        save_shards([one(0)], tmp_path / "all", 0)


def rewrite(file, **arrays):
    """Puts other arrays into a shard, or takes those that are None out of it."""
    found = read_npz(file) | arrays
    np.savez(file, **{name: array for name, array in found.items() if array is not None})


def flip(file):
    content, values = bytearray(file.read_bytes()), read_npz(file)["graph.weight"].tobytes()
    content[content.index(values)] ^= 1
    file.write_bytes(content)


def edit(name, value=None):
    return lambda file: rewrite(file, **{name: value})


def schema(**changes):
    return edit("schema", np.array(replace(made(1).schema, **changes).to_json()))


SECOND = made(20).chunk(5, 10)
"""The graphs of the shard that is damaged."""
OPENING = {
    "damaged or unreadable .* fetch it again": lambda file: file.write_bytes(file.read_bytes()[:-200]),
    "damaged or unreadable .* zip": lambda file: file.write_bytes(b""),
    "node.x is float32, but whole numbers in .*00000": edit("node.x", np.zeros(3, "f4")),
    "graph.y is float64, but float32 in .*00000": edit("graph.y", np.zeros(5)),
    "graph.weight is float32 of width 3, but .* width 2": edit("graph.weight", np.zeros((5, 3), "f4")),
    "graph.weight is missing, but float32": edit("graph.weight"),
    "nodes is float32, but int64 in any shard": edit("nodes", np.zeros(5, "f4")),
    "edges is missing, but int64 in any shard": edit("edges"),
    "edge_index is whole numbers of width 3, but .* width 2": edit("edge_index", np.zeros((3, 1), "u1")),
    "edge_index is whole numbers, but": edit("edge_index", np.zeros(2, "u1")),
    r"node.z of <U1 and shape \[1\] has no place": edit("node.z", np.array(["a"])),
    r"other of int64 and shape \[5\] has no place": edit("other", np.zeros(5, "i8")),
    r"node.z of >f4 and shape \[5\] has no place": edit("node.z", np.zeros(5, ">f4")),
    "holds object, expected numbers": edit("node.x", np.array([{}], object)),
    "has no schema": edit("schema"),
    "not valid JSON": edit("schema", np.array("{")),
    "unknown 'speed'": edit("schema", np.array('{"speed": 1}')),
    "does not fit that of .*00000": schema(flow="target_to_source"),
    "targets of each node, but there is no node.y": schema(level="node"),
    "node.x is float32 of width 4, but its schema has 3": edit("node.x", np.zeros((9, 4), "f4")),
}
READING = {
    "Bad CRC-32": flip,
    "y has 4 rows for 5 graphs": edit("graph.y", np.zeros(4, "f4")),
    "nodes, but an edge from 99 to 99": edit("edge_index", np.full((2, int(SECOND.edges.sum())), 99, "u1")),
    "x goes from 7 to 7, expected 0 to 2": edit("node.x", np.full(int(SECOND.nodes.sum()), 7, "u1")),
    "has -1 nodes": edit("nodes", np.full(5, -1)),
}


@pytest.mark.parametrize("message", [*OPENING, *READING])
def test_damaged_shards_are_refused_by_name(message, tmp_path):
    folder = save_shards(made(20), tmp_path / "all", 5)
    (OPENING | READING)[message](folder / "00001-of-00004.npz")
    with pytest.raises(ValueError, match=message) as caught:
        batches = StreamedBatches(folder, 4)
        assert message in READING
        numbers(batches)
    assert "00001-of-00004.npz" in str(caught.value) and "\n" not in str(caught.value)


def test_nothing_is_unpickled(tmp_path):
    folder = save_shards(made(9), tmp_path / "all", 5)
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self):
            return open, (str(trap), "w")

    rewrite(folder / "00001-of-00002.npz", **{"node.x": np.array([Trap()], object)})
    with pytest.raises(ValueError, match=r"00001-of-00002.npz.*holds object, expected numbers"):
        StreamedBatches(folder)
    assert not trap.exists()


def test_folders_that_are_not_whole_are_refused(tmp_path):
    folder = save_shards(made(9), tmp_path / "all", 3)
    batches = StreamedBatches(folder)
    rewrite(folder / "00001-of-00003.npz", nodes=np.zeros(4, "i8"), edges=np.zeros(4, "i8"))
    with pytest.raises(ValueError, match=r"00001-of-00003.npz has changed since its folder was opened"):
        numbers(batches)
    (folder / "00001-of-00003.npz").unlink()
    with pytest.raises(ValueError, match=r"00000-of-00003.npz should be 00000-of-00002.npz: some are missing"):
        StreamedBatches(folder)
    with pytest.raises(ValueError, match=r"has no shards such as 00000-of-00010.npz: save_shards writes them"):
        StreamedBatches(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere: save_shards writes one"):
        StreamedBatches(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"all has shards, which a loop of your own reads: StreamedBatches\('"):
        load(folder)


def test_graphs_are_chosen_and_joined():
    graphs = made(30)
    chosen = torch.tensor([4, 29, 4, 0])
    joined = Graphs.join([graphs.chunk(number, number + 1) for number in chosen.tolist()])
    selected = graphs.select(chosen)
    assert joined.fingerprint() == selected.fingerprint() and joined.schema == selected.schema == graphs.schema
    assert Counter(selected.graph["y"].tolist()) == {4: 2, 29: 1, 0: 1}
