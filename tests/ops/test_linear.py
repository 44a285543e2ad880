"""The linear cell: joined arcs against the definition, all arrangements one by one."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from test_group_recurrence import PARALLEL, assert_matches_reference, degrees_for

from pggnn import PGConv, Plan
from pggnn.cells import CELLS, Recurrence
from pggnn.ops import group_recurrence
from pggnn.ops.linear import arcs, bits, operation
from pggnn.orderings import STRUCTURED, Reading
from pggnn.testing import READINGS, random_graph

MANY = (*range(65), 1000)
FRAMES = ["merged", "closed", "open"]


@pytest.fixture
def way(request, monkeypatch):
    """Kernels are for float32, and without asking they are what runs there."""
    if request.param == "kernels":
        assert operation.kernels() is not None, "Numba is among what the tests need"
    else:
        monkeypatch.setattr(operation, "kernels", lambda: None)


both_ways = pytest.mark.parametrize("way", ["kernels", "plain PyTorch"], indirect=True)
every_way = pytest.mark.parametrize(
    ("dtype", "way"),
    [(torch.double, "plain PyTorch"), (torch.float, "plain PyTorch"), (torch.float, "kernels")],
    indirect=["way"],
)


@every_way
@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_readings(reading, dtype, way):
    assert_matches_reference(reading, "linear", 1, PARALLEL, dtype, degrees=degrees_for(reading))


@every_way
@pytest.mark.parametrize(("frame", "limit"), [*((frame, None) for frame in FRAMES), ("merged", 1), ("closed", 3)])
def test_every_degree(frame, limit, dtype, way):
    assert_matches_reference(Reading(frame=frame, limit=limit), "linear", 1, PARALLEL, dtype, MANY, hidden=3)


@every_way
@pytest.mark.parametrize("frame", FRAMES)
def test_every_ring(frame, dtype, way):
    assert_matches_reference(Reading("dihedral", frame), "linear", 1, PARALLEL, dtype, MANY[:-1], hidden=3)


@pytest.mark.parametrize("hidden", [1, 7, 8, 9, 16, 40])
@pytest.mark.parametrize("kind", [("pairs", "merged"), ("dihedral", "closed"), ("trivial", "open")])
def test_every_width(kind, hidden):
    assert_matches_reference(Reading(*kind), "linear", 1, PARALLEL, torch.float, hidden=hidden)


@pytest.mark.parametrize("degrees", [(), (0,), (0, 0), (1,), (2,), (3,), (30, 0, 1, 1, 31, 2), (5,) * 7])
@pytest.mark.parametrize("frame", FRAMES)
def test_odd_graphs(frame, degrees):
    for orders in ("pairs", "dihedral", "trivial"):
        for limit in (None, 1, 4):
            for dtype in (torch.double, torch.float):
                assert_matches_reference(Reading(orders, frame, limit), "linear", 1, PARALLEL, dtype, degrees)


@pytest.mark.parametrize("reading", [one for one in READINGS if one.frame in STRUCTURED and one.limit != 1], ids=str)
def test_structure(reading):
    assert_matches_reference(reading, "linear", 1, PARALLEL, degrees=degrees_for(reading), structure=2)


@every_way
@pytest.mark.parametrize("frame", ["merged", "open"])
def test_one_bit(frame, dtype, way):
    for degrees in (MANY[:-1], (), (0,), (1, 1), (2, 2), (3, 3, 3)):
        assert_matches_reference(Reading(frame=frame), "linear", 1, PARALLEL, dtype, degrees, hidden=3, structure=1)


def test_the_pairs_that_are_adjacent(monkeypatch):
    """Members of a node with each other: self-loops, parallel edges and edges one way, a few at a time."""
    monkeypatch.setattr(bits, "MOST_STEPS", {"cpu": 7})
    torch.manual_seed(0)
    for nodes, edges in ((6, 25), (30, 60), (9, 200), (5, 0), (40, 39)):
        edge_index = torch.randint(nodes, (2, edges))
        if edges == 39:  # a star, and an edge
            edge_index = torch.stack([torch.arange(1, 40), torch.zeros(39).long()])
            edge_index = torch.cat([edge_index, edge_index.flip(0), torch.tensor([[3], [4]])], 1)
        plan = Plan.build(edge_index, nodes)
        for cut in (plan, plan.truncated(4)):
            known, expected = set(zip(plan.center.tolist(), plan.neighbor.tolist(), strict=True)), set()
            for v, (n, first) in enumerate(zip(cut.degree.tolist(), cut.start.tolist(), strict=True)):
                around = cut.neighbor[first : first + n].tolist()
                expected |= {
                    (v, i, j) for i in range(n) for j in range(n) if i != j and (around[i], around[j]) in known
                }
            found = bits.adjacent_pairs(cut, plan).t().tolist()
            assert len(found) == len(expected) and set(map(tuple, found)) == expected


def star(n, hidden=3, dtype=torch.double):
    """The plan of a star, whose centre is node 0, and gate rows."""
    torch.manual_seed(n)
    leaves = torch.arange(1, n + 1)
    return Plan.build(torch.stack([leaves, torch.zeros_like(leaves)]), n + 1), torch.randn(n + 1, 2 * hidden).to(dtype)


def read(gates, plan, backend="auto", **kwargs):
    weights = [gates.new_empty(0, gates.size(1) // 2), gates.new_empty(0)]
    return group_recurrence(gates, weights, plan, reading=Reading(**kwargs), cell="linear", backend=backend)


@every_way
@pytest.mark.parametrize("n", [997, 1000])
def test_a_thousand_neighbours_against_all_arrangements(n, dtype, way):
    """With gates near 1: the whole sequence counts."""
    for ours, theirs in zip(of_a_long_star(n, dtype, "auto"), expected_of_a_long_star(n), strict=True):
        tolerance = (1e-10 if dtype == torch.double else 1e-5) * theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=tolerance)


def of_a_long_star(n, dtype, backend):
    plan, gates = star(n)
    gates[:, :3] += 6
    gates = gates.to(dtype).requires_grad_()
    out = read(gates, plan, backend)[0]
    return out.detach(), *torch.autograd.grad(out.sum(), gates)


@cache
def expected_of_a_long_star(n):
    """Once for every way."""
    return of_a_long_star(n, torch.double, "reference")


@both_ways
@pytest.mark.parametrize("kind", [{}, {"frame": "open"}, {"group": "dihedral", "frame": "closed"}, {"limit": 3}])
def test_the_same_alone_and_in_a_batch_to_the_last_bit(kind, way):
    stars = [star(n, dtype=torch.float) for n in (0, 1, 2, 3, 7, 8, 33, 64, 5, 40)]
    alone = torch.cat([read(gates, plan, **kind) for plan, gates in stars])
    offsets = np.cumsum([0, *(gates.size(0) for _, gates in stars)])
    edges = [
        torch.stack([plan.neighbor, plan.center]) + int(o) for (plan, _), o in zip(stars, offsets[:-1], strict=True)
    ]
    together = Plan.build(torch.cat(edges, 1), int(offsets[-1]))
    assert torch.equal(read(torch.cat([gates for _, gates in stars]), together, **kind), alone)


@pytest.mark.parametrize("kind", [{}, {"frame": "closed"}, {"group": "dihedral"}, {"limit": 2}])
def test_second_derivatives_by_finite_differences(kind):
    degrees = (0, 1, 2, 3, 4, 7, 8)
    plan = Plan.build(random_graph(degrees), len(degrees))
    gates = torch.randn(len(degrees), 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda one: read(one, plan, **kind), gates)
    assert torch.autograd.gradgradcheck(lambda one: read(one, plan, **kind), gates)


@both_ways
@pytest.mark.parametrize("n", [6, 7, 100, 101])
def test_gates_that_are_one_or_zero(n, way):
    """Nothing is divided by them, and nothing cancels: sums of whole numbers are exact in float32."""
    plan, gates = star(n, dtype=torch.float)
    gates[:, 3:] = torch.arange(n + 1).unsqueeze(-1) % 5
    gates[:, :3] = 1000
    total = gates[:, 3:].sum(0) + gates[0, 3:]
    assert torch.equal(read(gates, plan)[0], (n - n % 2) * total)
    gates[:, :3] = -1000
    assert torch.equal(read(gates, plan)[0], (n - n % 2) * gates[0, 3:])
    gates.requires_grad_()
    assert torch.autograd.grad(read(gates, plan).sum(), gates)[0].isfinite().all()


@both_ways
def test_a_hub_with_twenty_thousand_neighbours(way):
    plan, gates = star(20_000, 8, torch.float)
    gates.requires_grad_()
    out = read(gates, plan)
    out.sum().backward()
    assert out.isfinite().all() and gates.grad.isfinite().all() and (out[0] > 20_000).any()


@every_way
@pytest.mark.parametrize("n", [7, 64, 491, 10_000])
def test_the_whole_group_is_read_in_linear_time(n, dtype, way):
    plan, gates = star(n, dtype=dtype)
    read(gates, plan)
    ((_, layout),) = plan.known.items()
    assert n - 1 <= layout.slot.numel() <= 2 * n + 2 * n  # the cycle, filled up, and a place for each leaf


def step(conv, x, plan):
    out = conv(x, plan)
    return [out, *torch.autograd.grad(out.sin().sum(), [x, *conv.parameters()])]


@pytest.mark.parametrize("options", [{}, {"orderings": 3}, {"group": "dihedral", "root": "linear"}])
def test_the_result_does_not_depend_on_the_number_of_threads(options, threads):
    degrees = (0, 1, 2, 3, 40, 41, 300)
    plan, conv = Plan.build(random_graph(degrees), len(degrees)), PGConv(5, 72, "linear", **options)
    x, found = torch.randn(len(degrees), 5, requires_grad=True), []
    for number in (1, 2, 3, 20):
        threads(number)
        found.append(step(conv, x, plan))
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-5)  # matrix products of PyTorch's may
    out = [one[0] for one in found]
    assert all(torch.equal(out[0], one) for one in out)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@both_ways
@pytest.mark.parametrize("options", [{}, {"orderings": 2}, {"group": "dihedral"}])
def test_memory_filled_with_nan(options, way):
    degrees = (0, 1, 2, 3, 8, 33)
    plan, conv = Plan.build(random_graph(degrees), len(degrees)), PGConv(5, 12, "linear", **options)
    x = torch.randn(len(degrees), 5, requires_grad=True)
    expected = step(conv, x, plan)
    torch.use_deterministic_algorithms(True)  # fills fresh memory
    try:
        found = step(conv, x, plan)
    finally:
        torch.use_deterministic_algorithms(False)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@both_ways
@pytest.mark.parametrize("options", [{}, {"orderings": "single"}, {"group": "dihedral"}])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 3e38])
def test_what_is_not_finite_stays_where_it_is(bad, options, way):
    """Nodes 0 and 1 read node 0 or are it; 2 and 3 do not."""
    edge_index = torch.tensor([[1, 2, 0, 2, 3, 3], [0, 0, 1, 1, 2, 2]])
    conv, x = PGConv(3, 12, "linear", **options), torch.randn(4, 3)
    x[0, 0] = bad
    x.requires_grad_()
    out = conv(x, edge_index)
    assert out[2:].isfinite().all()
    assert not out[:2].isfinite().all() or bad == 3e38
    assert (bad == bad) or out[:2].isnan().any(1).all()
    (gradient,) = torch.autograd.grad(out[2:].sum(), x)
    assert gradient[3].isfinite().all()


@both_ways
def test_a_sum_over_a_hundred_thousand_stays_precise(way):
    plan, gates = star(100_000, dtype=torch.double)
    gates[:, :3] += torch.tensor([0.0, 6.0, 14.0])
    exact, found = read(gates, plan)[0], read(gates.float(), plan)[0]
    # Gates near 1 are wrong by up to 6e-8, and a hundred thousand of them are multiplied.
    torch.testing.assert_close(found.double(), exact, rtol=2e-4, atol=0)
    torch.testing.assert_close(found[0].double(), exact[0], rtol=2e-6, atol=0)


@both_ways
@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_states_are_kept_in_float32(dtype, way):
    plan, gates = star(400, dtype=dtype)
    assert read(gates, plan).dtype == dtype
    torch.testing.assert_close(read(gates, plan), read(gates.float(), plan).to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("dtype", "way", "hidden", "limit"),
    [
        (torch.double, "plain PyTorch", 3, None), (torch.double, "plain PyTorch", 8, 1),
        (torch.float, "plain PyTorch", 3, 1), (torch.float, "plain PyTorch", 8, None),
        (torch.float, "kernels", 3, None), (torch.float, "kernels", 8, 1),
    ],
    indirect=["way"],
)  # fmt: skip
def test_operator_registration(hidden, limit, dtype, way):
    """Compilers are told what it returns, also where kernels have filled up the channels."""
    plan = Plan.build(random_graph((0, 1, 2, 5)), 4)
    graph = (plan.start, plan.degree, plan.order, plan.profile, plan.neighbor)
    gates, center = (torch.randn(4, 2 * hidden, dtype=dtype, requires_grad=True) for _ in range(2))
    weights = [gates.new_empty(0, hidden), gates.new_empty(0), center]
    arguments = (gates, weights, *graph, 0, Reading(limit=limit).spec, "linear", PARALLEL, False, True, None)
    torch.library.opcheck(torch.ops.pggnn.recurrence, arguments)


def test_compiled_without_a_graph_break():
    torch._dynamo.reset()
    degrees = (0, 1, 2, 3, 8, 9)
    plan = Plan.build(random_graph(degrees), len(degrees))
    rnn, x = Recurrence(3, 4, cell="linear").double(), torch.randn(6, 3).double().requires_grad_()

    def call(x):
        return group_recurrence(rnn(x), rnn.recurrent_weights, plan, reading=Reading(), cell="linear")

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    outcomes = [(out := f(x), *torch.autograd.grad(out.sin().sum(), [x, *rnn.parameters()])) for f in (call, compiled)]
    for ours, theirs in zip(*outcomes, strict=True):
        torch.testing.assert_close(ours, theirs)


@both_ways
@pytest.mark.parametrize("kind", [{}, {"limit": 1}])
def test_rows_that_are_not_there_or_not_next_to_each_other(kind, way):
    plan, gates = star(6, dtype=torch.float)
    weights = [gates.new_empty(0, 3), gates.new_empty(0)]

    def call(gates=gates, **more):
        return group_recurrence(gates, weights, plan, reading=Reading(**kind), cell="linear", **more)

    apart = plan.neighbor.repeat_interleave(2)[::2]
    assert not apart.is_contiguous() and torch.equal(call(rows=apart), call())
    beyond = plan.neighbor.clone()
    beyond[2] = 7
    for wrong in (
        {"gates": gates[:5]},
        {"rows": beyond},
        {"rows": beyond - 2},
        {"root": 1},
        {"root": -1},
        {"center": gates[:3]},
    ):
        with pytest.raises(IndexError):
            call(**wrong)


def test_another_cell_of_this_kind_needs_no_kernel(monkeypatch):
    def affine(x):
        a, b = x.chunk(2, dim=-1)
        return a.sigmoid() / 2, b.tanh()

    step = lambda x, h, state: (affine(x)[0] * state[0] + affine(x)[1],)  # noqa: E731
    monkeypatch.setitem(CELLS, "mine", replace(CELLS["linear"], step=step, affine=affine))
    degrees = (0, 1, 2, 5, 6)
    plan, gates = Plan.build(random_graph(degrees), len(degrees)), torch.randn(len(degrees), 6)
    weights = [gates.new_empty(0, 3), gates.new_empty(0)]
    ours, theirs = (
        group_recurrence(gates, weights, plan, reading=Reading(), cell="mine", backend=backend)
        for backend in ("auto", "reference")
    )
    torch.testing.assert_close(ours, theirs)


def test_joining_is_associative():
    """In which pairs stretches are joined does not matter."""
    shapes = [(1, 3), (2, 1, 3), (2, 1, 3), (1, 3), (1, 3)]
    first, second, third = (arcs.Arcs(*(torch.rand(shape).double() for shape in shapes)) for _ in range(3))
    left = arcs.join_arcs(arcs.join_arcs(first, second), third)
    right = arcs.join_arcs(first, arcs.join_arcs(second, third))
    for ours, theirs in zip(left, right, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
