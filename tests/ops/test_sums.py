"""Sums of rows by number, through the kernel: on a GPU if there is one, else in Triton's interpreter."""

import pytest
import torch

pytest.importorskip("triton")
from pggnn.ops.fused import sum as sums

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("long", [1, 3, 1000])
@pytest.mark.parametrize(("rows", "count"), [(40, 3), (7, 5), (1, 4), (0, 2), (5, 1)])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_sums_by_number(long, rows, count, dtype, monkeypatch):
    """One program for a number, or several; some numbers have no row, and one has most of them."""
    monkeypatch.setattr(sums, "LONG", long)
    torch.manual_seed(0)
    values = torch.randn(rows, 6, device=DEVICE, dtype=dtype, requires_grad=True)
    number = torch.where(torch.rand(rows) < 0.7, 0, torch.randint(count, (rows,))).to(DEVICE)
    out = sums.RowSum.apply(values, number, count)
    expected = torch.zeros(count, 6, device=DEVICE).index_add(0, number, values.float())
    torch.testing.assert_close(out.float(), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=1e-6)
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
