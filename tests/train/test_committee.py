"""Committees: each network learns as if it were alone, and they answer together."""

import csv

import pytest
import torch

from pggnn.cli import main
from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.train.config import ModelConfig
from pggnn.train.engine import log, loop
from pggnn.train.engine.models import build
from pggnn.train.engine.task import Task
from pggnn.train.runs.predict import Trained, device


@pytest.mark.parametrize("clip", [None, 0.1])
def test_each_network_learns_as_if_it_were_alone(clip, small, fit, monkeypatch, tmp_path):
    torch.manual_seed(1)
    committee = build(
        ModelConfig(hidden=4, layers=2, rnn_layers=1, committee=2), Schema("node", "regression", features=10)
    )
    starts = [network.state_dict() for network in (committee, *committee.networks)]
    trained = []

    def prepared(config, schema):
        network = build(config, schema)
        network.load_state_dict(starts[len(trained)])
        trained.append(network)
        return network

    monkeypatch.setattr(loop, "build", prepared)
    for folder, networks in (("together", 2), ("first", 1), ("second", 1)):
        fit(small(folder, model_committee=networks, optim_schedule="constant", optim_clip=clip))
    logs = [log.read(tmp_path / folder / "seed0") for folder in ("together", "first", "second")]
    for ours, *theirs in zip(*logs, strict=True):
        assert ours["loss"] == pytest.approx(sum(record["loss"] for record in theirs) / 2, rel=1e-5)
    together, *alone = trained
    assert not torch.equal(*(next(network.parameters()) for network in alone)), "both started alike"
    for mine, its in zip(together.networks, alone, strict=True):
        for name, value in its.state_dict().items():
            torch.testing.assert_close(mine.state_dict()[name], value, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", ["classification", "regression", "multilabel"])
def test_the_loss_is_a_sum_and_answers_are_means(kind):
    task = Task(Schema("graph", kind, 3, classes=("a", "b", "c")))
    scores, counts = torch.randn(4, 5, 3), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    targets = torch.randint(3, (5,)) if kind == "classification" else torch.randint(2, (5, 3)).float()
    torch.testing.assert_close(task.outputs(scores), torch.stack([task.outputs(one) for one in scores]).mean(0))
    for given in ((), (counts,)):
        each = [float(task.loss(one, targets, *given)) for one in scores]
        assert float(task.loss(scores, targets, *given)) == pytest.approx(sum(each))


def test_cut_off_and_gone_on_with(small, fit, assert_same):
    alone, again = (small(name, model_committee=2, optim_epochs=4) for name in ("alone", "again"))
    expected = fit(alone)
    fit(small("again", model_committee=2, optim_epochs=2))
    assert fit(again, "last") == expected
    assert_same(alone.folder / "seed0", again.folder / "seed0")


def test_trained_evaluated_and_asked(classes, tmp_path, capsys):
    run, answers = tmp_path / "run", tmp_path / "answers.csv"
    words = ["--data.name", str(classes), "--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "2"]
    assert main(["train", *words, "--model.committee", "3", "--run.out", str(run), "--run.device", "cpu"]) == 0
    assert main(["evaluate", str(run)]) == 0
    assert main(["predict", str(run), str(classes), "--out", str(answers)]) == 0
    capsys.readouterr()
    trained = Trained.load(run)
    (scorer,) = trained.scorers.values()
    assert len(scorer.network.networks) == 3 and len(scorer.network.convs) == 3
    (batch,) = Batches(Collater(Graphs.of(trained.read(classes)), device()), 40)
    each = [trained.task.outputs(scores) for scores in scorer(batch)]
    with open(answers) as file:
        found = [float(row["p(ring)"]) for row in csv.DictReader(file)]
    assert found == pytest.approx(torch.stack(each).mean(0)[:, trained.schema.classes.index("ring")].tolist(), abs=1e-5)
    assert main(["train", *words, "--model.committee", "0", "--run.out", str(tmp_path / "none")]) == 2
    assert "model.committee must be 1 or more, got 0" in capsys.readouterr().err
