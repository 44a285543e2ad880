"""Training from shards on a disk, beside the same batches in memory, on a CPU: graphs a second and peak memory."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.nn.functional import mse_loss

from benchmarks.timing import Figures
from pggnn.console import tracked
from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.stream import StreamedBatches
from pggnn.data.formats.shards import Shards, save_shards
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.nn import PGGNN
from pggnn.train.engine.memory import peak_memory

SHARD, BUFFER, BATCH, FEATURES = 100_000, 4, 512, 10


def stream(graphs: int = 10_000_000, folder: str | None = None) -> Figures:
    """Writes graphs, trains one epoch from their shards, and epochs over the first shards in memory before and after.

    Each training is in a process of its own, whose peak is that of its resident memory, libraries included. Files are
    read piece by piece and not mapped: what the system caches of them is no part of it. That cache is dropped before.
    """
    case = f"PGGNN, linear cell, hidden 16, batch {BATCH}"
    with TemporaryDirectory(dir=folder) as parent:
        begin = time.perf_counter()
        path = save_shards(tracked(generate(graphs), "Writing graphs", graphs, len), Path(parent) / "shards", SHARD)
        yield case, "graphs", graphs
        yield case, "written, graphs/s", graphs / (time.perf_counter() - begin)
        yield case, "folder, GiB", sum(drop(file) for file in path.iterdir()) / 2**30
        before, streamed, after = (alone(task, path) for task in (in_memory, from_shards, in_memory))
    rate = (before["rate"] + after["rate"]) / 2
    yield case, "streamed, graphs/s", streamed["rate"]
    yield case, "in memory, graphs/s", rate
    yield case, "streamed / in memory", streamed["rate"] / rate
    yield case, "peak of the process, MiB", streamed["peak"]
    yield case, "its peak before the first batch, MiB", streamed["begin"]


def generate(graphs: int, seed: int = 0) -> Iterator[Graphs]:
    """Trees of 6 to 16 nodes that are nearly paths, like molecules, a shard at a time; what is learned is a sum over
    their nodes."""
    random = np.random.default_rng(seed)
    sizes = [min(SHARD, graphs - first) for first in range(0, graphs, SHARD)]
    for count in sizes:
        nodes = random.integers(6, 17, size=count)
        first = np.cumsum(nodes) - nodes
        place = np.arange(nodes.sum()) - np.repeat(first, nodes)
        child = place[place > 0]
        parent = np.maximum(child - 1 - (random.random(len(child)) < 0.3), 0)
        edges = np.stack([[parent, child], [child, parent]], -1).reshape(2, -1).astype(np.uint8)
        x = random.standard_normal((len(place), FEATURES), dtype=np.float32)
        y = np.add.reduceat(x[:, 0] * x[:, 1], first)
        yield Graphs(
            torch.from_numpy(nodes), torch.from_numpy(2 * (nodes - 1)), torch.from_numpy(edges),
            {"x": torch.from_numpy(x)}, graph={"y": torch.from_numpy(y)},
            schema=Schema("graph", "regression", features=FEATURES),
        )  # fmt: skip


def drop(file: Path) -> int:
    """Has the system forget what it caches of a file, where it can; returns the size of the file."""
    if hasattr(os, "posix_fadvise"):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return file.stat().st_size


def alone(task: Callable[[Path], dict[str, float]], path: Path) -> dict[str, float]:
    """What a task returns in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(task, path).result()


def from_shards(path: Path) -> dict[str, float]:
    """One epoch."""
    train(warm_up())
    begin = peak_memory()["ram"]
    rate = train(StreamedBatches(path, BATCH, "shuffle", buffer=BUFFER))
    return {"rate": rate, "begin": begin, "peak": peak_memory()["ram"]}


def in_memory(path: Path) -> dict[str, float]:
    """One epoch over as many shards as the buffer holds."""
    train(warm_up())
    shards = Shards(path)
    graphs = Graphs.join([shards.read(number) for number in range(min(BUFFER, len(shards.files)))])
    return {"rate": train(Batches(Collater(graphs), BATCH, "shuffle"))}


def warm_up() -> Batches:
    """A few batches, with which everything is loaded and compiled."""
    return Batches(Collater(next(generate(4 * BATCH))), BATCH)


def train(batches: Batches | StreamedBatches) -> float:
    """Graphs a second in an epoch, from the first read to the last step."""
    torch.manual_seed(0)
    model = PGGNN(FEATURES, 16, 1, num_layers=1, cell="linear")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    seen, begin = 0, time.perf_counter()
    for batch in tracked(batches, "Training", len(batches), after=5):
        loss = mse_loss(model(batch.x, batch.plan, batch.batch, batch_size=batch.num_graphs).flatten(), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += batch.num_graphs
    return seen / (time.perf_counter() - begin)
