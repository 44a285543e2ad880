"""Batches with plans, cut from a data set's storage by index arithmetic on whole tensors."""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from pggnn.data.graphs import Graphs, expand, starts
from pggnn.plan import Plan


class Batches:
    """Iterates over a data set in batches, as PyG's ``DataLoader`` does, each with its :class:`~pggnn.Plan`.

    A batch equals ``Batch.from_data_list`` of its graphs and has ``batch.plan`` besides. No graph is made on its own:
    batches are gathered on the device where the storage lies, without waiting for it except in :meth:`Plan.build`.

    Args:
        dataset: Any in-memory data set of PyG with ``edge_index``; not one with a ``transform``.
        batch_size: Graphs in a batch; the last may have fewer.
        shuffle: A fresh order in each pass.
        seed: Seed of the orders; equal seeds give equal passes on every machine.
        plan: Whether to build plans.
        device: Moves the storage there first; by default it stays.
    """

    def __init__(
        self,
        dataset: InMemoryDataset,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        plan: bool = True,
        device: torch.device | str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, got {batch_size}")
        if dataset.transform is not None:
            raise ValueError("a transform acts on single graphs, which are never made here; give it as pre_transform")
        graphs = Graphs.of(dataset)
        self.batch_size, self.shuffle, self.plan = batch_size, shuffle, plan
        self.generator = torch.Generator().manual_seed(seed)
        self.index = torch.as_tensor(dataset.indices(), dtype=torch.long)
        self._empty = Batch(_base_cls=Data)
        self._graphs = graphs if device is None else _to(graphs, device)
        self._counts = torch.stack([graphs.nodes, graphs.edges]).cpu()
        self._starts = torch.stack([starts(row)[:-1] for row in self._counts]).to(self._graphs.edge_index.device)

    def __len__(self) -> int:
        """Number of batches in a pass."""
        return -(-len(self.index) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        order = self.index
        if self.shuffle:
            order = order[torch.randperm(len(order), generator=self.generator)]
        for chosen in order.split(self.batch_size):
            yield self.take(chosen)

    def take(self, chosen: Tensor) -> Batch:
        """The batch of the graphs with the given numbers, in that order; they count in the whole set, not the split."""
        graphs = self._graphs
        device = graphs.edge_index.device
        counts = self._counts.index_select(1, chosen)
        ptr_of = torch.nn.functional.pad(counts.cumsum(1), (1, 0))
        totals = ptr_of[:, -1].tolist()
        on_device = chosen.to(device, non_blocking=True)
        pointers = ptr_of.to(device, non_blocking=True)
        shift = self._starts.index_select(1, on_device) - pointers[:, :-1]
        member, rows = [], []
        for total, sizes, offset in zip(totals, counts.to(device, non_blocking=True), shift, strict=True):
            member.append(torch.repeat_interleave(sizes, output_size=total))
            rows.append(torch.arange(total, device=device) + offset.index_select(0, member[-1]))
        ptr = pointers[0]
        edge_index = graphs.edge_index.index_select(1, rows[1]).long() + ptr.index_select(0, member[1])
        select = {"node": rows[0], "edge": rows[1], "graph": on_device}
        values = {"edge_index": edge_index}
        for level, name, stored in graphs.attributes():
            values[name] = expand(name, stored.index_select(0, select[level]), graphs.schema.widths)
        values |= {"batch": member[0], "ptr": ptr}
        batch = copy(self._empty)  # making one anew costs as much as filling it
        batch.update(values)
        if "x" not in graphs.node:
            batch.num_nodes, batch._store._num_nodes = totals[0], counts[0].tolist()
        self._remember(batch, ptr_of)
        if self.plan:
            batch.plan = Plan.build(edge_index, totals[0], graphs.schema.flow)
        return batch

    def _remember(self, batch: Batch, pointers: Tensor) -> None:
        """What ``batch.to_data_list()`` needs."""
        count = pointers.size(1) - 1
        slices = {"node": pointers[0], "edge": pointers[1], "graph": torch.arange(count + 1)}
        none = torch.zeros(count, dtype=torch.long)
        batch._num_graphs = count
        batch._slice_dict = {"edge_index": pointers[1]}
        batch._inc_dict = {"edge_index": pointers[0, :-1]}
        for level, name, _ in self._graphs.attributes():
            batch._slice_dict[name], batch._inc_dict[name] = slices[level], none


def _to(graphs: Graphs, device: torch.device | str) -> Graphs:
    node, edge, graph = (
        {name: value.to(device) for name, value in level.items()} for level in (graphs.node, graphs.edge, graphs.graph)
    )
    return replace(graphs, edge_index=graphs.edge_index.to(device), node=node, edge=edge, graph=graph)
