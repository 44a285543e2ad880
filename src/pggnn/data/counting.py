"""Random graphs on which each node's triangles are counted, generated from a seed."""

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

REGULAR = ((10, 6), (15, 6), (20, 5), (30, 5))
"""The (nodes, degree) pairs of the paper's random regular graphs."""


def triangles(adjacency: Tensor) -> Tensor:
    """The number of triangles at each node, τ = ½ A² ⊙ A · 1 (Eq. 6), of an undirected graph."""
    return ((adjacency @ adjacency) * adjacency).sum(1) / 2


def counting_graph(adjacency: Tensor, width: int) -> Data:
    """A graph with its adjacency rows, padded to ``width`` columns, as features and its triangles as labels."""
    nodes = adjacency.size(0)
    if nodes > width:
        raise ValueError(f"a graph of {nodes} nodes does not fit features of width {width}")
    x = torch.zeros(nodes, width)
    x[:, :nodes] = adjacency
    return Data(x=x, edge_index=adjacency.nonzero().t().contiguous(), y=triangles(adjacency))


def erdos_renyi(graphs: int, nodes: int = 10, probability: float = 0.3, seed: int = 0) -> list[Data]:
    """Erdős–Rényi graphs; the defaults are the paper's."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(graphs, nodes, nodes, generator=generator)
    upper = (draws < probability).float().triu(diagonal=1)
    return [counting_graph(adjacency, nodes) for adjacency in upper + upper.transpose(1, 2)]


def random_regular(graphs: int, seed: int = 0) -> list[Data]:
    """Random regular graphs with nodes and degree drawn uniformly from :data:`REGULAR`."""
    generator = torch.Generator().manual_seed(seed)
    width = max(nodes for nodes, _ in REGULAR)
    made = []
    for choice in torch.randint(len(REGULAR), (graphs,), generator=generator).tolist():
        nodes, degree = REGULAR[choice]
        graph = nx.random_regular_graph(degree, nodes, seed=int(torch.randint(2**31, (), generator=generator)))
        adjacency = torch.from_numpy(nx.to_numpy_array(graph, nodelist=range(nodes))).float()
        made.append(counting_graph(adjacency, width))
    return made
