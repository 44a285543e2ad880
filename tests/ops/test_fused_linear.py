"""The linear cell's kernels in Triton against the definition: on a GPU if there is one, else in its interpreter."""

import pytest
import torch
from test_group_recurrence import PARALLEL, assert_matches_reference, outcome

from pggnn import PGConv, Plan
from pggnn.ops import group_recurrence
from pggnn.ops.graph import Graph
from pggnn.orderings import Reading
from pggnn.plan import PaddedPlan
from pggnn.testing import READINGS, random_graph

pytest.importorskip("triton")

from pggnn.ops.fused import linear

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DEGREES = (0, 1, 2, 3, 6, 7)
WHOLE = [Reading(), Reading(frame="open"), *(Reading("dihedral", frame) for frame in ("merged", "closed", "open"))]
gpu = pytest.mark.skipif(DEVICE == "cpu", reason="no GPU on this machine")
HEIGHTS = [rows for _, rows, _ in linear.TILES]


@pytest.fixture(autouse=True)
def fewer_turns(monkeypatch):
    """Higher tiles in the interpreter, for which each turn of a loop takes long."""
    if DEVICE == "cpu":
        monkeypatch.setattr(linear, "TILES", ((8, 32, 16), (-1, 4, 32)))


@pytest.mark.parametrize("reading", WHOLE, ids=str)
def test_the_whole_group(reading):
    assert_matches_reference(reading, "linear", 1, PARALLEL, torch.float, DEGREES, backend="triton", hidden=3)


@pytest.mark.parametrize("reading", [one for one in READINGS if one not in WHOLE and one.frame != "chain"], ids=str)
def test_step_by_step(reading):
    assert_matches_reference(reading, "linear", 1, PARALLEL, torch.float, (0, 1, 2, 4), backend="triton", hidden=2)


@pytest.mark.parametrize("reading", [*WHOLE, Reading(limit=3), Reading(frame="closed", limit=2)], ids=str)
def test_every_height_of_tiles(reading, monkeypatch):
    """Cycles and sequences that end with a tile, right before and right after it, and those of several tiles."""
    monkeypatch.setattr(linear, "TILES", ((9, 4, 4), (3, 2, 2), (-1, 1, 4)))
    assert_matches_reference(
        reading, "linear", 1, PARALLEL, torch.float, (*range(10), 16, 17, 18), backend="triton", hidden=3
    )


@pytest.mark.parametrize("reading", [Reading(), Reading("dihedral", "closed"), Reading(limit=2)], ids=str)
def test_degrees_around_the_tiles(reading, monkeypatch):
    """Both sides of where one kind of tile begins, and of its height, for places one by one and two by two. Tiles are
    as high as they come, and begin earlier."""
    assert HEIGHTS == [256, 32, 4, 1]
    monkeypatch.setattr(linear, "TILES", tuple((a, rows, 8) for a, rows in zip((40, 12, 4, -1), HEIGHTS, strict=True)))
    degrees = (4, 5, 7, 12, 13, 31, 33, 40, 41, 513, 514)
    ours, theirs = (
        outcome(backend, reading, "linear", 1, PARALLEL, dtype, degrees, hidden=3)
        for backend, dtype in (("triton", torch.float), ("packed", torch.double))
    )
    for a, b in zip(ours, theirs, strict=True):
        scale = max(1.0, b.abs().amax().item() if b.numel() else 0)
        torch.testing.assert_close(a.double() / scale, b / scale, rtol=0, atol=1e-5)


def test_a_thousand_neighbours():
    ours, theirs = (
        outcome(backend, Reading(), "linear", 1, PARALLEL, dtype, (1000, 1), hidden=2)
        for backend, dtype in (("triton", torch.float), ("packed", torch.double))
    )
    for a, b in zip(ours, theirs, strict=True):
        if b.numel():
            assert (a - b).abs().max() <= 1e-5 * b.abs().max()


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("reading", [Reading(), Reading("dihedral", "closed"), Reading(limit=2)], ids=str)
def test_a_few_nodes_at_a_time(reading, most, monkeypatch):
    """What the backward pass keeps is bounded, and the same memory serves node after node."""
    monkeypatch.setattr(linear, "SCRATCH", most)
    assert_matches_reference(reading, "linear", 1, PARALLEL, torch.float, (*DEGREES, 9, 10), backend="triton", hidden=3)


def test_launches(monkeypatch):
    """All nodes once, by falling degree, each with memory for its own degree."""
    monkeypatch.setattr(linear, "TILES", ((256, 256, 8), (8, 32, 16), (-1, 4, 32)))
    degrees = torch.tensor([3, 70, 8, 9, 300, 0, 65, 64])
    plan = Plan.build(random_graph(degrees.tolist()), 8)
    graph = Graph(plan.start, plan.degree, plan.order, plan.profile, plan.neighbor, 0)
    gates = torch.zeros(8, 8)
    operation = linear.FusedLinear(gates, [gates[:0], gates[:0], gates[:0]], graph, Reading(), plan)
    assert [(begin, nodes, kept) for begin, nodes, kept, *_ in operation._launches()] == [
        (0, 1, 150 * 20), (1, 4, 35 * 20), (5, 3, 4 * 20)
    ]  # fmt: skip
    assert [(begin, nodes, kept) for begin, nodes, kept, *_ in operation._launches(2100)] == [
        (0, 1, 150 * 20), (1, 3, 35 * 20), (4, 1, 4 * 20), (5, 3, 4 * 20)
    ]  # fmt: skip


@gpu
@pytest.mark.parametrize("reading", WHOLE, ids=str)
def test_every_degree(reading):
    assert_matches_reference(reading, "linear", 1, PARALLEL, torch.float, (*range(41), 64), backend="triton", hidden=70)


@pytest.mark.parametrize("options", [{}, {"orderings": "single"}, {"edge_dim": 3, "root": "linear"}])
def test_layers(options):
    """With what the centre adds to the gates of its neighbours, and with edge features."""
    torch.manual_seed(0)
    edge_index, conv = random_graph(DEGREES).to(DEVICE), PGConv(4, 20, "linear", **options).to(DEVICE)
    x = torch.randn(len(DEGREES), 4, device=DEVICE, requires_grad=True)
    edge_attr = torch.randn(edge_index.size(1), 3, device=DEVICE, requires_grad=True) if conv.edge_dim else None
    found = []
    for conv.backend in ("triton", "packed"):
        out = conv(x, edge_index, edge_attr)
        inputs = [x, *conv.parameters(), *([edge_attr] if conv.edge_dim else [])]
        found.append([out, *torch.autograd.grad(out.sin().sum(), inputs)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("degrees", [(), (0,), (0, 0)])
def test_nothing_to_read(degrees):
    for reading in (Reading(), Reading(frame="open"), Reading(limit=1)):
        assert_matches_reference(reading, "linear", 1, PARALLEL, torch.float, degrees, backend="triton", hidden=2)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_half_precision(dtype):
    assert_matches_reference(
        Reading(), "linear", 1, PARALLEL, dtype, (3, 4, 0), backend="triton", hidden=2, tolerance=0.02
    )


@pytest.mark.parametrize("reading", [Reading(), Reading(limit=1)], ids=str)
def test_a_padded_plan(reading):
    """Its profile is an upper bound, there are slots that nobody reads, and nodes without any."""
    torch.manual_seed(0)
    plan = Plan.build(random_graph((3, 4, 1)), 3).to(DEVICE)
    more = torch.full((5,), 2, device=DEVICE)
    padded = PaddedPlan.of_slots(
        torch.cat([plan.neighbor, more]), torch.cat([plan.center, more]), torch.arange(13, device=DEVICE),
        torch.cat([plan.degree, plan.degree.new_zeros(2)]), torch.tensor([[6, 2], [5, 3]]),
    )  # fmt: skip
    gates, found = torch.randn(5, 4, device=DEVICE, requires_grad=True), []
    weights = [gates.new_empty(0, 2), gates.new_empty(0)]
    for one, size in ((padded, 3), (plan, 3)):
        out = group_recurrence(gates, weights, one, reading=reading, cell="linear", backend="triton")[:size]
        found.append([out, *torch.autograd.grad(out.sin().sum(), gates)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_second_derivatives():
    degrees = (0, 1, 2, 5)
    plan = Plan.build(random_graph(degrees), len(degrees)).to(DEVICE)
    gates = torch.randn(len(degrees), 4, device=DEVICE, requires_grad=True)
    found = []
    for backend in ("triton", "packed"):
        weights = [gates.new_empty(0, 2), gates.new_empty(0)]
        out = group_recurrence(gates, weights, plan, reading=Reading(), cell="linear", backend=backend)
        (first,) = torch.autograd.grad(out.sin().sum(), gates, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), gates)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("reading", "dtype", "keep"),
    [
        (Reading(), torch.float, True), (Reading(), torch.half, False),
        (Reading(limit=1), torch.float, False), (Reading(limit=1), torch.half, True),
    ],
)  # fmt: skip
def test_operator_registration(reading, dtype, keep):
    """Compilers are told what it returns, and that no result is part of another."""
    plan = Plan.build(random_graph((0, 1, 2, 3)), 4).to(DEVICE)
    graph = (plan.start, plan.degree, plan.order, plan.profile, plan.neighbor)
    gates, center = (torch.randn(4, 6, device=DEVICE).to(dtype).requires_grad_() for _ in range(2))
    weights = [gates.new_empty(0, 3), gates.new_empty(0), center]
    arguments = (gates, weights, *graph, 0, reading.spec, "linear", PARALLEL, True, keep, None)
    torch.library.opcheck(torch.ops.pggnn.recurrence, arguments)


def test_one_structural_bit():
    assert_matches_reference(
        Reading(), "linear", 1, PARALLEL, torch.float, DEGREES, backend="triton", hidden=2, structure=1
    )


def test_what_there_is_no_kernel_for():
    for case, reason in (
        ({"structure": 2}, "'linear' with these structural bits, or in a chain"),
        ({"dtype": torch.double}, "has no float64"),
    ):
        with pytest.raises(ValueError, match=reason):
            outcome("triton", Reading(), "linear", 1, PARALLEL, **{"dtype": torch.float} | case)
