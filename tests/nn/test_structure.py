"""Structural bits: what is told, that every backend tells the same, and what a layer can then see."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data

from pggnn import PGGNN, PGConv, Plan
from pggnn.data.features.motifs import triangles
from pggnn.data.sets.classic import complete, csl, cycle, rook, shrikhande
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import PairConv, TrioConv, TripletConv
from pggnn.ops import structure
from pggnn.ops.reference import sequences, structure_pairs
from pggnn.ops.structure import first_steps, read_bits, step_codes
from pggnn.orderings import Reading
from pggnn.testing import DEGREES, check_aggregator, check_gradients, random_graph, renumbered

NODES = len(DEGREES)


def pairs_told(reading, n, width):
    """What each lag of each step speaks of, (earlier, this), in the reference and in closed form."""
    listed = [structure_pairs(reading, sequence, width) for sequence in sequences(reading, n)]
    for i, sequence in enumerate(listed):
        for t, step in enumerate(sequence):
            for lag, pair in enumerate(step, start=1):
                this, earlier, told = reading.structure_pair(i, t, lag, n)
                assert bool(told) == (pair is not None)
                assert pair is None or (this, earlier) == pair
    return [Counter(step[lag][::-1] for s in listed for step in s if step[lag]) for lag in range(width)]


@pytest.mark.parametrize("n", range(41))
def test_every_ordered_pair_is_told_once(n):
    (counts,) = pairs_told(Reading(), n, 1)
    assert counts == {(i, j): 1 for i in range(n) for j in range(n) if i != j}
    (ring,) = pairs_told(Reading(frame="closed"), n, 1)
    assert ring.keys() == counts.keys()
    assert n % 2 == 0 or ring == counts


@pytest.mark.parametrize("n", range(8))
def test_every_pair_of_a_trio_is_told(n):
    counts = pairs_told(Reading("threes", "open"), n, 2)
    pairs = {(i, j) for i in range(n) for j in range(n) if i != j}
    shared = max(1, n - 2)
    assert counts[0] == dict.fromkeys(pairs, min(n - 1, 2) * shared)
    assert counts[1] == dict.fromkeys(pairs if n > 2 else (), shared)
    assert pairs_told(Reading("twos", "open"), n, 1) == [dict.fromkeys(pairs, 1)]


@pytest.mark.parametrize("frame", ["merged", "closed"])
def test_longer_reach(frame):
    for n in (0, 1, 2, 3, 4, 5, 8):
        counts = pairs_told(Reading(frame=frame), n, n + 2)
        assert not any(i == j for count in counts for i, j in count)
        closes = frame == "closed" or n % 2 == 1
        order = len(sequences(Reading(frame=frame), n))
        for lag, count in enumerate(counts, start=1):
            assert sum(count.values()) == order * max(0, n - lag + closes * (0 < lag < n))


@pytest.mark.parametrize(("width", "most_steps"), [(1, 2**19), (2, 64), (3, 32), (32, 32)])
@pytest.mark.parametrize("reading", [Reading(), Reading(frame="closed"), Reading(limit=3), Reading("threes", "open")])
def test_packed_bits(reading, width, most_steps, monkeypatch):
    monkeypatch.setitem(structure.MOST_STEPS, "cpu", most_steps)
    plan = Plan.build(random_graph(), NODES).renumbered().truncated(8)
    edges = set(zip(plan.center.tolist(), plan.neighbor.tolist(), strict=True))
    codes, first = step_codes(plan, reading, width), first_steps(plan.degree, reading).tolist()
    seen = 0
    for n, start, at in zip(plan.degree.tolist(), plan.start.tolist(), first, strict=True):
        around = plan.neighbor[start : start + n].tolist()
        steps = [step for sequence in sequences(reading, n) for step in structure_pairs(reading, sequence, width)]
        wanted = [[p is not None and (around[p[0]], around[p[1]]) in edges for p in step] for step in steps]
        found = read_bits(codes, torch.arange(at, at + len(steps)), width)
        assert found.bool().tolist() == wanted
        seen += sum(map(sum, wanted))
    assert seen > 20
    assert codes is step_codes(plan, reading, width)


def test_the_earlier_neighbour_must_be_a_neighbour_of_this_one():
    """Node 0 reads 1, then 2. With the edge 1 → 2, neighbour 1 is among those of 2, not the other way round."""
    reading, edges = Reading(limit=1), torch.tensor([[1, 2], [0, 0]])
    for edge, wanted in (((1, 2), 1), ((2, 1), 0)):
        plan = Plan.build(torch.cat([edges, torch.tensor([[edge[0]], [edge[1]]])], 1), 3)
        assert read_bits(step_codes(plan, reading, 1), torch.arange(4), 1).flatten().tolist() == [0, 0, wanted, 0]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"structure": 1},
        {"structure": 2, "root": "linear"},
        {"structure": 3, "orderings": "single"},
        {"structure": 1, "orderings": 3, "max_degree": 5, "cell": "gru"},
    ],
)
def test_properties(kwargs):
    """Batch independence, interleaved edges, relabelling, repeatability, graphs without edges or nodes."""
    conv = PGConv(4, 6, **kwargs)
    check_aggregator(conv, 4)
    check_aggregator(conv.double(), 4)


@pytest.mark.parametrize(("cell", "root"), [("lstm", "merged"), ("gru", "linear"), ("srn", "merged")])
def test_gradients(cell, root):
    check_gradients(PGConv(2, 2, cell, root=root, structure=2).double(), 2)


@pytest.mark.parametrize("kwargs", [{}, {"root": "linear"}, {"edge_dim": 2}, {"orderings": 2, "max_degree": 4}])
def test_layer_equals_the_reference(kwargs):
    edge_index = random_graph()
    edge_attr = torch.randn(edge_index.size(1), 2) if "edge_dim" in kwargs else None
    packed, reference = (PGConv(4, 6, structure=2, backend=b, **kwargs) for b in ("packed", "reference"))
    reference.load_state_dict(packed.state_dict())
    x = torch.randn(NODES, 4, requires_grad=True)
    outcomes = []
    for conv in (packed, reference):
        out = conv(x, edge_index, edge_attr)
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), [x, *conv.parameters()])])
    for a, b in zip(*outcomes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_bits_follow_a_fresh_numbering():
    """Constant features and the whole complete graph: every bit is 1, whatever the numbering; else it matters."""
    conv = PGConv(1, 6, structure=1, numbering="random")
    for graph, same in ((complete(7), True), (csl(13, 2), False)):
        x = torch.ones(graph.num_nodes, 1)
        assert torch.equal(conv(x, graph.edge_index), conv(x, graph.edge_index)) == same


def test_nothing_changes_without():
    plain, without = PGConv(4, 6), PGConv(4, 6, structure=0)
    assert plain.state_dict().keys() == without.state_dict().keys()
    assert repr(plain) == repr(without)
    assert repr(PGConv(4, 6, structure=2)).endswith("root='merged', structure=2)")
    told = PGConv(4, 6, structure=1)
    told.load_state_dict(plain.state_dict() | {"lin_structure.weight": torch.zeros(24, 1)})
    x, edge_index = torch.randn(NODES, 4), random_graph()
    assert torch.equal(told(x, edge_index), plain(x, edge_index))


def test_whole_model_compiles():
    torch._dynamo.reset()
    model = PGGNN(4, 6, 2, num_layers=2, structure=2).eval()
    assert all(conv.structure == 2 for conv in model.convs)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for seed, degrees in enumerate((DEGREES, (1, 2, 3), (5, 5, 0, 9))):
        plan = Plan.build(random_graph(degrees, seed), len(degrees))
        x = torch.randn(len(degrees), 4, requires_grad=True)
        actual, expected = compiled(x, plan), model(x, plan)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(*(torch.autograd.grad(out.sum(), x)[0] for out in (actual, expected)))


def test_exports():
    model = PGGNN(4, 6, 2, level="node", structure=1).eval()
    nodes, edges, degrees = (torch.export.Dim(name) for name in ("nodes", "edges", "degrees"))
    shapes = {"x": {0: nodes}, "edge_index": [{0: edges}] * 3 + [{0: nodes}] * 3 + [{0: degrees}, {0: nodes}]}
    plan = Plan.build(random_graph(), NODES)
    program = torch.export.export(model, (torch.randn(NODES, 4), plan), dynamic_shapes=shapes)
    other = torch.randn(6, 4), Plan.build(random_graph((5, 0, 3, 3, 1, 2), seed=4), 6)
    torch.testing.assert_close(program.module()(*other), model(*other))


def counter(cell, unit):
    """A layer whose RNN adds up the bits it is told, ``unit`` for each."""
    conv = PGConv(1, 1, cell, num_layers=1, structure=1).double()
    for parameter in conv.parameters():
        torch.nn.init.zeros_(parameter)
    if cell == "lstm":  # input, forget and output gate open, the bit enters the cell state
        conv.rnn.bias_ih_l0.data = torch.tensor([40.0, 40, 0, 40]).double()
        conv.lin_structure.weight.data[2] = unit
    else:
        conv.rnn.weight_hh_l0.data.fill_(1)
        conv.lin_structure.weight.data.fill_(unit)
    return conv


@pytest.mark.parametrize(("cell", "unit"), [("srn-identity", 1.0), ("lstm", 1e-3)])
def test_one_layer_counts_triangles(cell, unit):
    """Each triangle at a node is an adjacent pair of its neighbours, told of in both orders."""
    drawn = [Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes) for graph in erdos_renyi(20)]
    graphs = Batch.from_data_list([rook(), shrikhande(), complete(9), cycle(6), csl(13, 2), *drawn])
    assert graphs.num_nodes > 200
    conv, expected = counter(cell, unit), triangles(graphs.edge_index, graphs.ptr)
    assert expected.max() > 20
    out = conv(torch.ones(graphs.num_nodes, 1).double(), renumbered(graphs.edge_index)).flatten() / (2 * unit)
    torch.testing.assert_close(out, expected.double(), rtol=0, atol=1e-3)


def numberings(graph, count, seed):
    copies = [renumbered(graph.edge_index, seed + number) for number in range(count)]
    return Batch.from_data_list([Data(edge_index=edges, num_nodes=graph.num_nodes) for edges in copies])


def sums(conv, graphs):
    """Sums over the nodes of each graph, given constant features."""
    with torch.no_grad():
        out = conv(torch.ones(graphs.num_nodes, 1).double(), graphs.edge_index)
    return out.view(graphs.num_graphs, -1, out.size(1)).sum(1)


TWO_TRIANGLES = Data(edge_index=torch.cat([complete(3).edge_index, complete(3).edge_index + 3], 1), num_nodes=6)


@pytest.mark.parametrize("root", ["merged", "linear"])
@pytest.mark.parametrize("pair", [(TWO_TRIANGLES, cycle(6)), (rook(), shrikhande())], ids=["hexagon", "rook"])
def test_constant_features_show_nothing_without_structure(pair, root):
    conv = PGConv(1, 16, root=root).double()
    first, second = (sums(conv, numberings(graph, 50, 0)) for graph in pair)
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(first, first[:1].expand_as(first), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_random_weights_tell_two_triangles_from_a_hexagon(seed):
    torch.manual_seed(seed)
    conv = PGConv(1, 16, structure=1).double()
    first, second = (sums(conv, numberings(graph, 20, 0)) for graph in (TWO_TRIANGLES, cycle(6)))
    spread = first.std(0) + second.std(0)
    assert ((first.mean(0) - second.mean(0)).abs() > 100 * spread + 1e-3).all()


@pytest.mark.parametrize("seed", range(2))
def test_random_weights_tell_rook_from_shrikhande(seed):
    """A linear read-out fitted to some numberings keeps 200 others apart, further than they spread."""
    torch.manual_seed(seed)
    conv = PGConv(1, 16, structure=2, num_layers=1).double()
    fitted, fresh = (
        [sums(conv, numberings(graph, 200, seed)) for graph in (rook(), shrikhande())] for seed in (200, 0)
    )
    within = torch.cov(torch.cat([out - out.mean(0) for out in fitted]).t())
    ridge = 1e-9 * within.diagonal().mean() * torch.eye(16)
    direction = torch.linalg.solve(within + ridge, fitted[0].mean(0) - fitted[1].mean(0))
    first, second = (out @ direction for out in fresh)
    spread = max(out.max() - out.min() for out in (first, second))
    assert first.min() - second.max() > 10 * spread


@pytest.mark.parametrize(("width", "message"), [(-1, "0 to 32, got -1"), (33, "0 to 32, got 33")])
def test_bad_widths_are_refused(width, message):
    with pytest.raises(ValueError, match=message):
        PGConv(4, 6, structure=width)


def test_where_it_makes_no_sense_it_is_refused():
    with pytest.raises(ValueError, match="a bipartite graph"):
        PGConv(4, 6, structure=1)((torch.randn(3, 4), torch.randn(2, 4)), torch.tensor([[0, 2], [1, 1]]))
    with pytest.raises(ValueError, match="structure is for the frames merged, closed, open"):
        TripletConv(4, 6, structure=1)


@pytest.mark.parametrize(("variant", "width"), [(PairConv, 1), (TrioConv, 2)])
def test_variants_that_are_told(variant, width):
    check_aggregator(variant(4, 6, structure=width), 4)
    check_gradients(variant(2, 2, structure=width).double(), 2)


def test_trios_see_four_cliques_and_pairs_do_not():
    torch.manual_seed(0)
    trios, pairs = TrioConv(1, 8, structure=2).double(), PairConv(1, 8, structure=1).double()
    graphs = [renumbered(graph.edge_index, seed) for graph in (rook(), shrikhande()) for seed in range(3)]
    for conv, least, most in ((trios, 1e-3, 1), (pairs, 0, 1e-12)):
        rows = torch.stack([conv(torch.ones(16, 1).double(), edge_index) for edge_index in graphs])
        alike = torch.cat([rows[:3] - rows[0, 0], rows[3:] - rows[3, 0]])  # each node of a graph is like any other
        assert alike.abs().max() < 1e-12
        assert least <= (rows[0, 0] - rows[3, 0]).abs().max() < most


def test_the_documentation_counts_triangles():
    (code,) = re.findall(
        r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs/structure.md").read_text(), re.DOTALL
    )
    names: dict = {}
    exec(code, names)
    assert names["out"].flatten().tolist() == pytest.approx([6.0] * 16), (
        "six triangles at each node of the rook's graph"
    )
