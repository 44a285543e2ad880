"""Models on pairs of nodes: IGN, PPGN and Ring-GNN."""

from dataclasses import replace
from itertools import permutations, product

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_adj, to_undirected

from pggnn.baselines import IGN, PPGN, RingGNN
from pggnn.baselines.dense.ign import EquivariantLinear
from pggnn.baselines.dense.pairs import Pairs
from pggnn.baselines.dense.ppgn import ProductConv
from pggnn.baselines.dense.ring_gnn import RingConvolution
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.data.sets.classic import cycle, rook, shrikhande
from pggnn.plan import Plan
from pggnn.testing import random_graph
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig
from pggnn.train.engine.models import build
from pggnn.train.runs import pairs as memory
from pggnn.train.runs.pairs import bytes_of_pair, check_pairs, most_pairs

MODELS = [IGN, PPGN, RingGNN]
LAYERS = [EquivariantLinear, ProductConv, RingConvolution]
SIZES = [4, 0, 2, 1, 4, 7]
SCHEMA = Schema("graph", "classification", classes=("odd", "even"))


def graph(nodes, seed=0):
    """With loops and duplicate edges."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(nodes, (2, 3 * nodes), generator=generator) if nodes else torch.empty(2, 0, dtype=torch.long)
    x = torch.randn(nodes, 3, generator=generator, dtype=torch.double)
    return Data(x=x, edge_index=edges)


@pytest.fixture
def batch():
    return Batch.from_data_list([graph(size, seed) for seed, size in enumerate(SIZES)])


def pairs_of(batch):
    plan = Plan.build(batch.edge_index, batch.num_nodes)
    return plan, Pairs.build(plan, batch.batch, batch.num_graphs)


def rows_of(dense):
    """The rows of the tensor ``[n, n, C]`` of a graph, and its pairs."""
    nodes = dense.size(0)
    return dense.flatten(0, 1), Pairs.build(Plan.build(torch.empty(2, 0, dtype=torch.long), nodes))


def test_rows_are_the_matrices(batch):
    plan, pairs = pairs_of(batch)
    attributes = torch.randn(batch.edge_index.size(1), 2, dtype=torch.double)
    rows = pairs.features(batch.x, plan, attributes)
    assert rows.shape == (sum(size**2 for size in SIZES), 6) and pairs.groups == [(1, 1), (1, 2), (2, 4), (1, 7)]
    found = [matrix for part in pairs.dense(rows) for matrix in part]
    order = sorted((number for number, size in enumerate(SIZES) if size), key=SIZES.__getitem__)
    for matrix, number in zip(found, order, strict=True):
        nodes = batch.batch == number
        ours, edges = batch.x[nodes], nodes[batch.edge_index[0]]
        local = batch.edge_index[:, edges] - int(batch.ptr[number])
        weights = torch.cat([torch.ones(int(edges.sum()), 1, dtype=torch.double), attributes[edges]], dim=1)
        dense = to_dense_adj(local, edge_attr=weights, max_num_nodes=SIZES[number])[0].transpose(0, 1)
        torch.testing.assert_close(matrix[..., :3], dense)
        torch.testing.assert_close(matrix[..., 3:], torch.diag_embed(ours.t()).permute(1, 2, 0))


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_are_equivariant(layer):
    """Permuting the nodes of any tensor permutes what a layer makes of it, in float64."""
    torch.manual_seed(0)
    conv = layer(3, 4).double()
    dense, order = torch.randn(6, 6, 3, dtype=torch.double), torch.randperm(6)
    out = conv(*rows_of(dense)).view(6, 6, 4)
    moved = conv(*rows_of(dense[order][:, order])).view(6, 6, 4)
    torch.testing.assert_close(moved, out[order][:, order], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(moved, out)


def test_the_maps_are_all_that_there_are():
    """The 15 maps of one channel, as matrices, span what commutes with permutations of 4 nodes; with biases there are
    17 weights."""
    conv = EquivariantLinear(1, 1).double()
    basis, biases = torch.eye(16, dtype=torch.double), []
    maps = []
    for weights in (conv.pairs.weight, conv.nodes.weight, conv.graphs.weight, conv.graphs.bias):
        for place in range(weights.numel()):
            with torch.no_grad():
                for one in conv.parameters():
                    one.zero_()
                weights.view(-1)[place] = 1
            found = torch.stack([conv(*rows_of(row.view(4, 4, 1))).flatten() for row in basis]).detach()
            (biases if weights is conv.graphs.bias else maps).append(found)
    assert len(maps) == 15 and len(biases) == 2
    assert torch.linalg.matrix_rank(torch.stack(maps).flatten(1)) == 15
    for found in maps:
        for order in list(permutations(range(4)))[1:8]:
            place = torch.tensor([4 * order[i] + order[j] for i, j in product(range(4), range(4))])
            torch.testing.assert_close(found[place][:, place], found)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("model", MODELS)
def test_a_graph_is_the_same_alone_and_in_a_batch(model, level, batch):
    torch.manual_seed(0)
    network = model(3, 5, 2, 2, level=level).double().eval()
    together = network(batch.x, batch.edge_index, batch.batch, batch_size=batch.num_graphs)
    alone = [network(one.x, one.edge_index) for one in batch.to_data_list() if one.num_nodes]
    if level == "graph":
        assert together.isfinite().all(), "the graph without nodes"
        together = together[torch.tensor(SIZES) > 0]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_not_a_number_stays_in_its_graph(model, batch):
    network = model(3, 5, 2, 2).double().eval()
    clean = network(batch.x, batch.edge_index, batch.batch, batch_size=batch.num_graphs)
    batch.x[int(batch.ptr[4])] = torch.nan
    spoiled = network(batch.x, batch.edge_index, batch.batch, batch_size=batch.num_graphs)
    assert spoiled[4].isnan().all()
    torch.testing.assert_close(spoiled[[0, 1, 2, 3, 5]], clean[[0, 1, 2, 3, 5]])


@pytest.mark.parametrize("options", [{}, {"readout": "both"}, {"pool": "max"}, {"norm": "graph"}, {"scores": "last"}])
@pytest.mark.parametrize("model", MODELS)
def test_nodes_have_no_order(model, options):
    torch.manual_seed(0)
    one = graph(9)
    network = model(3, 5, 2, 2, **options).double().eval()
    order = torch.randperm(9)
    moved = network(one.x[order], order.argsort()[one.edge_index])
    torch.testing.assert_close(moved, network(one.x, one.edge_index), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("model", [IGN, PPGN, pytest.param(RingGNN, marks=pytest.mark.slow)])
def test_gradients_are_those_of_finite_differences(model):
    torch.manual_seed(0)
    network, edge_index = model(2, 3, 1, 1, norm="graph").double(), random_graph(degrees=(0, 1, 2, 1))
    for weights in network.parameters():
        torch.nn.init.normal_(weights)  # biases of zero lie where a ReLU bends
    x, batch = torch.randn(4, 2, dtype=torch.double, requires_grad=True), torch.tensor([0, 0, 0, 0])
    assert torch.autograd.gradcheck(lambda x, *_: network(x, edge_index, batch), (x, *network.parameters()), atol=1e-6)


def gap(model, one, other, layers=3, **options):
    """The largest difference of the scores of two graphs whose nodes are alike, relative to the scores."""
    torch.manual_seed(0)
    network = model(1, 8, 4, layers, **options).double().eval()
    scores = [network(torch.ones(data.num_nodes, 1, dtype=torch.double), data.edge_index) for data in (one, other)]
    return float(((scores[0] - scores[1]).abs().max() / scores[0].abs().max()).detach())


TRIANGLES = Batch.from_data_list([cycle(3), cycle(3)])
STAR, PATH = (
    Data(edge_index=to_undirected(torch.tensor(edges)), num_nodes=4)
    for edges in ([[0, 0, 0], [1, 2, 3]], [[0, 1, 2], [1, 2, 3]])
)


@pytest.mark.parametrize("model", MODELS)
def test_all_tell_what_1_wl_tells(model):
    assert gap(model, STAR, PATH) > 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_products_tell_what_1_wl_cannot(model):
    """Two triangles from a hexagon, and a ring of eight from two of four. IGN cannot."""
    found = gap(model, TRIANGLES, cycle(6)), gap(model, Batch.from_data_list([cycle(4), cycle(4)]), cycle(8))
    assert max(found) < 1e-12 if model is IGN else min(found) > 1e-4


@pytest.mark.parametrize("model", MODELS)
def test_none_tells_what_2_fwl_cannot(model):
    """Strongly regular graphs of the same parameters."""
    assert gap(model, rook(), shrikhande()) < 1e-11


def test_a_product_counts_common_neighbours():
    """With maps by hand: A · A has the number of walks of two edges of each pair, in their direction."""
    conv, one = RingConvolution(1, 1).double(), graph(6)
    with torch.no_grad():
        for weight in (*conv.linear.parameters(), *conv.first.parameters(), *conv.second.parameters()):
            weight.zero_()
        conv.first.pairs.weight[0, 0] = conv.second.pairs.weight[0, 0] = 1
    plan = Plan.build(one.edge_index, 6)
    pairs = Pairs.build(plan)
    adjacency = pairs.features(one.x, plan)[:, :1]
    assert not torch.equal(adjacency.view(6, 6), adjacency.view(6, 6).t())
    expected = 0.1 * torch.linalg.matrix_power(adjacency.view(6, 6), 2)
    torch.testing.assert_close(conv(adjacency, pairs).view(6, 6), expected)


@pytest.mark.parametrize("model", MODELS)
def test_edge_features_are_read(model):
    one = graph(6)
    attributes = torch.randn(one.edge_index.size(1), 2, dtype=torch.double)
    network = model(3, 5, 2, 2, edge_dim=2).double().eval()
    out = network(one.x, one.edge_index, edge_attr=attributes)
    assert not torch.allclose(out, network(one.x, one.edge_index, edge_attr=attributes.flip(0)))
    order = torch.randperm(one.edge_index.size(1))
    torch.testing.assert_close(network(one.x, one.edge_index[:, order], edge_attr=attributes[order]), out)
    with pytest.raises(ValueError, match="edge_attr is missing, but the network was made with edge_dim=2"):
        network(one.x, one.edge_index)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_graphs_without_edges_or_nodes(model, training):
    network = model(3, 5, 2).train(training)
    for nodes in (5, 1, 0):
        out = network(torch.randn(nodes, 3), torch.empty(2, 0, dtype=torch.long))
        assert out.shape == (1, 2) and out.isfinite().all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="PPGN has no block but \"plain\", got 'residual'"):
        PPGN(3, 5, 2, block="residual")
    with pytest.raises(ValueError, match='pool must be "readout" or "max", got \'mean\''):
        IGN(3, 5, 2, pool="mean")
    with pytest.raises(ValueError, match="an edge joins nodes of different graphs"):
        PPGN(3, 5, 2)(torch.randn(2, 3), torch.tensor([[0], [1]]), torch.tensor([0, 1]))


def trained(nodes, name="ppgn", **options):
    """The config of a run on the CPU, and its graphs: trees of so many nodes."""
    config = Config(
        DataConfig("trees"), replace(ModelConfig(name, hidden=8, layers=2), **options), OptimConfig(batch_size=2),
        run=RunConfig(device="cpu"),
    )  # fmt: skip
    edges = torch.cat([torch.tensor([[*range(1, size)], [0] * (size - 1)]) for size in nodes], dim=1)
    counts = torch.tensor(nodes)
    graphs = Graphs(counts, counts - 1, edges, graph={"y": counts % 2}, schema=SCHEMA)
    return config, graphs


def test_the_largest_batch_is_foreseen():
    config, graphs = trained([10] * 50 + [100])
    assert most_pairs(config, graphs) == 10_100, "no batch has the largest graph twice"
    assert most_pairs(replace(config, optim=OptimConfig(batch_size=64)), graphs) == 15_000, "all at once"


@pytest.mark.parametrize("norm", ["batch", "graph", "none"])
@pytest.mark.parametrize("name", ["ign", "ppgn", "ringgnn"])
def test_memory_is_what_training_takes(name, norm):
    """The saved tensors of a graph of another size, counted one by one without views of the same memory."""
    model = ModelConfig(name, hidden=8, layers=2, norm=norm)
    found, network, kept = bytes_of_pair(model, SCHEMA), build(model, SCHEMA).train(), {}
    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}

    def keep(tensor):
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(torch.zeros(40, 1), torch.empty(2, 0, dtype=torch.long))
    total = sum(one.untyped_storage().nbytes() for place, one in kept.items() if place not in weights)
    assert found == pytest.approx(total / 1600 + 96, rel=0.1)


def test_a_set_too_large_is_refused_with_the_figure(monkeypatch):
    config, graphs = trained([20, 30, 40, 5])
    network = build(config.model, SCHEMA)
    need = most_pairs(config, graphs) * bytes_of_pair(config.model, SCHEMA)
    for jobs in (1, 3):
        monkeypatch.setattr(memory, "available", lambda there=need * jobs: there)
        check_pairs(config, graphs, network, jobs)
        monkeypatch.setattr(memory, "available", lambda there=need * jobs - 1: there)
        with pytest.raises(
            ValueError, match=r"the largest of 40 nodes, has about 2,[45]\d\d pairs, which take"
        ) as error:
            check_pairs(config, graphs, network, jobs)
        assert ("run.jobs 1" in str(error.value)) == (jobs > 1)
    monkeypatch.setattr(memory, "available", lambda: 0)
    config, graphs = trained([20, 30, 40, 5], "gin")
    check_pairs(config, graphs, build(config.model, SCHEMA), 1)
