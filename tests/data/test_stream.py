"""Shards are streamed into batches."""

from itertools import chain, product

import numpy as np
import pytest
import torch
from numbered_graphs import assert_equal, made, numbers
from torch.utils.data import DataLoader

from benchmarks.timing import CLEAR_REFS, peak_memory
from pggnn import PGGNN
from pggnn.data.batching.batches import Batches
from pggnn.data.batching.stream import StreamedBatches
from pggnn.data.dataset import GraphDataset
from pggnn.data.formats.shards import save_shards
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema


def flat(lists):
    return list(chain.from_iterable(lists))


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
