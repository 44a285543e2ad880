"""How the layers behave inside PyTorch: determinism, compilation, export, autocast, memory."""

import io

import pytest
import torch

from benchmarks.timing import CLEAR_REFS, peak_memory
from pggnn import PGGNN, PGConv, Plan
from pggnn.testing import DEGREES, random_graph
from pggnn.train.engine.memory import keep_freed_memory

NODES = len(DEGREES)


def training_run(seed):
    torch.manual_seed(seed)
    model = PGGNN(4, 6, 2, numbering="random")
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(NODES, 4), random_graph(seed=step)).square().sum().backward()
        optimizer.step()
    return torch.cat([parameter.flatten() for parameter in model.parameters()])


def test_training_is_bitwise_repeatable():
    assert torch.equal(training_run(1), training_run(1))
    assert not torch.equal(training_run(1), training_run(2))


FEWER = {"root": "linear", "orderings": 3, "max_degree": 5}


@pytest.mark.parametrize(("kwargs", "numbering"), [({}, "random"), (FEWER, "random"), ({"edge_dim": 2}, "given")])
def test_no_graph_break(kwargs, numbering):
    torch._dynamo.reset()
    model = PGGNN(4, 6, 2, num_layers=2, numbering=numbering, **kwargs)
    model.train(numbering == "random")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for seed, degrees in enumerate((DEGREES, (1, 2, 3), (5, 5, 0, 9))):
        edge_index = random_graph(degrees, seed)
        x, plan = torch.randn(len(degrees), 4, requires_grad=True), Plan.build(edge_index, len(degrees))
        edge_attr = torch.randn(edge_index.size(1), 2) if "edge_dim" in kwargs else None
        actual = compiled(x, plan, edge_attr=edge_attr)
        (gradient,) = torch.autograd.grad(actual.sum(), x)
        assert gradient.isfinite().all()
        if numbering == "given":
            expected = model(x, plan, edge_attr=edge_attr)
            torch.testing.assert_close(actual, expected)
            torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), x)[0])


def test_no_graph_break_where_all_sizes_may_change():
    torch._dynamo.reset()
    model = PGGNN(4, 6, 2, num_layers=2, edge_dim=3)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    edge_index = random_graph()
    x, plan, edge_attr = torch.randn(NODES, 4), Plan.build(edge_index, NODES), torch.randn(edge_index.size(1), 3)
    torch.testing.assert_close(compiled(x, plan, edge_attr=edge_attr), model(x, plan, edge_attr=edge_attr))


def test_no_graph_break_under_autocast():
    torch._dynamo.reset()
    model = PGGNN(4, 6, 2, num_layers=2)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x, plan = torch.randn(len(DEGREES), 4), Plan.build(random_graph(DEGREES), len(DEGREES))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(x, plan), model(x, plan), atol=0.02, rtol=0.02)


def test_export_runs_on_other_graphs():
    model = PGGNN(4, 6, 2, level="node").eval()
    nodes, edges, degrees = torch.export.Dim("nodes"), torch.export.Dim("edges"), torch.export.Dim("degrees")
    plan = Plan.build(random_graph(), NODES)
    shapes = {
        "x": {0: nodes},
        "edge_index": [{0: edges}] * 3 + [{0: nodes}] * 3 + [{0: degrees}, {0: nodes}],
    }
    program = torch.export.export(model, (torch.randn(NODES, 4), plan), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    other = torch.randn(6, 4), Plan.build(random_graph((5, 0, 3, 3, 1, 2), seed=4), 6)
    torch.testing.assert_close(loaded(*other), model(*other))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    conv, x, edge_index = PGConv(4, 6), torch.randn(NODES, 4), random_graph()
    expected = conv(x, edge_index)
    with torch.autocast("cpu", dtype):
        actual = conv(x, edge_index)
    assert actual.dtype == dtype
    error = (actual.float() - expected).norm() / expected.norm()
    assert error < 5 * torch.finfo(dtype).eps
    actual.float().sum().backward()
    assert all(
        parameter.grad.dtype == torch.float and parameter.grad.isfinite().all() for parameter in conv.parameters()
    )


def test_scores_have_all_digits_under_autocast():
    model, x, edge_index = PGGNN(4, 16, 2, num_layers=2).eval(), 8 * torch.randn(NODES, 4), random_graph()
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(x, edge_index)
    assert scores.dtype == torch.float
    assert not torch.equal(scores, scores.bfloat16().float())
    half = PGGNN(4, 16, 2, num_layers=2).to(torch.bfloat16)
    assert half(x.bfloat16(), edge_index).dtype == torch.bfloat16, "what has no more digits keeps those it has"


def test_half_precision_weights():
    conv = PGConv(4, 6)
    half = PGConv(4, 6).to(torch.bfloat16)
    half.load_state_dict(conv.state_dict())
    x, edge_index = torch.randn(NODES, 4), random_graph()
    out = half(x.bfloat16(), edge_index)
    assert out.dtype == torch.bfloat16
    assert (out.float() - conv(x, edge_index)).norm() < 0.05 * conv(x, edge_index).norm()


def test_a_default_device_is_for_tensors_that_are_made_without_one(monkeypatch):
    monkeypatch.setattr("pggnn.ops.packed.memory.POOL.buffers", [])
    torch.use_deterministic_algorithms(False)
    conv, x, edge_index = PGConv(4, 6, numberings=2), torch.randn(NODES, 4), random_graph()
    with torch.device("meta"):
        conv(x, edge_index).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in conv.parameters())


@pytest.mark.skipif(not CLEAR_REFS.exists(), reason="peak memory is read from Linux's /proc")
def test_memory_stays_within_the_workspace():
    """A star whose states would take 260 MiB at once."""

    def step(workspace):
        star = torch.stack([torch.arange(1, 301), torch.zeros(300, dtype=torch.long)])
        conv, x = PGConv(8, 64, workspace=workspace), torch.randn(301, 8)
        return lambda: conv(x, star)[0].sum().backward()

    torch.use_deterministic_algorithms(False)
    keep_freed_memory()  # as a training in this process may have done
    torch.ones(2**27)  # 512 MiB, freed at once
    assert peak_memory(step(2**24)) < 150 * 2**20
    assert peak_memory(step(2**30)) > 250 * 2**20


def test_states_are_autograds_to_let_go_of():
    """After the backward pass, though the loss still lives, and where a checkpoint runs the forward pass again."""
    saved = []
    conv, x, plan = PGConv(4, 6), torch.randn(NODES, 4), Plan.build(random_graph(), NODES)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        conv(x, plan)
    assert max(tensor.numel() for tensor in saved) >= conv.reading.steps(plan.profile) * 6
