"""Run folders that somebody has damaged, in ways that a checksum or a JSON parser does not see."""

import csv
import json
import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from pggnn.cli import main
from pggnn.report import predictions
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.options import load, parse
from pggnn.train.runs.folder import claimed
from pggnn.train.runs.stored import Run
from pggnn.train.sweeps.sweep import Sweep, train_missing

LAUGHS = "\n".join(
    ["a: &a0 [x, x, x, x, x, x, x, x]", *(f"b{i}: &a{i + 1} [{', '.join([f'*a{i}'] * 8)}]" for i in range(6))]
)
"""8^7 values in less than a kilobyte."""
SELF = "data: &a {name: ER, options: {more: *a}}"
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of a second, on 20 graphs."""
    folder = tmp_path_factory.mktemp("whole")
    graphs = folder / "graphs.jsonl"
    lines = [{"num_nodes": 3, "edges": [[0, 1], [1, 2]] + [[2, 0]] * (i % 2), "y": i % 2} for i in range(20)]
    graphs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    small = ["--model.hidden", "4", "--model.layers", "1", "--model.rnn_layers", "1", "--optim.average", "0.5"]
    small += ["--optim.epochs", "2", "--run.jobs", "1", "--run.tensorboard", "false", "--run.device", "cpu"]
    assert main(["train", "--data.name", str(graphs), *small, "--run.out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def run(whole, tmp_path):
    """A copy of it to damage."""
    return shutil.copytree(whole / "run", tmp_path / "run")


def commands(run, whole):
    return {
        "train": [
            "train",
            "--config",
            str(run / "config.yaml"),
            "--run.out",
            str(run),
            "--resume",
            "--optim.epochs",
            "3",
        ],
        "evaluate": ["evaluate", str(run)],
        "predict": ["predict", str(run), str(whole / "graphs.jsonl")],
        "report": ["report", str(run)],
    }


def refused(capsys, command, path):
    """The one line that a command ends with, which names the file."""
    capsys.readouterr()
    assert main(command) == 2
    *work, line = capsys.readouterr().err.splitlines()
    assert all(" RNN steps " in one for one in work)
    assert line.startswith("pggnn: error: ") and str(path) in line and len(line) < 600, line
    return line


FILES = {
    "schema.json": ("evaluate", "predict", "report"),
    "graphs.json": ("train", "evaluate"),
    "environment.json": ("report",),
    "seed0/result.json": ("train", "report"),
    "seed0/log.jsonl": ("train", "report"),
}
KINDS = {
    "list": "[]",
    "null": "null",
    "number": "3",
    "text": '"x"',
    "empty": "{}",
    "deep": DEEP,
    "huge": '{"epoch": ' + "9" * 5000,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_json_of_another_kind(name, kind, run, whole, capsys):
    (run / name).write_text(KINDS[kind] + "\n")
    if kind == "empty" and name in ("schema.json", "environment.json"):
        assert Run.read(run).complete  # nothing need be in it
        return
    for command in FILES[name]:
        refused(capsys, commands(run, whole)[command], run / name)


VALUES = {
    "schema.json": [
        ("level", "edge"), ("task", "x"), ("flow", 3), ("features", -1), ("classes", "ab"), ("classes", [[]]),
        ("width", True), ("x", 1), ("features", 10**30), ("features", 0.5),
    ],
    "seed0/result.json": [
        ("epoch", "2"), ("ended", "soon"), ("test", []), ("memory", 3), ("parameters", None), ("metric", 3),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name, key, value", [(name, *pair) for name, pairs in VALUES.items() for pair in pairs])
def test_json_with_a_value_of_another_kind(name, key, value, run, whole, capsys):
    known = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps(known | {key: value}))
    for command in FILES[name]:
        refused(capsys, commands(run, whole)[command], run / name)


def test_a_schema_that_asks_for_more_memory_than_there_is(run, whole, capsys):
    known = json.loads((run / "schema.json").read_text())
    (run / "schema.json").write_text(json.dumps(known | {"features": 10**12}))
    for command in ("evaluate", "predict"):
        assert "GiB are there" in refused(capsys, commands(run, whole)[command], "")


@pytest.mark.parametrize(
    "line", ["null", "[]", '{"epoch": 1}', '{"epoch": "1", "lr": 1, "loss": 1, "seconds": 1}', "x"]
)
def test_a_line_of_the_log(line, run, whole, capsys):
    path = run / "seed0" / "log.jsonl"
    first, second = path.read_text().splitlines()
    for lines in ([line, second], [first, line]):
        path.write_text("\n".join(lines) + "\n")
        for command in FILES["seed0/log.jsonl"]:
            assert f"line {1 + lines.index(line)}" in refused(capsys, commands(run, whole)[command], path)


def test_a_log_without_end(run, whole, capsys, monkeypatch):
    monkeypatch.setattr(log, "MOST_BYTES", 2**16)
    path = run / "seed0" / "log.jsonl"
    path.write_bytes(bytes(2**20))
    assert "has more than 65,536 bytes" in refused(capsys, commands(run, whole)["report"], path)


@pytest.mark.parametrize("text", [SELF, LAUGHS, DEEP, "[]", "null", "{a: " * 1000, "# " + "x" * 2**20, "\xff", "\0"])
def test_yaml_of_another_kind_or_without_end(text, run, whole, capsys):
    path = run / "config.yaml"
    path.write_bytes(text.encode("latin-1"))
    for command in commands(run, whole).values():
        refused(capsys, command, path)


def test_yaml_in_options_and_in_what_a_config_includes(tmp_path):
    (tmp_path / "laughs.yaml").write_text(LAUGHS)
    (tmp_path / "mine.yaml").write_text(f"config: {tmp_path / 'laughs.yaml'}\ndata: {{name: ER}}\n")
    for words in (
        ["--config", str(tmp_path / "mine.yaml")],
        ["--data.options", DEEP],
        ["--data.options", "&a {b: *a}"],
    ):
        with pytest.raises(ValueError, match=r"has the alias \*a|nested deeper than 20"):
            parse(words)
    assert parse(["--data.name", "*.jsonl"])[0].data.name == "*.jsonl"


def resume(run):
    (run / "seed0" / "result.json").unlink(missing_ok=True)
    return ["train", "--config", str(run / "config.yaml"), "--run.out", str(run), "--resume", "--optim.epochs", "3"]


def rewritten(run, change):
    """Changes the last checkpoint, with a checksum that is right."""
    path = run / "seed0" / "last.safetensors"
    found = Checkpoint.load(path)
    change(found)
    found.save(path)
    return path


def smaller(found):
    found.optimizer["state"][0] |= {key: torch.zeros(1) for key in ("exp_avg", "exp_avg_sq")}


CHANGES = {
    "smaller moments": smaller,
    "moments of another type": lambda found: found.optimizer["state"][1].update(
        exp_avg=found.optimizer["state"][1]["exp_avg"].double()
    ),
    "a moment that is missing": lambda found: found.optimizer["state"][0].pop("exp_avg_sq"),
    "a moment too many": lambda found: found.optimizer["state"][0].update(max_exp_avg_sq=torch.zeros(3)),
    "moments of a weight that is not": lambda found: found.optimizer["state"].update({99: {"step": torch.ones(())}}),
    "steps": lambda found: found.optimizer["state"][0].update(step=torch.ones(2)),
    "no optimizer": lambda found: found.optimizer.clear(),
    "a rate that is text": lambda found: found.optimizer["param_groups"][0].update(lr="high"),
    "three betas": lambda found: found.optimizer["param_groups"][0].update(betas=[0.9, 0.9, 0.9]),
    "fewer weights": lambda found: found.optimizer["param_groups"][0].update(params=[0]),
    "two groups": lambda found: found.optimizer["param_groups"].append({}),
    "weights of another type": lambda found: found.weights.update(
        {name: value.double() for name, value in found.weights.items() if value.is_floating_point()}
    ),
    "an average of another shape": lambda found: found.average.update({min(found.average): torch.zeros(2)}),
    "no average": lambda found: found.average.clear(),
    "an epoch that is text": lambda found: found.state.update(epoch="3"),
    "an epoch before the first": lambda found: found.state.update(epoch=-3),
    "no state": lambda found: found.state.clear(),
    "a schedule that is a list": lambda found: found.state.update(schedule=[]),
    "a schedule with text": lambda found: found.state["schedule"].update(num_bad_epochs="x"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_checkpoint_with_a_checksum_that_is_right(change, run, capsys):
    path = rewritten(run, change)
    before = path.read_bytes()
    assert "--resume previous goes on from the checkpoint before it" in refused(capsys, resume(run), path)
    assert path.read_bytes() == before
    if change is smaller:
        assert main([*resume(run), "--resume", "previous"]) == 0


def test_a_schedule_cannot_replace_methods(run, capsys):
    rewritten(run, lambda found: found.state["schedule"].update(step=3, is_better="x"))
    assert main(resume(run)) == 0


WRONG = '{"format": "1", "state": {}, "groups": []}'


@pytest.mark.parametrize("text", ["[]", "null", DEEP, '{"format": 1}', WRONG])
def test_a_header_of_another_kind(text, run, whole, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("pggnn.train.engine.checkpoint.json.dumps", lambda _: text)
        for name in ("last", "best"):
            path = run / "seed0" / f"{name}.safetensors"
            Checkpoint.load(path).save(path)
    refused(capsys, resume(run), run / "seed0" / "last.safetensors")
    refused(capsys, commands(run, whole)["evaluate"], run / "seed0" / "best.safetensors")


@pytest.mark.parametrize(
    "changes",
    [{"predicted": np.zeros((2, 2))}, {"true": np.zeros(3, int)}, {"total": np.zeros(2, int)},
     {"epochs": np.array("x")}, {"predicted": np.array(["a", "b"])}, {"predicted": np.array([0, 9])},
     {"predicted": np.array([0, -1])}],
)  # fmt: skip
def test_predictions_of_another_kind_are_made_anew(changes, run):
    kept, reason = predictions.find(Run.read(run))
    assert kept is not None and not reason and len(kept.true) == 2
    path = run / predictions.FILE
    arrays = dict(np.load(path))
    np.savez_compressed(path, **arrays | changes)
    found, reason = predictions.find(Run.read(run), compute=False)
    assert found is None and predictions.FILE in reason
    again, _ = predictions.find(Run.read(run))
    assert np.array_equal(again.predicted, kept.predicted)


def test_what_is_whole_is_read(run, whole, capsys):
    for command in commands(run, whole).values():
        assert main(command) == 0
    assert load(run).optim.epochs == 3 and os.path.exists(run / "report.html")


def test_all_runs_of_a_table_are_checked_before_the_first_folder_is_made(classes, tmp_path):
    good = parse(["--data.name", str(classes), "--run.device", "cpu", "--run.out", str(tmp_path / "new" / "good")])[0]
    bad = replace(good, protocol=replace(good.protocol, kind="splits"))
    bad = replace(bad, run=replace(bad.run, out=str(tmp_path / "new" / "bad")))
    runs = {("good", "classes"): good, ("bad", "classes"): bad}
    with pytest.raises(ValueError, match=r"^bad on classes: these graphs have no split train and val and test"):
        train_missing("table", runs, Sweep(jobs=1, console=Console(quiet=True)))
    assert not (tmp_path / "new").exists()


def test_a_claim_that_comes_to_nothing_leaves_no_folders(tmp_path):
    (tmp_path / "old").mkdir()
    with claimed(tmp_path / "old" / "a" / "b" / "run"):
        pass
    assert [*tmp_path.iterdir()] == [tmp_path / "old"] and not [*(tmp_path / "old").iterdir()]
    with claimed(tmp_path / "old" / "a" / "run"):
        (tmp_path / "old" / "a" / "mine").touch()
    assert [*(tmp_path / "old" / "a").iterdir()] == [tmp_path / "old" / "a" / "mine"]


def test_epochs_are_logged_to_csv_too_and_resumed(small, fit, recwarn):
    fit(small(run_logger="csv", optim_epochs=2))
    fit(small(run_logger="csv", optim_epochs=4), "last")
    assert not [one for one in recwarn if "will be deleted" in str(one.message)]
    with open(small().folder / "seed0/metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    records = log.read(small().folder / "seed0")
    assert [float(row["loss"]) for row in rows] == [record["loss"] for record in records] and len(rows) == 4


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_loggers_that_are_not_installed_are_named(small, fit, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(log, "find_spec", lambda package: None)
    with pytest.raises(ValueError, match=f"run.logger {name} needs the package {name}: pip install {name}, or choose"):
        fit(small(run_logger=name))
    assert not small().folder.exists()
