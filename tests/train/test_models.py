from dataclasses import fields
from functools import partial

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.data import Batch, Data

from pggnn import AddRings
from pggnn.baselines.options import MODELS, NETWORKS
from pggnn.data.features.motifs import find_triangles
from pggnn.data.schema import Schema
from pggnn.data.sets.classic import cycle
from pggnn.lists import read_lists
from pggnn.nn import ChainConv, PairConv, PGConv, TrioConv, TripletConv
from pggnn.nn.init import start_scores
from pggnn.nn.model import Network
from pggnn.train.config import ModelConfig, NetworkOptions
from pggnn.train.engine.models import build

SCHEMA = Schema("node", "regression", features=5)
KINDS = {"arrangements": PGConv, "pairs": PairConv, "triplets": TripletConv, "trios": TrioConv, "chain": ChainConv}


@pytest.mark.parametrize("aggregation", KINDS)
def test_the_aggregation_is_the_one_that_was_asked_for(aggregation):
    config = ModelConfig(hidden=4, layers=3, cell="srn", rnn_layers=1, numbering="random", aggregation=aggregation)
    network = build(config, SCHEMA)
    assert [type(conv) for conv in network.convs] == [KINDS[aggregation]] * 3
    assert all((conv.cell, conv.num_layers, conv.numbering) == ("srn", 1, "random") for conv in network.convs)
    edges = torch.tensor([[1, 2, 0, 2, 0, 1], [0, 0, 1, 1, 2, 2]])
    assert network(torch.randn(3, 5), edges).shape == (3, 1)
    assert config.orders_read == ("group" if aggregation == "arrangements" else aggregation)


def test_the_linear_cell_has_one_layer_by_default():
    assert ModelConfig().rnn_layers == 2 and ModelConfig(cell="linear").rnn_layers == 1
    network = build(ModelConfig(cell="linear", hidden=4, layers=2, init="torch"), SCHEMA)
    assert all((conv.cell, conv.num_layers) == ("linear", 1) for conv in network.convs)
    with pytest.raises(ValueError, match="the cell 'linear' has one layer"):
        build(ModelConfig(cell="linear", rnn_layers=2), SCHEMA)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "dgcnn"])
def test_scores_and_weighting_are_those_that_were_asked_for(name):
    every, last = (build(ModelConfig(name, hidden=4, layers=2, scores=scores), SCHEMA) for scores in ("all", "last"))
    assert (len(every.scores), len(last.scores)) == (3, 1)
    if name == "gcn":
        mean = build(ModelConfig(name, hidden=4, layers=2, weighting="mean"), SCHEMA)
        assert {network.weighting for network in (mean, every)} == {"mean", "symmetric"}


BATCH_NORM_INSIDE = {"gin", "rgin", "rp", "clip", "sin", "cin", "gatedgcn", "pggnn with a sum"}
"""Networks whose layers have batch normalisation of their own, with any ``norm``: it says what follows the layers."""


@pytest.mark.parametrize("name", [*(name for name in NETWORKS if name != "dgcnn"), "pggnn with a sum"])
def test_a_network_without_normalisation_starts_at_a_guess_and_learns(name):
    reads = ["sum", "rings"] if name == "pggnn with a sum" else ["star"]
    config = ModelConfig(name.partition(" ")[0], hidden=8, layers=2, norm="none", reads=reads)
    network = build(config, Schema("graph", "regression", features=4))
    assert not [*network.norms.parameters()] and not [*network.norms.buffers()]
    inside = [part for part in network.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    assert bool(inside) == (name in BATCH_NORM_INSIDE)

    graphs = [AddRings(6)(cycle(nodes)) for nodes in (3, 5)]
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 4)
        graph.triangle_index, graph.triangle_size = find_triangles(graph.edge_index, graph.num_nodes)
    batch = Batch.from_data_list(graphs)
    lists = {kind: read_lists(kind, batch) for kind in (*network.lists, *reads) if kind not in ("star", "sum")}

    def score(one):
        return one(batch.x, batch.edge_index, batch.batch, lists=lists)

    guess = torch.tensor([3.0])
    start_scores(network, guess, score)
    torch.testing.assert_close(score(network), guess.expand(2, 1))
    network.scores[-1].apply(lambda part: [torch.nn.init.normal_(weight) for weight in part.parameters(False)])
    score(network).square().sum().backward()
    gradients = [weight.grad for weight in network.convs.parameters() if weight.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients) and any(map(torch.any, gradients))


def test_the_config_has_the_options_of_every_model():
    own = [key.name for options in dict.fromkeys(model.options for model in MODELS.values()) for key in fields(options)]
    every = [key.name for key in fields(ModelConfig)]
    assert every == [*(key.name for key in fields(NetworkOptions)), *own]
    assert len(set(every)) == len(every), "two models with the same option would share its default"
    assert [name for name in NETWORKS if not issubclass(NETWORKS[name].load(), Network)] == []


def test_what_a_variant_does_not_have_is_refused():
    for options in ({"orderings": "single"}, {"orderings": 2}, {"root": "linear"}, {"reduce": "mean"}):
        with pytest.raises(ValueError, match=f"pairs has no choice of {next(iter(options))}"):
            build(ModelConfig(aggregation="pairs", **options), SCHEMA)
    with pytest.raises(ValueError, match="structure is for the frames"):
        build(ModelConfig(aggregation="chain", structure=1), SCHEMA)
    assert ModelConfig("gin").orders_read == ""


class Plain(torch.nn.Module):
    """The paper's network for graphs, one ordering, in nothing but PyTorch's own layers."""

    def __init__(self, widths, classes):
        super().__init__()
        hidden = widths[1:]
        self.rnns = torch.nn.ModuleList(map(partial(torch.nn.LSTM, num_layers=2, batch_first=True), widths, hidden))
        self.norms = torch.nn.ModuleList(map(torch.nn.BatchNorm1d, hidden))
        self.scores = torch.nn.ModuleList(torch.nn.Linear(width, classes) for width in widths)

    def forward(self, graphs):
        first, h, sequences, member = 0, [], [], []
        for number, (x, neighbors) in enumerate(graphs):
            h.append(x)
            sequences += [torch.tensor([v, *found, v]) + first for v, found in enumerate(neighbors)]
            member += [number] * len(x)
            first += len(x)
        h, member, total = torch.cat(h), torch.tensor(member), 0
        for layer, score in enumerate(self.scores):
            total = total + score(h.new_zeros(len(graphs), h.size(1)).index_add(0, member, h))
            if layer < len(self.rnns):
                packed = pack_sequence([h[sequence] for sequence in sequences], enforce_sorted=False)
                h = self.norms[layer](self.rnns[layer](packed)[1][0][-1]).relu()
        return total

    def named_as_ours(self):
        renamed = {"rnns.": "convs.{}.rnn.", "norms.": "norms.{}.module.", "scores.": "scores.{}."}
        for name, value in self.state_dict().items():
            kind, layer, *rest = name.split(".")
            yield renamed[f"{kind}."].format(layer) + ".".join(rest), value.clone()


def test_training_is_that_of_the_papers_network_in_plain_pytorch():
    graphs = []
    for number in range(12):
        adjacent = torch.triu(torch.rand(5 + number % 4, 5 + number % 4) < 0.5, 1)
        adjacent |= adjacent.t().clone()
        neighbors = [row.nonzero().flatten()[torch.randperm(int(row.sum()))].tolist() for row in adjacent]
        graphs.append((torch.eye(6)[torch.randint(6, (len(neighbors),))], neighbors))
    labels = torch.randint(3, (12,))
    data = [
        Data(x=x, edge_index=torch.tensor([[u, v] for v, found in enumerate(neighbors) for u in found]).t())
        for x, neighbors in graphs
    ]
    plain = Plain([6, 8, 8], 3)
    config = ModelConfig(hidden=8, layers=2, orderings="single", init="torch")
    ours = build(config, Schema("graph", "classification", features=6, classes=("a", "b", "c")))
    ours.load_state_dict(dict(plain.named_as_ours()))
    optimizers = [torch.optim.Adam(network.parameters(), 0.01) for network in (plain, ours)]
    for _ in range(6):
        chosen = torch.randperm(12)[:5].tolist()
        batch = Batch.from_data_list([data[i] for i in chosen])
        outputs = plain([graphs[i] for i in chosen]), ours(batch.x, batch.edge_index, batch.batch)
        torch.testing.assert_close(*outputs, rtol=1e-3, atol=1e-4)
        for output, optimizer in zip(outputs, optimizers, strict=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(output, labels[chosen]).backward()
            optimizer.step()
