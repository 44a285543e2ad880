from itertools import permutations

import pytest
import torch
from torch.nn.functional import mse_loss
from torch_geometric.data import Batch, Data
from torch_geometric.utils import erdos_renyi_graph

from pggnn import Plan
from pggnn.baselines import GIN, LRP, lrp
from pggnn.baselines.lrp import PAIRS, LRPLayer
from pggnn.data.features import motifs as counts
from pggnn.data.sets.classic import complete, cycle
from pggnn.testing import check_aggregator, features, random_graph, sensitivity


def pooled(layer, x, edge_index):
    """The layer by its definition, a sequence at a time."""
    edges = set(map(tuple, edge_index.T.tolist()))
    weights = layer.nodes.weight.view(4, -1, x.size(1))
    rows = []
    for v in range(x.size(0)):
        neighbours = [u for u in range(x.size(0)) if u != v and (u, v) in edges]
        read = []
        for choice in permutations(neighbours, min(3, len(neighbours))):
            sequence = (v, *choice)
            hidden = layer.edges.bias
            for i, s in enumerate(sequence):
                hidden = hidden + weights[i] @ x[s]
                for j, t in enumerate(sequence):
                    if i != j and (t, s) in edges:
                        hidden = hidden + layer.edges.weight[:, PAIRS.index((i, j))]
            read.append(hidden.relu())
        rows.append(layer.factor(x.new_tensor([len(neighbours)])) * torch.stack(read).mean(0))
    return torch.stack(rows)


def test_it_is_the_definition():
    """On a directed graph with self-loops and duplicate edges, whose nodes have 0 to 6 of them."""
    edge_index = random_graph(range(7))
    layer = LRPLayer(3, 5).double()
    x = features(layer, 7, 3).requires_grad_()
    both = layer(x, Plan.build(edge_index, 7)), pooled(layer, x, edge_index)
    torch.testing.assert_close(*both)
    cotangent = torch.randn_like(both[0])
    found, expected = (torch.autograd.grad(out, [x, *layer.parameters()], cotangent) for out in both)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("edge_index", [random_graph(), erdos_renyi_graph(11, 0.5)], ids=["directed", "undirected"])
def test_neighbours_and_nodes_have_no_order(edge_index):
    network = LRP(5, 8, 2, num_layers=2, level="node").double().eval()
    check_aggregator(network, 5)
    assert sensitivity(network, 5) < 1e-12
    x, order = features(network, 11, 5), torch.randperm(11)
    out = network(x, edge_index)
    assert (out - out[order]).abs().max() > 0.01
    torch.testing.assert_close(network(x[order], order.argsort()[edge_index]), out[order])
    torch.testing.assert_close(network(x, Plan.build(edge_index.flip(1), 11)), out)


def test_graphs_do_not_see_each_other():
    network = LRP(2, 8, 3).eval()
    graphs = [Data(x=torch.randn(n, 2), edge_index=erdos_renyi_graph(n, 0.4)) for n in (1, 2, 5, 9)]
    together = Batch.from_data_list(graphs)
    alone = [network(graph.x, graph.edge_index) for graph in graphs]
    torch.testing.assert_close(network(together.x, together.edge_index, together.batch), torch.cat(alone))


@pytest.mark.parametrize(("neighbours", "sequences"), [(0, 1), (1, 1), (2, 2), (3, 6), (5, 60)])
def test_each_ordered_choice_is_read_once(neighbours, sequences):
    star = torch.stack([torch.arange(1, neighbours + 1), torch.zeros(neighbours, dtype=torch.long)])
    nodes = neighbours + 1
    found = lrp._sequences(Plan.build(star, nodes))
    assert found.count.tolist() == [sequences] + [1] * neighbours
    mine = found.node[:, :sequences].T.tolist()
    padding = [nodes] * (3 - min(neighbours, 3))
    choices = permutations(range(1, nodes), min(neighbours, 3))
    assert sorted(mine) == sorted([0, *choice, *padding] for choice in choices)
    known = found.adjacent[:sequences].any(0).nonzero().flatten().tolist()
    assert [PAIRS[pair] for pair in known] == [(0, i) for i in range(1, min(neighbours, 3) + 1)]


def test_it_sees_triangles_but_no_longer_cycles():
    network = LRP(1, 8, 1).eval()

    def score(*graphs):
        batch = Batch.from_data_list(list(graphs))
        return network(torch.ones(batch.num_nodes, 1), batch.edge_index)

    assert (score(cycle(3), cycle(3)) - score(cycle(6))).abs().max() > 1e-3
    torch.testing.assert_close(score(cycle(4), cycle(4)), score(cycle(8)))


def test_it_learns_to_count_triangles():
    """Without features; a GIN, which sees degrees, stays far behind on graphs that it was not trained on."""

    def drawn(graphs):
        batch = Batch.from_data_list([Data(edge_index=erdos_renyi_graph(10, 0.4), num_nodes=10) for _ in range(graphs)])
        target = counts.triangles(batch.edge_index, batch.ptr).view(-1, 1).float()
        return torch.ones(batch.num_nodes, 1), Plan.build(batch.edge_index, batch.num_nodes), target

    (x, plan, y), (new_x, new_plan, new_y) = drawn(40), drawn(40)
    errors = {}
    for model in (LRP, GIN):
        network = model(1, 32, 1, num_layers=2, level="node")
        optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
        for _ in range(120):
            optimiser.zero_grad()
            mse_loss(network(x, plan), y).backward()
            optimiser.step()
        with torch.no_grad():
            errors[model] = float(mse_loss(network.eval()(new_x, new_plan), new_y) / new_y.var())
    assert errors[LRP] < 0.02, errors
    assert errors[GIN] > 5 * errors[LRP], errors


def test_what_it_refuses(monkeypatch):
    with pytest.raises(ValueError, match="LRP does not read edge features"):
        LRP(5, 8, 2, edge_dim=3)
    edge_index = complete(6).edge_index
    monkeypatch.setattr(lrp, "MOST_SEQUENCES", 359)
    with pytest.raises(ValueError, match="360 sequences in this batch, whose largest degree is 5, but at most 359"):
        LRP(1, 8, 2)(torch.ones(6, 1), edge_index)
