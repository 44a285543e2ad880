import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINConv, GINEConv, global_add_pool
from torch_geometric.utils import erdos_renyi_graph

from pggnn import Plan
from pggnn.baselines import GCN, GIN, IGN, LRP, PPGN, RGIN, RP, SAGE, BothEnds, RingGNN
from pggnn.data.sets.counting import erdos_renyi
from pggnn.testing import random_graph


@pytest.fixture
def graph():
    edge_index = erdos_renyi_graph(20, 0.3)
    return torch.randn(20, 5), edge_index, torch.randn(edge_index.size(1), 3)


@pytest.mark.parametrize("model", [GIN, GCN, BothEnds, IGN, PPGN, RingGNN])
def test_neighbours_and_nodes_have_no_order(model, graph):
    x, edge_index, _ = graph
    network = model(5, 8, 2, num_layers=2, level="node").eval()
    out = network(x, edge_index)
    shuffled = edge_index[:, torch.randperm(edge_index.size(1))]
    torch.testing.assert_close(network(x, shuffled), out)
    order = torch.randperm(20)
    place = order.argsort()
    torch.testing.assert_close(network(x[order], place[edge_index]), out[order])


@pytest.mark.parametrize("model", [GIN, GCN, BothEnds, IGN, PPGN, RingGNN])
def test_a_plan_will_do_and_graphs_do_not_see_each_other(model, graph):
    x, edge_index, _ = graph
    network = model(5, 8, 2).eval()
    alone = network(x, edge_index)
    torch.testing.assert_close(network(x, Plan.build(edge_index, 20)), alone)
    twice, batch = torch.cat([edge_index, edge_index + 20], dim=1), torch.arange(2).repeat_interleave(20)
    torch.testing.assert_close(network(torch.cat([x, x]), twice, batch), alone.repeat(2, 1))


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("name", ["GIN", "GINE", "GCN"])
def test_the_layers_are_pygs(name, flow):
    """On a graph with self-loops and duplicate edges too."""
    x, edge_index = torch.randn(11, 5), random_graph()
    edge_attr = torch.randn(edge_index.size(1), 3) if name == "GINE" else None
    options = {"edge_dim": 3} if name == "GINE" else {}
    network = (GCN if name == "GCN" else GIN)(5, 8, 2, num_layers=1, flow=flow, **options).eval()
    own = network.convs[0]
    if name == "GCN":
        conv = GCNConv(5, 8, flow=flow)  # normalises by itself, where ours has it from the plan
        conv.load_state_dict(own.conv.state_dict())
    elif name == "GINE":
        conv = GINEConv(own.nn, edge_dim=3, flow=flow)
        conv.lin.load_state_dict(own.lin_edge.state_dict())
    else:
        conv = GINConv(own.nn, flow=flow)
    hidden = network.norms[0](conv(x, edge_index, *([] if edge_attr is None else [edge_attr]))).relu()
    scores = [network.scores[i](global_add_pool(h, None)) for i, h in enumerate((x, hidden))]
    torch.testing.assert_close(network(x, edge_index, edge_attr=edge_attr), sum(scores))


def test_gcn_by_means():
    """By the rows of A + I divided by their sums: over neighbours and the node itself, without loops that are there."""
    x, edge_index = torch.randn(11, 5), random_graph()
    network = GCN(5, 8, 2, num_layers=1, level="node", scores="last", weighting="mean").eval()
    conv = network.convs[0].conv
    own = edge_index[:, edge_index[0] != edge_index[1]]
    matrix = torch.eye(11).index_put((own[1], own[0]), torch.ones(own.size(1)), accumulate=True)
    mean = matrix / matrix.sum(1, keepdim=True)
    hidden = network.norms[0](mean @ conv.lin(x) + conv.bias).relu()
    torch.testing.assert_close(network(x, edge_index), network.scores[0](hidden))
    with pytest.raises(ValueError, match="weighting must be one of 'symmetric', 'mean', got 'max'"):
        GCN(5, 8, 2, weighting="max")


def test_a_mean_does_not_tell_how_many_neighbours_there_are():
    """The centres of two stars look the same by it where only the last layer is scored, and not where the roots of
    degrees weigh."""
    x = torch.ones(6, 1)
    for weighting, same in (("mean", True), ("symmetric", False)):
        network = GCN(1, 8, 1, num_layers=2, level="node", scores="last", weighting=weighting).eval()
        two, five = (
            network(x[: leaves + 1], torch.tensor([[*range(1, leaves + 1), *[0] * leaves],
                                                  [*[0] * leaves, *range(1, leaves + 1)]]))[0]
            for leaves in (2, 5)
        )  # fmt: skip
        assert torch.allclose(two, five, atol=1e-6) == same


@pytest.mark.parametrize("model", [GIN, BothEnds])
def test_edge_features_are_read_where_they_can_be(model, graph):
    x, edge_index, edge_attr = graph
    network = model(5, 8, 2, level="node", edge_dim=3).eval()
    out = network(x, edge_index, edge_attr=edge_attr)
    assert not torch.allclose(out, network(x, edge_index, edge_attr=edge_attr.flip(0)))
    order = torch.randperm(edge_index.size(1))
    torch.testing.assert_close(network(x, edge_index[:, order], edge_attr=edge_attr[order]), out)
    with pytest.raises(ValueError, match=r"GCN does not read edge features: .* such as pggnn, gin, .* or ppgn"):
        GCN(5, 8, 2, edge_dim=3)


@pytest.mark.parametrize("model", [GIN, GCN, BothEnds])
def test_the_flow_says_whose_neighbours(model):
    edge_index = torch.tensor([[0], [1]])
    for flow, changed in (("source_to_target", 1), ("target_to_source", 0)):
        network = model(2, 8, 1, num_layers=1, level="node", flow=flow).eval()
        one, other = torch.randn(2, 2), torch.randn(2, 2)
        other[changed] = one[changed]
        differs = (network(one, edge_index) - network(other, edge_index)).abs().flatten() > 1e-6
        assert differs[changed], "it does not see its neighbour"


@pytest.mark.parametrize("model", [GIN, GCN, BothEnds])
def test_it_counts_neighbours_but_not_triangles(model):
    """Two triangles and a hexagon look the same to it; a path and a star do not."""

    def ring(n, first=0):
        at = torch.arange(n)
        forth = torch.stack([at, (at + 1) % n]) + first
        return torch.cat([forth, forth.flip(0)], dim=1)

    network = model(1, 8, 1).eval()
    x = torch.ones(6, 1)
    triangles, hexagon = network(x, torch.cat([ring(3), ring(3, 3)], dim=1)), network(x, ring(6))
    torch.testing.assert_close(triangles, hexagon)
    star, path = torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([[0, 1, 2], [1, 2, 3]])
    star, path = (torch.cat([edges, edges.flip(0)], dim=1) for edges in (star, path))
    assert (network(x[:4], star) - network(x[:4], path)).abs().max() > 1e-4


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_messages_see_both_ends(flow, edge_dim):
    """One by one, on a graph with self-loops, duplicate edges and nodes without neighbours, which get zeros."""
    x, edge_index = torch.randn(12, 5), random_graph()
    edge_attr = None if edge_dim is None else torch.randn(edge_index.size(1), edge_dim)
    network = BothEnds(5, 8, 2, num_layers=1, level="node", scores="last", flow=flow, edge_dim=edge_dim).eval()
    conv = network.convs[0].conv
    torch.nn.init.normal_(conv.lin_neighbor.bias)
    expected = torch.zeros(12, 8)
    for number, ends in enumerate(edge_index.t().tolist()):
        u, v = ends if flow == "source_to_target" else ends[::-1]
        message = conv.lin_neighbor.weight @ x[u] + conv.lin_neighbor.bias + conv.lin_center.weight @ x[v]
        if edge_attr is not None:
            message = message + conv.lin_edge.weight @ edge_attr[number]
        expected[v] += message.relu()
    assert (expected[11] == 0).all(), "there is a node without neighbours"
    hidden = network.norms[0](expected).relu()
    torch.testing.assert_close(network(x, edge_index, edge_attr=edge_attr), network.scores[0](hidden))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("model", [GIN, GCN, BothEnds])
def test_graphs_without_edges_or_nodes(model, training, graph):
    """Alone, where nothing is seen but the nodes themselves, and among others."""
    x, edge_index, _ = graph
    network = model(5, 8, 2).train(training)
    out = network(x, edge_index[:, :0])
    assert out.shape == (1, 2) and out.isfinite().all()
    network.eval()
    alone, without = network(x, edge_index), network(x[:3], edge_index[:, :0])
    batch = torch.tensor([0] * 20 + [2] * 3)
    together = network(torch.cat([x, x[:3]]), edge_index, batch, batch_size=3)
    torch.testing.assert_close(together[::2], torch.cat([alone, without]))
    assert together[1].isfinite().all(), "the graph without nodes"


def test_both_ends_count_triangles_by_rows_of_the_adjacency_matrix():
    """With weights by hand: each unit says whether both ends are adjacent to one of the nodes."""
    graphs = Batch.from_data_list(erdos_renyi(3, 6, 0.6))
    conv = BothEnds(6, 6, 1, num_layers=1).convs[0].conv
    for linear in (conv.lin_neighbor, conv.lin_center):
        torch.nn.init.eye_(linear.weight)
    torch.nn.init.constant_(conv.lin_neighbor.bias, -1)
    torch.testing.assert_close(conv(graphs.x, graphs.edge_index).sum(1) / 2, graphs.y.flatten())


class Seen(GIN):
    """Keeps what its layers read."""

    def score(self, x, *args):
        self.seen.append(x)
        return super().score(x, *args)


@pytest.mark.parametrize("numbering", ["labels", "both"])
def test_labels_change_places(numbering):
    """In training nodes are relabelled once in each step; in evaluation scores are the mean over relabellings."""
    graphs = Batch.from_data_list(erdos_renyi(3, 6, 0.5))
    network, plan = Seen(6, 8, 1, level="node", numbering=numbering, numberings=4), Plan.build(graphs.edge_index, 18)
    for training, times in ((True, 1), (False, 4)):
        network.train(training).seen = []
        out = network(graphs.x, plan, graphs.batch)
        assert len(network.seen) == times
        for x in network.seen:
            assert not torch.equal(x, graphs.x)
            for rows, changed in zip(graphs.x.split(6), x.split(6), strict=True):
                assert sorted(rows.t().tolist()) == sorted(changed.t().tolist()), "columns change places"
        if not training:
            scores = [GIN.score(network, x, plan, graphs.batch, None, None, None) for x in network.seen]
            torch.testing.assert_close(out, torch.stack(scores).mean(0))
    network.numberings, network.seen = 1, []
    network(graphs.x, plan, graphs.batch)
    assert [x is graphs.x for x in network.seen] == [True], "one is that of the data"


def test_neighbours_are_not_renumbered_where_their_order_does_not_matter():
    network = Seen(6, 8, 1, numbering="random", numberings=4)
    network.seen = []
    graphs = Batch.from_data_list(erdos_renyi(1, 6, 0.5))
    for training in (True, False):
        network.train(training)(graphs.x, graphs.edge_index)
    assert [x is graphs.x for x in network.seen] == [True, True]


@pytest.mark.parametrize("model", [BothEnds, GCN, GIN, IGN, LRP, PPGN, RGIN, RP, RingGNN, SAGE])
def test_every_baseline_learns_without_the_labels(model):
    graphs = Batch.from_data_list(erdos_renyi(2, 6, 0.5))
    network = model(6, 8, 1, num_layers=1, level="node", numbering="labels", numberings=100)
    network.train()
    assert not torch.equal(*(network(graphs.x, graphs.edge_index, graphs.batch) for _ in range(2)))
    network.eval()
    columns = graphs.x[:, torch.randperm(6)]
    mean, again = (network(x, graphs.edge_index, graphs.batch) for x in (graphs.x, columns))
    network.numberings = 1
    spread = [network(x, graphs.edge_index, graphs.batch) for x in (graphs.x, columns)]
    assert (mean - again).abs().mean() < 0.5 * (spread[0] - spread[1]).abs().mean()
