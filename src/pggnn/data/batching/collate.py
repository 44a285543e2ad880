"""The graphs of a data set on a device, from which batches with plans are cut by index arithmetic on whole tensors."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.sampler import BaseSampler

from pggnn.data.batching.lists import StoredLists
from pggnn.data.features.lists import GraphLists
from pggnn.data.graphs import Graphs, expand, starts
from pggnn.plan import Plan, profile_of

CHUNK = 2**22
"""Edges that are sorted at a time."""


class Collater:
    """Graphs that lie on a device. Batches are gathered there, plans included, without waiting for it.

    Edges were checked when the graphs were read, and are sorted into neighbourhoods here once; a batch's plan is put
    together from that, and scheduled from degrees that are kept on the host.

    Args:
        graphs: The graphs.
        device: Where to keep them; by default where they are.
        lists: What is read beside the edges: batches have it as ``lists``, by name.
    """

    def __init__(
        self, graphs: Graphs, device: torch.device | str | None = None, lists: Mapping[str, GraphLists] | None = None
    ) -> None:
        self.graphs = graphs if device is None else _to(graphs, device)
        self.device = self.graphs.edge_index.device
        self.counts = torch.stack([graphs.nodes, graphs.edges]).cpu()
        self._starts = torch.stack([starts(row)[:-1] for row in self.counts])
        self._empty = Batch(_base_cls=Data)
        self.samplers: dict[tuple[int, ...], BaseSampler] = {}
        """Samplers of neighbourhoods by how many they take, as :mod:`pggnn.data.batching.nodes` makes them."""
        self._center_row = 1 if graphs.schema.flow == "source_to_target" else 0
        host = _to(graphs, "cpu").checked("batches")
        degree, edge = _neighbourhoods(host, self._center_row)
        self.host_degree = degree.numpy()
        self._degree = degree.to(self.device)
        self._edge = None if edge is None else edge.to(self.device)
        self.lists = {
            kind: StoredLists.build(kind, one, host, edge, self.device) for kind, one in (lists or {}).items()
        }

    @cached_property
    def whole(self) -> Batch:
        """All graphs as one batch."""
        return self.collate(torch.arange(len(self.graphs)))

    @cached_property
    def whole_plan(self) -> Plan:
        """The plan of all graphs as one."""
        edge_index, ptr = self.graphs.batched_edges()
        return Plan.build(edge_index, int(ptr[-1]), self.graphs.schema.flow)

    @cached_property
    def graph_of_node(self) -> Tensor:
        """``[N]`` the graph of each node."""
        return torch.arange(len(self.graphs)).repeat_interleave(self.counts[0])

    def collate(self, chosen: Tensor) -> Batch:
        """The batch of the graphs with the given numbers, in that order."""
        graphs, device = self.graphs, self.device
        counts = self.counts.index_select(1, chosen)
        ptr_of = torch.nn.functional.pad(counts.cumsum(1), (1, 0))
        nodes, edges = ptr_of[:, -1].tolist()
        shift = self._starts.index_select(1, chosen) - ptr_of[:, :-1]
        table = torch.nn.functional.pad(torch.cat([chosen.view(1, -1), counts, shift]), (0, 1))
        ptr, edge_ptr, *rows = _send(torch.cat([ptr_of, table]), device)
        on_device, of_nodes, of_edges, node_shift, edge_shift = (row[:-1] for row in rows)
        member = torch.repeat_interleave(of_nodes, output_size=nodes)
        edge_member = torch.repeat_interleave(of_edges, output_size=edges)
        node_rows = torch.arange(nodes, device=device) + node_shift.index_select(0, member)
        edge_rows = torch.arange(edges, device=device) + edge_shift.index_select(0, edge_member)
        first = ptr.index_select(0, edge_member)
        edge_index = graphs.edge_index.index_select(1, edge_rows).long() + first
        select = {"node": node_rows, "edge": edge_rows, "graph": on_device}
        values = {"edge_index": edge_index}
        for level, name, stored in graphs.attributes():
            values[name] = expand(name, stored.index_select(0, select[level]), graphs.schema.widths)
        batch = copy(self._empty)  # making a new one costs as much as filling it
        batch.update(values | {"batch": member, "ptr": ptr})
        if "x" not in graphs.node:
            batch.num_nodes, batch._store._num_nodes = nodes, counts[0].tolist()
        self._remember(batch, ptr_of)
        edge = torch.arange(edges, device=device)
        if self._edge is not None:
            edge = self._edge.index_select(0, edge_rows).long() + edge_ptr.index_select(0, edge_member)
        batch.plan = self._plan(chosen, edge_index, edge, node_rows)
        if self.lists:
            head = edge_index[1 - self._center_row]
            batch.lists = {
                kind: stored.gather(chosen, batch.plan, ptr, edge_ptr, head) for kind, stored in self.lists.items()
            }
        return batch

    def _plan(self, chosen: Tensor, edge_index: Tensor, edge: Tensor, node_rows: Tensor) -> Plan:
        """What :meth:`Plan.build` gives for this batch."""
        ordered = edge_index if self._edge is None else edge_index.index_select(1, edge)
        degree = self._degree.index_select(0, node_rows).long()
        first, sizes = (row.index_select(0, chosen).tolist() for row in (self._starts[0], self.counts[0]))
        spans = [self.host_degree[begin : begin + size] for begin, size in zip(first, sizes, strict=True)]
        histogram = np.bincount(np.concatenate(spans)) if spans else np.zeros(0, np.int64)
        profile = profile_of(np.arange(len(histogram)), histogram)
        center, neighbor = ordered[self._center_row], ordered[1 - self._center_row]
        return Plan.of_slots(neighbor, center, edge, degree, profile, flow=self.graphs.schema.flow)

    def _remember(self, batch: Batch, pointers: Tensor) -> None:
        """What ``batch.to_data_list()`` needs."""
        count = pointers.size(1) - 1
        slices = {"node": pointers[0], "edge": pointers[1], "graph": torch.arange(count + 1)}
        none = torch.zeros(count, dtype=torch.long)
        batch._num_graphs = count
        batch._slice_dict = {"edge_index": pointers[1]}
        batch._inc_dict = {"edge_index": pointers[0, :-1]}
        for level, name, _ in self.graphs.attributes():
            batch._slice_dict[name], batch._inc_dict[name] = slices[level], none


def _neighbourhoods(graphs: Graphs, center_row: int) -> tuple[Tensor, Tensor | None]:
    """``[N]`` degree of each node, and ``[E]`` edge of each slot, counted in its graph; None if edges lie in order."""
    degree = torch.zeros(int(graphs.nodes.sum()), dtype=torch.int32)
    edge = torch.empty(graphs.edge_index.size(1), dtype=torch.int32)
    in_order = True
    node = slot = 0
    for part in graphs.chunks(CHUNK):
        edge_index, ptr = part.batched_edges()
        center = edge_index[center_row]
        order = torch.arange(center.size(0))
        if (center[1:] < center[:-1]).any():
            # NumPy is ten times as fast where graphs follow one another, PyTorch twice as fast on one large graph
            sort = np.argsort(center.numpy(), kind="stable") if len(part) > 1 else torch.sort(center, stable=True)[1]
            order, in_order = torch.as_tensor(sort), False
        size = int(ptr[-1])
        degree[node : node + size] = torch.bincount(center, minlength=size)
        edge[slot : slot + order.size(0)] = order - starts(part.edges)[:-1].repeat_interleave(part.edges)
        node, slot = node + size, slot + order.size(0)
    return degree, None if in_order else edge


def fitting(graphs: Graphs, device: torch.device | str) -> torch.device:
    """Where to keep graphs for a network on this device: there, if they take less than a third of a GPU's free memory,
    else on the host."""
    device = torch.device(device)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        size = graphs.edge_index.nbytes + sum(value.nbytes for _, _, value in graphs.attributes())
        if 3 * size > free:
            return torch.device("cpu")
    return device


def _send(table: Tensor, device: torch.device) -> tuple[Tensor, ...]:
    """Rows of a small table in one copy, which a GPU does not wait for."""
    if device.type == "cuda":
        table = table.pin_memory()
    return table.to(device, non_blocking=True).unbind(0)


def _to(graphs: Graphs, device: torch.device | str) -> Graphs:
    node, edge, graph = (
        {name: value.to(device) for name, value in level.items()} for level in (graphs.node, graphs.edge, graphs.graph)
    )
    return replace(graphs, edge_index=graphs.edge_index.to(device), node=node, edge=edge, graph=graph)
