"""Graphs as dense matrices, those of one size together."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pggnn.data.graphs import Graphs, starts


@dataclass(frozen=True)
class DenseGraphs:
    """Some graphs of one size, and where their nodes and edges are among those of all graphs."""

    count: int
    size: int
    nodes: Tensor
    """``[count · size]`` rows of ``x``."""
    edges: Tensor
    """Rows of ``edge_attr``."""
    place: tuple[Tensor, Tensor, Tensor]
    """Of each edge: its graph among these, its source and its target, the place of its entry in the matrices."""

    def matrices(self) -> Tensor:
        """``[count, size, size]``: how many edges there are from a node to another."""
        found = torch.zeros(self.count, self.size, self.size)
        return found.index_put_(self.place, torch.ones(()), accumulate=True)


def by_size(graphs: Graphs, entries: int) -> Iterator[DenseGraphs]:
    """All graphs, the small ones first, in groups whose matrices have at most so many entries; at least one graph."""
    first_node, first_edge = starts(graphs.nodes), starts(graphs.edges)
    for size in graphs.nodes.unique().tolist():
        alike = (graphs.nodes == size).nonzero().view(-1)
        for some in alike.split(max(1, entries // max(1, size) ** 2)):
            counts = graphs.edges[some]
            number = torch.arange(len(some)).repeat_interleave(counts)
            edges = torch.arange(len(number)) + (first_edge[some] - starts(counts)[:-1]).repeat_interleave(counts)
            source, target = graphs.edge_index[:, edges].long()
            nodes = (first_node[some].unsqueeze(1) + torch.arange(size)).view(-1)
            yield DenseGraphs(len(some), size, nodes, edges, (number, source, target))


def check_size(graphs: Graphs, most: int, what: str) -> None:
    """Refuses graphs whose matrices would not fit in memory."""
    largest = int(graphs.nodes.max()) if len(graphs) else 0
    if largest > most:
        raise ValueError(f"{what} are for graphs of at most {most:,} nodes, got one of {largest:,}: leave them out")
