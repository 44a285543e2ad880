"""``PGConv(cell="linear")``: every option against the definition."""

import pytest
import torch

from pggnn import PGGNN, PGConv, Plan
from pggnn.nn import ChainConv, PairConv, TrioConv, TripletConv
from pggnn.testing import check_aggregator, random_graph

DEGREES = (0, 1, 2, 3, 4, 5, 8, 11)
OPTIONS = {
    "group": {},
    "single": {"orderings": "single"},
    "some": {"orderings": 3},
    "mean": {"reduce": "mean"},
    "mean of some": {"orderings": 3, "reduce": "mean"},
    "closed": {"root": "linear"},
    "edge features": {"edge_dim": 3},
    "edge features, closed": {"edge_dim": 3, "root": "linear"},
    "flow": {"flow": "target_to_source"},
    "at most five": {"max_degree": 5},
    "numberings": {"numberings": 3, "edge_dim": 3},
    "structure": {"structure": 2},
    "one structural bit": {"structure": 1},
    "one structural bit, edge features, at most seven": {"structure": 1, "edge_dim": 3, "max_degree": 7},
    "one structural bit, numberings": {"structure": 1, "numberings": 2},
    "structure, closed": {"structure": 1, "root": "linear", "edge_dim": 3},
    "dihedral": {"group": "dihedral"},
    "dihedral, closed": {"group": "dihedral", "root": "linear"},
    "trivial": {"group": "trivial"},
    "every order": {"group": "all", "max_degree": 4},
}


def outcome(conv, backend, *inputs):
    """The output and all first derivatives."""
    conv.backend = backend
    torch.manual_seed(1)  # of random numberings
    out = conv(*inputs)
    wanted = [one for one in inputs if isinstance(one, torch.Tensor) and one.requires_grad]
    weighting = torch.arange(out.numel()).view_as(out).cos().to(out)
    return [out, *torch.autograd.grad((out * weighting).sum(), [*wanted, *conv.parameters()])]


def assert_is_the_reference(conv, *inputs, tolerance=1e-10):
    for parameter in conv.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    for ours, theirs in zip(*(outcome(conv, one, *inputs) for one in ("packed", "reference")), strict=True):
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 1e-10), (torch.float, 1e-5)])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(options, dtype, tolerance):
    edge_index, conv = random_graph(DEGREES), PGConv(4, 5, "linear", **options).to(dtype)
    x = torch.randn(len(DEGREES), 4, dtype=dtype, requires_grad=True)
    edge_attr = torch.randn(edge_index.size(1), 3, dtype=dtype, requires_grad=True) if conv.edge_dim else None
    assert_is_the_reference(conv, x, edge_index, edge_attr, tolerance=tolerance)


@pytest.mark.parametrize("layer", [PairConv, TripletConv, TrioConv, ChainConv])
def test_variants(layer):
    x = torch.randn(6, 4, dtype=torch.double, requires_grad=True)
    assert_is_the_reference(layer(4, 3, cell="linear").double(), x, random_graph((0, 1, 2, 3, 4, 5)))


@pytest.mark.parametrize("with_centers", [True, False])
def test_bipartite(with_centers):
    edge_index = torch.stack([torch.randint(5, (20,)), torch.randint(3, (20,))])
    neighbors, centers = (torch.randn(n, w, dtype=torch.double, requires_grad=True) for n, w in ((5, 4), (3, 2)))
    conv = PGConv((4, 2), 3, "linear", root="linear").double()
    plan = Plan.build(edge_index, (5, 3))
    if with_centers:
        assert_is_the_reference(conv, (neighbors, centers), plan)
    else:
        torch.testing.assert_close(
            *(outcome_without_centers(conv, backend, neighbors, plan) for backend in ("packed", "reference"))
        )


def outcome_without_centers(conv, backend, neighbors, plan):
    conv.backend = backend
    return conv((neighbors, None), plan)


def test_a_node_reads_its_neighbours_by_hand():
    """Three neighbours: the first stays, the others change places; the centre enters their gates, not its own."""
    torch.manual_seed(0)
    conv, x = PGConv(2, 3, "linear"), torch.randn(4, 2)
    rows, seen = conv.rnn(x), conv.lin_center(x[0])
    expected = torch.zeros(3)
    for order in ((1, 2, 3), (1, 3, 2)):
        h = torch.zeros(3)
        for row in (rows[0], *(rows[u] + seen for u in order), rows[0]):
            h = row[:3].sigmoid() * h + row[3:].relu()
        expected = expected + h
    torch.testing.assert_close(conv(x, torch.tensor([[1, 2, 3], [0, 0, 0]]))[0], expected)


def test_properties_of_an_aggregator():
    check_aggregator(PGConv(4, 8, "linear"), in_channels=4)


def test_weights():
    conv = PGConv(-1, 8, "linear", structure=2)
    assert conv.num_layers == 1 and PGConv(4, 8).num_layers == 2
    conv(torch.randn(3, 4), random_graph((1, 2, 0)))
    shapes = {name: tuple(parameter.shape) for name, parameter in conv.named_parameters()}
    assert shapes == {
        "rnn.weight_ih_l0": (16, 4), "rnn.bias_ih_l0": (16,),
        "lin_center.weight": (16, 4), "lin_structure.weight": (8, 2),
    }  # fmt: skip
    before = conv.lin_center.weight.clone()
    conv.reset_parameters()
    assert not torch.equal(conv.lin_center.weight, before)
    with pytest.raises(ValueError, match="the cell 'linear' has one layer: num_layers must be 1, got 2"):
        PGConv(4, 8, "linear", num_layers=2)
    with pytest.raises(ValueError, match="num_layers must be 1, got 3"):
        PGGNN(4, 8, 2, cell="linear", rnn_layers=3)


def test_a_network_compiles_without_a_graph_break_and_learns_under_autocast():
    torch._dynamo.reset()
    model, x = PGGNN(4, 8, 2, num_layers=2, cell="linear", level="node"), torch.randn(len(DEGREES), 4)
    plan = Plan.build(random_graph(DEGREES), len(DEGREES))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, plan), model(x, plan))
    with torch.autocast("cpu", torch.bfloat16):
        model(x, plan).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.convs.parameters())
