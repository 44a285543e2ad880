from itertools import pairwise, permutations

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import degree, erdos_renyi_graph, to_undirected

from pggnn import Plan
from pggnn.baselines import CLIP, DGCNN, GIN, PNA, SAGE, DeepLRP, GatedGCN
from pggnn.baselines.clip import hash_rows, number_groups
from pggnn.baselines.deep_lrp import PathPooling, find_paths
from pggnn.baselines.gated_gcn import GatedLayer
from pggnn.data.sets.classic import cycle
from pggnn.nn.norm import RowNorm
from pggnn.testing import check_aggregator, random_graph, sensitivity

OPTIONS = {DeepLRP: {"depth": 3}, DGCNN: {"kept": 12}, SAGE: {"aggregator": "pool"}}
ALL = [CLIP, DGCNN, GatedGCN, PNA, SAGE, DeepLRP]


def disjoint(*graphs):
    one = Batch.from_data_list([Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes) for graph in graphs])
    return one.edge_index


TRIANGLES, HEXAGON = disjoint(cycle(3), cycle(3)), cycle(6).edge_index


@pytest.mark.parametrize("model", [GatedGCN, PNA, SAGE, DeepLRP])
def test_neighbours_and_nodes_have_no_order(model):
    network = model(5, 8, 2, num_layers=2, level="node", **OPTIONS.get(model, {})).double().eval()
    check_aggregator(network, 5)
    assert sensitivity(network, 5) < 1e-12


@pytest.mark.parametrize("model", ALL)
def test_graphs_do_not_see_each_other(model):
    """Exact alone and in a batch, graphs without edges and without nodes included; with features that tell all nodes
    apart, so that CLIP has nothing to draw."""
    network = model(4, 8, 3, **OPTIONS.get(model, {})).double().eval()
    graphs = [Data(x=torch.randn(n, 4).double(), edge_index=erdos_renyi_graph(n, 0.4)) for n in (1, 2, 20, 0, 9)]
    together = Batch.from_data_list(graphs)
    out = network(together.x, together.edge_index, together.batch, batch_size=5)
    order = torch.randperm(20)
    for number, graph in enumerate(graphs):
        torch.testing.assert_close(network(graph.x, graph.edge_index), out[number : number + 1])
    mixed = network(graphs[2].x[order], order.argsort()[graphs[2].edge_index])
    torch.testing.assert_close(mixed, out[2:3])


@pytest.mark.parametrize("model", ALL)
def test_every_weight_learns(model):
    network = model(5, 8, 2, **OPTIONS.get(model, {}))
    graphs = Batch.from_data_list([Data(x=torch.randn(n, 5), edge_index=erdos_renyi_graph(n, 0.5)) for n in (15, 9)])
    network(graphs.x, graphs.edge_index, graphs.batch).square().sum().backward()
    assert [name for name, weight in network.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("reads", [False, True])
def test_gates_are_the_definition(reads):
    """Two layers, one edge at a time, on a directed graph with self-loops, duplicate edges and lonely nodes."""
    edge_index = random_graph()
    x, edge_attr = torch.randn(11, 4).double(), torch.randn(edge_index.size(1), 3).double()
    options = {"edge_dim": 3} if reads else {}
    network = GatedGCN(4, 6, 2, num_layers=2, level="node", **options).double().eval()
    for module in network.modules():
        if isinstance(module, RowNorm):
            torch.nn.init.normal_(module.running_mean)
    plan = Plan.build(edge_index, 11)
    found = network.states(x, plan, None, edge_attr if reads else None, None)
    states = network.edge_encoder(edge_attr if reads else x.new_ones(edge_index.size(1), 1))
    for number, (layer, norm) in enumerate(zip(network.convs, network.norms, strict=True)):
        a, b, d, e = layer.nodes(x).chunk(4, 1)
        gates, rows = [], []
        for (u, v), state in zip(edge_index.T.tolist(), states, strict=True):
            gates.append(layer.edges(state) + d[v] + e[u])
        for v in range(11):
            own = [i for i, target in enumerate(edge_index[1].tolist()) if target == v]
            opened = [gates[i].sigmoid() for i in own]
            message = [gate * b[edge_index[0, i]] for gate, i in zip(opened, own, strict=True)]
            rows.append(a[v] + sum(message, torch.zeros(6)) / (sum(opened, torch.zeros(6)) + 1e-6))
        after = norm(torch.stack(rows)).relu()
        x = after if number == 0 else x + after
        torch.testing.assert_close(found[number + 1], x)
        if number == 0:
            states = states + network.edge_norms[0](torch.stack(gates)).relu()


def test_gradients_of_gates():
    """Sums and gates by finite differences."""
    layer = GatedLayer(3, 4).double()

    def both(x, edge_index):
        plan = Plan.build(edge_index, len(x))
        return torch.cat([part.flatten() for part in layer(x, plan, torch.ones(plan.num_edges, 4).double())])

    x = torch.randn(5, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: both(x, random_graph(range(5))), x)


def test_sage_takes_the_maximum_over_all_neighbours():
    """Seven of them, of which the other aggregator would draw five; nodes without any have the maximum 0."""
    x = torch.randn(9, 4).double()
    edge_index = torch.cat([torch.arange(1, 8), torch.tensor([8])]), torch.tensor([0] * 7 + [1])
    network = SAGE(4, 4, 2, num_layers=1, level="node", aggregator="pool").double().eval()
    conv = network.convs[0].conv
    read = torch.zeros(9, 4).double()
    read[0] = conv.lin(x[1:8]).relu().max(0).values
    read[1] = conv.lin(x[8]).relu()
    expected = torch.nn.functional.normalize(conv.lin_l(read) + conv.lin_r(x))
    torch.testing.assert_close(network.convs[0](x, Plan.build(torch.stack(edge_index), 9)), expected)
    states = network.states(x, Plan.build(torch.stack(edge_index), 9), None, None, None)
    torch.testing.assert_close(states[1], x + network.norms[0](expected).relu())
    with pytest.raises(ValueError, match="aggregator must be 'lstm' or 'pool', got 'max'"):
        SAGE(4, 4, 2, aggregator="max")
    with pytest.raises(ValueError, match="draws none: leave out replace"):
        SAGE(4, 4, 2, aggregator="pool", replace=True)


def test_degrees_are_measured_on_the_first_batch_and_kept():
    network = PNA(3, 10, 1, num_layers=2, towers=5)
    edge_index = erdos_renyi_graph(12, 0.5)
    mean = degree(edge_index[1], 12).log1p().mean()
    before = network.convs[0].conv.aggr_module.avg_deg_log.clone()
    network.eval()(torch.randn(12, 3), edge_index)
    assert torch.equal(network.convs[0].conv.aggr_module.avg_deg_log, before), "an answer measures nothing"
    network.train()(torch.randn(12, 3), edge_index)
    network(torch.randn(12, 3), edge_index[:, :4])
    for conv in network.convs:
        torch.testing.assert_close(conv.conv.aggr_module.avg_deg_log, mean.view(1))
    again = PNA(3, 10, 1, num_layers=2, towers=5)
    again.load_state_dict(network.state_dict())
    x = torch.randn(12, 3)
    torch.testing.assert_close(again.eval()(x, edge_index), network.eval()(x, edge_index))
    with pytest.raises(ValueError, match="towers must divide its 8 hidden channels, got 5"):
        PNA(3, 8, 1, towers=5)


def test_scalers_tell_how_many_neighbours_there_are():
    """Where all features are alike, mean, largest and smallest are too; a GIN without the centre's would need a sum."""
    x = torch.ones(6, 1)
    star, pair = to_undirected(torch.tensor([[0] * 5, [1, 2, 3, 4, 5]])), to_undirected(torch.tensor([[0], [1]]))
    network = PNA(1, 8, 1, num_layers=1, level="node", scores="last").eval()
    assert (network(x, star)[0] - network(x[:2], pair)[0]).abs() > 1e-4
    for conv in network.convs:
        conv.conv.aggr_module.scaler = ["identity"] * 3
    torch.testing.assert_close(network(x, star)[0], network(x[:2], pair)[0])


def test_sorted_by_the_last_channel():
    """DGCNN's order: of the nodes of each graph, the ``kept`` largest in the one channel of the last layer."""
    network = DGCNN(5, 8, 2, kept=10).eval()
    seen = []
    network.first.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    x, edge_index = torch.randn(25, 5), erdos_renyi_graph(25, 0.2)
    network(x, edge_index)
    last = seen[0].view(10, -1)[:, -1]
    assert last.diff().le(0).all()
    state, plan = x, Plan.build(edge_index, 25)
    for conv in network.convs:
        state = conv(state, plan).tanh()
    torch.testing.assert_close(last, state.flatten().sort(descending=True).values[:10])
    assert not DGCNN(5, 8, 2).eval()(x[:3], edge_index[:, :0]).isnan().any(), "small graphs are filled up"


def test_dgcnn_has_its_own_frame():
    for options in ({"level": "node"}, {"readout": "mean"}, {"block": "residual"}, {"edge_dim": 3}):
        with pytest.raises(ValueError, match=r"DGCNN has a frame of its own, .*: leave out \w+="):
            DGCNN(5, 8, 2, **options)
    with pytest.raises(ValueError, match="keeps 10 nodes or more, got 4, 9"):
        DGCNN(5, 8, 2, kept=9)


def test_colours_tell_apart_what_looks_alike():
    """Two triangles and a hexagon: the same to GIN, not to CLIP, whose maximum over many draws hardly changes."""
    x = torch.ones(6, 1)
    gin, clip = GIN(1, 8, 1).eval(), CLIP(1, 8, 1, colours=6, draws=60).eval()
    torch.testing.assert_close(gin(x, TRIANGLES), gin(x, HEXAGON))
    first, again, other = (clip(x, graph) for graph in (TRIANGLES, TRIANGLES, HEXAGON))
    assert (first - other).abs() > (first - again).abs() + 1e-4


def test_the_maximum_is_that_of_readouts(monkeypatch):
    """Of each column of each layer, and the scores follow it; with the draws that were made."""
    network, seen = CLIP(2, 8, 3, num_layers=2, draws=3).eval(), []
    monkeypatch.setattr(
        "pggnn.baselines.clip.number_groups", lambda *args: seen.append(number_groups(*args)) or seen[-1]
    )
    x, plan = torch.ones(6, 2), Plan.build(HEXAGON, 6)
    found, expected = network(x, plan), 0
    colours = [torch.nn.functional.one_hot(drawn, 16).float() for drawn in seen]
    states = zip(*(network.states(torch.cat([x, drawn], 1), plan, None, None, None) for drawn in colours), strict=True)
    for score, layer in zip(network.scores, states, strict=True):
        expected = expected + score(torch.stack([state.sum(0) for state in layer]).max(0).values)
    torch.testing.assert_close(found, expected.view(1, 3))


def test_dropout_is_the_same_in_all_draws():
    """Nodes that all differ draw nothing. Scores with dropout are then, on average, those without: it would be more
    than these, if the maximum were one over what each draw happens to drop."""
    copies = 2000
    network = CLIP(5, 8, 1, dropout=0.5).eval()
    graphs = Batch.from_data_list([Data(x=torch.eye(5), edge_index=cycle(5).edge_index)] * copies)
    expected = network(graphs.x, graphs.edge_index, graphs.batch)[0]
    for module in network.modules():
        module.training = not isinstance(module, RowNorm)
    found = network(graphs.x, graphs.edge_index, graphs.batch)
    assert (found.mean() - expected).abs() < 5 * found.std() / copies**0.5


def test_groups_are_numbered_from_0_in_every_order():
    x = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0], [1, 0], [-0.0, 1]])
    graph, seen = torch.tensor([0, 0, 0, 1, 1, 0]), set()
    for _ in range(100):
        drawn = number_groups(graph, hash_rows(x))
        for group in ([0, 1], [2, 5], [3, 4]):
            assert sorted(drawn[group].tolist()) == [0, 1]
        seen.add(tuple(drawn.tolist()))
    assert len(seen) == 8
    assert number_groups(graph[:0], hash_rows(x[:0])).tolist() == []


def paths_of(edge_index, nodes, depth):
    """By their definition: every order of distinct nodes that goes along edges, and cannot go on if it is shorter."""
    after = {v: {u for u, w in edge_index.T.tolist() if w == v and u != v} for v in range(nodes)}
    found = []
    for size in range(1, depth + 2):
        for one in permutations(range(nodes), size):
            along = all(b in after[a] for a, b in pairwise(one))
            if along and (size == depth + 1 or not after[one[-1]] - {*one}):
                found.append(one + (nodes,) * (depth + 1 - size))
    return sorted(found)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_every_path_is_read_once(depth):
    """On a directed graph with self-loops and duplicate edges, whose nodes have 0 to 5 of them."""
    edge_index = random_graph(range(6))
    found = find_paths(Plan.build(edge_index, 6), depth)
    assert sorted(map(tuple, found.node.T.tolist())) == paths_of(edge_index, 6, depth)
    assert found.count.tolist() == [sum(path[0] == v for path in found.node.T.tolist()) for v in range(6)]
    edges = {(u, v) for u, v in edge_index.T.tolist() if u != v}
    pairs = [(i, j) for i in range(depth + 1) for j in range(depth + 1) if i != j]
    for path, bits in zip(found.node.T.tolist(), found.adjacent.tolist(), strict=True):
        assert bits == [(path[j], path[i]) in edges for i, j in pairs]


def test_paths_see_rings_and_refuse_too_many(monkeypatch):
    x = torch.ones(6, 1)
    for depth, apart in ((1, False), (2, True), (7, True)):
        network = DeepLRP(1, 8, 1, depth=depth).eval()
        found, other = (network(x, graph) for graph in (TRIANGLES, HEXAGON))
        assert bool((found - other).abs() > 1e-4) == apart, "triangles close a path of two edges"
    monkeypatch.setattr("pggnn.baselines.deep_lrp.MOST_SEQUENCES", 100)
    with pytest.raises(ValueError, match="Deep-LRP reads every path"):
        PathPooling(1, 8, 7)(x, Plan.build(torch.ones(6, 6).nonzero().T, 6))
