"""The fused kernels against the definitions they restate: on a GPU if there is one, else in Triton's interpreter."""

import psutil
import pytest
import torch
from test_group_recurrence import BLOCKS, DEGREES, PARALLEL, SERIAL, assert_matches_reference

from pggnn import PGConv, Plan
from pggnn.cells import CELLS, Recurrence
from pggnn.ops import group_recurrence
from pggnn.orderings import Reading
from pggnn.plan import PaddedPlan
from pggnn.testing import READINGS, random_graph

triton = pytest.importorskip("triton")

from pggnn.ops.fused import geometry  # noqa: E402
from pggnn.ops.fused import operation as fused  # noqa: E402
from pggnn.ops.fused import shape as fused_shape  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    ("cell", "layers", "workspace"),
    [
        ("lstm", 1, PARALLEL), ("lstm", 2, PARALLEL), ("lstm", 3, BLOCKS), ("lstm", 2, SERIAL),
        ("gru", 2, PARALLEL), ("gru", 1, BLOCKS), ("srn", 2, PARALLEL), ("srn", 3, BLOCKS),
    ],
)  # fmt: skip
def test_group(cell, layers, workspace):
    """Kept whole, in chunks of tiles, and in slabs of one step."""
    degrees = {PARALLEL: DEGREES, BLOCKS: (0, 1, 2, 3, 5, 6), SERIAL: (0, 1, 3, 4)}[workspace]
    assert_matches_reference(Reading(), cell, layers, workspace, torch.float, degrees, backend="triton")


@pytest.mark.parametrize("reading", [reading for reading in READINGS if reading.limit != 1], ids=str)
def test_readings(reading):
    assert_matches_reference(reading, "srn", 1, PARALLEL, torch.float, (0, 1, 2, 3, 4), backend="triton")


@pytest.mark.parametrize("cell", ["srn-relu", "srn-identity"])
def test_activations(cell):
    assert_matches_reference(Reading(limit=2), cell, 1, BLOCKS, torch.float, (0, 1, 2, 3, 4), backend="triton")


@pytest.mark.parametrize(
    ("cell", "reading", "layers", "workspace", "structure"),
    [
        ("lstm", Reading(), 2, PARALLEL, 1), ("gru", Reading(frame="closed"), 1, BLOCKS, 2),
        ("lstm", Reading("threes", "open"), 2, PARALLEL, 2),
        ("srn", Reading(limit=3), 1, BLOCKS, 20), ("lstm", Reading(frame="closed", limit=2), 1, SERIAL, 3),
    ],
)  # fmt: skip
def test_structure(cell, reading, layers, workspace, structure):
    degrees = DEGREES if workspace > 0 and reading.group != "threes" else (0, 1, 3, 4)
    assert_matches_reference(
        reading, cell, layers, workspace, torch.float, degrees, backend="triton", structure=structure
    )  # fmt: skip


def test_structure_in_wide_layers(monkeypatch):
    """Where two columns of warps share a tile, rows are added one by one."""
    if DEVICE == "cpu":
        monkeypatch.setattr(geometry, "shape", lambda *_: fused_shape.Shape(16, 2, False))
    for cell in ("lstm", "gru"):
        assert_matches_reference(
            Reading(), cell, 2, PARALLEL, torch.float, (0, 3, 4), backend="triton", hidden=40, structure=3
        )  # fmt: skip


def test_structure_in_half_precision_and_odd_graphs():
    for dtype, degrees, tolerance in (
        (torch.half, (3, 4, 0), 0.006),
        (torch.float, (), 0),
        (torch.float, (0, 0), 1e-5),
    ):
        assert_matches_reference(
            Reading(), "lstm", 2, PARALLEL, dtype, degrees, backend="triton", tolerance=tolerance, structure=2
        )  # fmt: skip


@pytest.mark.parametrize("hidden", [8, 20, 40])
def test_widths(hidden):
    """8 and 20 are filled up to 16 and 32; the weights of 40 leave no room for those of the input beside them."""
    assert_matches_reference(
        Reading(limit=3), "gru" if hidden == 8 else "lstm", 2, PARALLEL, torch.float, (4, 0, 3),
        backend="triton", hidden=hidden,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "hidden", "layers", "reading", "workspace", "structure"),
    [
        ("lstm", 70, 2, Reading(), PARALLEL, 0), ("gru", 128, 1, Reading(), 600_000, 0),
        ("srn", 65, 2, Reading(), SERIAL, 0), ("lstm", 129, 1, Reading("twos", "open"), PARALLEL, 0),
        ("gru", 256, 1, Reading(frame="closed", limit=2), PARALLEL, 0), ("lstm", 80, 2, Reading(limit=1), SERIAL, 0),
        ("gru", 66, 1, Reading(limit=1), SERIAL, 2), ("lstm", 65, 1, Reading(frame="closed"), PARALLEL, 3),
        ("srn-relu", 200, 3, Reading("twos", "after"), PARALLEL, 0),
    ],
)  # fmt: skip
def test_wide_layers(cell, hidden, layers, reading, workspace, structure):
    """Weights that have no room in shared memory: whole, in two chunks of a tile each, and in slabs of one step."""
    degrees = {PARALLEL: (4, 3, 0), SERIAL: (2, 0)}.get(workspace, (6, 5, 4, 4, 3, 0))
    assert_matches_reference(
        reading, cell, layers, workspace, torch.float, degrees, backend="triton", hidden=hidden, structure=structure
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "hidden"), [("srn", 8), ("gru", 20), ("lstm", 40), ("srn", 65), ("gru", 70), ("lstm", 130)]
)
def test_reduced_precision(cell, hidden, monkeypatch):
    """TF32, which Triton's interpreter does not round to, and half precision."""
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    case = Reading(limit=2), cell, 2, PARALLEL
    tolerance = 1e-5 if DEVICE == "cpu" else 0.02
    degrees = (3, 4, 0) if hidden <= 128 else (3, 0)
    assert_matches_reference(*case, torch.float, degrees, backend="triton", hidden=hidden, tolerance=tolerance)
    if hidden > 128:
        assert_matches_reference(*case, torch.half, (3, 0), backend="triton", hidden=hidden, tolerance=0.01)


@pytest.mark.parametrize(
    ("cell", "hidden", "reading"),
    [
        ("lstm", 4, Reading(frame="closed")), ("gru", 4, Reading(frame="chain")),
        ("lstm", 65, Reading("threes", "open")),
    ],
)  # fmt: skip
def test_more_centres_than_rows(cell, hidden, reading, monkeypatch):
    """Where centres are not read there are no rows of theirs: what lies beyond those of the neighbours is not read."""

    def before_what_is_not_a_number(self, rows, width, dtype=None):
        shape = rows + 64, width * self.width
        return torch.full(shape, torch.nan, dtype=dtype or self.dtype, device=self.device)[:rows]

    monkeypatch.setattr(geometry.Geometry, "empty", before_what_is_not_a_number)
    sources, targets = torch.arange(6) % 2, torch.tensor([3, 3, 7, 7, 7, 9])
    plan = Plan.build(torch.stack([sources, targets]), (2, 12)).to(DEVICE)
    rnn = Recurrence(3, hidden, 1, cell).to(DEVICE)
    gates = rnn(torch.randn(2, 3, device=DEVICE))
    outcomes = []
    for backend in ("triton", "packed"):
        out = group_recurrence(gates, rnn.recurrent_weights, plan, reading=reading, cell=cell, backend=backend)
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), [gates, *rnn.recurrent_weights])])
    for actual, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("degrees", [(), (0, 0), (1,), (30,)])
def test_odd_graphs(degrees):
    assert_matches_reference(Reading(limit=2), "lstm", 1, PARALLEL, torch.float, degrees, backend="triton")
    assert_matches_reference(
        Reading(frame="closed", limit=2), "srn", 1, PARALLEL, torch.float, degrees, backend="triton"
    )


@pytest.mark.parametrize(
    ("cell", "workspace", "degrees"),
    [("lstm", PARALLEL, (0, 1, 2, 4, 7)), ("gru", 150_000, (2, 3, 4, 3, 7)), ("srn", SERIAL, (0, 3, 2))],
)  # fmt: skip
@pytest.mark.parametrize("reading", [Reading(), Reading("trivial", "open")], ids=str)
def test_padded_plans(cell, workspace, degrees, reading):
    """Padding changes nothing: kept whole, in chunks, and in slabs."""
    plan = Plan.build(random_graph(degrees), len(degrees))
    more = torch.tensor([[8, 1], [4, 6], [0, 3]]) if workspace > 0 else torch.tensor([[4, 3], [0, 2]])
    nodes = int(more[:, 1].sum())
    filler, edges = nodes - len(degrees), int(more.prod(1).sum())
    assert (torch.repeat_interleave(*more.unbind(1))[: len(degrees)] >= plan.degree[plan.order]).all()
    last = torch.full((edges - plan.num_edges,), nodes - 1)
    degree = torch.cat([plan.degree, torch.zeros(filler, dtype=torch.long)])
    padded = PaddedPlan(
        torch.cat([plan.neighbor, torch.arange(len(last)) % len(degrees)]), torch.cat([plan.center, last]),
        torch.arange(edges), degree.cumsum(0) - degree, degree, degree.argsort(descending=True, stable=True), more,
        torch.empty(nodes, 0),
    ).to(DEVICE)  # fmt: skip
    rnn = Recurrence(3, 5, 2, cell).to(DEVICE)
    gates = rnn(torch.randn(nodes, 3, device=DEVICE)).detach()
    outcomes = []
    for graph, size in ((plan.to(DEVICE), len(degrees)), (padded, nodes)):
        rows = gates[:size].clone().requires_grad_()
        out = group_recurrence(
            rows, rnn.recurrent_weights, graph, reading=reading, cell=cell, workspace=workspace, backend="triton"
        )[: len(degrees)]  # fmt: skip
        d_rows, *d_weights = torch.autograd.grad(out.sin().sum(), [rows, *rnn.recurrent_weights])
        outcomes.append([out, d_rows[: len(degrees)], *d_weights])
    for exact, with_padding in zip(*outcomes, strict=True):
        torch.testing.assert_close(with_padding, exact)
    with pytest.raises(ValueError, match="a padded plan"):
        group_recurrence(rows, rnn.recurrent_weights, padded, reading=Reading(), cell=cell, backend="packed")


@pytest.mark.parametrize(("hidden", "workspace"), [(5, PARALLEL), (70, PARALLEL), (70, SERIAL)])
def test_half_precision(hidden, workspace):
    """Triton's interpreter has no bfloat16 to speak of; that is tested on a GPU, below."""
    assert_matches_reference(
        Reading(), "lstm", 2, workspace, torch.half, (3, 4, 0), backend="triton", tolerance=0.006, hidden=hidden
    )


@pytest.mark.parametrize("cell", ["lstm", "gru", "srn"])
def test_little_shared_memory(cell, monkeypatch):
    """Weights that have no room there are read at every step, however few."""
    monkeypatch.setattr(fused_shape, "shared_memory", lambda _: 2**16)
    gates = torch.empty(0, device=DEVICE)
    assert fused_shape.shape(gates, 40, 100, cell).gates > 0
    assert_matches_reference(Reading(), cell, 2, PARALLEL, torch.float, (0, 3, 4), backend="triton", hidden=40)
    assert "more shared memory" in fused_shape.refusal(gates, 20, "lstm")
    assert fused_shape.refusal(gates, 8, "lstm") is None


@pytest.mark.parametrize(
    ("hidden", "workspace", "structure", "block", "warps"),
    [
        (128, PARALLEL, 0, 64, 8), (100, SERIAL, 0, 64, 8), (70, PARALLEL, 3, 64, 8),
        (128, PARALLEL, 0, 16, 16), (70, SERIAL, 2, 16, 16),
    ],
)  # fmt: skip
def test_tiles_of_a_gpu(hidden, workspace, structure, block, warps, monkeypatch):
    """The tiles that a GPU has for many sequences and for few: their columns are spread over groups of warps."""
    monkeypatch.setattr(geometry, "shape", lambda *_: fused_shape.Shape(block, warps, projects=False))
    assert_matches_reference(
        Reading(), "lstm", 2, workspace, torch.half, (3, 4, 0) if workspace > 0 else (2, 0), backend="triton",
        tolerance=0.006, hidden=hidden, structure=structure,
    )  # fmt: skip


def test_scattered_gradients_are_the_same():
    torch.use_deterministic_algorithms(False)
    assert_matches_reference(Reading(), "lstm", 1, BLOCKS, torch.float, backend="triton")


@pytest.mark.parametrize(
    "kwargs", [{}, {"edge_dim": 2}, {"root": "linear", "orderings": 2}, {"max_degree": 3}, {"structure": 2}]
)
def test_layer(kwargs):
    edge_index = random_graph((0, 1, 4, 5))
    x, edge_attr = torch.randn(4, 4), torch.randn(edge_index.size(1), 2) if "edge_dim" in kwargs else None
    fused = PGConv(4, 6, num_layers=1, backend="triton", **kwargs).to(DEVICE)
    packed = PGConv(4, 6, num_layers=1, backend="packed", **kwargs)
    packed.load_state_dict(fused.state_dict())
    outcomes = []
    for conv, device in ((fused, DEVICE), (packed, "cpu")):
        moved = x.to(device).requires_grad_()
        out = conv(moved, edge_index.to(device), edge_attr if edge_attr is None else edge_attr.to(device))
        gradients = torch.autograd.grad(out.sin().sum(), [moved, *conv.parameters()])
        outcomes.append([tensor.cpu() for tensor in (out, *gradients)])
    for a, b in zip(*outcomes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def problem(hidden=5, dtype=torch.float, degrees=(0, 1, 2, 3)):
    plan = Plan.build(random_graph(degrees), len(degrees)).to(DEVICE)
    rnn = Recurrence(3, hidden, 2, "lstm").to(DEVICE)
    gates = rnn(torch.randn(len(degrees), 3, device=DEVICE)).detach().to(dtype).requires_grad_()
    return plan, rnn, gates


@pytest.mark.parametrize(
    ("hidden", "dtype", "workspace"), [(5, torch.float, 2**20), (5, torch.float, 150_000), (70, torch.half, 400_000)]
)
def test_what_the_forward_pass_keeps_is_used_once(hidden, dtype, workspace, monkeypatch):
    """All of it or a part; a second backward pass over the same graph computes it again."""
    runs = []
    run = fused.Fused.run
    monkeypatch.setattr(fused.Fused, "run", lambda *args: (runs.append(args[1]), run(*args))[1])
    plan, rnn, gates = problem(hidden, dtype, (0, 1, 2, 3, 4, 5, 4))
    case = {"reading": Reading(), "cell": "lstm", "backend": "triton", "workspace": workspace}
    out = group_recurrence(gates, rnn.recurrent_weights, plan, **case)
    chunks = len(runs)
    assert chunks == (1 if workspace == 2**20 else 2)
    first, second = (torch.autograd.grad(out.sum(), gates, retain_graph=True)[0] for _ in range(2))
    assert len(runs) == 3 * chunks - 1
    assert runs[chunks - 1] not in runs[chunks : 2 * chunks - 1]
    assert torch.equal(first, second)


def test_operator_registration():
    plan, rnn, gates = problem()
    weights = [weight.detach().requires_grad_() for weight in rnn.recurrent_weights]
    graph = (plan.start, plan.degree, plan.order, plan.profile, plan.neighbor)
    arguments = (*graph, 0, "pairs merged 0", "lstm", PARALLEL, True, True)
    torch.library.opcheck(torch.ops.pggnn.recurrence, (gates, weights, *arguments, None))


@pytest.mark.parametrize(("hidden", "dtype", "reason"), [(5, torch.double, "float64"), (300, torch.float, "300")])
def test_what_it_cannot_do_is_refused(hidden, dtype, reason):
    plan, rnn, gates = problem(hidden, dtype)
    with pytest.raises(ValueError, match=reason):
        group_recurrence(gates, rnn.recurrent_weights, plan, reading=Reading(), cell="lstm", backend="triton")


def assert_only_rounds(degrees, reading, cell, hidden, dtype, tolerance, structure=0):
    """Against float64: what is left is rounding of the operands."""
    torch.use_deterministic_algorithms(False)
    plan = Plan.build(random_graph(degrees), len(degrees)).to(DEVICE)
    rnn = Recurrence(3, hidden, 2, cell).to(DEVICE)
    gates = torch.randn(len(degrees), CELLS[cell].gates * hidden, device=DEVICE).to(dtype)
    bits = torch.randn(structure, gates.size(1), device=DEVICE)
    d_out = torch.randn(len(degrees), hidden, device=DEVICE)  # no function of a sum that 16 bits have rounded
    outcomes = []
    for wanted, backend, workspace in ((None, "triton", 2**24), (torch.double, "packed", None)):
        moved = gates.to(wanted or gates.dtype).requires_grad_()
        weights = [w.detach().to(wanted or w.dtype).requires_grad_() for w in rnn.recurrent_weights]
        told = bits.to(wanted or bits.dtype) if structure else None
        out = group_recurrence(
            moved, weights, plan, reading=reading, cell=cell, backend=backend, workspace=workspace, structure=told
        )  # fmt: skip
        outcomes.append([out, *torch.autograd.grad((out * d_out).sum(), [moved, *weights])])
    for a, b in zip(*outcomes, strict=True):
        assert (a - b).norm() < tolerance * b.norm()


def test_compiles_whole(monkeypatch):
    """Whatever the GPU is asked about itself on the way."""
    untraceable = fused_shape.shared_memory if DEVICE == "cuda" else lambda _: psutil.virtual_memory().total
    monkeypatch.setattr(fused_shape, "shared_memory", untraceable)
    torch._dynamo.reset()
    conv = PGConv(4, 8, num_layers=1, backend="triton").to(DEVICE)
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    for seed, degrees in enumerate(((0, 1, 4), (1, 2, 3, 3), (3, 0))):
        plan = Plan.build(random_graph(degrees, seed), len(degrees)).to(DEVICE)
        x = torch.randn(len(degrees), 4, device=DEVICE, requires_grad=True)
        actual, expected = compiled(x, plan), conv(x, plan)
        torch.testing.assert_close(actual, expected)
        gradients = [torch.autograd.grad(out.sin().sum(), x)[0] for out in (actual, expected)]
        torch.testing.assert_close(*gradients)
