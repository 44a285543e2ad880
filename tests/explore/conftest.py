import json

import pytest
from rich.console import Console

from pggnn.train.options import parse
from pggnn.train.runs.run import train


@pytest.fixture(scope="session")
def wild():
    """A name that would be markup, and more."""
    return "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, wild):
    """A run on rings and paths with names that would be markup, barely trained."""
    root = tmp_path_factory.mktemp("runs")
    lines = []
    for i in range(40):
        ring = [[j, (j + 1) % 6] for j in range(6)] if i % 2 else [[0, j] for j in range(1, 6)]
        labels = [wild if j == 0 else f"<b>{j % 3}" for j in range(6)]
        graph = {"id": f"{wild} {i}", "num_nodes": 6, "edges": ring, "node_labels": labels}
        lines.append(json.dumps(graph | {"y": "<ring>" if i % 2 else wild}))
    path = root / "a&b.jsonl"
    path.write_text("\n".join(lines))
    options = ["--data.name", str(path), "--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "4",
               "--optim.lr", "0.1", "--run.jobs", "1", "--run.tensorboard", "false", "--run.device", "cpu",
               "--run.out", str(root / "mine")]  # fmt: skip
    train(parse(options)[0], console=Console(quiet=True))
    return root / "mine"
