"""Training from shards on a disk, beside the same batches in memory, on a CPU: graphs a second and peak memory."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.nn.functional import mse_loss
from torch_geometric.data import Batch

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
TURN, EVERY = 200, 10
"""Batches of a turn, and turns of the streamed training for each in memory: shards are read ahead during those, too."""


def stream(graphs: int = 10_000_000, folder: str | None = None) -> Figures:
    """Writes graphs, trains one epoch from their shards, and in turns with it on the first shards in memory.

    Each training is in a process of its own. Its peak is that of its resident memory, libraries included. Files are
    read and not mapped, so what the system caches of them is no part of it; that cache is dropped before.
    """
    case = f"PGGNN, linear cell, hidden 16, batch {BATCH}"
    with TemporaryDirectory(dir=folder) as parent:
        begin = time.perf_counter()
        path = save_shards(tracked(generate(graphs), "Writing graphs", graphs, len), Path(parent) / "shards", SHARD)
        yield case, "graphs", graphs
        yield case, "written, graphs/s", graphs / (time.perf_counter() - begin)
        yield case, "folder, GiB", sum(drop(file) for file in path.iterdir()) / 2**30
        streamed, in_memory = (Worker(batches, path) for batches in (from_shards, from_memory))
        first = streamed.peak
        for number, _ in enumerate(tracked(streamed.turns(), "Training", graphs, float)):
            if number % EVERY == 0:
                next(in_memory.turns())
    for name, worker in (("streamed", streamed), ("in memory", in_memory)):
        worker.process.kill()
        yield case, f"{name}, graphs/s", worker.graphs / worker.seconds
    yield case, "streamed / in memory", streamed.graphs * in_memory.seconds / (in_memory.graphs * streamed.seconds)
    yield case, "peak of the process, MiB", streamed.peak
    yield case, "its peak before the first shard, MiB", first


def from_shards(path: Path) -> Iterator[Batch]:
    """One epoch."""
    return iter(StreamedBatches(path, BATCH, "shuffle", buffer=BUFFER))


def from_memory(path: Path) -> Iterator[Batch]:
    """Epochs without end over as many shards as the buffer holds."""
    shards = Shards(path)
    graphs = Graphs.join([shards.read(number) for number in range(min(BUFFER, len(shards.files)))])
    return chain.from_iterable(repeat(Batches(Collater(graphs), BATCH, "shuffle")))


class Worker:
    """A process that trains, some batches whenever it is asked to; what it has done so far."""

    def __init__(self, batches: Callable[[Path], Iterator[Batch]], path: Path) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=train, args=(batches, path, theirs), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is noticed
        self.graphs, self.seconds, self.peak = 0, 0.0, self._pipe.recv()

    def turns(self) -> Iterator[int]:
        """Turns until there are no batches; the graphs of each."""
        graphs = 1
        while graphs:
            self._pipe.send(TURN)
            graphs, seconds, self.peak = self._pipe.recv()
            self.graphs, self.seconds = self.graphs + graphs, self.seconds + seconds
            yield graphs


def train(make: Callable[[Path], Iterator[Batch]], path: Path, pipe: Connection) -> None:
    """What a worker does: as many batches as it is told; sends their graphs, seconds, and the peak in MiB."""
    torch.manual_seed(0)
    model = PGGNN(FEATURES, 16, 1, num_layers=1, cell="linear")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def steps(batches: Iterable[Batch]) -> int:
        seen = 0
        for batch in batches:
            out = model(batch.x, batch.plan, batch.batch, batch_size=batch.num_graphs)
            optimizer.zero_grad()
            mse_loss(out.flatten(), batch.y).backward()
            optimizer.step()
            seen += batch.num_graphs
        return seen

    steps(Batches(Collater(next(generate(4 * BATCH))), BATCH))  # loads and compiles what there is
    pipe.send(peak_memory()["ram"])
    batches = make(path)
    while count := pipe.recv():
        begin = time.perf_counter()
        graphs = steps(islice(batches, count))
        pipe.send((graphs, time.perf_counter() - begin, peak_memory()["ram"]))


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
