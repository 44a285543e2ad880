"""Every backend against the reference: values and gradients, on every case that differs in kind."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pggnn import PGConv, Plan
from pggnn.cells import CELLS, Cell, Recurrence
from pggnn.ops import group_recurrence
from pggnn.ops.packed.memory import MOST_BYTES, Pool
from pggnn.ops.packed.schedule import blocks
from pggnn.ops.structure import step_codes
from pggnn.orderings import STRUCTURED, Reading
from pggnn.testing import READINGS, random_graph

HIDDEN = 5
DEGREES = (0, 1, 2, 3, 4, 5, 6, 9, 0, 1)
PARALLEL, BLOCKS, SERIAL = 2**28, 40_000, 0
FEWER = (0, 1, 2, 3, 4, 5, 0)
"""For what goes step by step, which takes long."""


def outcome(backend, reading, cell, layers, workspace, dtype=torch.double, degrees=DEGREES, hidden=HIDDEN, structure=0):
    torch.manual_seed(0)
    device = "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"
    plan = Plan.build(random_graph(degrees), len(degrees)).to(device)
    rnn = Recurrence(3, hidden, 1 if cell == "linear" else layers, cell)
    for parameter in rnn.parameters():
        torch.nn.init.uniform_(parameter, -0.6, 0.6)
    x = torch.randn(len(degrees), 3, requires_grad=True)
    rnn, x = rnn.to(device, dtype), x.to(device, dtype).detach().requires_grad_()
    width = (1 if cell == "linear" else CELLS[cell].gates) * hidden
    rows = torch.empty(structure, width).uniform_(-1, 1).to(device, dtype).requires_grad_()
    out = group_recurrence(
        rnn(x), rnn.recurrent_weights, plan, reading=reading, cell=cell, workspace=workspace, backend=backend,
        structure=rows if structure else None,
    )  # fmt: skip
    weighting = torch.arange(out.numel()).view_as(out).cos().to(out)
    inputs = [x, *rnn.parameters(), rows]
    connected = (out * weighting).sum() + 0 * sum(tensor.sum() for tensor in inputs)
    return [tensor.detach().cpu() for tensor in (out, *torch.autograd.grad(connected, inputs))]


@cache
def reference(reading, cell, layers, degrees, **kwargs):
    """In float64, once for all that is compared with it: it has no workspace, and takes longer than the others."""
    return outcome("reference", reading, cell, layers, PARALLEL, torch.double, degrees, **kwargs)


def assert_matches_reference(reading, cell, layers, workspace, dtype=torch.double, degrees=DEGREES, **kwargs):
    backend = kwargs.pop("backend", "packed")
    tolerance = kwargs.pop("tolerance", 1e-10 if dtype == torch.double else 1e-5)
    actual = outcome(backend, reading, cell, layers, workspace, dtype, degrees, **kwargs)
    expected = reference(reading, cell, layers, degrees, **kwargs)
    for a, b in zip(actual, expected, strict=True):
        scale = max(1.0, b.abs().amax().item() if b.numel() else 0)
        torch.testing.assert_close(a.double() / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("workspace", [PARALLEL, BLOCKS, SERIAL])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_group(cell, layers, workspace):
    assert_matches_reference(Reading(), cell, layers, workspace, degrees=FEWER if workspace == SERIAL else DEGREES)


def degrees_for(reading):
    """Choices are many."""
    return {"all": (0, 1, 2, 3, 4), "threes": (0, 1, 2, 3, 5, 6)}.get(reading.group, DEGREES)


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_readings(reading):
    assert_matches_reference(reading, "lstm", 2, PARALLEL, degrees=degrees_for(reading))
    assert_matches_reference(reading, "gru", 1, BLOCKS, degrees=degrees_for(reading))


@pytest.mark.parametrize("frame", ["merged", "closed"])
@pytest.mark.parametrize("limit", [1, 3])
def test_fewer_orderings(frame, limit):
    assert_matches_reference(Reading(frame=frame, limit=limit), "srn", 2, PARALLEL)
    assert_matches_reference(Reading(frame=frame, limit=limit), "gru", 1, SERIAL, degrees=FEWER)


@pytest.mark.parametrize("backend", ["packed", "triton", "reference"])
def test_every_order_of_many_is_refused(backend):
    with pytest.raises(ValueError, match="reads at most 5 neighbours in every order, got 6"):
        outcome(backend, Reading("all"), "lstm", 1, PARALLEL, torch.float, (0, 6))


@pytest.mark.parametrize("cell", ["lstm", "gru", "srn"])
def test_float32(cell):
    assert_matches_reference(Reading(), cell, 2, PARALLEL, torch.float)
    assert_matches_reference(Reading(frame="closed"), cell, 2, BLOCKS, torch.float)


@pytest.mark.parametrize("degrees", [(), (0,), (0, 0, 0), (1,), (2,), (30,), (1, 1, 24, 1, 25)])
@pytest.mark.parametrize(
    "reading",
    [Reading(limit=6), Reading(frame="closed", limit=6), Reading("dihedral", limit=6), Reading("twos", "open")],
)
def test_odd_graphs(reading, degrees):
    assert_matches_reference(reading, "lstm", 2, PARALLEL, degrees=degrees)


@pytest.mark.parametrize("workspace", [PARALLEL, BLOCKS, SERIAL])
@pytest.mark.parametrize(
    ("cell", "group", "frame", "structure"),
    [
        ("lstm", "pairs", "merged", 1), ("gru", "pairs", "merged", 2), ("srn", "pairs", "closed", 3),
        ("lstm", "pairs", "closed", 12), ("srn-relu", "pairs", "merged", 32), ("lstm", "threes", "open", 2),
        ("gru", "twos", "open", 1), ("lstm", "dihedral", "merged", 1), ("gru", "trivial", "open", 2),
        ("lstm", "all", "merged", 3),
    ],
)  # fmt: skip
def test_structure(cell, group, frame, structure, workspace):
    reading = Reading(group, frame)
    fewer = reading if reading.orders.choice else Reading(group, frame, 3)
    degrees = degrees_for(reading) if workspace > SERIAL or reading.group == "all" else FEWER
    assert_matches_reference(reading, cell, 2, workspace, degrees=degrees, structure=structure)
    assert_matches_reference(fewer, cell, 1, workspace, torch.float, degrees, structure=structure)


@settings(max_examples=25, deadline=None)
@given(
    degrees=st.lists(st.integers(0, 6), max_size=5),
    reading=st.sampled_from(READINGS),
    cell=st.sampled_from(list(CELLS)),
    layers=st.integers(1, 3),
    workspace=st.integers(0, 100_000),
    structure=st.integers(0, 4),
)
def test_any_graph_reading_and_budget(degrees, reading, cell, layers, workspace, structure):
    structure *= reading.frame in STRUCTURED
    degrees = tuple(min(degree, reading.orders.most or degree) for degree in degrees)
    assert_matches_reference(reading, cell, layers, workspace, degrees=degrees, structure=structure)


@pytest.mark.parametrize("most_rows", [1, 10, 50, 10**9])
@pytest.mark.parametrize("reading", [reading for reading in READINGS if reading.group != "all"], ids=str)
def test_blocks_cover_each_sequence_once(reading, most_rows):
    largest = 12 if reading.group == "threes" else 60
    profile = torch.tensor([[largest, 2], [7, 30], [3, 50], [2, 4], [1, 3], [0, 9]])
    lengths = [reading.length(n) for n, nodes in profile.tolist() for _ in range(nodes * reading.count(n))]
    seen, rows = 0, 0
    for block in blocks(profile, reading, most_rows):
        assert block.first == seen
        seen += block.sizes[0]
        slabs = list(block.slabs(most_rows))
        assert [begin for begin, _ in slabs[1:]] == [end for _, end in slabs[:-1]]
        assert all(sum(block.sizes[b:e]) <= most_rows or e == b + 1 for b, e in slabs)
        rows += sum(block.sizes)
    assert seen == len(lengths)
    assert rows == sum(lengths)


def test_backward_twice_over_one_graph():
    plan = Plan.build(random_graph(DEGREES), len(DEGREES))
    rnn = Recurrence(3, HIDDEN, 2, "lstm")
    out = group_recurrence(
        rnn(torch.randn(len(DEGREES), 3)), rnn.recurrent_weights, plan, reading=Reading(), cell="lstm"
    )
    first, second = (torch.autograd.grad(out.sum(), rnn.weight_hh_l0, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_operator_registration():
    plan = Plan.build(random_graph(FEWER), len(FEWER))
    rnn = Recurrence(3, HIDDEN, 2, "lstm").double()
    gates = rnn(torch.randn(len(FEWER), 3).double()).detach().requires_grad_()
    weights = [weight.detach().requires_grad_() for weight in rnn.recurrent_weights]
    graph = (plan.start, plan.degree, plan.order, plan.profile, plan.neighbor)
    for keep in (True, False):
        arguments = (gates, weights, *graph, 0, "pairs merged 0", "lstm", PARALLEL, False, keep, None)
        torch.library.opcheck(torch.ops.pggnn.recurrence, arguments)
    bits = torch.randn(2, 4 * HIDDEN).double().requires_grad_()
    arguments = (gates, [*weights, bits], *graph, 0, "pairs merged 0", "lstm", PARALLEL, False, True)
    torch.library.opcheck(torch.ops.pggnn.recurrence, (*arguments, step_codes(plan, Reading(), 2)))
    graph = (plan.start, plan.degree, plan.neighbor, plan.neighbor.sort()[0], plan.profile, plan.num_nodes)
    torch.library.opcheck(torch.ops.pggnn.step_codes, (*graph, "pairs closed 3", 2))


@pytest.fixture
def decaying(monkeypatch):
    """A cell that no fast path knows."""
    step = lambda x, h, state: (0.5 * state[0] + (x + h).sin(),)  # noqa: E731
    monkeypatch.setitem(CELLS, "decaying", Cell(gates=1, states=1, step=step))
    return "decaying"


@pytest.mark.parametrize("structure", [0, 2])
def test_a_cell_without_a_fast_path_is_read_all_the_same(decaying, structure):
    assert_matches_reference(Reading(), decaying, 2, PARALLEL, backend="auto", structure=structure)
    assert_matches_reference(Reading(frame="closed", limit=2), decaying, 1, SERIAL, torch.float, backend="auto")


def test_a_cell_without_a_fast_path_compiles(decaying):
    torch._dynamo.reset()
    conv, x, plan = (
        PGConv(3, 4, decaying),
        torch.randn(len(DEGREES), 3),
        Plan.build(random_graph(DEGREES), len(DEGREES)),
    )
    compiled = torch.compile(conv, backend="aot_eager")
    outcomes = [
        (out := call(x, plan), *torch.autograd.grad(out.square().sum(), conv.parameters())) for call in (conv, compiled)
    ]
    for ours, theirs in zip(*outcomes, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_kernels_refuse_a_cell_they_do_not_know(decaying):
    with pytest.raises(ValueError, match="has no kernel for the cell 'decaying'"):
        outcome("triton", Reading(), decaying, 1, PARALLEL, torch.float)


@pytest.mark.parametrize("backend", ["packed", "triton"])
def test_adjacency_of_readers_that_are_no_nodes(backend):
    """Lists of members whose readers are not among them: who is adjacent stands in another plan."""
    members, readers = torch.tensor([0, 1, 2, 3, 1, 3, 4]), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    lists = Plan.build(torch.stack([members, readers]), (5, 2))
    adjacency = Plan.build(random_graph((2, 3, 1, 2, 2)), 5)
    rnn = Recurrence(3, HIDDEN, 1, "lstm")
    gates, bits = rnn(torch.randn(5, 3)), torch.randn(2, 4 * HIDDEN)
    found = [
        group_recurrence(
            gates, rnn.recurrent_weights, lists, reading=Reading(frame="open"), cell="lstm", backend=one,
            structure=bits, adjacency=adjacency,
        )
        for one in (backend, "reference")
    ]  # fmt: skip
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[1], group_recurrence(
        gates, rnn.recurrent_weights, lists, reading=Reading(frame="open"), cell="lstm"
    ))  # fmt: skip


def test_memory_is_recycled_only_when_free():
    torch.use_deterministic_algorithms(False)
    pool, like = Pool(), torch.empty(0)
    first = pool.take(1000, like)
    second = pool.take(1000, like)
    assert first.data_ptr() != second.data_ptr()
    address, view = first.data_ptr(), first.view(10, 100)[2]
    del first
    assert pool.take(1000, like).data_ptr() != address, "memory was handed out while a view of it lives"
    del view
    assert pool.take(900, like).data_ptr() == address
    assert pool.take(10, like).data_ptr() != address, "a small request took a large buffer"
    for _ in range(4):
        pool.take(MOST_BYTES // 4 // 2, like)
    assert sum(buffer.nbytes for buffer in pool.buffers) <= MOST_BYTES


def test_memory_of_inference_mode_can_be_written_to_after_it():
    torch.use_deterministic_algorithms(False)
    pool, like = Pool(), torch.empty(0)
    with torch.inference_mode():
        address = pool.take(1000, like).fill_(1).data_ptr()
    again = pool.take(1000, like).fill_(2)
    assert again.data_ptr() == address and not again.is_inference()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("workspace", [PARALLEL, BLOCKS])
@pytest.mark.parametrize("cell", CELLS)
def test_on_a_gpu(cell, workspace):
    torch.use_deterministic_algorithms(False)
    plan = Plan.build(random_graph(DEGREES), len(DEGREES))
    layers = 1 if cell == "linear" else 2
    rnn, x = Recurrence(3, HIDDEN, layers, cell).double(), torch.randn(len(DEGREES), 3).double()
    outcomes = []
    for device in ("cpu", "cuda"):
        rnn, moved = rnn.to(device), x.to(device).requires_grad_()
        out = group_recurrence(
            rnn(moved), rnn.recurrent_weights, plan.to(device), reading=Reading(), cell=cell, workspace=workspace
        )
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), [moved, *rnn.parameters()])])
    for cpu, gpu in zip(*outcomes, strict=True):
        torch.testing.assert_close(gpu.cpu(), cpu, rtol=1e-10, atol=1e-10)
