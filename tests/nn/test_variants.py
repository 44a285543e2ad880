from itertools import permutations

import pytest
import torch

from pggnn.groups import group
from pggnn.nn import ChainConv, PairConv, TrioConv, TripletConv
from pggnn.testing import DEGREES, check_aggregator, check_gradients, features, random_graph, sensitivity


def pairs(v, around):
    return [[i, j] for i, j in permutations(around, 2)]


def triplets(v, around):
    return [[i, j, v] for i, j in permutations(around, 2)]


def trios(v, around):
    return [[*some] for some in permutations(around, min(len(around), 3))] if around else []


def chains(v, around):
    rings = [[around[i] for i in (*g, *g[:1])] for g in group(len(around)).arrangements]
    return [[u for ring in rings for u in ring]] if around else []


@pytest.mark.parametrize(
    ("variant", "sequences"), [(PairConv, pairs), (TripletConv, triplets), (TrioConv, trios), (ChainConv, chains)]
)
@pytest.mark.parametrize("cell", ["lstm", "gru", "srn"])
def test_equals_its_equation(variant, sequences, cell):
    conv = variant(4, 6, cell=cell).double()
    rnn = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "srn": torch.nn.RNN}[cell](4, 6, 2).double()
    rnn.load_state_dict(conv.rnn.state_dict())
    x, edge_index = features(conv, len(DEGREES), 4), random_graph()
    expected = []
    for v in range(len(DEGREES)):
        read = sequences(v, edge_index[0, edge_index[1] == v].tolist())
        total = rnn(x[torch.tensor(read).t()])[0][-1].sum(0) if read else torch.zeros(6).double()
        expected.append(total if conv.lin_root is None else total + conv.lin_root(x[v]))
    torch.testing.assert_close(conv(x, edge_index), torch.stack(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("variant", [PairConv, TripletConv, TrioConv, ChainConv])
def test_properties(variant):
    conv = variant(4, 6)
    check_aggregator(conv, 4)
    check_gradients(variant(2, 2).double(), 2)
    if variant is ChainConv:
        assert sensitivity(conv, 4) > 1e-3
    else:
        assert sensitivity(conv, 4) < 1e-5
