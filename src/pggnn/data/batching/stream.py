"""The batches of graphs that do not fit into memory: shards are read when needed, and shuffled some at a time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info
from torch_geometric.data import Batch

from pggnn.data.batching.collate import Collater
from pggnn.data.formats.shards import Shards
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.seeds import derived_seed


class StreamedBatches(IterableDataset[Batch]):
    """Iterates over a folder of shards in batches, each with its :class:`~pggnn.Plan`, as
    :class:`~pggnn.data.batching.batches.Batches` does over graphs in memory.

    An epoch shuffles the shards. It reads ``buffer`` of them at a time, and shuffles the graphs of these together. So
    memory depends on the sizes of shards and buffer alone. A buffer that holds all shards gives the batches of
    ``Batches``. Seed and epoch alone decide about the order, whatever the number of workers of a ``DataLoader``.

    Several processes share the graphs of an epoch evenly: each reads its own shards, and a part of those at the borders
    between two. All have the same number of batches, as ``DistributedDataParallel`` needs it, and none is empty.

    ``torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2)`` assembles the same batches ahead, in worker
    processes with a buffer each; ``epoch`` then has to be set before each pass.

    Args:
        folder: What :func:`~pggnn.data.formats.shards.save_shards` has written.
        batch_size: Graphs in a batch, of all processes together; the last may have fewer.
        sampling: ``"order"`` as they lie; ``"shuffle"``, each graph once in an epoch.
        seed: Seed of the orders; equal seeds give equal epochs on every machine.
        buffer: Shards that are in memory, and shuffled, together.
        shard: Rank and number of processes that share the graphs between them.
        device: Where to keep the graphs that are in memory, and their batches; by default on the CPU.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from pggnn import PGGNN
        >>> from pggnn.data.batching.stream import StreamedBatches
        >>> from pggnn.data.formats.shards import save_shards
        >>> from pggnn.data.sets.counting import erdos_renyi
        >>> folder = save_shards(erdos_renyi(10), Path(mkdtemp()) / "train", shard_size=4)
        >>> batches = StreamedBatches(folder, batch_size=5, sampling="shuffle", buffer=2)
        >>> model = PGGNN(batches.schema.in_channels, 16, 1, level="node")
        >>> for batch in batches:
        ...     print(model(batch.x, batch.plan, batch.batch).shape)
        torch.Size([50, 1])
        torch.Size([50, 1])
    """

    def __init__(
        self,
        folder: str | Path,
        batch_size: int = 1,
        sampling: Literal["order", "shuffle"] = "order",
        seed: int = 0,
        buffer: int = 4,
        shard: tuple[int, int] = (0, 1),
        device: torch.device | str | None = None,
    ) -> None:
        for name, value in {"batch_size": batch_size, "buffer": buffer}.items():
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        if sampling not in ("order", "shuffle"):
            raise ValueError(f'sampling must be "order" or "shuffle", got {sampling!r}')
        rank, processes = shard
        if not 0 <= rank < processes:
            raise ValueError(f"shard must be a rank and a larger number of processes, got {shard}")
        self.shards = Shards(folder)
        graphs = int(self.shards.counts.sum())
        if graphs < processes:
            raise ValueError(
                f"{folder} has {graphs} graphs, which is too few for {processes} process{'es' * (processes > 1)}"
            )
        self.batch_size, self.sampling, self.seed, self.buffer = batch_size, sampling, seed, buffer
        self.shard, self.device, self.epoch = shard, device, 0
        self._bounds = [graphs * part // processes for part in (rank, rank + 1)]
        self._steps = min(-(-graphs // batch_size), graphs // processes)

    @property
    def schema(self) -> Schema:
        """What a model reads and has to give."""
        return self.shards.schema

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the current epoch; the next iteration is the next one."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        worker = get_worker_info()
        first, every = (worker.id, worker.num_workers) if worker else (0, 1)
        generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch, self.shard[0]))
        step, windows = 0, self._windows(epoch)
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, windows, None)
            while (window := coming.result()) is not None:
                coming = reader.submit(next, windows, None)  # while this one is trained on
                collater, sizes = window
                order = torch.arange(len(collater.graphs))
                if self.sampling == "shuffle":
                    order = torch.randperm(len(order), generator=generator)
                for numbers in order.split(sizes):
                    if step % every == first:
                        yield collater.collate(numbers)
                    step += 1

    def _windows(self, epoch: int) -> Iterator[tuple[Collater, list[int]]]:
        """The graphs that are shuffled together, and the sizes of their batches."""
        pieces, sizes = self._pieces(epoch), self._sizes()
        width = self.buffer if self.sampling == "shuffle" else 1
        left: list[Graphs] = []
        for place in range(0, len(pieces), width):
            read = (self.shards.read(number).chunk(*part) for number, *part in sorted(pieces[place : place + width]))
            graphs = Graphs.join([*left, *read])
            whole = int(torch.searchsorted(sizes.cumsum(0), len(graphs), right=True))
            count = int(sizes[:whole].sum())
            left = [Graphs.join([graphs.chunk(count, len(graphs))])]
            if whole:
                yield Collater(graphs.chunk(0, count), self.device), sizes[:whole].tolist()
            sizes = sizes[whole:]
            del graphs

    def _pieces(self, epoch: int) -> list[tuple[int, int, int]]:
        """The part of each shard that this process reads: its number, first graph and last."""
        shards = len(self.shards.counts)
        order = torch.arange(shards)
        if self.sampling == "shuffle":
            generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch, 0, 1))
            order = torch.randperm(shards, generator=generator)
        begin, end = self._bounds
        pieces, first = [], 0
        for number in order.tolist():
            count = int(self.shards.counts[number])
            low, high = max(begin - first, 0), min(end - first, count)
            if low < high:
                pieces.append((number, low, high))
            first += count
        return pieces

    def _sizes(self) -> Tensor:
        """Graphs in each batch of this process: the batch size, or as many as in all others."""
        graphs, ends = self._bounds[1] - self._bounds[0], torch.arange(self._steps + 1)
        ends = (ends * self.batch_size).clamp(max=graphs) if self.shard[1] == 1 else ends * graphs // self._steps
        return ends.diff()
