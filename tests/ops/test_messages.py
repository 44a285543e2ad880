"""A node and the sum of its neighbours' messages, through the kernels: on a GPU if there is one, else in Triton's
interpreter."""

from functools import partial

import pytest
import torch

pytest.importorskip("triton")
from pggnn.lists import ListPlan
from pggnn.nn import readout
from pggnn.nn.blocks import SumConv
from pggnn.nn.readout import edge_rows, sum_messages
from pggnn.plan import PaddedPlan, Plan

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def derivatives(function, leaves, kernel, monkeypatch):
    """What it gives, its gradients, and those of the gradients."""
    monkeypatch.setattr(readout, "_has_kernel", lambda _: kernel)
    x, *_ = leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    out = function(*leaves)
    made = {type(node).__name__ for node in (out.grad_fn, out.grad_fn.next_functions[0][0])}
    assert bool(made & {"MessageSumBackward", "EdgeRowsBackward"}) == kernel
    lost = (out / max(1, len(x))).sin().sum()
    first = torch.autograd.grad(lost, leaves, retain_graph=True)
    again = torch.autograd.grad(lost, leaves, create_graph=True)
    second = torch.autograd.grad(sum(one.sin().sum() for one in again), leaves)
    return [out, *first, *again, *second]


@pytest.mark.parametrize("with_edges", [False, True])
@pytest.mark.parametrize("channels", [1, 5, 64, 300])
@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (1, 0), (2, 3), (9, 20), (40, 700)])
def test_sums_and_gradients_are_those_of_the_parts(nodes, edges, channels, with_edges, monkeypatch):
    """In float64 from the formula; edges that lead from a node to itself, double ones, and a node with many."""
    edge_index = torch.randint(max(nodes, 1), (2, edges), device=DEVICE)
    edge_index[:, edges // 2 :] = edge_index[:, edges // 2 :].clamp(max=1)
    x = torch.randn(nodes, channels, device=DEVICE)
    rows = torch.randn(edges, channels, device=DEVICE) if with_edges else None
    plan = Plan.build(edge_index, nodes)
    leaves = [x, rows] if with_edges else [x]
    assert_exact(lambda x, rows=None: sum_messages(x, rows, plan), leaves, monkeypatch)


def assert_exact(function, leaves, monkeypatch):
    ours = derivatives(function, leaves, True, monkeypatch)
    exact = derivatives(function, [leaf.double() for leaf in leaves], False, monkeypatch)
    for one, other in zip(ours, exact, strict=True):
        assert (one.double() - other).norm() <= 1e-4 * other.norm()


@pytest.mark.parametrize("channels", [1, 5, 192])
@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (1, 0), (2, 3), (40, 700)])
def test_rows_of_edges_are_those_of_the_parts(nodes, edges, channels, monkeypatch):
    """Those of one kind of plan and of the other, and gradients of some columns alone."""
    edge_index = torch.randint(max(nodes, 1), (2, edges), device=DEVICE)
    leaves = [torch.randn(rows, channels, device=DEVICE) for rows in (nodes, edges)]
    plan = Plan.build(edge_index, nodes)
    lists = ListPlan(plan, plan.degree, edge_index[1])
    for given in ((plan.neighbor, plan), (lists.head, lists)):
        rows = partial(_rows, *given)
        assert_exact(rows, leaves, monkeypatch)
        assert_exact(lambda *leaves, rows=rows: rows(*leaves)[:, ::2], leaves, monkeypatch)


def _rows(number, plan, gates, features):
    return edge_rows(gates, features, number, plan)


def test_a_formula_of_its_own():
    x, edges = torch.tensor([[1.0], [-2.0], [4.0]]), torch.tensor([[3.0], [-5.0], [1.0]])
    plan = Plan.build(torch.tensor([[1, 2, 0], [0, 0, 2]]), 3)
    assert sum_messages(x, edges, plan).flatten().tolist() == [1 + (3 - 2) + 0, -2, 4 + (1 + 1)]
    assert sum_messages(x, None, plan).flatten().tolist() == [1 - 2 + 4, -2, 4 + 1]


def test_slots_of_padding_give_nothing_and_get_nothing(monkeypatch):
    """They are the last node's, which nobody reads, so its gradient is zero, and lead to others."""
    monkeypatch.setattr(readout, "_has_kernel", lambda _: True)
    edge_index = torch.tensor([[1, 2, 0], [0, 0, 2]], device=DEVICE)
    plan, more = Plan.build(edge_index, 4), torch.tensor([0, 2], device=DEVICE)
    padded = PaddedPlan.of_slots(
        torch.cat([plan.neighbor, more]), torch.cat([plan.center, more * 0 + 3]), torch.arange(5, device=DEVICE),
        plan.degree, plan.profile, plan.order, plan.start,
    )  # fmt: skip
    x, edges = torch.randn(4, 6, device=DEVICE), torch.randn(5, 6, device=DEVICE)
    outcomes = []
    for which, rows in ((plan, edges[:3][plan.edge.argsort()]), (padded, edges)):
        leaves = [x.detach().requires_grad_(), rows.detach().requires_grad_()]
        out = sum_messages(*leaves, which)
        d_x, d_rows = torch.autograd.grad(out[:3].sin().sum(), leaves)
        outcomes.append([out, d_x, d_rows[which.edge][:3]])
        assert not d_rows[3:].any()
    for one, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, other)


def test_too_few_rows_of_edges_are_not_read_beyond_their_end(monkeypatch):
    monkeypatch.setattr(readout, "_has_kernel", lambda _: True)
    plan = Plan.build(torch.tensor([[1, 2, 0], [0, 0, 2]]), 3)
    with pytest.raises((IndexError, RuntimeError)):
        sum_messages(torch.randn(3, 4), torch.randn(2, 4), plan)


@pytest.mark.parametrize("kernel", [False, True])
def test_edge_features_follow_their_edges(kernel, monkeypatch):
    """Whatever the order of the edges is, and for either flow."""
    monkeypatch.setattr(readout, "_has_kernel", lambda _: kernel)
    conv = SumConv(3, 4, edge_dim=2).to(DEVICE)
    x, features = torch.randn(6, 3, device=DEVICE), torch.randn(9, 2, device=DEVICE)
    edge_index, order = torch.randint(6, (2, 9), device=DEVICE), torch.randperm(9, device=DEVICE)
    one = conv(x, Plan.build(edge_index, 6), features)
    for rows, flow in ((edge_index, "source_to_target"), (edge_index.flip(0), "target_to_source")):
        other = conv(x, Plan.build(rows[:, order], 6, flow), features[order])
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
