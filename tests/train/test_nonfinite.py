"""Answers that are NaN or infinite are named and counted, and never taken for a class."""

import csv
import json
import math

import pytest
import torch
from rich.console import Console

from pggnn.cli import main
from pggnn.data.schema import Schema
from pggnn.report import predictions
from pggnn.report.page import show_answers
from pggnn.train.engine import log
from pggnn.train.engine.loop import Training
from pggnn.train.engine.task import Task
from pggnn.train.runs.progress import Bars
from pggnn.train.runs.protocol import RunSummary, load_result
from pggnn.train.runs.run import first_training, load_graphs
from pggnn.train.runs.stored import Run

HUGE = [3, 17]
"""Graphs that float32 has no sum for."""


@pytest.fixture
def graphs(tmp_path):
    """A file of 20 graphs with features, of which some may be huge."""

    def graphs(name="mine.jsonl", huge=(), y=lambda i: ["no", "yes"][i % 2], key="y", split=None):
        path = tmp_path / name
        with open(path, "w") as file:
            for i in range(20):
                x = [[3e38 if i in huge else i % 2] * 40] * 3
                graph = {"id": f"g{i}", "num_nodes": 3, "edges": [[0, 1], [1, 2]], "x": x, key: y(i)}
                file.write(json.dumps(graph | ({"split": split(i)} if split else {})) + "\n")
        return str(path)

    return graphs


@pytest.fixture
def trained(small, fit):
    def trained(data, **options):
        config = small(data_name=data, data_options={}, optim_epochs=2, model_init="glorot", **options)
        fit(config)
        return config

    return trained


def refuse_constants(text):
    raise AssertionError(f"{text} is not JSON")


def parsed(path):
    return [json.loads(line, parse_constant=refuse_constants) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_predictions_say_where_there_is_none(form, graphs, trained, tmp_path, capsys):
    config, new = trained(graphs()), graphs("new.jsonl", HUGE)
    out = tmp_path / f"out.{form}"
    command = ["predict", str(config.folder), new, "--out", str(out)]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "20 predictions" in said.out
    assert "the answers for 2 graphs are not finite, their rows are empty: g3, g17; " in said.err
    assert len(said.err.splitlines()) == 1
    rows = parsed(out) if form == "jsonl" else list(csv.DictReader(out.open()))
    empty = None if form == "jsonl" else ""
    for i, row in enumerate(rows):
        assert list(row) == ["graph", "prediction", "p(no)", "p(yes)", "note"]
        if i in HUGE:
            assert [*row.values()] == [f"g{i}", empty, empty, empty, "not finite"]
        else:
            assert row["prediction"] in ("no", "yes") and row["note"] == empty
    assert main([*command, "--allow-nonfinite"]) == 0
    assert "g3, g17" in capsys.readouterr().err
    assert main(["predict", str(config.folder), new]) == 1
    assert "nan" not in capsys.readouterr().out


def test_values_of_nodes_too(graphs, trained, tmp_path, capsys):
    targets = {"y": lambda i: [0.5, 1.5, i + 0.5], "key": "node_y"}
    config = trained(graphs(**targets), model_name="gin")  # whose sums over neighbours are infinite
    out = tmp_path / "out.jsonl"
    assert main(["predict", str(config.folder), graphs("new.jsonl", HUGE, **targets), "--out", str(out)]) == 1
    assert "2 graphs are not finite, their rows are empty: g3, g17;" in capsys.readouterr().err
    assert [row["graph"] for row in parsed(out) if row["prediction"] is None] == ["g3"] * 3 + ["g17"] * 3


@pytest.mark.parametrize("key, y", [("y", lambda i: 0), ("node_y", lambda i: [0, 0, 0])])
def test_evaluation_counts_them_as_wrong_and_says_so(key, y, graphs, trained, tmp_path, capsys):
    """All graphs are of the first class, which NaN was taken for."""
    config = trained(graphs(y=lambda i: i % 2 if key == "y" else [i % 2] * 3, key=key))
    figures, new = tmp_path / "figures.json", graphs("new.jsonl", range(20), y, key)
    command = ["evaluate", str(config.folder), "--data", new, "--json", str(figures)]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "the answers for 20 graphs are not finite, they count as wrong: g0, g1, " in said.err
    assert " 0.0000" in said.out
    found = json.loads(figures.read_text(), parse_constant=refuse_constants)["seed0"]
    wrong = {"accuracy": 0.0, "macro F1": 0.0, "average precision": None, "AUROC": None}
    assert found == wrong | {"nonfinite": [f"g{i}" for i in range(20)]}
    assert main([*command, "--allow-nonfinite"]) == 0


def test_errors_are_not_finite_then_and_json_stays_json(graphs, trained, tmp_path, capsys):
    config = trained(graphs(y=lambda i: i + 0.5))
    figures = tmp_path / "figures.json"
    data = ["--data", graphs("new.jsonl", HUGE, lambda i: 0.5), "--json", str(figures)]
    assert main(["evaluate", str(config.folder), *data]) == 1
    assert "g3, g17" in capsys.readouterr().err
    found = json.loads(figures.read_text(), parse_constant=refuse_constants)["seed0"]
    assert found == {"MAE": None, "RMSE": None, "R2": None, "nonfinite": ["g3", "g17"]}


def test_a_class_is_missed_and_no_other_found():
    """Against the definition: recall and precision of each class by hand, of answers [0, 1, none, none]."""
    outputs = torch.tensor([[0.9, 0.1, 0], [0.1, 0.9, 0], [math.nan, 0, 1], [math.inf, 0, 0]])
    found = Task(Schema("graph", "classification", classes=("a", "b", "c"))).measure(
        outputs, torch.tensor([0, 0, 0, 1])
    )
    assert found["accuracy"] == 1 / 4
    of_a, of_b = 2 * 1 / (2 * 1 + 0 + 2), 2 * 0 / (2 * 0 + 1 + 1)
    assert found["macro F1"] == pytest.approx((of_a + of_b) / 2)
    none = Task(Schema("graph", "classification", classes=("a", "b"))).measure(
        torch.full((3, 2), math.nan), torch.zeros(3, dtype=torch.long)
    )
    assert none["accuracy"] == none["macro F1"] == 0 and math.isnan(none["AUROC"])


def test_yes_or_no_answers_have_no_figure_then():
    outputs = torch.tensor([[0.9, 0.1], [math.nan, 0.4], [0.2, 0.8]])
    found = Task(Schema("graph", "multilabel", 2)).measure(outputs, torch.tensor([[0, 0], [1, 0], [0, 1]]).float())
    assert all(map(math.isnan, found.values())) and len(found) == 2


def huge_validation(i):
    return "train" if i < 12 else "val" if i < 16 else "test"


def test_validation_in_training_counts_them_as_wrong(graphs, small, fit, capsys):
    data = graphs(huge=range(12, 20), y=lambda i: i % 2 if i < 12 else 0, split=huge_validation)
    config = small(data_name=data, data_options={}, optim_epochs=2)
    assert fit(config) == RunSummary("accuracy", 0.0, 0.0, [0.0], [1])
    records = log.read(config.folder / "seed0")
    assert [record["val"] for record in records] == [0.0, 0.0]
    assert [record["val nonfinite"] for record in records] == [4, 4] and records[0]["test nonfinite"] == 4
    bars = Bars(Console(force_terminal=False, stderr=True), "accuracy")
    bars.add("seed0", 2).epoch(records[0])
    assert "val 0.0000 (4 answers not finite), test 0.0000 (4 answers not finite)" in capsys.readouterr().err


def test_a_validation_error_of_nan_is_kept_as_json(graphs, small, fit):
    data = graphs(huge=range(12, 20), y=lambda i: i + 0.5, split=huge_validation)
    config = small(data_name=data, data_options={}, optim_epochs=2)
    summary = fit(config)
    assert math.isnan(summary.mean)
    for path in config.folder.rglob("*.json*"):
        for text in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            json.loads(text, parse_constant=refuse_constants)
    assert math.isnan(log.read(config.folder / "seed0")[0]["val"])
    assert math.isnan(load_result(config.folder / "seed0")["test"])
    assert math.isnan(Run.read(config.folder).figures.mean)
    assert math.isnan(fit(config, "last").mean)


def test_measure_is_what_training_measures(graphs, small, tmp_path):
    data = graphs(huge=HUGE, y=lambda i: 0 if i in HUGE else i % 2)
    config = small(data_name=data, data_options={})
    training: Training = first_training(config, load_graphs(config), tmp_path)
    training.split = type(training.split)(training.split.train, torch.tensor(HUGE), training.split.test)
    found = training.measure("val")
    assert (found["accuracy"], found["macro F1"], found["nonfinite"]) == (0, 0, 2)
    assert math.isnan(found["AUROC"])


@pytest.mark.parametrize("y", [lambda i: 0 if i >= 16 else i % 2, lambda i: [0, i % 2]])
def test_a_page_leaves_them_out_and_says_so(y, graphs, small, fit):
    config = small(data_name=graphs(huge=[16, 17], y=y, split=huge_validation), data_options={}, optim_epochs=1)
    fit(config)
    run = Run.read(config.folder)
    for _ in range(2):  # from the networks, and from the file
        answers, reason = predictions.find(run)
        assert not reason and answers.total == 4 and len(answers.true) == len(answers.predicted) == 2
        said = show_answers(run, answers)["summary"]
        columns = answers.true.size // 2
        assert said.startswith(f"{4 * columns} answers") and f"{2 * columns} are not finite, and not shown." in said
