"""The cells that Numba compiles, against the reference, and what they must leave to others."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from test_group_recurrence import BLOCKS, DEGREES, HIDDEN, PARALLEL, SERIAL, assert_matches_reference, outcome

from pggnn import PGConv, Plan
from pggnn.cells import Recurrence
from pggnn.ops import group_recurrence
from pggnn.ops.packed import operation as packed
from pggnn.ops.packed.unroll import FLUSH_EVERY, UNROLLED, UnrolledLSTM
from pggnn.orderings import Reading
from pggnn.testing import READINGS, random_graph

pytest.importorskip("numba")

from pggnn.ops.packed import numba_rows
from pggnn.ops.packed.jitted import JITTED

CPU = torch.device("cpu")


@pytest.fixture(params=["jitted", "jitted, always on all threads", "eager"])
def way(request, monkeypatch):
    """Every way in which a float32 RNN runs on a CPU."""
    if request.param == "eager":
        monkeypatch.setattr(packed, "jitted", dict)
    elif "threads" in request.param:
        monkeypatch.setattr(numba_rows, "FEWEST_CELLS", 0)
        threads = torch.get_num_threads()
        torch.set_num_threads(3)
        yield request.param
        torch.set_num_threads(threads)
        return
    yield request.param


@pytest.mark.parametrize("workspace", [PARALLEL, BLOCKS, SERIAL])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("cell", JITTED)
def test_group(way, cell, layers, workspace):
    degrees = DEGREES if workspace > 0 else (0, 1, 3, 4)
    assert_matches_reference(Reading(), cell, layers, workspace, torch.float, degrees)


@pytest.mark.parametrize("reading", READINGS, ids=str)
@pytest.mark.parametrize("cell", JITTED)
def test_readings(way, cell, reading):
    assert_matches_reference(reading, cell, 2, PARALLEL, torch.float, (0, 1, 2, 3, 5))


@pytest.mark.parametrize("degrees", [(), (0,), (0, 0, 0), (1,), (2,), (1, 1, 24, 1, 25), tuple(range(0, 41, 8))])
@pytest.mark.parametrize("workspace", [PARALLEL, 10_000])
@pytest.mark.parametrize("cell", JITTED)
def test_odd_graphs(way, cell, degrees, workspace):
    """Long sequences too, in slabs of steps where the workspace is small."""
    assert_matches_reference(Reading(limit=6), cell, 2, workspace, torch.float, degrees)


@pytest.mark.parametrize("hidden", [1, 16, 33, 128])
@pytest.mark.parametrize("cell", JITTED)
def test_widths(way, cell, hidden):
    """An SRN of 128 channels with such weights is chaotic: PyTorch's own operations are as far off."""
    degrees, tolerance = (0, 1, 3, 8), 1e-3 if (cell, hidden) == ("srn", 128) else 1e-5
    assert_matches_reference(
        Reading(limit=4), cell, 2, PARALLEL, torch.float, degrees, hidden=hidden, tolerance=tolerance
    )


@pytest.mark.parametrize("structure", [1, 12])
@pytest.mark.parametrize("workspace", [PARALLEL, BLOCKS])
def test_structure(way, structure, workspace):
    assert_matches_reference(Reading(frame="closed"), "lstm", 2, workspace, torch.float, structure=structure)


@pytest.mark.parametrize("cell", JITTED)
def test_the_ways_differ_by_rounding_only(cell, monkeypatch):
    arguments = (Reading(), cell, 2, PARALLEL, torch.float)
    compiled = outcome("packed", *arguments)
    monkeypatch.setattr(packed, "jitted", dict)
    eager = outcome("packed", *arguments)
    assert any(not torch.equal(a, b) for a, b in zip(compiled, eager, strict=True)), "both ran the same code"
    for a, b in zip(compiled, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_who_runs_what(monkeypatch):
    for cell, unrolled in UNROLLED.items():
        assert packed.fastest(cell, torch.float, CPU) is JITTED.get(cell, unrolled)
        assert packed.fastest(cell, torch.double, CPU) is unrolled
        assert packed.fastest(cell, torch.float, torch.device("cuda")) is unrolled
    monkeypatch.setattr(packed, "jitted", dict)
    assert packed.fastest("lstm", torch.float, CPU) is UnrolledLSTM


@pytest.mark.parametrize(
    ("hinder", "settings"),
    [
        ('sys.modules["numba"] = None', {}),
        pytest.param("pass", {"NUMBA_DISABLE_JIT": "1"}, marks=pytest.mark.slow),
        ("pass", {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}),
    ],
    ids=["not installed", "switched off", "no place for its cache"],
)  # fmt: skip
def test_without_numba(hinder, settings):
    """Importing the layer loads nothing of this, and where nothing can be compiled it works all the same."""
    program = f"""
import sys
{hinder}
import torch
from pggnn import PGConv
from pggnn.ops.linear import operation as linear
from pggnn.ops.packed import operation as packed
loaded = "pggnn.ops.numba_threads" in sys.modules
convs = PGConv(3, 4), PGConv(3, 4, cell="linear")
sum(conv(torch.ones(2, 3), torch.tensor([[0, 1], [1, 0]])).sum() for conv in convs).backward()
finite = all(bool(weight.grad.isfinite().all()) for conv in convs for weight in conv.parameters())
print(loaded, packed.jitted(), linear.kernels(), finite)
"""
    environment = {**os.environ, **settings}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "{}", "None", "True"]


def test_several_python_threads_at_once(way):
    conv, x, edge_index = PGConv(3, 32), torch.randn(len(DEGREES), 3), random_graph(DEGREES)

    def run(_=None):
        out = conv(x, edge_index)
        return out, *torch.autograd.grad(out.sin().sum(), list(conv.parameters()))

    alone = run()
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(run, range(20)):
            assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_comes_out_where_it_went_in(way, bad):
    degrees = (2, 2, 2, 0)
    edge_index = torch.tensor([[1, 2, 0, 2, 3, 3], [0, 0, 1, 1, 2, 2]])
    conv, x = PGConv(3, HIDDEN), torch.randn(len(degrees), 3)
    x[0, 0] = bad
    x.requires_grad_()
    out = conv(x, edge_index)
    assert out.isnan().any(1).tolist() == ([True, True, False, False] if bad != bad else [False] * 4)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient[3].isfinite().all()
    assert gradient[0].isnan().any() == (bad != bad)


def test_tanh():
    x = torch.cat([torch.linspace(-12, 12, 100_001), torch.logspace(-40, 0, 1001)])
    y = x.clone().numpy()
    numba_rows.tanh_(y, numba_rows.ONE, numba_rows.ZERO)
    error = torch.from_numpy(y).double() - x.double().tanh()
    assert error.abs().amax() < 4e-7
    assert (error.abs() <= 4e-7 * x.double().tanh().abs() + 1e-44).all()
    assert abs(y).max() <= 1


@pytest.mark.parametrize("value", [1e-29, 1e-30, 1e-31, 1e-40, float("nan"), float("inf")])
def test_flush(value):
    row = torch.tensor([value, -value] * 9)
    expected = torch.nn.functional.hardshrink(row, 1e-30)
    numba_rows.flush_(row.numpy())
    torch.testing.assert_close(row, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("workspace", [PARALLEL, SERIAL])
def test_vanished_gradients_are_zero(way, workspace):
    """With weights that forget everything, no gradient reaches the first of many steps, not even a denormal one."""
    plan = Plan.build(random_graph((40,)), 1)
    rnn = Recurrence(3, HIDDEN, 1, "lstm")
    for parameter in rnn.parameters():
        torch.nn.init.uniform_(parameter, -0.01, 0.01)
    with torch.no_grad():
        rnn.bias_hh_l0[HIDDEN : 2 * HIDDEN] = -10
    gates = rnn(torch.randn(1, 3)).detach().expand(40, -1).clone().requires_grad_()
    rows = torch.arange(40)
    out = group_recurrence(
        gates, rnn.recurrent_weights, plan, rows=rows, reading=Reading("trivial", "open"), cell="lstm",
        workspace=workspace, backend="packed",
    )  # fmt: skip
    (gradient,) = torch.autograd.grad(out.sum(), gates)
    assert (gradient == 0).all(1).sum() > 8
    denormal = (gradient != 0) & (gradient.abs() < torch.finfo(torch.float).tiny)
    assert denormal.any(1).sum() <= (0 if workspace == SERIAL else FLUSH_EVERY), "slow, however short the slabs"
    assert gradient.abs().amax() > 0


def test_gate_rows_of_other_strides(way):
    """Gate rows stored column by column are read just as well."""
    plan = Plan.build(random_graph(DEGREES), len(DEGREES))
    rnn = Recurrence(3, HIDDEN, 2, "lstm")
    gates = rnn(torch.randn(len(DEGREES), 3)).detach()
    outs = [
        group_recurrence(rows, rnn.recurrent_weights, plan, reading=Reading(), cell="lstm")
        for rows in (gates, gates.t().contiguous().t())
    ]
    torch.testing.assert_close(*outs, rtol=1e-6, atol=1e-6)


def test_gradients_are_the_same_in_every_run(way):
    first, second = (outcome("packed", Reading(), "lstm", 2, BLOCKS, torch.float) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_under_autocast(way):
    conv, x, edge_index = PGConv(3, HIDDEN), torch.randn(len(DEGREES), 3), random_graph(DEGREES)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(x, edge_index)
    out.float().sum().backward()
    torch.testing.assert_close(out.float(), conv(x, edge_index), rtol=0.05, atol=0.05)
    assert all(parameter.grad.isfinite().all() for parameter in conv.parameters())


def test_inference_mode(way):
    conv, x, edge_index = PGConv(3, HIDDEN), torch.randn(len(DEGREES), 3), random_graph(DEGREES)
    with torch.inference_mode():
        out = conv(x, edge_index)
    torch.testing.assert_close(out, conv(x, edge_index).detach(), rtol=0, atol=1e-6)
