"""An engineer with a zip from the wild: from an empty folder to a tuned model in Python, with commands of the docs.

The chemist's story is in ``test_molecule_runs.py``, the researcher's in ``test_nodes.py`` and ``data/test_docs.py``.
"""

import re
import shlex
import zipfile
from pathlib import Path

from pggnn.cli import main
from pggnn.train.runs import pool
from pggnn.train.sweeps import tune

ROOT = Path(__file__).parents[2]
DOCS = "".join((ROOT / page).read_text() for page in ("README.md", "docs/training.md"))


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


def shown(start):
    """The arguments of a command of the docs, with the zip in place of the file."""
    command = re.search(rf"^pggnn ({start}.*?)(?:\s+#.*)?$", DOCS, re.MULTILINE)[1]
    return shlex.split(command.replace("mine.jsonl", "WILD.zip"))


def test_from_a_zip_to_predictions_in_python(tmp_path, monkeypatch, capsys, trainings_in_this_process):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "WorkerPool", trainings_in_this_process)
    write_zip(tmp_path / "WILD.zip")
    assert main(shown("data check mine")) == 0
    assert "graph classification, 2 classes" in capsys.readouterr().out
    quick = ["--model.hidden", "8", "--optim.epochs", "15", "--optim.lr", "0.01"]
    only = ["--only", tune.GIVEN, "structure", "--jobs", "1"]
    assert main([*shown("tune --data.name mine"), *quick, *only]) == 0
    *_, evaluate, predict, report = re.findall(r"pggnn (\w+ .+)", capsys.readouterr().out)  # as it says at the end
    for command in (evaluate, predict.replace("GRAPHS", "WILD.zip"), f"{report} --out page.html"):
        assert main(shlex.split(command)) == 0, command
    assert len(Path("predictions.csv").read_text().splitlines()) == 41 and Path("page.html").exists()
    lines = next(code for code in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "pggnn.load(" in code)
    names = {"graphs": "WILD.zip"}
    exec(lines.split("run = pggnn.fit")[0].replace("runs/mine", evaluate.split()[1]), names)
    trained = names["run"]
    rows = trained.predict("WILD.zip")
    assert {row["prediction"] for row in rows} <= {-1, 1} and len(rows) == 40
    assert trained.score("WILD.zip") > 0.8 and trained.metrics["baseline"] is not None
