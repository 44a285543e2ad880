"""Epochs whose batches all have the same shapes: nodes that count for nothing fill each up to a common size."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pggnn.data.batching.collate import Collater
from pggnn.orderings import Reading
from pggnn.plan import Plan, RoomyPlan, profile_of

SIMULATED = 1000
"""Batches that are drawn to see how many nodes of each degree a batch may have."""
SPARE = 1.125
"""Times what a batch needs that room is made for where a roomy one has too little: a larger one may come yet."""


@dataclass(frozen=True)
class PaddedEpoch:
    """The batches of an epoch, ``T`` of them, as tensors with one row for each. Nodes that fill up come last, are their
    own neighbours or have none, and belong to a graph of their own, number ``B``; edges that fill up are the last
    node's, and lead anywhere."""

    x: Tensor
    """``[T, N, F]``."""
    neighbor: Tensor
    """``[T, E]``, as in :class:`~pggnn.plan.Plan`; likewise the next four."""
    center: Tensor
    start: Tensor
    degree: Tensor
    order: Tensor
    member: Tensor
    """``[T, N]`` graph of each node."""
    real: Tensor
    """``[T, N]`` whether the node is one of the data set's."""
    y: Tensor
    """``[T, N or B + 1, …]`` targets."""
    counts: Tensor
    """``[T, N or B + 1]`` whether there is such a target."""
    edge_attr: Tensor | None = None
    """``[T, E, D]``, in the order of the neighbours."""

    def tensors(self) -> dict[str, Tensor]:
        """All that are there, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Padding:
    """How many nodes and edges every batch is filled up to: as many as any batch had so far, or some more.

    Args:
        collater: The graphs.
        index: Those that batches are made of.
        batch_size: Graphs in a batch.
        roomy: Fill up with nodes without neighbours, for :class:`~pggnn.plan.RoomyPlan`; otherwise with nodes of every
            degree, as many as any batch had, so that all batches have one profile.
    """

    def __init__(self, collater: Collater, index: Tensor, batch_size: int, roomy: bool = False) -> None:
        self.collater, self.batch_size, self.roomy = collater, batch_size, roomy
        degree, nodes = collater.host_degree, collater.counts[0].numpy()
        self.degrees = np.union1d(0, degree)
        graph = np.repeat(np.arange(len(nodes)), nodes)
        self._histogram = np.zeros((len(nodes), len(self.degrees)), np.int64)
        np.add.at(self._histogram, (graph, np.searchsorted(self.degrees, degree)), 1)
        random = np.random.RandomState(0)
        size = min(batch_size, len(index))
        self._drawn = self._of([index[random.permutation(len(index))[:size]] for _ in range(SIMULATED)])
        self._peak = self._counted(self._drawn).max(0)

    def _counted(self, histograms: np.ndarray) -> np.ndarray:
        """What each batch has of each degree: nodes of this degree, or of this and any larger one."""
        return histograms[:, ::-1].cumsum(1)[:, ::-1] if self.roomy else histograms

    @property
    def most(self) -> np.ndarray:
        """``[D]`` nodes of each degree in the common profile; one without neighbours more than any batch has."""
        most = self._peak - np.append(self._peak[1:], 0) if self.roomy else self._peak.copy()
        most[0] += self.roomy
        return most

    @property
    def steps(self) -> tuple[float, float]:
        """Steps of the sequences of the common profile, and of a batch as drawn on average, with the whole group."""
        cost = Reading().work(self.degrees)
        return float(self.most @ cost), float(self._drawn.mean(0) @ cost)

    @property
    def nbytes(self) -> int:
        """What a batch takes in the tables of an epoch, but for its targets: features are no longer compact there."""
        schema, nodes, edges = self.collater.graphs.schema, int(self.most.sum()), int(self.most @ self.degrees)
        return nodes * (4 * max(schema.in_channels, 1) + 33) + edges * (4 * schema.edge_dim + 16)

    @property
    def profile(self) -> Tensor:
        """:attr:`pggnn.plan.Plan.profile` of every batch."""
        return profile_of(self.degrees, self.most)

    def extend(self, chosen: Sequence[Tensor]) -> bool:
        """Makes room for these batches; returns whether there was not enough."""
        needed = self._counted(self._of(chosen)).max(0)
        grown = bool((needed > self._peak).any())
        if grown:
            spare = np.ceil(SPARE * needed).astype(np.int64) if self.roomy else needed
            self._peak = np.maximum(self._peak, spare)
        return grown

    def epoch(self, chosen: Sequence[Tensor]) -> PaddedEpoch:
        """These batches, filled up. Waits for the device a few times, once for the whole epoch."""
        collater, device = self.collater, self.collater.device
        batch = collater.collate(torch.cat(list(chosen)))
        steps, graphs = len(chosen), torch.tensor([len(numbers) for numbers in chosen])
        per_batch = torch.stack([collater.counts[:, numbers].sum(1) for numbers in chosen], dim=1)
        most = self.most
        nodes, edges = int(most.sum()), int(most @ self.degrees)
        first = per_batch.cumsum(1) - per_batch
        places = [_places(per_batch[level], size, device) for level, size in enumerate((nodes, edges))]
        real = torch.zeros(steps * nodes, dtype=torch.bool, device=device)
        real[places[0]] = True
        degree = torch.zeros(steps * nodes, dtype=torch.long, device=device)
        degree[places[0]] = batch.plan.degree
        if not self.roomy:
            filling = torch.from_numpy(most - self._of(chosen)).flatten()
            degree[~real] = torch.from_numpy(np.tile(self.degrees, steps)).long().repeat_interleave(filling).to(device)
        before = first[0].to(device).repeat_interleave(per_batch[1].to(device))
        if self.roomy:
            center = torch.full((steps * edges,), nodes - 1, device=device)
            center[places[1]] = batch.plan.center - before
        else:
            center = torch.repeat_interleave(degree, output_size=steps * edges)
            center = center - torch.arange(steps, device=device).repeat_interleave(edges) * nodes
        # Edges that fill up a roomy batch are not read, but summing gradients takes long where one node has them all.
        neighbor = torch.arange(steps * edges, device=device) % max(nodes, 1) if self.roomy else center.clone()
        neighbor[places[1]] = batch.plan.neighbor - before
        member = torch.full((steps * nodes,), self.batch_size, device=device)
        first_graph = (graphs.cumsum(0) - graphs).to(device)
        member[places[0]] = batch.batch - first_graph.repeat_interleave(per_batch[0].to(device))
        degree = degree.view(steps, nodes)
        by_node = collater.graphs.schema.level == "node"
        size = nodes if by_node else self.batch_size + 1
        y, counts = _filled(batch.y, places[0] if by_node else _places(graphs, size, device), steps, size)
        x = batch.x if "x" in batch else torch.ones(batch.num_nodes, 1, device=device)
        attributes = None
        if "edge_attr" in batch:
            attributes = _filled(batch.edge_attr.index_select(0, batch.plan.edge), places[1], steps, edges)[0]
        return PaddedEpoch(
            x=_filled(x, places[0], steps, nodes)[0],
            neighbor=neighbor.view(steps, edges),
            center=center.view(steps, edges),
            start=degree.cumsum(1) - degree,
            degree=degree,
            order=torch.sort(degree, dim=1, descending=True, stable=True)[1],
            member=member.view(steps, nodes),
            real=real.view(steps, nodes),
            y=y,
            counts=counts,
            edge_attr=attributes,
        )

    def _of(self, chosen: Sequence[Tensor]) -> np.ndarray:
        """``[T, D]`` nodes of each degree in each batch."""
        return np.stack([self._histogram[numbers.numpy()].sum(0) for numbers in chosen])


def plan_of(row: PaddedEpoch, padding: Padding) -> Plan:
    """The plan of one batch, from tensors without their first dimension."""
    kind = RoomyPlan if padding.roomy else Plan
    edge = torch.arange(row.center.size(0), device=row.center.device)
    flow = padding.collater.graphs.schema.flow
    return kind.of_slots(row.neighbor, row.center, edge, row.degree, padding.profile, row.order, row.start, flow=flow)


def _places(sizes: Tensor, width: int, device: torch.device) -> Tensor:
    """Where rows that follow each other batch by batch go in a table of ``width`` places for each batch."""
    batch = torch.repeat_interleave(sizes.to(device), output_size=int(sizes.sum()))
    first = (sizes.cumsum(0) - sizes).to(device)
    return torch.arange(batch.size(0), device=device) - first[batch] + batch * width


def _filled(values: Tensor, places: Tensor, steps: int, size: int) -> tuple[Tensor, Tensor]:
    """Values at their places in ``[steps, size, …]``, zeros elsewhere, and which places are theirs."""
    table = values.new_zeros(steps * size, *values.shape[1:])
    table[places] = values
    there = torch.zeros(steps * size, dtype=torch.bool, device=values.device)
    there[places] = True
    return table.view(steps, size, *values.shape[1:]), there.view(steps, size)
