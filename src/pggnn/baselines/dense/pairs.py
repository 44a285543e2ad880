"""All pairs of nodes of the graphs of a batch, as rows of features: what dense models compute with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.nn import global_max_pool
from torch_geometric.typing import OptTensor

from pggnn.nn.readout import read_out
from pggnn.plan import Plan


@dataclass(frozen=True)
class Pairs:
    """The pairs of nodes of each graph of a batch, each pair a row of features.

    Graphs are sorted by size, and the pairs (i, j) of one are the rows of its n × n matrix, one after the other. So
    graphs of one size are a view ``[g, n, n, C]`` of these rows: nothing is padded, no mask is needed, and a graph in a
    batch is computed as it is alone. What acts on each pair by itself, such as an MLP, takes the rows as they are.
    """

    groups: list[tuple[int, int]]
    """How many graphs there are of each size, and the size; sizes rise from 1."""
    node: Tensor
    """``[N]`` node of the batch at each place: nodes graph by graph."""
    graph: Tensor
    """``[N]`` graph of the batch that the node at each place belongs to."""
    size: Tensor
    """``[N]`` nodes of that graph."""
    diagonal: Tensor
    """``[N]`` row of the pair that the node at each place is with itself."""
    edge: Tensor
    """``[E]`` row of the pair (reader, neighbour) in each slot of the plan."""
    graphs: int
    """Graphs of the batch."""

    @classmethod
    def build(cls, plan: Plan, batch: OptTensor = None, graphs: int | None = None) -> "Pairs":
        """The pairs of a batch; asks a GPU for the sizes of its graphs.

        Args:
            plan: The edges.
            batch: The graph that each node belongs to; one graph by default.
            graphs: Number of graphs, where it is known.
        """
        batch = plan.degree.new_zeros(plan.num_nodes) if batch is None else batch
        sizes = torch.bincount(batch, minlength=graphs or 1)
        if not bool((batch[plan.center] == batch[plan.neighbor]).all()):
            raise ValueError("an edge joins nodes of different graphs: batch does not fit edge_index")
        by_size = torch.argsort(sizes, stable=True)
        rank = torch.empty_like(by_size).index_copy(0, by_size, torch.arange(len(sizes), device=sizes.device))
        node = torch.argsort(rank[batch], stable=True)
        place = torch.empty_like(node).index_copy(0, node, torch.arange(len(node), device=node.device))
        sorted_sizes = sizes[by_size]
        first_place, first_pair = (counts.cumsum(0) - counts for counts in (sorted_sizes, sorted_sizes**2))
        at = place - first_place[rank[batch]]  # of each node in its graph
        begin, width = first_pair[rank[batch]], sizes[batch]
        counted = torch.unique_consecutive(sorted_sizes, return_counts=True)
        groups = [(count, size) for size, count in zip(*(part.tolist() for part in counted), strict=True) if size > 0]
        center, neighbor = plan.center, plan.neighbor
        return cls(
            groups, node, batch[node], width[node], (begin + at * (width + 1))[node],
            begin[center] + at[center] * width[center] + at[neighbor], len(sizes),
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return sum(count * size**2 for count, size in self.groups)

    @cached_property
    def graph_of_row(self) -> Tensor:
        """``[P]`` graph of each pair."""
        return self.graph.repeat_interleave(self.size, output_size=self.rows)

    @cached_property
    def apart(self) -> Tensor:
        """``[P - N]`` rows of the pairs of different nodes."""
        different = torch.ones(self.rows, dtype=torch.bool, device=self.node.device)
        return different.index_fill(0, self.diagonal, False).nonzero().view(-1)

    def features(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """``[P, 1 + D + C]`` the input: how many edges lead to the first node from the second, the sum of their
        features, and on the diagonal the features of the node."""
        edges = x.new_ones(plan.num_edges, 1)
        if edge_attr is not None:
            edges = torch.cat([edges, edge_attr.index_select(0, plan.edge)], dim=1)
        between = x.new_zeros(self.rows, edges.size(1)).index_add(0, self.edge, edges)
        own = x.new_zeros(self.rows, x.size(1)).index_copy(0, self.diagonal, x.index_select(0, self.node))
        return torch.cat([between, own], dim=1)

    def dense(self, rows: Tensor) -> Iterator[Tensor]:
        """``[g, n, n, C]`` for each size, views of the rows."""
        parts = rows.split([count * size**2 for count, size in self.groups])
        for part, (count, size) in zip(parts, self.groups, strict=True):
            yield part.view(count, size, size, rows.size(1))

    def flat(self, dense: Sequence[Tensor], like: Tensor) -> Tensor:
        """The rows of such tensors, or of pairs summed over one of their nodes; without any as many columns as
        ``like``."""
        return torch.cat([part.reshape(-1, part.size(-1)) for part in dense] or [like[:0]])

    def product(self, first: Tensor, second: Tensor) -> Tensor:
        """The product of the matrices of each graph, channel by channel."""
        found = [
            (one.permute(0, 3, 1, 2) @ other.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
            for one, other in zip(self.dense(first), self.dense(second), strict=True)
        ]
        return self.flat(found, first)

    def transposed(self, rows: Tensor) -> Tensor:
        """The features of (j, i) at (i, j)."""
        return self.flat([part.transpose(1, 2) for part in self.dense(rows)], rows)

    def sums(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """``[N, C]`` sums over the row and over the column of the node at each place."""
        along, down = (self.flat([part.sum(axis) for part in self.dense(rows)], rows) for axis in (2, 1))
        return along, down

    def spread(self, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The features of each pair plus, from ``[N, C]`` at each place, those of its first and of its second node."""
        nodes = [count * size for count, size in self.groups]
        found = [
            part + one.view(*part.shape[:2], 1, -1) + other.view(part.size(0), 1, part.size(1), -1)
            for part, one, other in zip(self.dense(rows), first.split(nodes), second.split(nodes), strict=True)
        ]
        return self.flat(found, rows)

    def read_out(self, rows: Tensor, level: str, readout: str, most: bool = False) -> Tensor:
        """What scores are made of. Of a graph: the pairs of a node with itself, and those of different nodes. Of a
        node: its own pair, and the sums over those that it is the first of and the second of.

        Args:
            rows: Features of pairs.
            level: ``"graph"`` or ``"node"``.
            readout: How those of a graph become one vector, one of :data:`pggnn.nn.readout.READOUTS`.
            most: Takes their maximum instead.
        """
        own = rows.index_select(0, self.diagonal)
        if level == "node":
            read = torch.cat([own, *(total - own for total in self.sums(rows))], dim=1)
            return torch.empty_like(read).index_copy(0, self.node, read)
        parts = []
        for some, graph in ((own, self.graph), (rows[self.apart], self.graph_of_row[self.apart])):
            parts.append(
                global_max_pool(some, graph, self.graphs) if most else read_out(some, graph, self.graphs, readout)
            )
        return torch.cat(parts, dim=1)
