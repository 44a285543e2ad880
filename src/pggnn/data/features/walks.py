"""How often random walks come back to where they began, as features of nodes: they tell rings and their sizes.

Layers see as far as they are many; a node's walks see whether it lies on a ring, and on how large a one, at once
(Dwivedi et al., Graph Neural Networks with Learnable Structural and Positional Representations, ICLR 2022).
"""

from dataclasses import replace

import torch
from torch import Tensor

from pggnn.data.graphs import Graphs, expand, starts

AT_ONCE = 2**24
"""Entries of the matrices that are multiplied at a time."""
MOST_NODES = 2**14
"""Nodes of the largest graph: its walks fill a matrix of as many rows and columns."""


def with_walks(graphs: Graphs, length: int) -> Graphs:
    """The same graphs with ``length`` more columns of ``x``, before all others.

    Column k is the probability that a walk of k + 1 steps, each along an edge drawn at random, ends where it began; 0
    where a walk comes to a node that it cannot leave. Edges are followed from source to target.
    """
    if length < 0:
        raise ValueError(f"walks must be a number of steps, 0 or more, got {length}")
    if length == 0:
        return graphs
    columns = return_probabilities(graphs, length)
    if "x" in graphs.node:
        columns = torch.cat([columns, expand("x", graphs.node["x"], graphs.schema.widths)], dim=1)
    schema = replace(graphs.schema, features=graphs.schema.features + length)
    return replace(graphs, node=graphs.node | {"x": columns}, schema=schema)


def return_probabilities(graphs: Graphs, length: int) -> Tensor:
    """``[N, length]`` of all nodes, through dense matrices of graphs of one size at a time."""
    most = int(graphs.nodes.max()) if len(graphs) else 0
    if most > MOST_NODES:
        raise ValueError(f"walks are for graphs of at most {MOST_NODES:,} nodes, got one of {most:,}: leave them out")
    found = torch.empty(int(graphs.nodes.sum()), length)
    first_node, first_edge = starts(graphs.nodes), starts(graphs.edges)
    for size in graphs.nodes.unique().tolist():
        alike = (graphs.nodes == size).nonzero().view(-1)
        for some in alike.split(max(1, AT_ONCE // max(1, size) ** 2)):
            counts = graphs.edges[some]
            number = torch.arange(len(some)).repeat_interleave(counts)
            edge = torch.arange(len(number)) + (first_edge[some] - starts(counts)[:-1]).repeat_interleave(counts)
            source, target = graphs.edge_index[:, edge].long()
            step = torch.zeros(len(some), size, size)
            step.index_put_((number, source, target), torch.ones(()), accumulate=True)
            step /= step.sum(2, keepdim=True).clamp(min=1)
            rows = (first_node[some].unsqueeze(1) + torch.arange(size)).view(-1)
            walk = step
            for column in range(length):
                found[rows, column] = walk.diagonal(dim1=1, dim2=2).reshape(-1)
                walk = walk @ step
    return found
