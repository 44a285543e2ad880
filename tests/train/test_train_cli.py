import csv
import json
import shutil
import subprocess
import sys

import pytest
import torch

from pggnn.baselines.options import NETWORKS
from pggnn.cli import main
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.log import read
from pggnn.train.options import load
from pggnn.train.runs import progress
from pggnn.train.runs.predict import Trained, evaluate
from pggnn.train.runs.protocol import load_result
from pggnn.train.runs.stored import Run


@pytest.fixture
def cut_off(monkeypatch, fit):
    """Trains until the second epoch has ended, and goes on from there."""

    def cut_off(config):
        epoch = progress.Bar.epoch

        def end(self, record):
            epoch(self, record)
            if record["epoch"] == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(progress.Bar, "epoch", end)
        with pytest.raises(KeyboardInterrupt):
            fit(config)
        monkeypatch.undo()
        return fit(config, "last")

    return cut_off


EXACT = {
    "plain": {},
    "dropout": {"model_dropout": 0.5, "optim_clip": 1.0, "optim_weight_decay": 0.1},
    "random numbering": {"model_numbering": "random", "optim_schedule": "cosine"},
    "draws": {"optim_sampling": "draws", "optim_steps": 3, "optim_schedule": "step", "optim_every": 2},
    "warm-up": {"optim_warmup": 2, "optim_schedule": "step", "optim_every": 1},
    "random order": {"model_orderings": "random", "model_cell": "gru", "optim_patience": 0},
    "linear cell": {"model_cell": "linear", "model_rnn_layers": None},
    "bf16": {"run_precision": "bf16"},
    "float64": {"run_precision": "64", "model_root": "linear"},
    "gin": {"model_name": "gin", "optim_loss": "mae"},
    "last": {"protocol_report": "last", "model_orderings": 2, "model_max_degree": 3},
}


@pytest.mark.parametrize("options", EXACT.values(), ids=EXACT)
def test_a_run_twice_or_cut_off_gives_the_same_numbers(options, small, fit, cut_off, assert_same):
    first, second = (small(name, **options) for name in ("first", "second"))
    assert fit(first) == cut_off(second)
    assert_same(first.folder / "seed0", second.folder / "seed0")
    ours, theirs = (load_result(config.folder / "seed0") for config in (first, second))
    ours, theirs = ({**result, "seconds": 0, "memory": 0} for result in (ours, theirs))
    assert ours == theirs


def test_batches_made_by_other_processes_are_the_same(small, fit, assert_same):
    here, ahead = small("here"), small("ahead", data_workers=1, optim_epochs=2)
    fit(ahead)
    fit(small("here", optim_epochs=2))
    assert_same(here.folder / "seed0", ahead.folder / "seed0")
    fit(here, "last")
    assert len(read(here.folder / "seed0")) == 3, "epochs may be added"


def test_another_seed_gives_other_numbers(small, fit):
    summary = fit(small(protocol_seeds=(0, 1, 2)))
    assert len(set(summary.each)) == 3
    assert summary.std > 0
    assert "over 3" in str(summary)


def test_the_run_folder_suffices_to_repeat_it(small, fit, tmp_path, capsys, assert_same):
    config = small(model_dropout=0.2, protocol_seeds=(3,))
    fit(config)
    again = tmp_path / "again"
    assert main(["train", "--config", str(config.folder / "config.yaml"), "--run.out", str(again)]) == 0
    assert f"{again}: MAE " in capsys.readouterr().out
    assert_same(config.folder / "seed3", again / "seed3")
    assert load(again).model == config.model


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "random") for name in NETWORKS),
        *((name, kind) for name in ("pggnn", "gin", "rgin") for kind in ("nested", "folds")),
    ],
)
def test_networks_and_protocols(name, kind, small, fit, classes):
    config = small(
        data_name=str(classes), data_options={}, model_name=name, model_hidden=8, protocol_kind=kind, protocol_folds=2,
        optim_batch_size=8, optim_epochs=10, optim_lr=0.03,
    )  # fmt: skip
    summary = fit(config)
    assert summary.metric == "accuracy"
    sure = 0.6 if name == "rgin" else 0.7  # its random features blur a validation of few graphs
    assert summary.mean > sure, "rings are told from paths"
    names = ["seed0"] if kind == "random" else ["seed0/fold0", "seed0/fold1"]
    assert len(summary.each) == len(names)
    records = [read(config.folder / name) for name in names]
    assert all("test" in record for record in records[0]) == (kind == "folds")
    assert all("val" in record for record in records[0]) == (kind != "folds")
    if kind == "folds":
        means = [(a["test"] + b["test"]) / 2 for a, b in zip(*records, strict=True)]
        assert summary.mean == pytest.approx(max(means))
        assert summary.epochs == [means.index(max(means)) + 1]
        tests = [[record["test"] for record in log] for log in records]
        swapped = [max(range(len(other)), key=other.__getitem__) for other in reversed(tests)]
        others = Run.read(config.folder).by_others
        assert others.epochs == [epoch + 1 for epoch in swapped], "of two folds, each chooses the other's epoch"
        assert others.each == [test[epoch] for test, epoch in zip(tests, swapped, strict=True)]
    else:
        found = [figures["accuracy"] for _, figures in evaluate(config.folder)]
        drawn = 0.25 if name in ("sage", "rgin", "rp") else 1e-6  # these draw random numbers in evaluation too
        assert found == pytest.approx(summary.each, abs=drawn), (
            "evaluating the best checkpoint gives what training said"
        )
        assert Run.read(config.folder).by_others is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "seen them. Had the other folds chosen each fold's epoch: {}. --protocol.kind nested chooses without."),
        (("--protocol.only", "0"), "the choice has seen them. --protocol.kind nested chooses without."),
        (("--model.name", "wl"), None),
    ],
    ids=["two folds", "one of them", "no epochs"],
)
def test_what_has_chosen_the_epoch_is_said(options, said, classes, tmp_path, capsys):
    given = ["--data.name", str(classes), "--protocol.kind", "folds", "--protocol.folds", "2", "--run.device", "cpu"]
    small = ["--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "2", "--run.jobs", "1"]
    assert main(["train", *given, *small, *options, "--run.out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    if said is None:
        assert "the choice" not in out
    else:
        assert f" {said.format(Run.read(tmp_path / 'run').by_others)}\n" in out


def test_report_best_or_last(small, fit):
    best, last = fit(small("best", optim_lr=0.5)), fit(config := small("last", optim_lr=0.5, protocol_report="last"))
    assert last.epochs == [3]
    values = {which: next(iter(evaluate(config.folder, which=which)))[1]["MAE"] for which in ("best", "last")}
    assert values["last"] == pytest.approx(last.mean)
    assert values["best"] == pytest.approx(best.mean)


@pytest.mark.parametrize("options", [{"model_numbering": "random", "model_numberings": 2}, {"model_name": "rgin"}])
def test_networks_that_draw_are_measured_as_they_were(options, small, fit):
    summary = fit(config := small(**options))
    for seed in (1, 2):
        torch.manual_seed(seed)
        assert [figures["MAE"] for _, figures in evaluate(config.folder)] == pytest.approx([summary.mean])


def write(path, graphs):
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return path


def graphs(count=20, **more):
    """Rings with a chord or not, and further keys that are functions of the number of the graph."""
    for i in range(count):
        edges = [[0, 1], [1, 2], [2, 3], [3, 0]] + [[0, 2]] * (i % 2)
        yield {"num_nodes": 4, "edges": edges} | {key: value(i, edges) for key, value in more.items()}


KINDS = {
    "several labels": ({"y": lambda i, _: [i % 2, i // 2 % 2, 1 - i % 2]}, "average precision", {}),
    "several values": ({"y": lambda i, _: [0.5 * i, 1.5]}, "MAE", {}),
    "classes of nodes": ({"node_y": lambda i, _: ["a", "b", "a", "bc"[i % 2]]}, "accuracy", {}),
    "no features": ({"y": lambda i, _: i % 2}, "accuracy", {}),
    "edge features": (
        {"edge_labels": lambda i, edges: ["s"] * len(edges), "x": lambda i, _: [[i, 1]] * 4, "y": lambda i, _: i % 2},
        "accuracy",
        {"model_edge_features": True},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_data(kind, small, fit, tmp_path, capsys):
    keys, metric, options = KINDS[kind]
    path = write(tmp_path / "mine.jsonl", graphs(**keys))
    config = small(data_name=str(path), data_options={}, **options)
    summary = fit(config)
    assert summary.metric == metric
    assert summary.mean >= 0
    unlabelled = write(
        tmp_path / "new.jsonl", graphs(3, **{key: value for key, value in keys.items() if "y" not in key[-2:]})
    )
    out = tmp_path / "predictions.csv"
    assert main(["predict", str(config.folder), str(unlabelled), "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == (12 if kind == "classes of nodes" else 3)
    assert f"{len(rows)} predictions" in capsys.readouterr().out
    assert main(["evaluate", str(config.folder), "--data", str(unlabelled)]) == 2
    assert "the graphs have no targets to evaluate against" in capsys.readouterr().err


def test_evaluate_and_predict(small, fit, classes, tmp_path, capsys):
    config = small(data_name=str(classes), data_options={}, protocol_kind="folds", protocol_folds=2)
    fit(config)
    figures = tmp_path / "figures.json"
    assert main(["evaluate", str(config.folder), "--json", str(figures)]) == 0
    out = capsys.readouterr().out
    assert "seed0/fold1" in out
    assert "mean ± std" in out
    assert set(json.loads(figures.read_text())) == {"seed0/fold0", "seed0/fold1"}
    assert main(["evaluate", str(config.folder / "seed0" / "fold1"), "--data", str(classes)]) == 0
    assert "fold0" not in capsys.readouterr().out
    halves = [
        json.loads(line) | {"split": ["train", "test"][i % 2]}
        for i, line in enumerate(classes.read_text().splitlines())
    ]
    parts = write(tmp_path / "parts.jsonl", halves)
    assert main(["evaluate", str(config.folder), "--data", str(parts), "--split", "test"]) == 0
    assert "on test of" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", str(config.folder), str(classes)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert list(rows[0]) == ["graph", "prediction", "p(path)", "p(ring)", "spread", "note"]
    assert all(float(row["p(path)"]) + float(row["p(ring)"]) == pytest.approx(1, abs=1e-5) for row in rows)
    trained = Trained.load(config.folder)
    assert len(trained.scorers) == 2
    shutil.rmtree(config.folder / "seed0")
    assert main(["predict", str(config.folder), str(classes)]) == 2
    assert "there is no trained network in" in capsys.readouterr().err


def test_float64_is_float64(small, fit):
    config = small(run_precision="64", optim_epochs=1)
    fit(config)
    weights = Checkpoint.load(config.folder / "seed0" / "last.safetensors").weights
    assert {value.dtype for value in weights.values()} == {torch.double, torch.long}


def test_walks_are_features_of_other_files_too(small, fit, classes, tmp_path, capsys):
    config = small(data_name=str(classes), data_options={}, data_walks=3)
    fit(config)
    assert Trained.load(config.folder).schema.in_channels == 3 + 4
    assert main(["evaluate", str(config.folder), "--data", str(classes)]) == 0
    assert main(["predict", str(config.folder), str(classes), "--out", str(tmp_path / "answers.csv")]) == 0
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 41
    capsys.readouterr()
    assert main(["train", "--data.name", str(classes), "--data.walks", "-1", "--run.out", str(tmp_path / "none")]) == 2
    assert "data.walks must be 0 or more, got -1" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("model", ["pggnn", "gin"])
def test_counts_are_features_of_nodes_and_edges_of_other_files_too(model, classes, tmp_path, capsys):
    out, answers = tmp_path / "counts", tmp_path / "answers.csv"
    data = ["--data.name", str(classes), "--data.cliques", "4", "--data.cycles", "6"]
    small = ["--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "1", "--run.tensorboard", "false"]
    edges = ["--model.name", model, "--model.edge_features", "true"]
    assert main(["train", *data, *small, *edges, "--run.out", str(out)]) == 0
    trained = Trained.load(out)
    assert trained.schema.in_channels == 5 + 4 and trained.schema.edge_dim == 5 + 2
    assert main(["evaluate", str(out)]) == 0 and main(["evaluate", str(out), "--data", str(classes)]) == 0
    assert main(["predict", str(out), str(classes), "--out", str(answers)]) == 0
    assert len(answers.read_text().splitlines()) == 41
    capsys.readouterr()
    for wrong, said in ((("--data.cliques", "6"), "0, 3, 4 or 5"), (("--data.cycles", "-1"), "0, 3, 4, 5 or 6")):
        assert main(["train", *data, *wrong, "--run.out", str(tmp_path / "none")]) == 2
        assert f"{wrong[0][2:]} must be {said}, got {wrong[1]}" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", ["train", "evaluate", "predict"])
def test_help_teaches_and_does_not_wait_for_torch(command):
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pggnn", command, "--help"], capture_output=True, text=True
    )
    assert shown.returncode == 0
    assert "examples:" in shown.stdout
    assert " torch" not in shown.stderr
