"""The benchmarks of the GPU, tried on the CPU with sizes that say nothing."""

import math

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import collab, epochs, layer, linear, record, step, timing
from pggnn.data.loading import load
from pggnn.groups import order
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig

COUNTED_ON_A_GPU = ("memory", "MiB", "GiB")


def collect(figures):
    """Figures by case and quantity; each must be a number that can be."""
    found = {}
    for case, what, value in figures:
        assert what not in found.setdefault(case, {}), f"{case}: {what} twice"
        assert math.isfinite(value) or any(word in what for word in COUNTED_ON_A_GPU), f"{case}: {what}"
        found[case][what] = value
    return found


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(timing, "BUDGET", 0.0)  # everything is run twice


def test_layer(monkeypatch):
    monkeypatch.setattr(layer, "SIDE", 32)
    monkeypatch.setattr(layer, "COPIED", 2**12)
    found = collect(layer.layer(nodes=8))
    assert list(found) == [*(f"hidden {hidden}, {kind}" for hidden, kind in layer.CASES), "ceilings"]
    for case, goals in record.GOALS["layer"].items():
        assert set(goals) <= set(found[case]), "a goal is for a figure that is measured"
    ours = found["hidden 64, bf16"]
    assert ours["cuDNN / ours, forward"] == pytest.approx(ours["cuDNN forward, ms"] / ours["forward, ms"])
    assert ours["forward, TFLOP/s"] == pytest.approx(24 * 64**2 * 8 * 80 / ours["forward, ms"] / 1e9)
    assert torch.are_deterministic_algorithms_enabled(), "switches are put back"
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(("draw", "name"), [(draw, name) for name, (draw, _) in linear.MIXES.items()])
def test_graphs_have_the_work_asked_for(draw, name):
    plan, work = linear.graph(draw, 10**5)
    n = plan.degree
    assert work == int((order(n) * (n + 2)).sum())
    assert 0.6e5 < work <= 1e5
    assert int(order(n.max()) * (n.max() + 2)) <= 0.11 * work
    assert (int(n.max()) > 40) == (name == "power law"), "only there are hubs"


def test_linear(monkeypatch):
    monkeypatch.setattr(linear, "FULL", 100)
    found = collect(linear.linear(smallest=2, largest=3, hub=40))
    assert len(found) == 3 * 3 + 1
    assert found["hub of degree 40, 64 orderings"]["steps"] == 40 * 42 + 40 * 2
    assert set(found["power law"]) == {f"exponent of {name} from 10^6 steps on" for name in ("forward", "training")}
    assert linear.exponent([(10.0, 2.0), (1000.0, 2e4)]) == pytest.approx(2)


def test_step():
    found = collect(step.step(graphs=160, changing=2))["ER, batch 16, hidden 64"]
    changing = {f"{by} over changing batches, ms" for by in ("by Recorded,", "recorded")}
    captured = {"CUDA graph of one batch, ms"} if timing.ON_GPU else set()
    eager = {f"{name}{how}, ms" for name in ("", "linear cell, ", "GIN, ") for how in ("eager", "compiled")}
    assert set(found) == {*eager, "eager, without a plan, ms", *changing, *captured}


def test_epochs(data_root):
    config = Config(
        DataConfig("ZINC", str(data_root)), ModelConfig(hidden=4, layers=1, rnn_layers=1, orderings="single"),
        OptimConfig(batch_size=2000), run=RunConfig(precision="bf16", tensorboard=False),
    )  # fmt: skip
    dataset = load("ZINC", str(data_root))
    found = collect(epochs.epoch("ZINC", config, dataset, counted=1, most_gin_steps=1))["ZINC"]
    assert (found["steps"], found["steps of GIN measured"]) == (5, 1)
    for name in ("PyG's DataLoader", "batches on the GPU"):
        assert found[f"GIN with {name} / ours"] == pytest.approx(found[f"GIN with {name}, s"] / found["ours, s"])


def test_collab(data_root, monkeypatch, capsys):
    monkeypatch.setenv("PGGNN_DATA", str(data_root))
    monkeypatch.setattr(collab, "load", lambda name: load("MUTAG"))  # which a CPU can do
    (found,) = collect(collab.collab(count=2)).values()
    assert capsys.readouterr().err.count("COLLAB: ") == 2
    rate = 72 * 64**2 * found["steps of sequences, millions"] / found["training step, ms"] / 1e3
    assert rate == pytest.approx(found["training step, TFLOP/s"], rel=0.5), "medians of two batches each"


def test_sets_that_are_missing_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PGGNN_DATA", str(tmp_path))
    assert not list(epochs.epochs()) and not list(collab.collab())
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == ["ZINC", "MNIST", "COLLAB"]
    assert all("is left out" in line and "PGGNN_DATA" in line for line in said)


def test_a_part_that_fails_leaves_the_others_alone(tmp_path, capsys):
    path = tmp_path / "kernel.json"

    def fails():
        yield "a case", "forward, ms", 1.0
        yield "another", "forward, ms", 2.0
        assert record.load(path)[1] == {"layer": {"a case": {"forward, ms": 1.0}}}  # if it were cut off here
        raise RuntimeError("out of memory")

    parts = {"layer": fails, "step": lambda: iter([("ER, batch 16, hidden 64", "eager, ms", 2.6)])}
    with pytest.raises(ValueError, match="layer failed"):
        command.run(parts, "a machine", path)
    said = capsys.readouterr()
    assert "out of memory" in said.err and "2.600  (goal ≤ 2.5: missed)" in said.out
    assert record.load(path) == (
        "a machine",
        {
            "layer": {"a case": {"forward, ms": 1.0}, "another": {"forward, ms": 2.0}},
            "step": {"ER, batch 16, hidden 64": {"eager, ms": 2.6}},
        },
    )


@pytest.mark.skipif(timing.ON_GPU, reason="there is a GPU")
@pytest.mark.parametrize("name", ["gpu", "step"])
def test_command_needs_a_gpu(name, capsys):
    assert command.main([name]) == 2
    assert "PyTorch sees none" in capsys.readouterr().err
