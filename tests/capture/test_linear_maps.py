"""Linear maps of recorded steps: on a GPU if there is one, else in Triton's interpreter."""

import pytest
import torch

pytest.importorskip("triton")
from pggnn.capture import linear_maps
from pggnn.capture.linear_maps import LinearMaps
from pggnn.ops.fused import products

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def results(linear, x, d_out):
    out = linear(x)
    return [out, *torch.autograd.grad(out, [x, *linear.parameters()], d_out)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows", "ins", "outs"), [(0, 5, 7), (1, 1, 1), (64, 33, 31), (130, 47, 94), (777, 3, 192), (300, 64, 64)]
)
def test_gradients_are_those_of_pytorch(rows, ins, outs, bias, monkeypatch):
    """With one program for a tile, or several that add up their parts; twice, as counters begin at zero again."""
    monkeypatch.setattr(products, "SHARE", 64)
    linear = torch.nn.Linear(ins, outs, bias=bias, device=DEVICE)
    x, d_out = torch.randn(rows, ins, device=DEVICE, requires_grad=True), torch.randn(rows, outs, device=DEVICE)
    expected = results(linear.double(), x.double().detach().requires_grad_(), d_out.double())
    linear.float()
    maps = LinearMaps(torch.device(DEVICE))
    for _ in range(2):
        with maps:
            ours = results(linear, x, d_out)
        assert "LinearMap" in type(ours[0].grad_fn).__name__
        for one, exact in zip(ours, expected, strict=True):
            torch.testing.assert_close(one.double(), exact, rtol=1e-4, atol=1e-4)
    assert not maps._arrived.any()


def test_rows_that_are_not_next_to_each_other():
    """A view of other rows, and gradients that are expanded from one number."""
    linear, maps = torch.nn.Linear(3, 5, device=DEVICE), LinearMaps(torch.device(DEVICE))
    x = torch.randn(3, 20, device=DEVICE).t().requires_grad_()
    with maps:
        ours = torch.autograd.grad(linear(x).sum(), [x, *linear.parameters()])
    theirs = torch.autograd.grad(linear(x).sum(), [x, *linear.parameters()])
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("what", ["float64", "three dimensions", "fixed weight", "no gradient", "autocast", "counters"])
def test_what_is_left_to_pytorch(what, monkeypatch):
    x, linear = torch.randn(4, 3, device=DEVICE), torch.nn.Linear(3, 5, device=DEVICE)
    if what == "float64":
        x, linear = x.double(), linear.double()
    if what == "three dimensions":
        x = x.unsqueeze(0)
    if what == "counters":
        monkeypatch.setattr(linear_maps, "COUNTERS", 1)
    linear.weight.requires_grad_(what != "fixed weight")
    maps = LinearMaps(torch.device(DEVICE))
    autocast = torch.autocast(DEVICE, torch.bfloat16, enabled=what == "autocast")
    with maps, torch.set_grad_enabled(what != "no gradient"), autocast:
        if what == "counters":
            assert "LinearMap" in type(linear(x).grad_fn).__name__
        out = linear(x)
    assert "LinearMap" not in type(out.grad_fn).__name__


def test_each_linear_map_of_a_step_has_counters_of_its_own():
    linear, maps = torch.nn.Linear(3, 40, device=DEVICE), LinearMaps(torch.device(DEVICE))
    for _ in range(2):  # the next step takes them again
        with maps:
            one, other = (linear(torch.randn(4, 3, device=DEVICE)).grad_fn.arrived for _ in range(2))
        assert len(one) == len(other) == 2 and one.data_ptr() + one.nbytes == other.data_ptr()
        assert one.data_ptr() == maps._arrived.data_ptr()
