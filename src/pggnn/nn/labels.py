"""Other labels for the nodes of graphs whose features are rows of the adjacency matrix."""

import torch
from torch import Tensor
from torch_geometric.data import Batch


def permute(batch: Tensor) -> Tensor:
    """A uniformly random numbering, from 0, of the nodes of each graph. No host synchronisation."""
    shuffle = torch.rand_like(batch, dtype=torch.double).argsort()
    graph, by_graph = torch.sort(batch[shuffle], stable=True)
    rank = torch.arange(len(batch), device=batch.device) - torch.searchsorted(graph, graph)
    return torch.empty_like(batch).index_copy(0, shuffle[by_graph], rank)


def permute_columns(x: Tensor, batch: Tensor, number: Tensor) -> Tensor:
    """Rows of adjacency matrices with their columns in the order of the nodes' new numbers. No host synchronisation.

    Args:
        x: ``[N, F]`` rows; column ``j`` stands for the ``j``-th node of the row's graph, if there is one.
        batch: ``[N]`` graph of each node.
        number: ``[N]`` new number of each node, as :func:`permute` draws them.
    """
    graph, by_graph = torch.sort(batch, stable=True)
    first, end = (torch.searchsorted(graph, batch, right=right).unsqueeze(-1) for right in (False, True))
    column = torch.arange(x.size(1), device=x.device)
    node = by_graph[(first + column).clamp(max=x.size(0) - 1)]
    last = x.size(0) + column
    return x.gather(1, torch.where(first + column < end, number[node], last).argsort(dim=1))


def adjacency_rows(batch: Batch, width: int) -> Tensor:
    """``[N, width]`` rows of the adjacency matrices; empty where the graphs have more nodes than that."""
    column = batch.edge_index[1] - batch.ptr[batch.batch[batch.edge_index[1]]]
    rows = torch.zeros(batch.num_nodes, width, device=column.device)
    if int(batch.ptr.diff().max()) > width:
        return rows[:0]
    rows[batch.edge_index[0], column] = 1.0
    return rows
