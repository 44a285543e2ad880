import pytest
import torch
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import SAGEConv, Sequential

from pggnn import PGConv, Plan
from pggnn.groups import group, order
from pggnn.testing import (
    DEGREES,
    check_aggregator,
    check_gradients,
    features,
    interleaved,
    random_graph,
    renumbered,
    sensitivity,
)

TORCH = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "srn": torch.nn.RNN}
UP_TO_40 = (*range(12), 17, 24, 33, 40)


def loop(conv, x, edge_index):
    """The layer as a loop over nodes and arrangements that feeds the sequences to ``torch.nn``."""
    rnn = TORCH[conv.cell](conv.rnn.input_size, conv.out_channels, conv.num_layers).to(x.dtype)
    for name, parameter in conv.rnn.named_parameters():
        setattr(rnn, name, parameter)
    out = []
    for v in range(x.size(0)):
        around = edge_index[0, edge_index[1] == v].tolist()
        if conv.root == "merged":
            sequences = [[v, *(around[i] for i in g), v] for g in group(len(around)).arrangements]
        else:
            sequences = [[around[i] for i in (*g, *g[:1])] for g in group(len(around)).arrangements]
        total = rnn(x[torch.tensor(sequences).t()])[0][-1].sum(0) if sequences[0] else x.new_zeros(conv.out_channels)
        out.append(total if conv.root == "merged" else total + conv.lin_root(x[v]))
    return torch.stack(out)


@pytest.mark.filterwarnings("ignore:RNN module weights are not part of single contiguous chunk")
@pytest.mark.parametrize("root", ["merged", "linear"])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("cell", TORCH)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float, 1e-5), (torch.double, 1e-10)])
def test_equals_a_loop_over_torch_nn(cell, num_layers, root, dtype, tolerance):
    edge_index = random_graph(UP_TO_40)
    conv = PGConv(4, 6, cell, num_layers, root=root).to(dtype)
    x = features(conv, len(UP_TO_40), 4).requires_grad_()
    outcomes = []
    for layer in (conv, lambda x, edge_index: loop(conv, x, edge_index)):
        out = layer(x, edge_index)
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), [x, *conv.parameters()])])
    for actual, expected in zip(*outcomes, strict=True):
        scale = max(1.0, expected.detach().abs().amax().item())
        torch.testing.assert_close(actual / scale, expected / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("root", ["merged", "linear"])
@pytest.mark.parametrize("cell", TORCH)
def test_gradients(cell, root):
    check_gradients(PGConv(2, 2, cell, root=root).double(), 2)


@pytest.mark.parametrize(
    "kwargs", [{}, {"root": "linear"}, {"orderings": "single"}, {"orderings": 3}, {"max_degree": 4}, {"reduce": "mean"}]
)
def test_properties(kwargs):
    conv = PGConv(4, 6, **kwargs)
    check_aggregator(conv, 4)
    check_aggregator(conv.double(), 4)
    assert sensitivity(conv, 4) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_the_mean_is_the_sum_over_the_arrangements_by_their_number(dtype):
    x, edge_index = torch.randn(len(DEGREES), 4, dtype=dtype), random_graph()
    for orderings, number in (("group", order), (3, lambda n: min(order(n), 3)), ("single", lambda n: 1)):
        summed, mean = (PGConv(4, 6, orderings=orderings, reduce=reduce).to(dtype) for reduce in ("sum", "mean"))
        mean.load_state_dict(summed.state_dict())
        scale = torch.tensor([number(n) * summed.reading.scale(n) for n in DEGREES], dtype=dtype).unsqueeze(-1)
        exact = 1e-12 if dtype == torch.double else 1e-5
        torch.testing.assert_close(mean(x, edge_index) * scale, summed(x, edge_index), rtol=exact, atol=exact)
    assert "reduce='mean'" in repr(mean)


def test_without_two_neighbours_there_is_no_order():
    conv = PGConv(4, 6)
    x, edge_index = torch.randn(4, 4), random_graph((0, 1, 1, 0))
    torch.testing.assert_close(conv(x, renumbered(edge_index)), conv(x, edge_index))


def test_a_plan_gives_the_same_as_its_edges():
    conv, edge_index, x = PGConv(4, 6), random_graph(), torch.randn(len(DEGREES), 4)
    assert torch.equal(conv(x, Plan.build(edge_index, len(DEGREES))), conv(x, edge_index))


def test_backends_agree():
    packed, reference = PGConv(4, 6, backend="packed"), PGConv(4, 6, backend="reference")
    reference.load_state_dict(packed.state_dict())
    x, edge_index = torch.randn(len(DEGREES), 4), random_graph()
    torch.testing.assert_close(packed(x, edge_index), reference(x, edge_index), rtol=1e-5, atol=1e-5)


def test_flow():
    conv, reverse = PGConv(4, 6), PGConv(4, 6, flow="target_to_source")
    reverse.load_state_dict(conv.state_dict())
    x, edge_index = torch.randn(len(DEGREES), 4), random_graph()
    assert torch.equal(reverse(x, edge_index.flip(0)), conv(x, edge_index))
    assert not torch.allclose(reverse(x, edge_index), conv(x, edge_index))


def test_duplicate_edges_and_self_loops_are_neighbours():
    conv, x = PGConv(4, 6), torch.randn(3, 4)
    twin = torch.cat([x, x[1:2], x[0:1]])
    repeated = conv(x, torch.tensor([[1, 1, 0], [0, 0, 0]]))
    distinct = conv(twin, torch.tensor([[1, 3, 4], [0, 0, 0]]))
    torch.testing.assert_close(repeated[0], distinct[0])


def test_bipartite():
    edge_index = torch.tensor([[0, 1, 2, 3, 3], [0, 0, 0, 1, 0]])
    merged = PGConv(4, 6)
    source, target = torch.randn(4, 4), torch.randn(2, 4)
    whole = merged(torch.cat([source, target]), edge_index + torch.tensor([[0], [4]]))[4:]
    torch.testing.assert_close(merged((source, target), edge_index), whole)
    linear = PGConv((4, 3), 6, root="linear")
    assert linear((source, torch.randn(2, 3)), edge_index).shape == (2, 6)
    assert linear((source, None), edge_index, size=(4, 2)).shape == (2, 6)
    reverse = PGConv((4, 3), 6, root="linear", flow="target_to_source")
    reverse.load_state_dict(linear.state_dict())
    centers = torch.randn(2, 3)
    torch.testing.assert_close(reverse((centers, source), edge_index.flip(0)), linear((source, centers), edge_index))


@pytest.mark.parametrize("root", ["merged", "linear"])
def test_edge_features_enter_the_step_that_reads_the_neighbour(root):
    edge_index = random_graph()
    conv = PGConv(4, 6, root=root, edge_dim=3).double()
    x, edge_attr = torch.randn(len(DEGREES), 4).double(), torch.randn(edge_index.size(1), 3).double()
    # An edge's features, mapped to the gates, are a change of what its neighbour brings: give each edge its own source.
    plain = PGConv(4 + 24, 6, root=root).double()
    plain.rnn.load_state_dict(
        {**conv.rnn.state_dict(), "weight_ih_l0": torch.cat([conv.rnn.weight_ih_l0, torch.eye(24)], 1)}
    )
    if root == "linear":
        plain.lin_root.weight.data = torch.cat([conv.lin_root.weight, torch.zeros(6, 24)], 1)
    centers = torch.cat([x, torch.zeros(len(DEGREES), 24)], 1)
    sources = torch.cat([x[edge_index[0]], conv.lin_edge(edge_attr)], 1)
    own_source = torch.stack([len(DEGREES) + torch.arange(edge_index.size(1)), edge_index[1]])
    expected = plain(torch.cat([centers, sources]), own_source)[: len(DEGREES)]
    torch.testing.assert_close(conv(x, edge_index, edge_attr), expected)
    mixed = interleaved(torch.cat([edge_index, torch.arange(edge_index.size(1))[None]]))
    torch.testing.assert_close(conv(x, mixed[:2], edge_attr[mixed[2]]), conv(x, edge_index, edge_attr))


def test_random_numbering_is_fresh_in_training_and_fixed_in_evaluation():
    x, edge_index = torch.randn(len(DEGREES), 4), random_graph()
    for conv in (PGConv(4, 6, numbering="random"), PGConv(4, 6, orderings="random")):
        assert not torch.equal(conv(x, edge_index), conv(x, edge_index))
        conv.eval()
        assert torch.equal(conv(x, edge_index), conv(x, edge_index))
    given = PGConv(4, 6)
    given.load_state_dict(conv.state_dict())
    given.reading = conv.reading
    assert torch.equal(given(x, edge_index), conv(x, edge_index))


def test_max_degree_reads_the_first_neighbours():
    conv, x = PGConv(4, 6, max_degree=3), torch.randn(len(DEGREES), 4)
    whole = PGConv(4, 6)
    whole.load_state_dict(conv.state_dict())
    edge_index = random_graph()
    plan = Plan.build(edge_index, len(DEGREES))
    rank = torch.arange(plan.num_edges) - plan.start[plan.center]
    kept = plan.edge[rank < 3]
    torch.testing.assert_close(conv(x, edge_index), whole(x, edge_index[:, kept.sort().values]))


def test_fewer_orderings_are_unbiased_over_numberings():
    whole, some = PGConv(4, 3).double(), PGConv(4, 3, orderings=4).double()
    some.load_state_dict(whole.state_dict())
    leaves, numberings = torch.randn(24, 4).double(), 400
    centers = torch.randn(1, 4).double().expand(numberings, -1)
    numbered = torch.cat([torch.randperm(24) for _ in range(numberings)])
    stars = torch.stack([numbered, torch.arange(numberings).repeat_interleave(24)])
    with torch.no_grad():
        full, estimates = (conv((leaves, centers), stars) for conv in (whole, some))
    noise = (estimates.std(0) ** 2 + full.std(0) ** 2).sqrt() / numberings**0.5
    assert ((estimates.mean(0) - full.mean(0)).abs() < 4 * noise).all()
    assert torch.equal(PGConv(4, 3, orderings=100).reading.scale(torch.arange(50)), torch.ones(50))


def test_lazy_channels():
    conv = PGConv(-1, 6, root="linear")
    assert conv(torch.randn(len(DEGREES), 7), random_graph()).shape == (len(DEGREES), 6)
    assert conv.rnn.input_size == 7
    assert conv.lin_root.in_channels == 7


def test_fits_into_pyg():
    model = Sequential(
        "x, edge_index", [(PGConv(4, 8), "x, edge_index -> x"), torch.nn.ReLU(), (SAGEConv(8, 2), "x, edge_index -> x")]
    )
    assert model(torch.randn(len(DEGREES), 4), random_graph()).shape == (len(DEGREES), 2)
    assert repr(PGConv(4, 8)) == "PGConv(4, 8, cell='lstm', num_layers=2, orderings='group', root='merged')"


def test_an_explainer_that_masks_edges_is_told():
    model, x, edge_index = PGConv(4, 2), torch.randn(len(DEGREES), 4), random_graph()
    kwargs = {"explanation_type": "model", "node_mask_type": "attributes"}
    config = {"mode": "regression", "task_level": "node", "return_type": "raw"}
    torch.use_deterministic_algorithms(False)
    explanation = Explainer(model, GNNExplainer(epochs=2), model_config=config, **kwargs)(x, edge_index)
    assert explanation.node_mask.shape == x.shape
    with pytest.raises(ValueError, match="no messages here"):
        Explainer(model, GNNExplainer(epochs=2), model_config=config, edge_mask_type="object", **kwargs)(x, edge_index)


def test_reset_parameters_draws_afresh():
    conv = PGConv(4, 6, root="linear", edge_dim=2)
    before = [parameter.clone() for parameter in conv.parameters() if parameter.dim() > 1]
    conv.reset_parameters()
    after = [parameter for parameter in conv.parameters() if parameter.dim() > 1]
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"cell": "lstn"}, "cell must be one of 'lstm', 'gru', 'srn'"),
        ({"orderings": "all"}, "orderings must be"),
        ({"orderings": 0}, "orderings must be"),
        ({"reduce": "max"}, "reduce must be"),
        ({"root": "both"}, "root must be"),
        ({"numbering": "sorted"}, "numbering must be"),
        ({"backend": "cuda"}, "backend must be one of"),
        ({"workspace": -1}, "workspace must be None or a whole number of bytes ≥ 0, got -1"),
        ({"max_degree": 0}, "max_degree must be"),
        ({"edge_dim": 0}, "edge_dim must be"),
        ({"num_layers": 0}, "num_layers must be an integer ≥ 1, got 0"),
        ({"in_channels": 0}, "in_channels must be at least 1"),
        ({"in_channels": (4, 3)}, 'use root="linear"'),
        ({"flow": "up"}, "flow"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        PGConv(**{"in_channels": 4, "out_channels": 6, **kwargs})


@pytest.mark.parametrize(
    ("x", "edge_attr", "error", "message"),
    [
        (torch.randn(3, 5), None, ValueError, r"neighbours must have shape \[3, 4\], got \[3, 5\]"),
        (torch.randn(3), None, ValueError, r"got \[3\]"),
        (torch.ones(3, 4, dtype=torch.long), None, TypeError, "must be floating-point"),
        (torch.randn(3, 4).double(), None, TypeError, "neighbours are torch.float64, but the layer's weights torch.fl"),
        (torch.randn(3, 4), torch.randn(2, 1), ValueError, "without edge_dim"),
        ((torch.randn(3, 4), None), None, ValueError, "centre nodes are missing"),
        ("features", None, TypeError, "a tensor or a pair of tensors, got str"),
    ],
)
def test_bad_inputs_are_refused(x, edge_attr, error, message):
    with pytest.raises(error, match=message):
        PGConv(4, 6)(x, torch.tensor([[0, 1], [1, 2]]), edge_attr)


def test_bad_edge_features_are_refused():
    conv, x, edge_index = PGConv(4, 6, edge_dim=2), torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="edge_attr is missing: the layer was made with edge_dim=2"):
        conv(x, edge_index)
    with pytest.raises(ValueError, match=r"edge_attr must have shape \[2, 2\], got \[2, 3\]"):
        conv(x, edge_index, torch.randn(2, 3))
    with pytest.raises(ValueError, match=r"neighbours must have shape \[5, 4\], got \[3, 4\]"):
        conv(x, Plan.build(edge_index, 5), torch.randn(2, 2))
    with pytest.raises(TypeError, match=r"features of the edges must be floating-point, got torch.int64"):
        conv(x, edge_index, torch.ones(2, 2, dtype=torch.long))
    for enabled in (False, True):  # autocast leaves float64 as it is
        with (
            torch.autocast("cpu", torch.bfloat16, enabled),
            pytest.raises(TypeError, match=r"edges are torch.float64, but the layer's weights torch.float32"),
        ):
            conv(x, edge_index, torch.randn(2, 2).double())


def test_edges_on_another_device_are_refused():
    plan = Plan.build(random_graph(), len(DEGREES)).to("meta")
    with pytest.raises(ValueError, match="edges are on meta, but features on cpu"):
        PGConv(4, 6)(torch.randn(len(DEGREES), 4), plan)


@pytest.mark.parametrize("channels", [-1, (-1, -1), 3])
def test_pairs_of_other_widths_are_refused(channels):
    pair, edge_index = (torch.randn(3, 3), torch.randn(3, 4)), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="same number of channels, got 3 and 4; use root"):
        PGConv(channels, 6)(pair, edge_index)


@pytest.mark.parametrize(
    "options", [{}, {"root": "linear"}, {"structure": 2}, {"edge_dim": 3}, {"orderings": 2}, {"max_degree": 3}], ids=str
)
def test_mean_over_numberings(options, monkeypatch):
    """Of copies with one numbering it is the layer itself; over fresh ones it varies less."""
    edge_index = random_graph(DEGREES)
    x, edge_attr = torch.randn(len(DEGREES), 4), torch.randn(edge_index.size(1), 3) if "edge_dim" in options else None
    one, many = (PGConv(4, 6, numberings=numberings, **options) for numberings in (1, 8))
    many.load_state_dict(one.state_dict())
    spread = []
    for conv in (PGConv(4, 6, numbering="random", **options), many):
        conv.load_state_dict(one.state_dict())
        spread.append(torch.stack([conv(x, edge_index, edge_attr) for _ in range(40)]).var(0).sum())
    assert 0.08 < spread[1] / spread[0] < 0.18
    monkeypatch.setattr(Plan, "renumbered", lambda plan: plan)
    torch.testing.assert_close(many(x, edge_index, edge_attr), one(x, edge_index, edge_attr))


def test_numberings_are_fresh_in_evaluation_too():
    conv, x, edge_index = PGConv(4, 6, numberings=2).eval(), torch.randn(len(DEGREES), 4), random_graph()
    assert not torch.equal(conv(x, edge_index), conv(x, edge_index))


def test_repeated_plan_is_that_of_the_copies():
    edge_index = random_graph(DEGREES)
    plan = Plan.build(edge_index, len(DEGREES)).repeated(3)
    copies = torch.cat([edge_index + torch.tensor([[0], [copy * len(DEGREES)]]) for copy in range(3)], 1)
    expected = Plan.build(copies, (len(DEGREES), 3 * len(DEGREES)))
    for field in ("neighbor", "center", "start", "degree", "profile"):
        assert torch.equal(getattr(plan, field), getattr(expected, field)), field
    assert torch.equal(plan.degree[plan.order], expected.degree[expected.order])
    assert torch.equal(plan.order.sort().values, torch.arange(3 * len(DEGREES)))
    assert plan.num_neighbors == len(DEGREES)


@pytest.mark.parametrize(
    "options", [{}, {"root": "linear"}, {"structure": 2}, {"orderings": 2}, {"reduce": "mean"}], ids=str
)
@pytest.mark.parametrize("numberings", [1, 2])
def test_no_nodes(numberings, options):
    conv, x = PGConv(4, 8, numberings=numberings, **options), torch.randn(0, 4, requires_grad=True)
    out = conv(x, torch.empty(2, 0, dtype=torch.long))
    assert out.shape == (0, 8)
    out.sum().backward()
    assert x.grad.shape == (0, 4)
