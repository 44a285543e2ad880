"""The models on pairs of nodes and on cells, from the command line to a figure."""

import os

import pytest

from pggnn.cli import main
from pggnn.data.loading import load

NAMES = ["ign", "ppgn", "ringgnn", "sin", "cin"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutag(name, tmp_path, capsys, monkeypatch):
    root = os.environ.get("PGGNN_DATA")
    if not root:
        pytest.skip("PGGNN_DATA names no folder of data sets")
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    try:
        load("MUTAG", root)
    except (ValueError, OSError):
        pytest.skip(f"MUTAG is not at {root}")
    options = ["--model.hidden", "16", "--model.layers", "2", "--data.rings", "6", "--optim.epochs", "8"]
    options += ["--protocol.only", "[0]", "--run.device", "cpu", "--run.jobs", "1", "--run.tensorboard", "false"]
    out = str(tmp_path / "run")
    assert main(["train", "--config", "mutag", "--model.name", name, "--run.out", out, *options]) == 0
    said = capsys.readouterr().out
    assert float(said.partition("accuracy ")[2].partition(" ")[0]) > 68.5, "the most frequent class has 68.4 %"
