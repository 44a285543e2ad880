"""The rivals that draw random numbers: samples of neighbours, random features, random node numbers."""

from itertools import permutations, product

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.utils import erdos_renyi_graph

from pggnn import Plan
from pggnn.baselines import GIN, RGIN, RP, SAGE, rp
from pggnn.baselines.sage import SampledLSTM
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn.labels import permute, permute_columns

MODELS = [SAGE, RGIN, RP]


def copies(edge_index, nodes, count):
    """The same graph many times, and the graph of each node: each draws for itself."""
    first = torch.arange(count).repeat_interleave(edge_index.size(1)) * nodes
    return edge_index.repeat(1, count) + first, torch.arange(count).repeat_interleave(nodes)


def rings(graphs, nodes=12):
    """Triangles and hexagons, by turns, with a target of 1 and −1; colour refinement cannot tell them apart."""
    at, (count, kind) = torch.arange(nodes), (graphs // 2, torch.tensor([3, 6])[:, None])
    onward = (at // kind * kind + (at + 1) % kind + torch.tensor([[0], [nodes]])).flatten()
    edges = torch.stack([torch.arange(2 * nodes), onward])
    edge_index, _ = copies(torch.cat([edges, edges.flip(0)], dim=1), 2 * nodes, count)
    target = torch.tensor([[1.0], [-1.0]]).repeat(count, 1)
    return torch.ones(graphs * nodes, 1), edge_index, torch.arange(graphs).repeat_interleave(nodes), target


def fit(network, inputs, target, steps):
    """Trains by squared error; returns that of one more pass, in evaluation."""
    adam = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(steps):
        loss = (network(*inputs) - target).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        return float((network.eval()(*inputs) - target).square().mean())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("model", MODELS)
def test_equal_seeds_give_equal_outputs_and_others_do_not(model, level, training):
    x, edge_index = torch.randn(20, 5), erdos_renyi_graph(20, 0.5)
    network = model(5, 8, 2, level=level).train(training)
    one, again, other = (network(x, edge_index) for seed in (0, 0, 1) if torch.manual_seed(seed))
    assert one.shape == (1 if level == "graph" else 20, 2)
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    torch.manual_seed(0)
    plan, batch = Plan.build(edge_index, 20), torch.zeros(20, dtype=torch.long)
    torch.testing.assert_close(network(x, plan, batch, batch_size=1), one)


@pytest.mark.parametrize("model", MODELS)
def test_expected_outputs_do_not_depend_on_the_order_of_nodes_and_edges(model):
    nodes, count = 9, 1000
    x, edge_index, order = torch.randn(nodes, 3), erdos_renyi_graph(nodes, 0.6), torch.randperm(nodes)
    network = model(3, 8, 1, num_layers=2, level="node").eval()

    def draw(x, edge_index):
        edges, batch = copies(edge_index, nodes, count)
        return network(x.repeat(count, 1), edges, batch).detach().view(count, nodes).double()

    one = draw(x, edge_index)
    shuffled = order.argsort()[edge_index][:, torch.randperm(edge_index.size(1))]
    other = draw(x[order], shuffled)[:, order.argsort()]
    error = ((one.var(0) + other.var(0)) / count).sqrt()
    assert (error > 1e-5).any(), "outputs are random"
    assert ((one.mean(0) - other.mean(0)).abs() < 4.5 * error + 1e-6).all()


@pytest.mark.parametrize("model", MODELS)
def test_the_flow_says_whose_neighbours(model):
    edge_index, x, other = torch.tensor([[0], [1]]), torch.randn(2, 2), torch.randn(2, 2)
    for flow, centre in (("source_to_target", 1), ("target_to_source", 0)):
        network = model(2, 8, 1, num_layers=1, level="node", flow=flow).eval()
        outputs = []
        for neighbour in (x, other):
            torch.manual_seed(0)
            outputs.append(network(torch.where(torch.arange(2)[:, None] == centre, x, neighbour), edge_index)[centre])
        assert not torch.allclose(*outputs), "it does not see its neighbour"


@pytest.mark.parametrize("model", [RGIN, RP])
def test_what_returns_after_three_steps_is_seen_with_two_layers_but_not_with_one(model):
    """With one layer a node reads itself and two others, triangle or not: both kinds have the same expected output, and
    the error is at least 1. With two it can see that its neighbours have each other for a neighbour."""
    x, edge_index, batch, target = rings(32)

    def error(layers, seed):
        torch.manual_seed(seed)
        network = model(1, 16, 1, num_layers=layers, readout="mean")
        return fit(network, (x, Plan.build(edge_index, len(x)), batch, None, 32), target, 200)

    assert error(1, 0) > 0.9
    assert any(error(2, seed) < 0.7 for seed in range(4))  # a training may fail by rounding alone
    out = GIN(1, 16, 1).eval()(x, edge_index, batch)
    torch.testing.assert_close(out[::2], out[1::2])


def test_random_features_are_hundredths():
    seen = []
    network = RGIN(2, 4, 1)
    network.convs[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    x, edges = torch.randn(5000, 2), torch.empty(2, 0, dtype=torch.long)
    network(x, edges)
    network.eval()(x, edges)
    (one, other), values = seen, torch.arange(100) / 100
    assert torch.equal(one[:, :2], x)
    assert one.size(1) == 3
    assert torch.equal(one[:, 2].unique(), values)
    assert torch.equal(other[:, 2].unique(), values)
    assert (one[:, 2] != other[:, 2]).float().mean() > 0.9
    assert abs(one[:, 2].mean() - 0.495) < 0.02


def test_numbers_are_a_permutation_of_each_graph():
    batch = torch.tensor([0, 2, 0, 2, 2, 0, 3])
    drawn = torch.stack([permute(batch) for _ in range(600)])
    for graph, nodes in ((0, 3), (2, 3), (3, 1)):
        ways, times = drawn[:, batch == graph].unique(dim=0, return_counts=True)
        assert {tuple(way) for way in ways.tolist()} == set(permutations(range(nodes)))
        assert (times > 60).all(), "each about as often"


def test_ids_begin_anew_after_ten_and_evaluation_is_a_mean():
    seen = []
    network, x, edge_index = RP(1, 4, 1), torch.ones(13, 1), erdos_renyi_graph(13, 0.4)
    network.convs[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    network(x, edge_index)
    assert len(seen) == 1, "one permutation in training"
    assert seen[0][:, 1:].sum(0).tolist() == [2] * 3 + [1] * 7
    torch.manual_seed(0)
    mean = network.eval()(x, edge_index)
    assert len(seen) == 9
    network.samples = 1
    torch.manual_seed(0)
    torch.testing.assert_close(mean, torch.stack([network(x, edge_index) for _ in range(8)]).mean(0))


@pytest.mark.parametrize("batch", [[0] * 4 + [1] + [3] * 5, [1, 0, 3, 1, 1, 0, 3, 3, 1, 3], [0] * 7 + [1] * 3])
def test_columns_change_places_with_the_numbers(batch):
    """Rows of adjacency matrices become those of the renumbered graphs, whatever the order of the nodes; a graph of
    more nodes than there are columns, as padding can be, keeps the columns it has."""
    width, batch = 6, torch.tensor(batch)
    place = torch.stack([(batch[:node] == batch[node]).sum() for node in range(10)])
    number, known = permute(batch), torch.bincount(batch)[batch] <= width
    adjacency = (torch.rand(10, 10) < 0.5) & (batch == batch[:, None])

    def rows(number):
        return torch.zeros(10, 10).index_add(1, number, adjacency.float())[:, :width]

    out = permute_columns(rows(place), batch, number)
    assert known.any() and torch.equal(out[known], rows(number)[known])
    assert torch.equal(out.sort(1)[0], rows(place).sort(1)[0])


@pytest.mark.parametrize("inputs", ["rows", "nothing"])
def test_how_graphs_were_numbered_leaves_no_trace(inputs):
    """Equal numbers in the end, equal outputs: nothing else depends on how the nodes were numbered."""
    nodes = 8
    edge_index, order, drawn = erdos_renyi_graph(nodes, 0.5), torch.randperm(nodes), torch.randperm(nodes)
    network = RP(nodes, 8, 1, level="node", inputs=inputs, samples=1).eval()

    def score(edge_index, number):
        x = torch.zeros(nodes, nodes).index_put((edge_index[0], edge_index[1]), torch.ones(()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rp, "permute", lambda batch: number)
            return network(x, edge_index)

    torch.testing.assert_close(
        score(edge_index, drawn), score(order.argsort()[edge_index], drawn[order])[order.argsort()]
    )


def test_numbers_and_rows_count_triangles_together():
    """After one sum a node has its neighbours' numbers and the sum of their rows: where both agree, that is all it
    takes. Numbers alone tell a node no more than its degree by then, and need a second sum."""
    graphs = Batch.from_data_list(erdos_renyi(200, 8, 0.5))
    inputs, target = (graphs.x, Plan.build(graphs.edge_index, graphs.num_nodes), graphs.batch), graphs.y[:, None]
    errors = {}
    for kind, layers in (("features", 1), ("rows", 1), ("nothing", 1), ("nothing", 2)):
        torch.manual_seed(0)
        network = RP(8, 32, 1, num_layers=layers, level="node", inputs=kind)
        errors[kind, layers] = fit(network, inputs, target, 100 * layers) / float(target.var())
    assert errors["rows", 1] < 0.3 * errors["features", 1]
    assert errors["nothing", 1] > 0.2
    assert errors["nothing", 2] < 0.05


@pytest.mark.parametrize("replace", [False, True])
def test_the_lstm_reads_a_sample_and_stops_with_the_last(replace):
    """Beside nodes of other degrees: padding leaves no trace."""
    degrees = [4, 0, 2, 1] if replace else [7, 0, 2, 1]
    layer, x = SampledLSTM(3, 4, sample=5, replace=replace), torch.randn(4 + sum(degrees), 3)
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    lstm.load_state_dict(layer.lstm.state_dict())
    center = torch.arange(4).repeat_interleave(torch.tensor(degrees))
    plan = Plan.build(torch.stack([torch.arange(4, len(x)), center]), len(x))
    drawn = [layer(x, plan) for _ in range(5)]
    for v, degree in enumerate(degrees):
        neighbors = (center == v).nonzero().squeeze(1) + 4
        every = product(range(degree), repeat=5) if replace else permutations(range(degree), min(degree, 5))
        ways = neighbors[torch.tensor(list(every), dtype=torch.long)]
        last = lstm(x[ways])[1][0][0] if degree else torch.zeros(1, 4)
        possible = layer.linear(torch.cat([x[v].expand(len(last), 3), last], dim=1))
        for out in drawn:
            assert (out[v] - possible).abs().amax(1).min() < 1e-6
    assert not torch.allclose(drawn[0][0], drawn[1][0])
    torch.testing.assert_close(drawn[0][4:], layer(x[4:], Plan.build(plan.neighbor.new_empty(2, 0), len(x) - 4)))


def test_sage_counts_to_five_and_no_further():
    def centre(leaves):
        edges = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
        return network(torch.ones(leaves + 1, 1), torch.cat([edges, edges.flip(0)], dim=1))[0]

    graphs = Batch.from_data_list(erdos_renyi(100, 6, 0.5))
    plan, x = Plan.build(graphs.edge_index, graphs.num_nodes), torch.ones(graphs.num_nodes, 1)
    network = SAGE(1, 16, 1, num_layers=1, level="node")
    assert fit(network, (x, plan), plan.degree[:, None].float(), 100) < 0.05
    assert centre(5) - centre(3) > 1
    torch.testing.assert_close(centre(6), centre(9))
    network = SAGE(1, 16, 1, num_layers=1, level="node", replace=True).eval()
    torch.testing.assert_close(centre(1), centre(3), msg="with replacement a node does not see how many there are")


def test_sage_learns_triangles_from_rows_of_the_adjacency_matrix_but_not_from_constants():
    graphs = Batch.from_data_list(erdos_renyi(100, 6, 0.5))
    network = SAGE(6, 16, 1, num_layers=2, level="node")
    target = graphs.y[:, None]
    assert fit(network, (graphs.x, Plan.build(graphs.edge_index, graphs.num_nodes)), target, 100) < 0.15 * target.var()
    x, edge_index, batch, _ = rings(4)
    out = SAGE(1, 16, 1, num_layers=2).eval()(x, edge_index, batch)
    torch.testing.assert_close(out[::2], out[1::2])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="SAGE does not read edge features"):
        SAGE(5, 8, 2, edge_dim=3)
    with pytest.raises(ValueError, match="ids and samples must be at least 1, got 0 and 8"):
        RP(5, 8, 2, ids=0)
    with pytest.raises(ValueError, match="inputs must be one of 'features', 'rows', 'nothing', got 'ids'"):
        RP(5, 8, 2, inputs="ids")


@pytest.mark.parametrize("model", [RGIN, RP])
def test_a_batch_vector_that_does_not_fit_is_refused(model):
    network, x, edge_index = model(3, 6, 2), torch.randn(3, 3), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match=r"batch must have the shape \[3\] of the nodes, got \[2\]"):
        network(x, edge_index, torch.zeros(2, dtype=torch.long))
    with pytest.raises(TypeError, match=r"batch must be .* torch.int64, got torch.float32; use .long()"):
        network(x, edge_index, torch.zeros(3))
