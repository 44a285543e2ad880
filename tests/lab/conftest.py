import pytest
import torch
from torch_geometric.data import Data


@pytest.fixture
def shuffled():
    """The same graph with its nodes numbered in another way."""

    def shuffle(graph, seed=0):
        label = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
        x = None if graph.x is None else graph.x[label.argsort()]
        return Data(x=x, edge_index=label[graph.edge_index], num_nodes=graph.num_nodes)

    return shuffle
