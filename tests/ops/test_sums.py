"""Sums of rows by number, through the kernel: on a GPU if there is one, else in Triton's interpreter."""

import pytest
import torch

pytest.importorskip("triton")
from pggnn.lists import ListPlan
from pggnn.neighbourhoods import Lists
from pggnn.nn import PGConv
from pggnn.ops.fused import sum as sums
from pggnn.plan import FIELDS, PaddedPlan, Plan

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("long", [1, 3, 1000])
@pytest.mark.parametrize(("rows", "count"), [(40, 3), (7, 5), (1, 4), (0, 2), (5, 1), (300, 90)])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_sums_by_number(long, rows, count, dtype, monkeypatch):
    """One program for a number, or several; some numbers have no row, and one has most of them."""
    monkeypatch.setattr(sums, "LONG", long)
    torch.manual_seed(0)
    values = torch.randn(rows, 6, device=DEVICE, dtype=dtype, requires_grad=True)
    number = torch.where(torch.rand(rows) < 0.7, 0, torch.randint(count, (rows,))).to(DEVICE)
    out = sums.RowSum.apply(values, number, count)
    expected = torch.zeros(count, 6, device=DEVICE).index_add(0, number, values.float())
    torch.testing.assert_close(out.float(), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
    weight = torch.randn(count, 6, device=DEVICE)
    (gradient,) = torch.autograd.grad((out.float() * weight).sum(), values)
    torch.testing.assert_close(gradient.float(), weight.to(dtype).float()[number])


@pytest.mark.parametrize("long", [8, 1000])
def test_what_is_added_to_some_sums(long, monkeypatch):
    """Rows behind those that are read, one for each number from ``root`` on; with several programs only once."""
    monkeypatch.setattr(sums, "LONG", long)
    values, number = torch.randn(202, 3, device=DEVICE), torch.arange(200, device=DEVICE) % 3
    out = torch.empty(3, 3, device=DEVICE)
    sums.add_up(values, out, *sums.readers(number, 3), root=1, own=2)
    expected = torch.zeros(3, 3, device=DEVICE).index_add(0, number, values[:200])
    expected[1:] += values[200:]
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [2, 40_000])
def test_rows_of_padding_are_not_added_up(count):
    """In padded batches they are the last number's, which nobody reads; numbers may need 16 bits or more."""
    plan = Plan.read_by(Lists(*(torch.tensor(one) for one in ([0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 2, 3], [2, 2]))), 2)
    number = torch.tensor([0, 0, count - 1, count - 1])
    for kind, last in ((Plan, 2), (PaddedPlan, 0)):
        lists = ListPlan(kind(*(getattr(plan, name) for name in FIELDS)), number, number)
        rows, begins = sums.shared_readers(lists.owner, count, lists)
        assert rows.tolist() == [0, 1, 2, 3] and begins.diff()[[0, -1]].tolist() == [2, last]
        assert sums.shared_readers(lists.owner, count, lists)[0] is rows  # known from then on
        assert sums.shared_readers(lists.plan.center, 2, lists.plan)[1].diff().tolist() == [2, last]


@pytest.mark.parametrize("root", ["merged", "linear"])
@pytest.mark.parametrize("cell", ["gru", "linear"])
def test_gradients_where_each_edge_has_a_row_of_its_own(cell, root):
    """With edge features there is nothing to add up: the gradients of the slots are those of the rows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        edges = torch.tensor([[1, 2, 3, 0, 0, 4, 2], [0, 0, 0, 1, 2, 3, 3]], device=DEVICE)
        x, features = torch.randn(6, 5, device=DEVICE), torch.randn(7, 3, device=DEVICE)
        found = []
        for backend in ("triton", "reference"):
            torch.manual_seed(0)
            conv = PGConv(5, 16, cell=cell, root=root, edge_dim=3, num_layers=1, backend=backend).to(DEVICE)
            leaves = [x.clone().requires_grad_(), features.clone().requires_grad_(), *conv.parameters()]
            out = conv(leaves[0], edges, leaves[1])
            found.append(
                [out, *torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True, materialize_grads=True)]
            )
        for ours, reference in zip(*found, strict=True):
            torch.testing.assert_close(ours, reference, rtol=2e-4, atol=2e-5)
    finally:
        torch.use_deterministic_algorithms(False)
