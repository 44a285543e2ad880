from collections import Counter
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Data, InMemoryDataset

from benchmarks.timing import CLEAR_REFS, peak_memory
from pggnn import PGGNN
from pggnn.data.batching.batches import Batches
from pggnn.data.batching.stream import StreamedBatches
from pggnn.data.dataset import GraphDataset
from pggnn.data.formats import shards
from pggnn.data.formats.archives import read_npz
from pggnn.data.formats.shards import Shards, save_shards
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.data.schema import Schema
from pggnn.plan import TENSORS

LABELS = {"node_labels": ("C", "H", "O"), "edge_labels": ("-", "=")}


def made(count, flow="source_to_target", seed=0):
    """Graphs of 0 to 7 nodes, their edges in no order, with labels; ``y`` is the number of the graph."""
    random = np.random.default_rng(seed)
    nodes = random.integers(8, size=count)
    edges = np.where(nodes > 0, random.integers(12, size=count), 0)
    of_edge = np.repeat(nodes, edges)
    return Graphs(
        torch.from_numpy(nodes), torch.from_numpy(edges),
        torch.from_numpy(random.integers(of_edge, size=(2, len(of_edge)))),
        {"x": torch.from_numpy(random.integers(3, size=nodes.sum(), dtype=np.uint8))},
        {"edge_attr": torch.from_numpy(random.integers(2, size=edges.sum(), dtype=np.uint8))},
        {"y": torch.arange(count).float(), "weight": torch.rand(count, 2)},
        Schema("graph", "regression", flow=flow, **LABELS),
    )  # fmt: skip


def one(number, **more):
    """A graph of two nodes."""
    edges, y = torch.tensor([[0, 1], [1, 0]]), torch.tensor([float(number)])
    return Data(**{"x": torch.ones(2, 3), "edge_index": edges, "y": y} | more)


@pytest.fixture
def small_pieces(monkeypatch):
    """Single graphs are put together 32 at a time."""
    monkeypatch.setattr(shards, "PIECE", 32)


class Own(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def numbers(batches):
    return [batch.y.long().tolist() for batch in batches]


def flat(lists):
    return list(chain.from_iterable(lists))


def assert_equal(ours, theirs):
    assert set(ours.keys()) == set(theirs.keys()) and ours.num_graphs == theirs.num_graphs
    for key in set(theirs.keys()) - {"plan", "num_nodes"}:
        assert torch.equal(ours[key], theirs[key]) and ours[key].dtype == theirs[key].dtype, key
    assert ours.num_nodes == theirs.num_nodes and ours.plan.flow == theirs.plan.flow
    assert all(torch.equal(getattr(ours.plan, name), getattr(theirs.plan, name)) for name in TENSORS)
    for one, other in zip(ours.to_data_list(), theirs.to_data_list(), strict=True):
        assert all(torch.equal(one[key], other[key]) for key in ("edge_index", "y"))


@pytest.mark.parametrize("sampling", ["order", "shuffle"])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_a_buffer_that_holds_all_gives_the_batches_of_graphs_in_memory(sampling, flow, tmp_path):
    graphs = made(45, flow)
    folder = save_shards(graphs, tmp_path / "all", 10)
    streamed = StreamedBatches(folder, 7, sampling, seed=3, buffer=9)
    whole = Batches(GraphDataset(graphs), 7, sampling, seed=3)
    assert streamed.schema == graphs.schema and len(streamed) == len(whole) == 7
    for _ in range(3):
        for ours, theirs in zip(streamed, whole, strict=True):
            assert_equal(ours, theirs)


def test_batches_of_a_small_buffer_have_the_values_plans_and_answers_of_their_graphs(tmp_path):
    graphs = made(60)
    model = PGGNN(3, 8, 1, edge_dim=2, num_layers=2).eval()
    whole = Batches(GraphDataset(graphs)).collater
    order = []
    for batch in StreamedBatches(save_shards(graphs, tmp_path / "all", 9), 8, "shuffle", buffer=2):
        order += batch.y.long().tolist()
        theirs = whole.collate(batch.y.long())
        assert_equal(batch, theirs)
        with torch.no_grad():
            answers = [model(one.x, one.plan, one.batch, one.edge_attr, one.num_graphs) for one in (batch, theirs)]
        assert torch.equal(*answers)
    assert order != sorted(order) == list(range(60))


@pytest.mark.parametrize(("shard_size", "buffer"), [(4, 2), (6, 1), (8, 100), (50, 2)])
def test_every_graph_once_an_epoch_whatever_the_shards_and_processes(shard_size, buffer, tmp_path):
    folder = save_shards(made(31), tmp_path / "all", shard_size)
    for processes, batch_size, sampling in product((1, 2, 5), (3, 50), ("order", "shuffle")):
        shares = [
            StreamedBatches(folder, batch_size, sampling, 1, buffer, (rank, processes)) for rank in range(processes)
        ]
        for _ in range(1 + (sampling == "shuffle")):
            found = [numbers(share) for share in shares]
            assert sorted(flat(map(flat, found))) == list(range(31))
            assert {len(one) for one in found} == {len(shares[0])}, "as many batches in all processes"
            for sizes in zip(*([len(batch) for batch in one] for one in found), strict=True):
                assert min(sizes) >= 1 and max(sizes) <= min(sizes) + 2
                assert processes > 1 or max(sizes) <= batch_size


def test_seed_and_epoch_alone_decide(tmp_path):
    folder = save_shards(made(40), tmp_path / "all", 6)

    def epochs(seed, shard=(0, 1)):
        batches = StreamedBatches(folder, 4, "shuffle", seed, 2, shard)
        return batches, [numbers(batches) for _ in range(3)]

    (batches, first), (_, again), (_, other) = epochs(5), epochs(5), epochs(6)
    assert first == again and first != other
    assert len({str(one) for one in first}) == 3, "epochs differ"
    batches.epoch = 1
    assert numbers(batches) == first[1]
    assert epochs(5, (1, 2))[1] == epochs(5, (1, 2))[1]


@pytest.mark.parametrize("buffer", [1, 3])
def test_as_many_shards_are_shuffled_together_as_the_buffer_holds(buffer, tmp_path):
    folder = save_shards(made(120), tmp_path / "all", 10)
    batches = StreamedBatches(folder, 5, "shuffle", buffer=buffer)
    epochs = []
    for found in (flat(numbers(batches)), flat(numbers(batches))):
        windows = [found[first : first + 10 * buffer] for first in range(0, 120, 10 * buffer)]
        epochs.append([{number // 10 for number in window} for window in windows])
        assert [len(window) for window in epochs[-1]] == [buffer] * len(windows)
        assert all(window != sorted(window) for window in windows)
    assert epochs[0] != epochs[1], "shards are shuffled too"


def test_a_batch_may_lie_in_several_windows(tmp_path):
    folder = save_shards(made(50), tmp_path / "all", 3)
    assert [len(batch) for batch in numbers(StreamedBatches(folder, 20, "shuffle", buffer=2))] == [20, 20, 10]


def test_a_process_reads_its_own_shards(tmp_path):
    folder = save_shards(made(40), tmp_path / "all", 10)
    first, second = (StreamedBatches(folder, 8, shard=(rank, 2)) for rank in (0, 1))
    for file in sorted(folder.iterdir())[2:]:
        file.unlink()
    assert flat(numbers(first)) == list(range(20))
    with pytest.raises(FileNotFoundError, match="00002-of-00004"):
        numbers(second)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_of_a_loader_assemble_the_same_batches(workers, tmp_path):
    batches = StreamedBatches(save_shards(made(50), tmp_path / "all", 7), 4, "shuffle", seed=2, buffer=2)
    loader = DataLoader(batches, batch_size=None, num_workers=workers)
    assert len(loader) == 13
    ahead = list(loader)
    for ours, theirs in zip(ahead, batches, strict=True):
        assert_equal(ours, theirs)
    assert batches.epoch == 1, "workers have epochs of their own"


@pytest.mark.skipif(not CLEAR_REFS.exists(), reason="peak memory is read from /proc, which only Linux has")
def test_memory_is_that_of_the_buffer(tmp_path):
    """96 MiB in 24 shards raise the peak by what reading and joining two of them takes."""
    nodes, edges = torch.full((512,), 32), torch.zeros(512, dtype=torch.long)

    def many():
        for _ in range(24):
            x = torch.rand(2**14, 64)
            yield Graphs(nodes, edges, torch.zeros(2, 0, dtype=torch.uint8), {"x": x}, schema=Schema(features=64))

    batches = StreamedBatches(save_shards(many(), tmp_path / "all", 512), 64, "shuffle", buffer=2)
    assert len(batches.shards.files) == 24
    seen = []
    raised = peak_memory(lambda: seen.extend(batch.num_graphs for batch in batches))
    assert sum(seen) == 24 * 512
    assert raised < 48 * 2**20, f"{raised / 2**20:.0f} MiB"
    batches.buffer = 24
    assert peak_memory(lambda: next(iter(batches))) > 96 * 2**20, "all of it"


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


def test_an_empty_shard_is_no_trouble(tmp_path):
    folder = save_shards(made(20), tmp_path / "all", 5)
    files = sorted(folder.iterdir())
    arrays = Graphs.join([made(3).chunk(0, 0)]).to_arrays()
    np.savez(files[1], **arrays)
    np.savez(files[3], **arrays)
    expected = [*range(5), *range(10, 15)]
    for sampling in ("order", "shuffle"):
        for buffer in (1, 2, 9):
            found = [numbers(StreamedBatches(folder, 3, sampling, 0, buffer, (rank, 2))) for rank in (0, 1)]
            assert sorted(flat(map(flat, found))) == expected


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


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    save_shards([one(0)], tmp_path / "all")
    with pytest.raises(FileExistsError, match="all is there already: choose another folder"):
        save_shards([one(1)], tmp_path / "all")
    assert numbers(StreamedBatches(tmp_path / "all")) == [[0]]


def test_a_schema_of_ones_own(tmp_path):
    graphs = [one(number, y=torch.tensor([number])) for number in range(4)]
    schema = Schema("graph", "regression", features=3)
    assert StreamedBatches(save_shards(graphs, tmp_path / "a", schema=schema)).schema == schema
    with pytest.raises(ValueError, match=r"graphs 0 to 3: node.x is float32 of width 3, but its schema has 5 columns"):
        save_shards(graphs, tmp_path / "b", schema=replace(schema, features=5))


def test_bad_arguments_are_refused(tmp_path):
    folder = save_shards(made(9), tmp_path / "all", 3)
    for arguments, message in (
        ({"batch_size": 0}, "batch_size must be 1 or more, got 0"),
        ({"buffer": 0}, "buffer must be 1 or more, got 0"),
        ({"sampling": "draws"}, 'sampling must be "order" or "shuffle", got \'draws\''),
        ({"shard": (2, 2)}, r"shard must be a rank and a larger number of processes, got \(2, 2\)"),
        ({"shard": (0, 10)}, "has 9 graphs, which is too few for 10 processes"),
    ):
        with pytest.raises(ValueError, match=message):
            StreamedBatches(folder, **arguments)
    with pytest.raises(ValueError, match="shard_size must be 1 or more, got 0"):
        save_shards([one(0)], tmp_path / "b", 0)


def test_graphs_are_chosen_and_joined():
    graphs = made(30)
    chosen = torch.tensor([4, 29, 4, 0])
    joined = Graphs.join([graphs.chunk(number, number + 1) for number in chosen.tolist()])
    selected = graphs.select(chosen)
    assert joined.fingerprint() == selected.fingerprint() and joined.schema == selected.schema == graphs.schema
    assert Counter(selected.graph["y"].tolist()) == {4: 2, 29: 1, 0: 1}
