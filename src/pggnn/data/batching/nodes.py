"""Batches of nodes: one large graph, whole or in sampled neighbourhoods."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.sampler import BaseSampler, NeighborSampler, NodeSamplerInput, SamplerOutput
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import expand
from pggnn.plan import Plan
from pggnn.seeds import derived_seed


class NodeBatches(Batches):
    """Batches of nodes, with what an answer for them depends on. All graphs count as one; nodes are numbered over all.

    Without ``neighbours`` there is one batch, all graphs. Otherwise a batch has the neighbourhoods of ``batch_size``
    nodes, sampled by PyG's own sampler (``pyg-lib`` or ``torch-sparse``) where it is installed, else by
    :class:`PlanSampler`. In both cases neighbours keep their order.

    ``batch.rows`` are the places of the batch's own nodes among all of its nodes; ``batch.y`` has their targets alone.

    Args:
        collater: The graphs.
        batch_size: Nodes in a batch, where neighbourhoods are sampled.
        neighbours: How many neighbours to sample of each node, at each distance.
        index: Numbers of the nodes to use; by default all.
        options: ``sampling``, ``seed``, ``steps`` and ``shard`` of :class:`Batches`.
    """

    def __init__(
        self,
        collater: Collater,
        batch_size: int = 1,
        neighbours: Sequence[int] = (),
        index: Tensor | None = None,
        **options: Any,
    ) -> None:
        index = torch.arange(int(collater.counts[0].sum())) if index is None else index
        if not neighbours:
            batch_size, options = max(1, len(index)), options | {"sampling": "order"}
        super().__init__(collater, batch_size, index=index, **options)
        self.neighbours = tuple(neighbours)

    def _part(self, numbers: Tensor) -> Batch | Data:
        rank, processes = self.shard
        numbers = numbers[rank::processes]
        if not self.neighbours:
            batch = copy(self.collater.whole)
            batch.rows = numbers.to(self.collater.device)
            batch.y = batch.y[batch.rows] if "y" in batch else None
            return batch
        epoch = 0 if self.sampling == "order" else self.epoch
        with torch.random.fork_rng([]):
            torch.manual_seed(derived_seed(self.seed, epoch, *numbers[:1].tolist()))
            found = sampler_of(self.collater, self.neighbours).sample_from_nodes(NodeSamplerInput(None, numbers))
        assert isinstance(found, SamplerOutput) and found.edge is not None
        return self._gather(found, len(numbers))

    def _gather(self, found: SamplerOutput, seeds: int) -> Data:
        """The sampled nodes and edges as a batch."""
        graphs = self.collater.graphs
        schema, order = graphs.schema, found.edge.argsort()
        pair = torch.stack([found.row[order], found.col[order]])
        edge_index = pair if schema.flow == "source_to_target" else pair.flip(0)
        values: dict[str, Any] = {}
        for rows, attributes in ((found.node, graphs.node), (found.edge[order], graphs.edge)):
            for name, stored in attributes.items():
                values[name] = expand(name, stored[rows[:seeds] if name == "y" else rows], schema.widths)
        return Data(
            edge_index=edge_index, plan=Plan.build(edge_index, len(found.node), schema.flow), rows=torch.arange(seeds),
            batch=self.collater.graph_of_node[found.node], num_graphs=len(graphs), num_nodes=len(found.node), **values,
        )  # fmt: skip


def sampler_of(collater: Collater, neighbours: tuple[int, ...]) -> BaseSampler:
    """The sampler of a collater's graphs, made once."""
    if neighbours not in collater.samplers:
        if WITH_PYG_LIB or WITH_TORCH_SPARSE:
            edges, _ = collater.graphs.batched_edges()
            flipped = collater.graphs.schema.flow != "source_to_target"
            data = Data(edge_index=edges.flip(0) if flipped else edges, num_nodes=len(collater.graph_of_node))
            collater.samplers[neighbours] = NeighborSampler(data, list(neighbours))
        else:
            collater.samplers[neighbours] = PlanSampler(collater.whole_plan, neighbours)
    return collater.samplers[neighbours]


class PlanSampler(BaseSampler):
    """Samples neighbours of nodes, their neighbours in turn, and so on; each node's keep their order. PyG's
    ``NeighborLoader`` takes it as ``neighbor_sampler``.

    Args:
        plan: The neighbourhoods of the whole graph.
        num_neighbors: How many neighbours to sample of each node, without repetition, at each distance.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.loader import NeighborLoader
        >>> from pggnn import Plan
        >>> from pggnn.data.batching.nodes import PlanSampler
        >>> data = Data(x=torch.randn(100, 8), edge_index=torch.randint(100, (2, 900)))
        >>> sampler = PlanSampler(Plan.build(data.edge_index, 100), [5, 3])
        >>> loader = NeighborLoader(data, [5, 3], batch_size=20, neighbor_sampler=sampler)
        >>> [batch.batch_size for batch in loader]
        [20, 20, 20, 20, 20]
    """

    def __init__(self, plan: Plan, num_neighbors: Sequence[int]) -> None:
        self.plan, self.num_neighbors = plan, num_neighbors
        self._place = torch.full((len(plan.degree),), -1)

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """The neighbourhood of the given nodes; nodes and edges lie in order of their distance from them."""
        plan, place = self.plan, self._place
        nodes, slots, centers = [index.node], [], []
        place[index.node] = torch.arange(len(index.node))
        count = len(index.node)
        for most in self.num_neighbors:
            slot, center = self._choose(nodes[-1], most)
            found = plan.neighbor[slot]
            new = found[place[found] < 0].unique()
            place[new] = torch.arange(count, count + len(new))
            count += len(new)
            nodes.append(new)
            slots.append(slot)
            centers.append(center)
        node, slot = torch.cat(nodes), torch.cat(slots)
        row, col = place[plan.neighbor[slot]], place[torch.cat(centers)]
        place[node] = -1
        return SamplerOutput(
            node, row, col, plan.edge[slot], num_sampled_nodes=[len(part) for part in nodes],
            num_sampled_edges=[len(part) for part in slots], metadata=(index.input_id, index.time),
        )  # fmt: skip

    def sample_from_edges(self, *args: Any, **kwargs: Any) -> SamplerOutput:
        """Not of use for tasks at nodes."""
        raise NotImplementedError("nodes are sampled from here, not edges")

    def _choose(self, nodes: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Slots of at most ``most`` neighbours of each node, in order, and the nodes they belong to."""
        degree = self.plan.degree[nodes]
        owner = torch.arange(len(nodes)).repeat_interleave(degree)
        rank = torch.arange(len(owner)) - (degree.cumsum(0) - degree)[owner]
        shuffle = (owner + torch.rand(len(owner), dtype=torch.double)).argsort()
        kept = shuffle[rank < most].sort()[0]
        return (self.plan.start[nodes][owner] + rank)[kept], nodes[owner[kept]]
