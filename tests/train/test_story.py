"""An engineer with a zip from the wild: from an empty folder to a tuned model in Python, with commands of the docs."""

import re
import zipfile
from pathlib import Path

import pggnn
from pggnn.cli import main
from pggnn.train.runs import pool
from pggnn.train.sweeps import tune

DOCS = "".join(path.read_text() for path in (Path(__file__).parents[2] / "docs").glob("*.md"))


def write_zip(path, graphs=40):
    """A zip as TUDataset has them: files in a folder, ids counted from 1 over all graphs, classes -1 and 1."""
    edges, indicator, labels, classes, first = [], [], [], [], 1
    for i in range(graphs):
        nodes, ring = 5 + i % 4, i % 2
        pairs = [(first + v, first + (v + 1) % nodes) for v in range(nodes if ring else nodes - 1)]
        edges += [pair for a, b in pairs for pair in (f"{a}, {b}", f"{b}, {a}")]
        indicator += [str(i + 1)] * nodes
        labels += [str(v % 2 + ring) for v in range(nodes)]
        classes.append("1" if ring else "-1")
        first += nodes
    with zipfile.ZipFile(path, "w") as file:
        for name, lines in (
            ("A", edges), ("graph_indicator", indicator), ("node_labels", labels), ("graph_labels", classes),
        ):  # fmt: skip
            file.writestr(f"WILD/WILD_{name}.txt", "\n".join(lines) + "\n")
        file.writestr("WILD/README.txt", "from the wild\n")


def test_from_a_zip_to_predictions_in_python(tmp_path, monkeypatch, capsys, trainings_in_this_process):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "WorkerPool", trainings_in_this_process)
    write_zip(tmp_path / "WILD.zip")
    assert main(["data", "check", "WILD.zip"]) == 0
    assert "graph classification, 2 classes" in capsys.readouterr().out
    quick = ["--model.layers", "2", "--model.hidden", "8", "--optim.epochs", "15", "--optim.lr", "0.01"]
    only = ["--only", tune.GIVEN, "structure", "--jobs", "1"]
    assert main(["tune", "--data.name", "WILD.zip", *quick, *only]) == 0
    said = capsys.readouterr().out
    best = re.search(r"pggnn evaluate (\S+)", said)[1]
    assert main(["evaluate", best]) == 0 and main(["report", "runs/wild-tune", "--out", "page.html"]) == 0
    assert main(["predict", best, "WILD.zip", "--out", "new.csv"]) == 0
    trained = pggnn.load(best)
    rows = trained.predict("WILD.zip")
    assert {row["prediction"] for row in rows} <= {-1, 1} and len(rows) == 40
    assert trained.score("WILD.zip") > 0.8 and trained.metrics["baseline"] is not None
    for command in ("data check", "tune", "evaluate", "report", "predict"):
        assert f"pggnn {command} " in DOCS
    assert "pggnn.load(" in DOCS
