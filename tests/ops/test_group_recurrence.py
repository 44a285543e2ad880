"""Every backend against the reference: values and gradients, on every case that differs in kind."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pggnn import Plan
from pggnn.cells import CELLS, Recurrence
from pggnn.ops import group_recurrence
from pggnn.ops.memory import MOST_BYTES, Pool
from pggnn.ops.schedule import blocks
from pggnn.ops.structure import step_codes
from pggnn.orderings import FORMS, TOLD, Reading
from pggnn.testing import random_graph

HIDDEN = 5
DEGREES = (0, 1, 2, 3, 4, 5, 6, 9, 0, 1)
PARALLEL, BLOCKS, SERIAL = 2**28, 40_000, 0


def outcome(backend, reading, cell, layers, workspace, dtype=torch.double, degrees=DEGREES, hidden=HIDDEN, structure=0):
    torch.manual_seed(0)
    device = "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"
    plan = Plan.build(random_graph(degrees), len(degrees)).to(device)
    rnn = Recurrence(3, hidden, layers, cell)
    for parameter in rnn.parameters():
        torch.nn.init.uniform_(parameter, -0.6, 0.6)
    x = torch.randn(len(degrees), 3, requires_grad=True)
    rnn, x = rnn.to(device, dtype), x.to(device, dtype).detach().requires_grad_()
    rows = torch.empty(structure, CELLS[cell].gates * hidden).uniform_(-1, 1).to(device, dtype).requires_grad_()
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
    assert_matches_reference(Reading("merged"), cell, layers, workspace)


@pytest.mark.parametrize("cell", ["lstm", "gru", "srn"])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form, cell):
    degrees = (0, 1, 2, 3, 5, 6) if form == "trio" else DEGREES
    assert_matches_reference(Reading(form), cell, 2, PARALLEL, degrees=degrees)
    assert_matches_reference(Reading(form), cell, 1, BLOCKS, degrees=degrees)


@pytest.mark.parametrize("form", ["merged", "ring"])
@pytest.mark.parametrize("limit", [1, 3])
def test_fewer_orderings(form, limit):
    assert_matches_reference(Reading(form, limit), "lstm", 2, PARALLEL)
    assert_matches_reference(Reading(form, limit), "gru", 1, SERIAL)


@pytest.mark.parametrize("cell", ["lstm", "gru", "srn"])
def test_float32(cell):
    assert_matches_reference(Reading("merged"), cell, 2, PARALLEL, torch.float)
    assert_matches_reference(Reading("ring"), cell, 2, BLOCKS, torch.float)


@pytest.mark.parametrize("degrees", [(), (0,), (0, 0, 0), (1,), (2,), (30,), (1, 1, 24, 1, 25)])
@pytest.mark.parametrize("form", ["merged", "ring", "pair"])
def test_odd_graphs(form, degrees):
    assert_matches_reference(Reading(form, limit=None if form == "pair" else 6), "lstm", 2, PARALLEL, degrees=degrees)


@pytest.mark.parametrize("workspace", [PARALLEL, BLOCKS, SERIAL])
@pytest.mark.parametrize(
    ("cell", "form", "structure"),
    [
        ("lstm", "merged", 1), ("gru", "merged", 2), ("srn", "ring", 3), ("lstm", "ring", 12),
        ("srn-relu", "merged", 32), ("lstm", "trio", 2), ("gru", "pair", 1),
    ],
)  # fmt: skip
def test_structure(cell, form, structure, workspace):
    degrees = (0, 1, 2, 3, 5) if form == "trio" else DEGREES
    assert_matches_reference(Reading(form), cell, 2, workspace, degrees=degrees, structure=structure)
    assert_matches_reference(Reading(form, 3), cell, 1, workspace, torch.float, degrees, structure=structure)


@settings(max_examples=25, deadline=None)
@given(
    degrees=st.lists(st.integers(0, 6), max_size=5),
    form=st.sampled_from(list(FORMS)),
    limit=st.none() | st.integers(1, 5),
    cell=st.sampled_from(list(CELLS)),
    layers=st.integers(1, 3),
    workspace=st.integers(0, 100_000),
    structure=st.integers(0, 4),
)
def test_any_graph_reading_and_budget(degrees, form, limit, cell, layers, workspace, structure):
    structure *= form in TOLD
    assert_matches_reference(
        Reading(form, limit), cell, layers, workspace, degrees=tuple(degrees), structure=structure
    )  # fmt: skip


@pytest.mark.parametrize("most_rows", [1, 10, 50, 10**9])
@pytest.mark.parametrize("form", FORMS)
def test_blocks_cover_each_sequence_once(form, most_rows):
    reading = Reading(form)
    profile = torch.tensor([[12 if form == "trio" else 60, 2], [7, 30], [3, 50], [2, 4], [1, 3], [0, 9]])
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
    plan = Plan.build(random_graph(DEGREES), len(DEGREES))
    rnn = Recurrence(3, HIDDEN, 2, "lstm").double()
    gates = rnn(torch.randn(len(DEGREES), 3).double()).detach().requires_grad_()
    weights = [weight.detach().requires_grad_() for weight in rnn.recurrent_weights]
    graph = (plan.start, plan.degree, plan.order, plan.profile, plan.neighbor)
    for keep in (True, False):
        arguments = (gates, weights, *graph, 0, "merged", 0, "lstm", PARALLEL, False, keep, None)
        torch.library.opcheck(torch.ops.pggnn.recurrence, arguments)
    bits = torch.randn(2, 4 * HIDDEN).double().requires_grad_()
    arguments = (gates, [*weights, bits], *graph, 0, "merged", 0, "lstm", PARALLEL, False, True)
    torch.library.opcheck(torch.ops.pggnn.recurrence, (*arguments, step_codes(plan, Reading(), 2)))
    graph = (plan.start, plan.degree, plan.neighbor, plan.center, plan.profile)
    torch.library.opcheck(torch.ops.pggnn.step_codes, (*graph, "ring", 3, 2))


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
    rnn, x = Recurrence(3, HIDDEN, 2, cell).double(), torch.randn(len(DEGREES), 3).double()
    outcomes = []
    for device in ("cpu", "cuda"):
        rnn, moved = rnn.to(device), x.to(device).requires_grad_()
        out = group_recurrence(
            rnn(moved), rnn.recurrent_weights, plan.to(device), reading=Reading(), cell=cell, workspace=workspace
        )
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), [moved, *rnn.parameters()])])
    for cpu, gpu in zip(*outcomes, strict=True):
        torch.testing.assert_close(gpu.cpu(), cpu, rtol=1e-10, atol=1e-10)
