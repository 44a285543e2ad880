import pytest
import torch

from pggnn.data.schema import Schema
from pggnn.nn import ChainConv, PairConv, PGConv, TrioConv, TripletConv
from pggnn.train.config import ModelConfig
from pggnn.train.models import MODELS, build

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
    assert config.reads == ("group" if aggregation == "arrangements" else aggregation)


@pytest.mark.parametrize("name", MODELS)
def test_scores_and_weighting_are_those_that_were_asked_for(name):
    every, last = (build(ModelConfig(name, hidden=4, layers=2, scores=scores), SCHEMA) for scores in ("all", "last"))
    assert (len(every.scores), len(last.scores)) == (3, 1)
    if name == "gcn":
        mean = build(ModelConfig(name, hidden=4, layers=2, weighting="mean"), SCHEMA)
        assert {conv.weighting for conv in mean.convs} == {"mean"}
        assert {conv.weighting for conv in every.convs} == {"symmetric"}


def test_what_a_variant_does_not_have_is_refused():
    for options in ({"orderings": "single"}, {"orderings": 2}, {"root": "linear"}):
        with pytest.raises(ValueError, match="pairs has no choice of orderings and root"):
            build(ModelConfig(aggregation="pairs", **options), SCHEMA)
    with pytest.raises(ValueError, match="structure is for sequences of the forms"):
        build(ModelConfig(aggregation="chain", structure=1), SCHEMA)
    assert ModelConfig("gin").reads == ""
