"""A chemist's way through docs/molecules.md, from an empty folder; standardised targets; metrics by name."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
import torch

from pggnn.cli import main
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.train.config import difference
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import BadCheckpoint, stored_unit
from pggnn.train.engine.models import unit_of
from pggnn.train.engine.task import Task
from pggnn.train.options import load, parse
from pggnn.train.runs.predict import Trained
from pggnn.train.runs.stored import Run

TEXT = (Path(__file__).parents[2] / "docs" / "molecules.md").read_text()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_a_csv_to_a_page_and_answers(folder, capsys):
    tables, commands = (re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL) for kind in ("csv", "sh"))
    for name, content in zip(("solubility.csv", "new.csv"), tables, strict=True):
        Path(name).write_text(content)
    for line in "".join(commands[:2]).splitlines():
        assert main([*shlex.split(line)[1:], *(["--run.jobs", "1"] if " train " in line else [])]) == 0, line
    said = capsys.readouterr().out
    assert "graph regression" in said and "RMSE" in said and "R2" in said
    page = Path("solubility.html").read_text()
    assert "RMSE" in page and "PG-GNN, reads: sum" in page and "<dt>target</dt><dd>solubility</dd>" in page
    command = Run.read("runs/solubility").command.replace("\\\n", " ")
    assert "--data.target solubility" in command and "standardize" not in command  # as the default config has it
    assert difference(parse(shlex.split(command)[2:])[0], load("runs/solubility"), ("run.out",)) == []
    with open("answers.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["A-1", "A-2", "A-3"] and [*rows[0]][2:] == ["prediction", "spread", "note"]
    assert -10 < float(rows[0]["prediction"]) < 3 and float(rows[0]["spread"]) > 0 and not rows[0]["note"]
    assert not rows[2]["prediction"] and "Explicit valence" in rows[2]["note"]
    trained = Trained.load("runs/solubility")
    assert [row["note"] for row in trained.predict("new.csv", skip_invalid=True)][:2] == [None, None]
    Path("late.csv").write_text("smiles,solubility\nCCO,not measured\n")  # targets are not looked at
    assert trained.predict("late.csv")[0]["solubility"] == "not measured"
    with pytest.raises(ValueError, match="skip_invalid is for a CSV file"):
        trained.predict([], skip_invalid=True)
    answers = []
    for seed in (0, 1):
        assert main(["predict", f"runs/solubility/seed{seed}", "new.csv", "--skip-invalid", "--out", "one.jsonl"]) == 0
        first = json.loads(Path("one.jsonl").read_text().splitlines()[0])
        assert "spread" not in first
        answers.append(first["prediction"])
    assert float(rows[0]["prediction"]) == pytest.approx(sum(answers) / 2, abs=1e-5)
    assert len(rows[0]["prediction"]) <= 10, "seven digits"
    assert float(rows[0]["spread"]) == pytest.approx(abs(answers[0] - answers[1]) / 2, abs=1e-5)
    assert main(["predict", "runs/solubility", "new.csv"]) == 2  # without --skip-invalid
    assert "line 4" in capsys.readouterr().err
    Path("taken.csv").write_text("smiles,prediction\nC,1\n")
    assert main(["predict", "runs/solubility", "taken.csv"]) == 2
    assert "has a column 'prediction' already" in capsys.readouterr().err


LABELS = "smiles,a,b\n" + "".join(
    f"{'C' * (1 + i % 7)}{'O' * (i % 2)},{i % 2},{'' if i % 3 else 1 - i % 2}\n" for i in range(40)
)


@pytest.mark.parametrize(("targets", "kind", "columns"), [
    (["a"], "scaffold", ["prediction", "p(0)", "p(1)", "note"]),
    (["a", "b"], "random", ["prediction a", "prediction b", "note"]),
])  # fmt: skip
def test_classes_and_labels_are_compared_by_auroc(folder, capsys, targets, kind, columns):
    rings = [
        "C1CC1",
        "c1ccccc1",
        "C1CCC1",
        "c1ccoc1",
        "C1CCCC1",
        "C1CCCCC1",
        "c1ccsc1",
        "C1CCOC1",
        "c1ccncc1",
        "C1COC1",
    ]
    rows = LABELS.splitlines()
    Path("labels.csv").write_text("\n".join([rows[0], *(rings[i // 2 % 10] + row for i, row in enumerate(rows[1:]))]))
    run = ["--data.name", "labels.csv", "--data.target", *targets, "--model.hidden", "8", "--model.layers", "1"]
    run += [
        "--optim.epochs",
        "3",
        "--optim.warmup",
        "0",
        "--run.out",
        "run",
        "--run.jobs",
        "1",
        "--protocol.kind",
        kind,
    ]
    assert main(["train", "--config", "molecule", *run]) == 0
    assert Run.read("run").metric == "AUROC" and not Run.read("run").lower_is_better
    assert main(["evaluate", "run"]) == 0
    assert main(["predict", "run", "labels.csv", "--out", "answers.csv"]) == 0
    assert Path("answers.csv").read_text().splitlines()[0].split(",")[3:] == columns


def test_standardised_targets_are_answered_in_their_own_unit(small, fit, tmp_path):
    """The same steps of the same network, whatever the unit of the targets."""
    found = []
    for times, plus in ((1.0, 0.0), (1000.0, -5e4)):
        path = tmp_path / f"values{times:.0f}.jsonl"
        with open(path, "w") as file:
            for i in range(40):
                edges = [[0, 1], [1, 2]] + [[2, 0]] * (i % 2)
                y = times * (i % 2 + 0.25 * (i % 3)) + plus if i % 5 else None
                file.write(json.dumps({"num_nodes": 3, "edges": edges, "y": y}) + "\n")
        config = small(
            f"run{times:.0f}",
            data_name=str(path),
            data_options={},
            optim_standardize=True,
            model_name="gin",
            protocol_metric=["R2", "RMSE"],
        )
        fit(config)
        trained = Trained.load(config.folder)
        dataset = trained.read(path)
        answers, targets = trained.answers(trained.collater(Graphs.of(dataset)))
        found.append(log.read(config.folder / "seed0")[0]["loss"])
        assert Run.read(config.folder).metric == "R2"
        assert trained.task.measure(answers, targets)["RMSE"] < 0.6 * times
    assert found[0] == pytest.approx(found[1], rel=1e-3) and found[0] < 1.2


def test_the_unit_of_targets_with_gaps():
    targets = torch.tensor([[1.0, 5, torch.nan], [3.0, 5, torch.nan], [torch.nan, 5, torch.nan]])
    assert unit_of(targets) == {"mean": [2, 5, 0], "deviation": [1, 1, 1]}
    assert unit_of(10 * targets)["deviation"] == [10, 1, 1]


def test_a_unit_of_another_network_is_refused():
    assert stored_unit({}, 1, Path("best")) is None
    with pytest.raises(BadCheckpoint, match="expected 2 numbers each"):
        stored_unit({"unit": {"mean": [0.0], "deviation": [1.0]}}, 2, Path("best"))
    with pytest.raises(BadCheckpoint, match="deviation"):
        stored_unit({"unit": {"mean": [0.0]}}, 1, Path("best"))


def test_a_run_with_standardised_targets_resumes(small, fit, assert_same):
    options = {"optim_standardize": True, "optim_schedule": "constant", "model_name": "gin"}
    whole, parts = (small(name, **options) for name in ("whole", "parts"))
    fit(whole)
    fit(small("parts", **options, optim_epochs=1))
    fit(parts, "last")
    assert_same(whole.folder / "seed0", parts.folder / "seed0")


def test_auroc_of_one_class_is_refused(folder, capsys):
    """Else it would choose the epoch by a figure that does not exist."""
    rare = [f"{'C' * (1 + i)},{int(i == 3)}" for i in range(30)]
    Path("rare.csv").write_text("\n".join(["smiles,toxic", *rare]))
    given = ["train", "--data.name", "rare.csv", "--data.target", "toxic", "--run.out", "run"]
    assert main(given) == 2 and not Path("run").exists()
    said = " ".join(capsys.readouterr().err.split())
    assert "AUROC is not defined on the test targets of seed0, which are all alike: choose" in said
    assert "--protocol.metric accuracy or macro F1, or another seed by --protocol.seeds" in said
    quick = ["--protocol.metric", "accuracy", "--optim.epochs", "1", "--optim.warmup", "0", "--model.hidden", "8"]
    assert main([*given, *quick]) == 0


def test_the_first_metric_that_the_task_has():
    names = ("RMSE", "AUROC")
    assert Task(Schema("graph", "regression"), metric_names=names).metric == "RMSE"
    assert Task(Schema("graph", "multilabel", 3), metric_names=names).metric == "AUROC"
    assert Task(Schema("graph", "regression")).metric == "MAE"
    with pytest.raises(ValueError, match=r"protocol.metric RMSE AUROC does not fit classification: choose accuracy"):
        Task(Schema("graph", "classification", classes=("a", "b", "c")), metric_names=names)


def test_metrics_of_two_classes_and_of_numbers():
    task = Task(Schema("graph", "classification", classes=(0, 1)), metric_names=("AUROC",))
    outputs = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    found = task.measure(outputs, torch.tensor([0, 0, 1, 1]))
    assert found["AUROC"] == 0.75 and found["accuracy"] == 0.5
    assert found["average precision"] == pytest.approx((1 + 2 / 3) / 2)
    outputs[0] = torch.nan
    assert task.measure(outputs, torch.tensor([0, 0, 1, 1]))["AUROC"] != found["AUROC"]
    task = Task(Schema("graph", "regression"))
    assert task.measure(torch.tensor([[1.0], [2], [4]]), torch.tensor([[1.0], [2], [3]]))["R2"] == pytest.approx(0.5)
    assert task.measure(torch.tensor([[1.0]]), torch.tensor([[1.0]]))["RMSE"] == 0


def test_molecules_have_a_config_by_default(folder, capsys):
    config = parse(["--data.name", "a.csv", "--data.target", "y", "--model.hidden", "8"])[0]
    assert config.model.hidden == 8 and config.model.reads == ["sum"] and config.optim.standardize
    assert parse(["--data.name=b/A.CSV"])[0].model.edge_features
    assert not parse(["--data.name", "a.jsonl"])[0].optim.standardize
    assert not parse(["--data.name", "a.csv", "--config", "mutag"])[0].optim.standardize
    Path("a.csv").write_text("smiles,weight\nC,16.0\nCC,30.1\nCCC,44.1\n")
    assert main(["train", "--data.name", "a.csv"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "its options are those of --config molecule" in said
    assert "which column is to be predicted? Name it by --data.target; its columns are 'smiles', 'weight'" in said


def test_options_as_they_are_typed():
    words = ["--data.name", "a.csv", "--data.target", "log S, measured", "5", "--data.skip-invalid",
             "--model.edge-features", "--protocol.seeds", "0", "1", "--model.reads", "sum", "rings"]  # fmt: skip
    config = parse(words)[0]
    assert config.data.target == ("log S, measured", "5") and config.data.skip_invalid and config.model.edge_features
    assert parse(["--data.name", "a.csv", "--data.target", '["log S", "5"]'])[0].data.target == ("log S", "5")
    assert parse(["--data.name", "a.csv", "--data.target", "[nM]", "y"])[0].data.target == ("[nM]", "y")
    assert config.protocol.seeds == (0, 1) and config.model.reads == ["sum", "rings"]
    assert not parse([*words[:-1], "--data.skip-invalid", "false"])[0].data.skip_invalid
