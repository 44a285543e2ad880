"""The models on pairs of nodes and on cells, from the command line to a figure."""

import pytest

from pggnn.cli import main

NAMES = ["ign", "ppgn", "ringgnn", "sin", "cin"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutag(name, data_root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    options = ["--model.hidden", "16", "--model.layers", "2", "--data.rings", "6", "--optim.epochs", "8"]
    options += ["--protocol.only", "[0]", "--run.device", "cpu", "--run.jobs", "1", "--run.tensorboard", "false"]
    options += ["--data.root", str(data_root)]
    out = str(tmp_path / "run")
    assert main(["train", "--config", "mutag", "--model.name", name, "--run.out", out, *options]) == 0
    said = capsys.readouterr().out
    assert float(said.partition("accuracy ")[2].partition(" ")[0]) > 68.5, "the most frequent class has 68.4 %"
