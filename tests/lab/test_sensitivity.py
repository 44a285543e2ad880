import json

import pytest
import torch
from rich.console import Console

from pggnn.cli import main
from pggnn.data.batching.collate import Collater
from pggnn.data.schema import Schema
from pggnn.data.sets.counting import TASKS, generate
from pggnn.lab import sensitivity
from pggnn.lab.sensitivity import Budget, measure, relabelled, renumbered
from pggnn.nn.labels import adjacency_rows
from pggnn.train.config import ModelConfig
from pggnn.train.engine.models import Scorer, build
from pggnn.train.engine.task import Task
from pggnn.train.options import parse
from pggnn.train.runs.run import train

TINY = Budget(graphs=60, tests=6, epochs=1, hidden=4, layers=1)
ROWS = Schema("node", "regression", features=10)


@pytest.fixture
def batch():
    graphs = generate("er", 12, seed=0)
    graphs.node["y"] = graphs.node["triangles"].float()
    return Collater(graphs).collate(torch.arange(12))


def figures(model, batch, schema=ROWS, numberings=3):
    torch.manual_seed(0)
    return dict(measure(Scorer(build(model, schema)).eval(), batch, Task(schema), numberings))


def test_relabelling_keeps_the_graphs(batch):
    changed, label = relabelled(batch)
    assert not torch.equal(changed.edge_index, batch.edge_index)
    assert torch.equal(batch.batch[label], batch.batch), "a node left its graph"
    adjacency, moved = (
        torch.zeros(120, 120).index_put_(tuple(one.edge_index), torch.ones(())) for one in (batch, changed)
    )
    assert torch.equal(moved[label][:, label], adjacency)
    for name, count in TASKS.items():
        assert torch.equal(count(changed.edge_index, batch.ptr)[label], batch[name]), name
    assert torch.equal(changed.x, adjacency_rows(changed, 10))
    assert torch.equal(changed.x.sum(1)[label], batch.x.sum(1))
    assert torch.equal(changed.plan.neighbor, changed.edge_index[0][changed.plan.edge])


def test_other_features_go_with_their_nodes(batch):
    batch.x = torch.randn(120, 3)
    batch.edge_attr = batch.x[batch.edge_index[0]] - 2 * batch.x[batch.edge_index[1]]
    changed, label = relabelled(batch)
    assert torch.equal(changed.x[label], batch.x)
    assert torch.equal(changed.edge_attr, changed.x[changed.edge_index[0]] - 2 * changed.x[changed.edge_index[1]])


def test_renumbering_keeps_neighbourhoods(batch):
    changed, place = renumbered(batch)
    assert torch.equal(place, torch.arange(120))
    ours, theirs = (torch.stack([one.plan.center, one.plan.neighbor]) for one in (batch, changed))
    assert not torch.equal(ours, theirs)
    assert torch.equal(*(edges[:, (edges[0] * 120 + edges[1]).argsort()] for edges in (ours, theirs)))


@pytest.mark.parametrize(("model", "renumbering", "relabelling"), [
    (ModelConfig(hidden=8, layers=2), True, True),
    (ModelConfig(hidden=8, layers=2, orderings="single"), True, True),
    (ModelConfig(hidden=8, layers=2, aggregation="pairs"), False, True),
    (ModelConfig("gin", hidden=8, layers=2), False, True),
])  # fmt: skip
def test_what_should_change_answers_does(model, renumbering, relabelling, batch):
    found = figures(model, batch)
    for kind, changes in (("neighbours", renumbering), ("nodes", relabelling)):
        low, high = (1e-4, 100) if changes else (-1, 1e-5 * found[kind]["spread"])
        assert low < found[kind]["mean"] <= found[kind]["largest"]
        assert found[kind]["mean"] < high
        assert found[kind]["averaged"] <= found[kind]["after"] + 1e-6, "the mean absolute error is convex"


def test_constant_features_without_structure_see_no_labels(batch):
    del batch.x
    found = figures(ModelConfig("gin", hidden=8, layers=2), batch, Schema("node", "regression"))
    assert found["nodes"]["largest"] < 1e-4 * found["nodes"]["spread"]


def test_networks_are_trained_and_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sensitivity, "QUICK", TINY)
    command = ["lab", "sensitivity", "--quick", "--task", "cliques", "--numberings", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    rows = json.loads((tmp_path / "table.json").read_text())
    assert [(row["network"], row["trained"], row["changed"]) for row in rows] == [
        (mode, trained, changed)
        for mode in ("group", "single")
        for trained in ("none", "given numbering", "random numbering")
        for changed in ("neighbours", "nodes")
    ]
    printed = capsys.readouterr().out
    assert "mean of 2" in printed
    assert "counting cliques on 6 test graphs" in printed
    for row, line in zip(rows, printed.splitlines()[1:], strict=False):
        assert line.split()[-6:] == [
            f"{row[k]:.4f}" for k in ("before", "after", "mean", "largest", "spread", "averaged")
        ]
    before = {(row["network"], row["trained"]): row["before"] for row in rows}
    assert len(set(before.values())) == 6, "two networks are the same"


def test_runs_are_measured_by_their_own_metric(tmp_path, capsys):
    small = ["--model.hidden", "4", "--model.layers", "1", "--run.jobs", "1", "--run.tensorboard", "false",
             "--run.device", "cpu", "--data.name", "ER", "--data.options", "{seed: 0, graphs: 40}"]  # fmt: skip
    options = ["--optim.epochs", "2", "--protocol.seeds", "[0, 1]", "--run.out", str(tmp_path / "er")]
    summary = train(parse([*small, *options])[0], console=Console(quiet=True))
    assert main(["lab", "sensitivity", str(tmp_path / "er"), "--numberings", "2", "--graphs", "99"]) == 0
    header, neighbours, nodes, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["network", "training", "changed", "MAE"]
    for line in (neighbours, nodes):
        assert float(line.split()[-6]) == pytest.approx(summary.mean, abs=1e-4), "all test graphs, both seeds"


def test_bad_input_is_refused(tmp_path, capsys):
    for arguments, message in (
        (["--numberings", "0"], "must be at least 1, got 0 and 500"),
        (["--quick", "--seed", "-1"], "a seed of 0 or more"),
        ([str(tmp_path)], "is not the folder of a run"),
    ):
        assert main(["lab", "sensitivity", *arguments]) == 2
        assert message in capsys.readouterr().err
