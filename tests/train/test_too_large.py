"""Options that ask for more than there is are refused before anything is made."""

import math
from dataclasses import fields, replace
from typing import get_type_hints

import pytest
import torch

from pggnn.baselines.options import NETWORKS
from pggnn.cli import main
from pggnn.data.schema import Schema
from pggnn.train.config import Config, DataConfig, ModelConfig
from pggnn.train.engine import models
from pggnn.train.engine.models import COPIES, build, count_weights

SCHEMA = Schema("graph", "classification", classes=("a", "b", "c"), features=5, edge_features=2)
ER = ["--data.name", "ER", "--data.options", "{seed: 0, graphs: 24}", "--run.device", "cpu"]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 1, "rnn_layers": 5}, {"layers": 5, "rnn_layers": 4, "committee": 3}, {"layers": 3, "rnn_layers": 1},
     {"norm": "graph", "readout": "log"}, {"scores": "last", "aggregation": "trios", "init": "torch"},
     {"structure": 3, "cell": "gru", "root": "linear"}],
)  # fmt: skip
def test_weights_are_counted_without_making_them(name, options):
    if name == "dgcnn":  # it has a frame of its own
        options = {key: value for key, value in options.items() if key in ("layers", "committee")}
    config = replace(ModelConfig(name=name, hidden=7), **options)
    torch.manual_seed(0)
    found, drawn = count_weights(config, SCHEMA), torch.rand(1)
    assert found == sum(weight.numel() for weight in build(config, SCHEMA).parameters())
    torch.manual_seed(0)
    assert drawn == torch.rand(1), "no random number of the training is used up"


@pytest.mark.parametrize("key", ["hidden", "layers", "rnn_layers", "committee"])
def test_a_network_beyond_the_memory(key, tmp_path, capsys):
    out = tmp_path / "new" / "run"
    assert main(["train", *ER, f"--model.{key}", "1000000000", "--run.out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pggnn: error: the network would have ") and " GiB are there; choose a smaller" in line
    assert not (tmp_path / "new").exists()


def test_training_takes_four_times_what_answering_does(monkeypatch):
    weights = count_weights(ModelConfig(), SCHEMA)
    monkeypatch.setattr(models, "available", lambda: 8 * weights)
    build(ModelConfig(), SCHEMA)
    with pytest.raises(ValueError, match="with what training adds"):
        build(ModelConfig(), SCHEMA, COPIES)
    assert 0 < weights < math.inf


WHOLE = [
    f"{part.name}.{key.name}"
    for part in fields(Config)
    for key in fields(get_type_hints(Config)[part.name])
    if "least" in key.metadata
]


@pytest.mark.parametrize("key", WHOLE)
def test_whole_numbers_that_no_machine_counts_to(key):
    part, _, name = key.partition(".")
    config = Config(DataConfig("ER"))
    with pytest.raises(ValueError, match=rf"^{key} must be \d+ or less, got 1{'0' * 24}$"):
        replace(config, **{part: replace(getattr(config, part), **{name: 10**24})})


@pytest.mark.parametrize("key, value", [("model.orderings", 10**24), ("protocol.seeds", f"[{10**24}]")])
def test_the_command_line_says_so_in_one_line(key, value, tmp_path, capsys):
    assert main(["train", *ER, f"--{key}", str(value), "--run.out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert key in line and str(10**24) in line
    assert not (tmp_path / "run").exists()


def test_memory_that_the_system_refuses_is_one_line(capsys, monkeypatch):
    def refuse(_):
        torch.empty(2**60)

    monkeypatch.setattr("pggnn.cli.groups", refuse)
    assert main(["groups", "3"]) == 2
    assert capsys.readouterr().err == "pggnn: error: there is too little memory for this: choose smaller options\n"
