import json
import shutil

import pytest
from rich.console import Console

from pggnn.train.options import parse
from pggnn.train.runs.run import train

SMALL = ["--model.hidden", "4", "--model.layers", "1", "--run.jobs", "1", "--run.tensorboard", "false",
         "--run.device", "cpu"]  # fmt: skip


def run(folder, *options):
    """A run, trained here and now."""
    train(parse([*SMALL, *options, "--run.out", str(folder)])[0], console=Console(quiet=True))
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Two runs: nodes' triangles, two seeds; and classes of graphs whose names would be markup, three folds."""
    root = tmp_path_factory.mktemp("runs")
    er = run(
        root / "er", "--data.name", "ER", "--data.options", "{seed: 0, graphs: 40}", "--optim.epochs", "3",
        "--protocol.seeds", "[0, 1]",
    )  # fmt: skip
    path = root / "a&b <script>.jsonl"
    lines = []
    for i in range(24):
        ring = [[j, (j + 1) % 6] for j in range(6)] if i % 2 else [[j, j + 1] for j in range(5)]
        lines.append(json.dumps({"num_nodes": 6, "edges": ring, "y": "<ring>" if i % 2 else "path & co"}))
    path.write_text("\n".join(lines))
    folds = run(
        root / "own <b>", "--data.name", str(path), "--model.name", "gin", "--protocol.kind", "folds",
        "--protocol.folds", "3", "--optim.epochs", "4",
    )  # fmt: skip
    return {"er": er, "folds": folds, "graphs": path}


@pytest.fixture
def copied(trained, tmp_path):
    """Copies a run, so that a test may damage it."""

    def copy(name):
        return shutil.copytree(trained[name], tmp_path / "copies" / trained[name].name)

    return copy
