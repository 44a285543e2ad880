import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool, global_mean_pool

from pggnn import PGGNN, Plan
from pggnn.baselines import GatedGCN
from pggnn.capture import Recorded
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import ChainConv, PairConv, PGConv, TripletConv, accumulate_init, torch_init
from pggnn.nn.readout import READOUTS
from pggnn.testing import DEGREES, check_batch_independence, check_relabelling, random_graph

NODES = len(DEGREES)


def test_scores_of_every_layer_are_summed():
    model = PGGNN(4, 6, 3, num_layers=2).eval()
    x, edge_index, batch = torch.randn(NODES, 4), random_graph(), torch.arange(NODES) % 3
    h, expected = x, model.scores[0](global_add_pool(x, batch))
    for conv, norm, score in zip(model.convs, model.norms, model.scores[1:], strict=True):
        h = torch.relu(norm(conv(h, edge_index)))
        expected = expected + score(global_add_pool(h, batch))
    torch.testing.assert_close(model(x, edge_index, batch), expected)
    assert expected.shape == (3, 3)


def test_the_last_layer_alone_can_be_scored():
    model = PGGNN(4, 6, 3, num_layers=2, level="node", scores="last").eval()
    x, edge_index = torch.randn(NODES, 4), random_graph()
    h = x
    for conv, norm in zip(model.convs, model.norms, strict=True):
        h = torch.relu(norm(conv(h, edge_index)))
    (score,) = model.scores
    torch.testing.assert_close(model(x, edge_index), score(h))
    assert score.in_channels == 6


def test_levels_and_readouts():
    x, edge_index = torch.randn(NODES, 4), random_graph()
    node, total, mean = (PGGNN(4, 6, 2, level=level, readout=readout).eval()
                         for level, readout in (("node", "sum"), ("graph", "sum"), ("graph", "mean")))  # fmt: skip
    total.load_state_dict(node.state_dict())
    mean.load_state_dict(node.state_dict())
    assert node(x, edge_index).shape == (NODES, 2)
    assert total(x, edge_index).shape == (1, 2)
    batch = torch.zeros(NODES, dtype=torch.long)
    torch.testing.assert_close(mean(x, edge_index), global_mean_pool(node(x, edge_index), batch), rtol=1e-4, atol=1e-4)


def test_both_readouts_stand_side_by_side():
    """Each layer's weights are those of its sums, and then those of its means; one network's of each give the same."""
    x, edge_index, batch = torch.randn(NODES, 4), random_graph(), torch.arange(NODES) // (NODES // 2 + 1)
    both = PGGNN(4, 6, 2, readout="both").eval()
    total, mean = PGGNN(4, 6, 2).eval(), PGGNN(4, 6, 2, readout="mean").eval()
    for part, model in enumerate((total, mean)):
        model.convs, model.norms = both.convs, both.norms
        for score, joint in zip(model.scores, both.scores, strict=True):
            assert joint.weight.shape == (2, 2 * score.in_channels)
            score.weight.data, score.bias.data = joint.weight.data.chunk(2, dim=1)[part], joint.bias.data / 2
    expected = total(x, edge_index, batch) + mean(x, edge_index, batch)
    torch.testing.assert_close(both(x, edge_index, batch), expected)
    lazy = PGGNN(-1, 6, 2, readout="both")
    assert lazy(x, edge_index, batch).shape == (2, 2)
    assert PGGNN(4, 6, 2, level="node", readout="both").scores[0].in_channels == 4, "nodes are not read out"


def test_a_sum_on_a_logarithmic_scale_stands_beside_the_mean():
    model = PGGNN(4, 6, 2, num_layers=1, readout="log").eval()
    x, edge_index, batch = torch.randn(NODES, 4), random_graph(), torch.arange(NODES) // (NODES // 2 + 1)
    states = x, model.norms[0](model.convs[0](x, edge_index)).relu()
    pooled = [torch.cat([global_add_pool(h, batch).asinh(), global_mean_pool(h, batch)], dim=1) for h in states]
    expected = model.scores[0](pooled[0]) + model.scores[1](pooled[1])
    torch.testing.assert_close(model(x, edge_index, batch), expected)


@pytest.mark.parametrize("norm", ["graph", "none"])
@pytest.mark.parametrize("block", ["plain", "residual"])
def test_graphs_normalised_alone_are_alone_in_training(norm, block):
    model, graphs = PGGNN(4, 6, 2, norm=norm, block=block), (random_graph(), random_graph() + NODES)
    x, batch = torch.randn(2 * NODES, 4), torch.arange(2).repeat_interleave(NODES)
    both = model(x, torch.cat(graphs, dim=1), batch)
    for number, alone in enumerate(x.split(NODES)):
        torch.testing.assert_close(model(alone, graphs[number] - number * NODES), both[number : number + 1])
    assert not [*model.buffers()], "there are no statistics of other batches"
    assert bool([*model.norms.parameters()]) == (norm == "graph")


def test_properties_of_the_whole_model():
    model = PGGNN(4, 6, 2, level="node").eval().double()
    check_batch_independence(model, 4)
    check_relabelling(model, 4)


def test_plan_is_shared_and_equals_edges():
    model = PGGNN(4, 6, 2, edge_dim=3).eval()
    x, edge_index = torch.randn(NODES, 4), random_graph()
    edge_attr = torch.randn(edge_index.size(1), 3)
    plan = Plan.build(edge_index, NODES)
    assert torch.equal(model(x, plan, edge_attr=edge_attr), model(x, edge_index, edge_attr=edge_attr))


def test_the_papers_settings_are_the_defaults():
    model = PGGNN(4, 6, 2)
    assert len(model.convs) == 4
    assert all(conv.cell == "lstm" and conv.num_layers == 2 and conv.orderings == "group" for conv in model.convs)
    assert len(model.scores) == 5
    assert not any(score.bias.any() for score in model.scores)


@pytest.mark.parametrize(
    ("aggregation", "variant"), [("pairs", PairConv), ("triplets", TripletConv), ("chain", ChainConv)]
)
def test_variants_stand_in_the_same_frame(aggregation, variant):
    model = PGGNN(4, 6, 3, num_layers=2, aggregation=aggregation, cell="gru", level="node").eval()
    assert [type(conv) for conv in model.convs] == [variant] * 2
    assert all(conv.cell == "gru" for conv in model.convs)
    x, edge_index = torch.randn(NODES, 4), random_graph()
    h = torch.relu(model.norms[0](model.convs[0](x, edge_index)))
    deeper = torch.relu(model.norms[1](model.convs[1](h, edge_index)))
    expected = model.scores[0](x) + model.scores[1](h) + model.scores[2](deeper)
    torch.testing.assert_close(model(x, edge_index), expected)


def test_labels_change_places():
    """In training each graph is relabelled once; otherwise scores are the mean over relabellings, whatever the labels
    were."""
    graphs = Batch.from_data_list(erdos_renyi(2, 6, 0.5))
    model = PGGNN(6, 8, 1, num_layers=1, level="node", numbering="labels", numberings=200)
    model.train()
    assert not torch.equal(model(graphs.x, graphs.edge_index, graphs.batch), model(graphs.x, graphs.edge_index))
    model.eval()
    mean = model(graphs.x, graphs.edge_index, graphs.batch)
    columns = graphs.x[:, torch.randperm(6)]
    again = model(columns, graphs.edge_index, graphs.batch)
    model.numberings = 1
    spread = [model(x, graphs.edge_index, graphs.batch) for x in (graphs.x, columns)]
    assert torch.equal(spread[0], model(graphs.x, graphs.edge_index, graphs.batch)), "one is that of the data"
    assert (mean - again).abs().mean() < 0.3 * (spread[0] - spread[1]).abs().mean()


def test_neighbours_change_places():
    """In training each layer renumbers neighbours; otherwise scores are the mean over numberings, whatever the
    order of the edges was."""
    graphs = Batch.from_data_list(erdos_renyi(2, 8, 0.6))
    model = PGGNN(8, 8, 1, num_layers=2, level="node", orderings="single", numbering="random", numberings=200)
    assert all((conv.numbering, conv.numberings) == ("random", 1) for conv in model.convs)
    model.train()
    assert not torch.equal(model(graphs.x, graphs.edge_index), model(graphs.x, graphs.edge_index))
    model.eval()
    shuffled = graphs.edge_index[:, torch.randperm(graphs.edge_index.size(1))]
    mean, again = (model(graphs.x, edges, graphs.batch) for edges in (graphs.edge_index, shuffled))
    model.numberings = 1
    spread = [model(graphs.x, edges) for edges in (graphs.edge_index, shuffled)]
    assert (mean - again).abs().mean() < 0.3 * (spread[0] - spread[1]).abs().mean()


def test_dropout_acts_on_the_scores():
    x, edge_index = torch.randn(NODES, 4), random_graph()
    model = PGGNN(4, 6, 50, level="node", dropout=0.5)
    for score in model.scores:
        torch.nn.init.zeros_(score.weight)
        torch.nn.init.ones_(score.bias)
    out = model(x, edge_index)
    assert set(out.unique().tolist()) <= {0.0, 2.0, 4.0, 6.0, 8.0, 10.0}
    assert len(out.unique()) > 2
    assert (model.eval()(x, edge_index) == 5).all()


@pytest.mark.parametrize("model", [PGGNN, GatedGCN])
def test_dropout_of_residual_blocks_acts_on_what_is_added(model):
    x, edge_index = torch.randn(NODES, 4), random_graph()
    network = model(4, 6, 50, 2, level="node", dropout=0.5, block="residual", scores="last")
    seen: dict = {}
    for name, module in network.named_modules():
        module.register_forward_hook(lambda _, given, out, name=name: seen.update({name: (given[0], out)}))
    out = network(x, edge_index)
    for number in range(2):
        before = seen["encoder"][1] if number == 0 else seen["feeds.0"][1]
        read, fed = seen[f"norms.{number}"][1].relu(), seen[f"feeds.{number}.layers"][0]
        changed, found = seen[f"feeds.{number}.norm"][0], seen[f"feeds.{number}.layers"][1]
        for added, whole in ((fed - before, read), (changed - fed, found)):
            share = (added / whole)[whole.abs() > 1e-3]
            near = [torch.isclose(share, torch.tensor(value), atol=1e-2) for value in (0.0, 2.0)]
            assert (near[0] | near[1]).all() and near[0].any() and near[1].any()
    for name in ("feeds.0.layers.1", "scores.0.1"):
        given, left = seen[name]
        assert ((left == 0) & (given > 0)).any() and torch.equal(left[left != 0], 2 * given.relu()[left != 0])
    assert torch.equal(out, seen["scores.0"][1]), "not the score itself, which has to be right for each graph"
    network.eval()
    assert torch.equal(network(x, edge_index), network(x, edge_index))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("nodes", [0, 1, 3])
@pytest.mark.parametrize("readout", READOUTS)
def test_small_graphs(readout, nodes, training):
    model = PGGNN(4, 6, 2, readout=readout).train(training)
    x, edge_index = torch.randn(nodes, 4), torch.empty(2, 0, dtype=torch.long)
    out = model(x, edge_index, torch.zeros(nodes, dtype=torch.long), batch_size=1)
    assert out.shape == (1, 2)
    assert out.isfinite().all()
    torch.testing.assert_close(model(x, edge_index), out)


def test_lazy_input():
    model = PGGNN(-1, 6, 2)
    assert model(torch.randn(NODES, 7), random_graph()).shape == (1, 2)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"level": "edge"}, "level must be"),
        ({"readout": "max"}, "readout must be one of 'sum', 'mean', 'both', 'log'"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"scores": "first"}, 'scores must be "all" or "last", got .first.'),
        ({"norm": "layer"}, "norm must be one of 'batch', 'graph', 'none', got 'layer'"),
        ({"num_layers": 0}, "at least 1, got 0 and 2"),
        ({"cell": "transformer"}, "cell must be one of"),
        ({"numbering": "nodes"}, "numbering must be one of 'given', 'random', 'labels', 'both', got 'nodes'"),
        ({"numbering": "random", "numberings": 0}, "numberings must be an integer ≥ 1, got 0"),
        ({"numberings": 8}, 'numberings must be 1 with numbering "given", got 8; choose another numbering'),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        PGGNN(4, 6, 2, **kwargs)


def test_a_batch_vector_of_other_nodes_is_refused():
    with pytest.raises(ValueError, match=r"batch must have the shape \[3\] of the nodes, got \[2\]"):
        PGGNN(4, 6, 2)(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.zeros(2, dtype=torch.long))


@pytest.mark.parametrize("options", [{}, {"numbering": "labels"}])
@pytest.mark.parametrize("dtype", [torch.float, torch.int, torch.bool])
def test_a_batch_vector_of_another_type_is_refused(dtype, options):
    network = PGGNN(3, 6, 2, **options)
    with pytest.raises(TypeError, match=rf"batch must be .* torch.int64, got {dtype}; use .long()"):
        network(torch.randn(3, 3), torch.tensor([[0, 1], [1, 2]]), torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("wrap", [lambda network: network, Recorded])
@pytest.mark.parametrize(
    ("batch", "size", "message"),
    [
        ([0, -1, 1], None, "batch must number the graphs from 0, got -1"),
        ([0, -1, 1], 2, "batch must number the graphs from 0, got -1"),
        ([0, 1, 2], 2, "batch has a node of graph 2, but batch_size=2: expected 0 to 1"),
        ([0, 0, 10**15], None, f"batch has a node of graph {10**15}, but there are only 3 nodes; give batch_size"),
    ],
)
def test_a_batch_vector_of_other_graphs_is_refused(batch, size, message, wrap, level):
    network = wrap(PGGNN(4, 6, 2, level=level))
    with pytest.raises(ValueError, match=message):
        network(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.tensor(batch), batch_size=size)


def test_the_batch_vector_is_looked_at_without_a_graph_break():
    network, edge_index = PGGNN(4, 6, 2).eval(), torch.tensor([[0, 1], [1, 2]])
    args = torch.randn(3, 4), Plan.build(edge_index, 3), torch.tensor([0, 0, 1]), None, 2
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*args), network(*args))


@pytest.mark.parametrize("start", [torch_init, accumulate_init])
def test_weights_without_a_shape_are_not_started(start):
    network = PGGNN(-1, 6, 2)
    with pytest.raises(ValueError, match=r"before their shape is known \(in_channels=-1\): call the network once"):
        network.apply(start)
    network(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))
    network.apply(start)


def test_weights_that_start_as_pytorchs():
    network = PGGNN(3, 100, 2, num_layers=2).apply(torch_init)
    for name, parameter in (*network.convs[1].rnn.named_parameters(), ("score", network.scores[1].weight)):
        assert 0.09 < parameter.abs().max() <= 0.1, name
    assert not torch.equal(network.convs[0].rnn.weight_hh_l0, network.convs[1].rnn.weight_hh_l0)


def test_weights_that_start_to_sum_up():
    """Where each step shows the same, the uppermost state grows with the steps, and lower ones do not."""
    rnn = PGConv(1, 8).apply(accumulate_init).rnn
    lstm = torch.nn.LSTM(1, 8, 2)
    lstm.load_state_dict(rnn.state_dict())
    growth = []
    for steps in (4, 8):
        cells = lstm(torch.ones(steps, 1, 1))[1][1].squeeze(1)
        growth.append(cells.abs().mean(1))
    lower, upper = growth[1] / growth[0]
    assert lower < 1.1
    assert 1.6 < upper < 2.2
