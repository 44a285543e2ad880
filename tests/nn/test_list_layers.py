"""Layers that read rings, paths, distances and lists of one's own, against the definition; their invariances."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from pggnn import PGGNN, PGConv, Plan
from pggnn.lists import read_lists
from pggnn.nn.lists import HopConv, ListConv, OneWayRingConv, PathConv, RingConv, RingSetConv

LAYERS = {layer.kind: layer for layer in (RingConv, PathConv, HopConv, ListConv, OneWayRingConv, RingSetConv)}
CELLS = ("lstm", "gru", "srn", "linear")


def molecule(dtype=torch.double, seed=0):
    """Two fused rings, of 5 and of 6, a tail of two nodes, and a node alone; directed edges have features."""
    torch.manual_seed(seed)
    bonds = torch.tensor([[0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 2, 9], [1, 2, 3, 4, 0, 5, 6, 7, 8, 3, 9, 10]])
    edges = torch.cat([bonds, bonds.flip(0)], 1)
    edges = edges[:, torch.randperm(24)]
    return Data(
        x=torch.randn(12, 5, dtype=dtype), edge_index=edges, edge_attr=torch.randn(24, 3, dtype=dtype),
        ring_index=torch.tensor([0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8]), ring_size=torch.tensor([5, 6]),
        path_index=torch.tensor([10, 9, 2, 9, 2, 1, 0, 5, 6]), path_size=torch.tensor([3, 4, 2]),
        hop_index=torch.tensor([2, 1, 3, 9, 2, 0, 4, 8, 10, 11]), hop_size=torch.tensor([4, 5, 1]),
        hop_distance=torch.tensor([1, 2, 1]),
        list_index=torch.tensor([11, 3, 7, 0]), list_size=torch.tensor([3, 1]),
    )  # fmt: skip


def run(conv, data, kind):
    features = None if conv.edge_dim is None else data.edge_attr
    adjacency = Plan.build(data.edge_index, data.num_nodes) if conv.structure else None
    return conv(data.x, read_lists(kind, data), features, adjacency)


def outcome(conv, data, kind, backend):
    """Output and gradients."""
    conv.backend = backend
    x = data.x.clone().requires_grad_()
    changed = data.clone()
    changed.x = x
    out = run(conv, changed, kind)
    return [out, *torch.autograd.grad(out.sin().sum(), [x, *conv.parameters()])]


ALL = [*((kind, False) for kind in LAYERS), ("rings", True), ("paths", True)]
CASES = [
    *((*case, cell, "packed") for case in ALL for cell in CELLS),
    *((*case, cell, "triton") for case in (("rings", True), ("hops", False)) for cell in ("lstm", "linear")),
    *((*case, "gru", "triton") for case in ALL),
]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("kind", LAYERS)
def test_lists_can_be_trained_with_after_inference_mode(kind, cell):
    data, conv = molecule(), LAYERS[kind](5, 4, cell=cell).double()
    expected = outcome(conv, data, kind, "packed")
    with torch.inference_mode():
        lists = read_lists(kind, data)
        conv(data.x, lists)
    x = data.x.clone().requires_grad_()
    out = conv(x, lists)
    torch.testing.assert_close([out, *torch.autograd.grad(out.sin().sum(), [x, *conv.parameters()])], expected)


@pytest.mark.usefixtures("swift_interpreter")
@pytest.mark.parametrize(("kind", "edges", "cell", "backend"), CASES)
def test_equals_the_definition(kind, edges, cell, backend):
    if backend == "triton":
        pytest.importorskip("triton")
    device = "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"
    dtype = torch.float if backend == "triton" else torch.double
    data = molecule(dtype).to(device)
    options = {"edge_dim": 3} if edges else {}
    conv = LAYERS[kind](5, 4, cell=cell, **options).to(dtype).to(device)
    ours, theirs = (outcome(conv, data, kind, one) for one in (backend, "reference"))
    tolerance = 1e-10 if dtype == torch.double else 1e-5
    for one, other in zip(ours, theirs, strict=True):
        scale = max(1.0, float(other.detach().abs().max()))
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


def test_what_a_ring_layer_is():
    """Each node's rings, both ways, with PyTorch's own GRU."""
    data, conv = molecule(), RingConv(5, 4, cell="gru", num_layers=1).double()
    gru = torch.nn.GRU(5, 4).double()
    gru.load_state_dict(conv.rnn.state_dict())
    expected = conv.lin_root(data.x)
    for ring in data.ring_index.split(data.ring_size.tolist()):
        for place, node in enumerate(ring.tolist()):
            for way in (ring.roll(-place), ring.roll(-place).flip(0).roll(1)):
                sequence = [*way.tolist(), node]
                assert sequence[0] == node
                expected = expected.index_add(0, torch.tensor([node]), gru(data.x[sequence].unsqueeze(1))[1][0])
    torch.testing.assert_close(run(conv, data, "rings"), expected)


def same(conv, data, changed, kind):
    return (run(conv, data, kind) - run(conv, changed, kind)).abs().max().item()


@pytest.mark.parametrize("structure", [0, 3])
def test_rings_may_begin_anywhere_and_go_either_way(structure):
    data, conv = molecule(), RingConv(5, 4, edge_dim=3, structure=structure).double()
    first, second = data.ring_index.split(data.ring_size.tolist())
    for one, other in ((first.roll(2), second), (first.flip(0), second.roll(-3).flip(0))):
        changed = data.clone()
        changed.ring_index = torch.cat([one, other])
        assert same(conv, data, changed, "rings") < 1e-12
    changed.ring_index = torch.cat([first[[0, 2, 1, 3, 4]], second])
    assert same(conv, data, changed, "rings") > 1e-3, "another order is another ring"
    changed.ring_index, changed.ring_size = torch.cat([second, first]), torch.tensor([6, 5])
    assert same(conv, data, changed, "rings") < 1e-12


def test_rings_as_sets_and_one_way():
    """The controls: members in another order, and a ring the other way round."""
    data, changed, back = molecule(), molecule(), molecule()
    changed.ring_index = torch.tensor([0, 2, 1, 3, 4, 3, 4, 5, 6, 7, 8])
    back.ring_index = torch.cat([ring.flip(0) for ring in data.ring_index.split(data.ring_size.tolist())])
    sets, one_way = (layer(5, 4).double() for layer in (RingSetConv, OneWayRingConv))
    assert same(sets, data, changed, "ring-sets") < 1e-12
    assert same(sets, data, back, "ring-sets") < 1e-12
    assert same(one_way, data, back, "rings-one-way") > 1e-3
    other = data.clone()
    other.ring_index = torch.tensor([0, 1, 2, 3, 5, 3, 4, 5, 6, 7, 8])
    assert same(sets, data, other, "ring-sets") > 1e-3, "it sees who is in a ring"


def test_paths_may_be_stored_either_way():
    data, conv = molecule(), PathConv(5, 4, edge_dim=3).double()
    changed = data.clone()
    changed.path_index = torch.cat([path.flip(0) for path in data.path_index.split(data.path_size.tolist())])
    assert same(conv, data, changed, "paths") < 1e-12
    changed.path_index = torch.tensor([9, 10, 2, 9, 2, 1, 0, 5, 6])
    assert same(conv, data, changed, "paths") > 1e-3


def test_every_order_of_a_distance_does_not_depend_on_numbers():
    data, conv = molecule(), HopConv(5, 4, group="all").double()
    changed = data.clone()
    changed.hop_index = torch.tensor([2, 9, 1, 3, 2, 10, 8, 0, 4, 11])
    assert same(conv, data, changed, "hops") < 1e-12
    assert same(HopConv(5, 4).double(), data, changed, "hops") > 1e-6, "the paper's group does"
    changed.hop_distance = torch.tensor([2, 1, 1])
    assert same(conv, data, changed, "hops") > 1e-3, "distances are seen"


def test_chords_are_seen():
    """Two rings of six, of which one has a chord."""
    bonds = torch.stack([torch.arange(6), torch.arange(6).roll(-1)])
    chord = torch.cat([bonds, torch.tensor([[0], [3]])], 1)
    rings = {"ring_index": torch.arange(6), "ring_size": torch.tensor([6])}
    plain, chorded = (Data(torch.ones(6, 5).double(), torch.cat([e, e.flip(0)], 1), **rings) for e in (bonds, chord))
    assert same(RingConv(5, 4).double(), plain, chorded, "rings") == 0
    assert same(RingConv(5, 4, structure=3).double(), plain, chorded, "rings") > 1e-3


@pytest.mark.parametrize("block", ["plain", "residual"])
def test_networks_of_several_neighbourhoods_are_the_same_alone_and_in_a_batch(block):
    torch.manual_seed(0)
    reads = ("star", "sum", "rings", "paths", "hops", "lists")
    model = PGGNN(5, 8, 2, num_layers=2, reads=reads, block=block, edge_dim=3, cell="gru").double().eval()
    graphs = [molecule(seed=seed) for seed in range(3)]

    def scores(data, batch=None):
        lists = {kind: read_lists(kind, data) for kind in reads[2:]}
        return model(data.x, data.edge_index, batch, data.edge_attr, lists=lists)

    together = Batch.from_data_list(graphs)
    alone = torch.cat([scores(data) for data in graphs])
    torch.testing.assert_close(scores(together, together.batch), alone, rtol=0, atol=1e-12)


def test_second_derivatives():
    data, conv = molecule(), RingConv(5, 2, cell="gru", num_layers=1).double()
    lists = read_lists("rings", data)
    x = data.x[:, :].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: conv(x, lists)[:3], x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": ()}, "some of 'star', 'sum'"),
        ({"reads": "rings"}, "some of 'star', 'sum'"),
        ({"reads": ("star", "star")}, "each once"),
        ({"reads": ("star", "cliques")}, "got \\('star', 'cliques'\\)"),
        ({"ring_structure": 2}, "the network reads none"),
        ({"block": "deep"}, 'block must be "plain" or "residual"'),
    ],
)
def test_networks_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        PGGNN(5, 8, 1, **options)


def test_networks_see_chords_of_rings_by_their_structural_bits():
    square = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    chord = torch.cat([square, torch.tensor([[0, 2], [2, 0]])], 1)
    for bits in (0, 2):
        network = PGGNN(1, 8, 3, num_layers=1, reads=("rings",), ring_structure=bits).eval()
        scores = []
        for edges in (square, chord):
            data = Data(torch.ones(4, 1), edges, ring_index=torch.arange(4), ring_size=torch.tensor([4]))
            scores.append(network(data.x, edges, lists={"rings": read_lists("rings", data)}))
        assert torch.allclose(*scores) == (bits == 0)


def test_layers_refuse():
    data, conv = molecule(torch.float), RingConv(5, 4, edge_dim=3)
    lists = read_lists("rings", data)
    with pytest.raises(TypeError, match=r'use pggnn.lists.read_lists\("rings", data\)'):
        conv(data.x, data.edge_index, data.edge_attr)
    with pytest.raises(ValueError, match="edge_attr is missing"):
        conv(data.x, lists)
    with pytest.raises(ValueError, match=r"edge_attr must have shape \[24, 3\], got \[24, 2\]"):
        conv(data.x, lists, data.edge_attr[:, :2])
    with pytest.raises(ValueError, match=r"x must have shape \[12, 5\], got \[11, 5\]"):
        conv(data.x[1:], lists, data.edge_attr)
    for adjacency, given in ((None, "none"), (data.edge_index, "Tensor")):
        with pytest.raises(ValueError, match=f"give adjacency=Plan.build.* got {given}"):
            RingConv(5, 4, structure=2)(data.x, lists, None, adjacency)
    with pytest.raises(ValueError, match=r"the plan of 12 nodes, got Plan\(nodes=13"):
        RingConv(5, 4, structure=2)(data.x, lists, None, Plan.build(data.edge_index, 13))
    with pytest.raises(ValueError, match="the network reads rings, which are missing"):
        PGGNN(5, 4, 1, reads=("star", "rings"))(data.x, data.edge_index)


def test_layers_refuse_lists_of_the_other_flow():
    """The features of an edge from u to v would enter the step from u to v instead of that from v to u."""
    data = molecule(torch.float)
    lists, there = read_lists("rings", data), "target_to_source"
    message = f"read with flow='source_to_target', but the layer has flow='{there}'; use read_lists"
    with pytest.raises(ValueError, match=message):
        RingConv(5, 4, flow=there)(data.x, lists)
    with pytest.raises(ValueError, match=message):
        PGGNN(5, 4, 1, reads=("star", "rings"), flow=there)(data.x, data.edge_index, lists={"rings": lists})
    with pytest.raises(ValueError, match="the plan was built with flow='target_to_source'"):
        RingConv(5, 4, structure=2)(data.x, lists, None, Plan.build(data.edge_index, 12, there))
    back = data.clone()
    back.edge_index = data.edge_index.flip(0)
    one, other = RingConv(5, 4, edge_dim=3), RingConv(5, 4, edge_dim=3, flow=there)
    other.load_state_dict(one.state_dict())
    torch.testing.assert_close(run(one, data, "rings"), other(back.x, read_lists("rings", back, there), back.edge_attr))


@pytest.mark.parametrize(
    ("x", "edge_attr", "error", "message"),
    [
        (
            torch.double,
            torch.float,
            TypeError,
            "node features are torch.float64, but the layer's weights torch.float32",
        ),
        (torch.float, torch.double, TypeError, "edge features are torch.float64, but the layer's weights"),
        (torch.long, torch.float, TypeError, "node features must be floating-point, got torch.int64"),
    ],
)
def test_layers_refuse_other_types(x, edge_attr, error, message):
    data = molecule(torch.float)
    with pytest.raises(error, match=message):
        RingConv(5, 4, edge_dim=3)(data.x.to(x), read_lists("rings", data), data.edge_attr.to(edge_attr))


@pytest.mark.parametrize("option", ["max_degree", "numberings", "numbering", "orderings"])
@pytest.mark.parametrize("layer", [RingConv, PathConv, ListConv])
def test_layers_refuse_options_of_neighbours(layer, option):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        layer(5, 4, **{option: 2})


def test_layers_refuse_options_that_do_not_fit():
    with pytest.raises(ValueError, match="leave edge_dim out, got 3"):
        HopConv(5, 4, edge_dim=3)
    with pytest.raises(ValueError, match=r"in_channels must be one number: .* got \(5, 6\)"):
        RingConv((5, 6), 4)


@pytest.mark.parametrize("cell", CELLS)
def test_hops_in_random_orders(cell):
    """One fresh order of the nodes at a distance in each training step, the given one in evaluation."""
    torch.manual_seed(0)
    data, options = molecule(), {"cell": cell}
    conv, single = (HopConv(5, 4, orderings=one, **options).double() for one in ("random", "single"))
    single.load_state_dict(conv.state_dict())
    found = torch.stack([run(conv, data, "hops").detach() for _ in range(300)])
    assert found.std(0)[2].min() > 1e-6, "node 2 has three nodes at distance 1, and at 2"
    assert found.std(0)[[0, 1, 3]].max() < 1e-12, "these have none"
    every = HopConv(5, 4, group="all", reduce="mean", **options).double()
    every.load_state_dict(conv.state_dict())
    torch.testing.assert_close(found.mean(0), run(every, data, "hops"), rtol=0, atol=float(found.std(0).max()) / 3)
    torch.testing.assert_close(run(conv.eval(), data, "hops"), run(single, data, "hops"))


@pytest.mark.parametrize("block", ["plain", "residual"])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_networks_take_the_width_from_the_first_input(edge_dim, block):
    data = molecule()
    reads = ("star", "sum", "rings", "paths", "hops", "lists")
    lists = {kind: read_lists(kind, data) for kind in reads[2:]}
    known, *lazy = (
        PGGNN(width, 4, 2, num_layers=2, reads=reads, block=block, edge_dim=edge_dim).double().eval()
        for width in (5, -1, -1)
    )
    weights = [*lazy[1].parameters()]
    lazy[0].load_state_dict(known.state_dict())
    lazy[1].reset_parameters()
    out = [
        model(data.x, data.edge_index, None, None if edge_dim is None else data.edge_attr, lists=lists)
        for model in (known, *lazy)
    ]
    torch.testing.assert_close(out[0], out[1], rtol=0, atol=0)
    out[2].sum().backward()
    assert all(one is other for one, other in zip(weights, lazy[1].parameters(), strict=True)), "what an optimiser has"
    known.load_state_dict(lazy[1].state_dict())


@pytest.mark.parametrize("option", [{"grop": "all"}, {"group": "al"}, {"orderings": 0}, {"max_degree": 0}], ids=str)
def test_options_of_the_star_are_checked_where_it_is_not_read(option):
    errors = []
    for reads in (("star", "rings"), ("rings",)):
        with pytest.raises((TypeError, ValueError)) as refused:
            PGGNN(5, 4, 1, reads=reads, **option)
        errors.append(str(refused.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("aggregation", ["pairs", "triplets", "trios", "chain"])
def test_variants_are_ways_to_read_the_star(aggregation):
    data = molecule(torch.float)
    model = PGGNN(5, 4, 1, aggregation=aggregation, reads=("rings", "star"), edge_dim=3)
    lists = {"rings": read_lists("rings", data)}
    assert model(data.x, data.edge_index, None, data.edge_attr, lists=lists).isfinite().all()
    with pytest.raises(
        ValueError, match=rf"aggregation '{aggregation}' is how the star is read: add \"star\" to reads"
    ):
        PGGNN(5, 4, 1, aggregation=aggregation, reads=("rings",))


def test_all_orders_of_a_star_do_not_depend_on_numbers():
    data, conv = molecule(), PGConv(5, 4, group="all", edge_dim=3).double()
    order = torch.randperm(24)
    one = conv(data.x, data.edge_index, data.edge_attr)
    other = conv(data.x, data.edge_index[:, order], data.edge_attr[order])
    assert (one - other).abs().max() < 1e-12
