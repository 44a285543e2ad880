"""The batches of an epoch: which graphs each one holds, in an order that depends on seed and epoch alone."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch, InMemoryDataset

from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import Graphs
from pggnn.seeds import derived_seed

Sampling = Literal["order", "shuffle", "draws"]


class Batches:
    """Iterates over a data set in batches, as PyG's ``DataLoader`` does, each with its :class:`~pggnn.Plan`.

    A batch equals ``Batch.from_data_list`` of its graphs and has ``batch.plan`` besides. No graph is made on its own:
    batches are gathered on the device where the graphs lie, without waiting for it.

    It is a map-style data set too: ``torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2)`` assembles
    the batches of the current ``epoch`` ahead, in worker processes.

    Args:
        dataset: Any in-memory data set of PyG with ``edge_index``, not one with a ``transform``; or a
            :class:`~pggnn.data.batching.collate.Collater`, which several can share.
        batch_size: Graphs in a batch; the last may have fewer.
        sampling: ``"order"`` as they lie; ``"shuffle"``, each graph once in an epoch; ``"draws"``, each batch drawn
            from all graphs, as the paper's authors do.
        seed: Seed of the orders; equal seeds give equal epochs on every machine.
        steps: Batches in an epoch of draws; by default as many as a shuffled epoch has.
        index: Numbers of the graphs to use; by default those of ``dataset``.
        shard: Rank and number of processes that share each batch between them.
        device: See :class:`~pggnn.data.batching.collate.Collater`.

    Example:
        >>> from pggnn import PGGNN
        >>> from pggnn.data.batching.batches import Batches
        >>> from pggnn.data.dataset import GraphDataset
        >>> from pggnn.data.sets.counting import generate, with_target
        >>> graphs = GraphDataset(with_target(generate("er", 8), "triangles"))
        >>> model = PGGNN(graphs.schema.in_channels, 16, 1, level="node")
        >>> for batch in Batches(graphs, batch_size=4, sampling="shuffle"):
        ...     print(model(batch.x, batch.plan, batch.batch).shape)
        torch.Size([40, 1])
        torch.Size([40, 1])
    """

    def __init__(
        self,
        dataset: InMemoryDataset | Collater,
        batch_size: int = 1,
        sampling: Sampling = "order",
        seed: int = 0,
        steps: int | None = None,
        index: Tensor | None = None,
        shard: tuple[int, int] = (0, 1),
        device: torch.device | str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, got {batch_size}")
        if sampling not in ("order", "shuffle", "draws"):
            raise ValueError(f'sampling must be "order", "shuffle" or "draws", got {sampling!r}')
        if isinstance(dataset, Collater):
            self.collater = dataset
            every = torch.arange(len(dataset.graphs))
        else:
            if dataset.transform is not None:
                raise ValueError(
                    "a transform acts on single graphs, which are never made here; give it as pre_transform"
                )
            self.collater = Collater(Graphs.of(dataset), device)
            every = torch.as_tensor(dataset.indices(), dtype=torch.long)
        self.index = every if index is None else index
        self.batch_size, self.sampling, self.seed, self.shard = batch_size, sampling, seed, shard
        self.steps = -(-len(self.index) // batch_size) if steps is None or sampling != "draws" else steps
        self.epoch = 0
        self._chosen: tuple[int, list[Tensor]] | None = None

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return self.steps

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the current epoch; the next iteration is the next one."""
        chosen = self.chosen()
        self.epoch += 1
        for numbers in chosen:
            yield self._part(numbers)

    def __getitem__(self, batch: int) -> Batch:
        """One batch of the current epoch."""
        return self._part(self.chosen()[batch])

    def chosen(self) -> list[Tensor]:
        """Numbers of the graphs in each batch of the current epoch, of all shards."""
        if self._chosen is None or self._chosen[0] != self.epoch:
            self._chosen = self.epoch, self._choose()
        return self._chosen[1]

    def _choose(self) -> list[Tensor]:
        generator = torch.Generator().manual_seed(derived_seed(self.seed, self.epoch))
        if self.sampling == "draws":
            orders = (torch.randperm(len(self.index), generator=generator) for _ in range(self.steps))
            return [self.index[order[: self.batch_size]] for order in orders]
        order = self.index
        if self.sampling == "shuffle":
            order = order[torch.randperm(len(order), generator=generator)]
        return list(order.split(self.batch_size)) if len(order) else []

    def _part(self, numbers: Tensor) -> Batch:
        rank, processes = self.shard
        return self.collater.collate(numbers[rank::processes])
