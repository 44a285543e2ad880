"""Epochs whose batches all have the same shapes: padding fills each up to a common size."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pggnn.capture.capacity import Capacity
from pggnn.data.batching.collate import Collater
from pggnn.lists import LISTS, ListPlan
from pggnn.plan import PaddedPlan, Plan

SIMULATED = 1000
"""Batches that are drawn to see how many nodes of each degree a batch may have."""


class Padding:
    """Batches of the graphs of a data set, padded to a common :class:`~pggnn.capture.capacity.Capacity`.

    Padding nodes come last and belong to a graph of their own, number ``batch_size``. They are their own neighbours, or
    have none. Padding edges are the last node's.

    Args:
        collater: The graphs.
        index: Those that batches are made of.
        batch_size: Graphs in a batch.
        exact: Whether all batches get the same number of nodes of each degree, which every layer can read; otherwise
            the common profile is an upper bound, for :class:`~pggnn.plan.PaddedPlan`.
    """

    def __init__(self, collater: Collater, index: Tensor, batch_size: int, exact: bool = True) -> None:
        self.collater, self.batch_size = collater, batch_size
        if exact and collater.lists:
            raise ValueError("lists are padded for layers that take padded plans alone")
        self.nodes = Histogram(collater.host_degree, collater.counts[0].numpy())
        self.lists = {
            kind: Histogram(stored.lengths, stored.counts[0].numpy()) for kind, stored in collater.lists.items()
        }
        random = np.random.RandomState(0)
        size = min(batch_size, len(index))
        chosen = [index[random.permutation(len(index))[:size]] for _ in range(SIMULATED)]
        drawn = self.nodes.of(chosen)
        self.capacity = Capacity.of(self.nodes.values, drawn, exact)
        self.list_capacity = {kind: Capacity.of(one.values, one.of(chosen)) for kind, one in self.lists.items()}
        self.mean = Capacity(self.nodes.values, drawn.mean(0), True)
        """What a batch needs on average."""

    @property
    def nbytes(self) -> int:
        """Bytes of a batch in the tables of an epoch, without its targets: features are no longer compact there."""
        schema = self.collater.graphs.schema
        lists = sum(32 * one.nodes + 24 * one.edges for one in self.list_capacity.values())
        rows = self.capacity.nodes * (4 * schema.in_channels + 33) + self.capacity.edges * (4 * schema.edge_dim + 16)
        return rows + lists

    def extend(self, chosen: Sequence[Tensor]) -> bool:
        """Grows to hold batches of these graphs; returns whether it had to."""
        needed = Capacity.of(self.nodes.values, self.nodes.of(chosen), self.capacity.exact)
        grows = not self.capacity.holds(needed)
        if grows:
            self.capacity = self.capacity.grown(needed)
        for kind, one in self.lists.items():
            needed = Capacity.of(one.values, one.of(chosen))
            if not self.list_capacity[kind].holds(needed):
                self.list_capacity[kind], grows = self.list_capacity[kind].grown(needed), True
        return grows

    def epoch(self, chosen: Sequence[Tensor]) -> dict[str, Tensor]:
        """These batches, ``T`` of them, padded, as tables with one row for each. Waits for the device a few times, once
        for the whole epoch.

        ``neighbor``, ``center``, ``start``, ``degree`` and ``order`` are those of :class:`~pggnn.plan.Plan`; ``member``
        is the graph of each node, ``real`` whether it is one of the data set's; ``y`` are the targets, ``counts``
        whether there is such a target; ``x`` and ``edge_attr`` are there if the graphs have them.
        """
        collater, device = self.collater, self.collater.device
        batch = collater.collate(torch.cat(list(chosen)))
        steps, graphs = len(chosen), torch.tensor([len(numbers) for numbers in chosen])
        per_batch = torch.stack([collater.counts[:, numbers].sum(1) for numbers in chosen], dim=1)
        exact, nodes, edges = self.capacity.exact, self.capacity.nodes, self.capacity.edges
        first = per_batch.cumsum(1) - per_batch
        places = [_places(per_batch[level], size, device) for level, size in enumerate((nodes, edges))]
        degree, real = _padded(batch.plan.degree, places[0], steps, nodes)
        if exact:
            missing = torch.from_numpy(self.capacity.by_degree - self.nodes.of(chosen)).flatten()
            degree[~real] = (
                torch.from_numpy(np.tile(self.nodes.values, steps)).long().repeat_interleave(missing).to(device)
            )
        before = first[0].to(device).repeat_interleave(per_batch[1].to(device))
        if exact:
            center = torch.repeat_interleave(degree.flatten(), output_size=steps * edges)
            center = center - torch.arange(steps, device=device).repeat_interleave(edges) * nodes
            neighbor = center.clone()
        else:  # padding edges are not read, but summing gradients takes long where one node has them all
            center = torch.full((steps * edges,), nodes - 1, device=device)
            center[places[1]] = batch.plan.center - before
            neighbor = torch.arange(steps * edges, device=device) % max(nodes, 1)
        neighbor[places[1]] = batch.plan.neighbor - before
        member = torch.full((steps * nodes,), self.batch_size, device=device)
        first_graph = (graphs.cumsum(0) - graphs).to(device)
        member[places[0]] = batch.batch - first_graph.repeat_interleave(per_batch[0].to(device))
        by_node = collater.graphs.schema.level == "node"
        size = nodes if by_node else self.batch_size + 1
        y, counts = _padded(batch.y, places[0] if by_node else _places(graphs, size, device), steps, size)
        tables = {
            "neighbor": neighbor.view(steps, edges),
            "center": center.view(steps, edges),
            "start": degree.cumsum(1) - degree,
            "degree": degree,
            "order": torch.sort(degree, dim=1, descending=True, stable=True)[1],
            "member": member.view(steps, nodes),
            "real": real,
            "y": y,
            "counts": counts,
        }
        for kind in self.lists:
            tables |= self._list_tables(kind, batch, chosen, first, per_batch)
        if "x" in batch:
            tables["x"] = _padded(batch.x, places[0], steps, nodes)[0]
        if "edge_attr" in batch:
            tables["edge_attr"] = _padded(batch.edge_attr.index_select(0, batch.plan.edge), places[1], steps, edges)[0]
        return tables

    def _list_tables(
        self, kind: str, batch: Batch, chosen: Sequence[Tensor], first: Tensor, of_batch: Tensor
    ) -> dict[str, Tensor]:
        """The tables of one kind of lists. Padding sequences have no members and are the last node's."""
        device, steps, capacity = self.collater.device, len(chosen), self.list_capacity[kind]
        (plan, owner, *_), stored = batch.lists[kind], self.collater.lists[kind]
        per_batch = torch.stack([stored.counts[:, numbers].sum(1) for numbers in chosen], dim=1)
        begin = per_batch.cumsum(1) - per_batch
        sequences, places = (
            _places(per_batch[level], size, device) for level, size in enumerate((capacity.nodes, capacity.edges))
        )
        nodes, edges = self.capacity.nodes, self.capacity.edges
        own_node = first[0].to(device).repeat_interleave(per_batch[0].to(device))
        node, edge, reader = (
            row.to(device).repeat_interleave(per_batch[1].to(device)) for row in (first[0], first[1], begin[0])
        )
        degree = _padded(plan.degree, sequences, steps, capacity.nodes)[0]
        owners = torch.full((steps * capacity.nodes,), nodes - 1, device=device)
        owners[sequences] = owner - own_node
        member = torch.arange(steps * capacity.edges, device=device) % max(nodes, 1)
        member[places] = plan.neighbor - node
        center = torch.full((steps * capacity.edges,), capacity.nodes - 1, device=device)
        center[places] = plan.center - reader
        features = torch.full((steps * capacity.edges,), 0 if LISTS[kind].apart else edges, device=device)
        if LISTS[kind].apart:
            features[places] = plan.edge
        else:  # edges lie in the order of their slots here
            slot = torch.empty(plan_edges := batch.plan.num_edges + 1, dtype=torch.long, device=device)
            slot[batch.plan.edge] = torch.arange(plan_edges - 1, device=device)
            features[places] = torch.where(plan.edge < plan_edges - 1, slot[plan.edge] - edge, edges)
        found = {
            "neighbor": member.view(steps, -1), "center": center.view(steps, -1), "edge": features.view(steps, -1),
            "degree": degree, "start": degree.cumsum(1) - degree, "owner": owners.view(steps, -1),
            "order": torch.sort(degree, dim=1, descending=True, stable=True)[1],
        }  # fmt: skip
        return {f"{kind} {name}": table for name, table in found.items()}

    def list_plans(self, row: dict[str, Tensor]) -> dict[str, ListPlan]:
        """What is read beside the edges in one batch, from its row of the tables."""
        found, flow = {}, self.collater.graphs.schema.flow
        for kind, capacity in self.list_capacity.items():
            table = {name.removeprefix(f"{kind} "): value for name, value in row.items() if name.startswith(f"{kind} ")}
            plan = PaddedPlan.of_slots(
                table["neighbor"], table["center"], table["edge"], table["degree"], capacity.profile, table["order"],
                table["start"], self.capacity.nodes, flow,
            )  # fmt: skip
            found[kind] = ListPlan(plan, table["owner"], row["neighbor"])
        return found

    def plan(self, row: dict[str, Tensor]) -> Plan:
        """The plan of one batch, from its row of the tables."""
        kind = Plan if self.capacity.exact else PaddedPlan
        edge = torch.arange(row["center"].size(0), device=row["center"].device)
        return kind.of_slots(
            row["neighbor"], row["center"], edge, row["degree"], self.capacity.profile, row["order"], row["start"],
            flow=self.collater.graphs.schema.flow,
        )  # fmt: skip

    def batch(self, row: dict[str, Tensor], plan: Plan) -> Data:
        """One batch, from its row of the tables, as a network takes it."""
        there: dict[str, Any] = {name: row[name] for name in ("x", "edge_attr", "y", "counts", "real") if name in row}
        if self.lists:
            there["lists"] = self.list_plans(row)
        return Data(
            batch=row["member"], plan=plan, num_graphs=self.batch_size + 1, num_nodes=len(row["member"]), **there
        )


class Histogram:
    """How many nodes of each degree, or sequences of each length, the graphs of a data set have.

    Args:
        numbers: The degrees or lengths, graph by graph.
        counts: ``[G]`` how many of them each graph has.
    """

    def __init__(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        self.values = np.union1d(0, numbers)
        graph = np.repeat(np.arange(len(counts)), counts)
        self.table = np.zeros((len(counts), len(self.values)), np.int64)
        np.add.at(self.table, (graph, np.searchsorted(self.values, numbers)), 1)

    def of(self, chosen: Sequence[Tensor]) -> np.ndarray:
        """``[T, D]`` how many of each there are in each batch."""
        return np.stack([self.table[numbers.numpy()].sum(0) for numbers in chosen])


def _places(sizes: Tensor, width: int, device: torch.device) -> Tensor:
    """Where rows that follow each other batch by batch go in a table of ``width`` places for each batch."""
    batch = torch.repeat_interleave(sizes.to(device), output_size=int(sizes.sum()))
    first = (sizes.cumsum(0) - sizes).to(device)
    return torch.arange(batch.size(0), device=device) - first[batch] + batch * width


def _padded(values: Tensor, places: Tensor, steps: int, size: int) -> tuple[Tensor, Tensor]:
    """Values at their places in ``[steps, size, …]``, zeros elsewhere, and which places are theirs."""
    table = values.new_zeros(steps * size, *values.shape[1:])
    table[places] = values
    there = torch.zeros(steps * size, dtype=torch.bool, device=values.device)
    there[places] = True
    return table.view(steps, size, *values.shape[1:]), there.view(steps, size)
