"""How often random walks come back to where they began, as features of nodes: they tell rings and their sizes.

Layers see as far as they are many; a node's walks see whether it lies on a ring, and on how large a one, at once
(Dwivedi et al., Graph Neural Networks with Learnable Structural and Positional Representations, ICLR 2022).
"""

import torch
from torch import Tensor

from pggnn.data.features.dense import by_size, check_size
from pggnn.data.graphs import Graphs

AT_ONCE = 2**24
"""Entries of the matrices that are multiplied at a time."""
MOST_NODES = 2**14
"""Nodes of the largest graph: its walks fill a matrix of as many rows and columns."""


def return_probabilities(graphs: Graphs, length: int) -> Tensor:
    """``[N, length]`` of all nodes.

    Column k is the probability that a walk of k + 1 steps, each along an edge drawn at random, ends where it began; 0
    where a walk comes to a node that it cannot leave. Edges are followed from source to target.
    """
    check_size(graphs, MOST_NODES, "walks")
    found = torch.empty(int(graphs.nodes.sum()), length)
    for some in by_size(graphs, AT_ONCE):
        step = some.matrices()
        step /= step.sum(2, keepdim=True).clamp(min=1)
        walk = step
        for column in range(length):
            found[some.nodes, column] = walk.diagonal(dim1=1, dim2=2).reshape(-1)
            walk = walk @ step
    return found
