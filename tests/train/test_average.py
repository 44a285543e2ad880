"""Moving averages of the weights: what they are, and that they answer."""

import pytest
import torch

from pggnn.cli import main
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.loop import Training
from pggnn.train.runs import run
from pggnn.train.runs.predict import Trained

KEEP = 0.25


@pytest.fixture
def epochs(monkeypatch):
    """The network's state after each epoch of the trainings to come."""
    found, train_epoch = [], Training.train_epoch

    def kept(training, callback):
        loss = train_epoch(training, callback)
        found.append({name: value.clone() for name, value in training.network.state_dict().items()})
        return loss

    monkeypatch.setattr(Training, "train_epoch", kept)
    return found


def averaged(epochs, keep=KEEP):
    """The average after the last of these epochs: each keeps this part of what was before, and less at first."""
    found = dict.fromkeys(epochs[0], 0.0)
    for number, epoch in enumerate(epochs):
        kept = min(keep, number / (number + 10))
        found = {name: kept * found[name] + (1 - kept) * value for name, value in epoch.items()}
    return {name: value for name, value in found.items() if epochs[0][name].is_floating_point()}


def assert_close(state, expected):
    for name, value in expected.items():
        torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-7, msg=name)


def test_what_is_kept_is_the_average(small, fit, epochs):
    config = small(optim_average=KEEP, optim_epochs=8)
    fit(config)
    last, best = (Checkpoint.load(config.folder / "seed0" / f"{which}.safetensors") for which in ("last", "best"))
    assert_close(last.average, averaged(epochs))
    assert_close(best.weights, averaged(epochs[: best.state["best_epoch"]]))
    for name, value in last.weights.items():
        assert torch.equal(value, epochs[-1][name]), "training goes on from an average"
    assert not best.average


def test_it_has_no_part_in_learning(small, fit, epochs):
    fit(small("with", optim_average=KEEP, optim_schedule="constant"))
    fit(small("without", optim_schedule="constant"))
    for one, other in zip(epochs[:3], epochs[3:], strict=True):
        assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("which", ["best", "last"])
def test_it_validates_and_answers(which, small, fit):
    config = small(optim_average=KEEP, optim_epochs=6, protocol_report=which)
    result = fit(config)
    trained = Trained.load(config.folder, which)
    (scorer,) = trained.scorers.values()
    found = Checkpoint.load(config.folder / "seed0" / f"{which}.safetensors")
    for name, value in scorer.network.state_dict().items():
        assert torch.equal(value.cpu(), (found.average or found.weights)[name])
    graphs, trial = run.load_graphs(config), next(iter(trained.scorers))
    split = run.protocol.split(config, graphs, trial)
    training = Training(config, run.Collater(graphs), split, 0, config.folder / "seed0", run.make_fabric(config))
    training.judge, metric = scorer.cpu(), training.task.metric
    records = {record["epoch"]: record for record in log.read(config.folder / "seed0")}
    assert training.measure("val")[metric] == pytest.approx(records[found.state["epoch"]]["val"], rel=1e-5)
    assert training.measure("test")[metric] == pytest.approx(result.mean, rel=1e-5)


def test_cut_off_and_gone_on_with(small, fit, assert_same):
    alone, again = (small(name, optim_average=KEEP, optim_epochs=5) for name in ("alone", "again"))
    expected = fit(alone)
    fit(small("again", optim_average=KEEP, optim_epochs=2))
    assert fit(again, "last") == expected
    assert_same(alone.folder / "seed0", again.folder / "seed0")
    ours, theirs = (Checkpoint.load(one.folder / "seed0" / "last.safetensors").average for one in (again, alone))
    assert ours.keys() == theirs.keys() and ours
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


@pytest.mark.parametrize("value", ["1", "-0.1"])
def test_what_is_no_part_is_refused(value, tmp_path, capsys):
    words = ["train", "--data.name", "ER", "--optim.average", value, "--run.out", str(tmp_path / "run")]
    assert main(words) == 2
    assert f"optim.average must be from 0 to below 1, got {float(value)}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
