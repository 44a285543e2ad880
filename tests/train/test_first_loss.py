"""Answers start at a guess: the first loss is that of guessing, whatever the size of graphs and features."""

import json
import math

import pytest
import torch

from pggnn.baselines.options import NETWORKS
from pggnn.cli import main
from pggnn.data.schema import Schema
from pggnn.train.engine.log import read
from pggnn.train.engine.task import Task

GIVEN = {"data_options": {}, "optim_epochs": 1, "optim_batch_size": 8, "optim_lr": 1e-3, "model_init": "guess"}


def write(path, graphs=24, target=lambda i: i % 2, node=False):
    """Trees of a hundred nodes, with features of the size 100."""
    with open(path, "w") as file:
        for i in range(graphs):
            nodes = 100 + i
            edges = [[v, (v - 1) // 3] for v in range(1, nodes)]
            x = [[100.0 + i % 2 + v % 7, -50.0] for v in range(nodes)]
            goal = {"node_y": [target(v) for v in range(nodes)]} if node else {"y": target(i)}
            file.write(json.dumps({"x": x, "edges": edges, **goal}) + "\n")
    return str(path)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_first_loss_is_that_of_guessing(small, fit, tmp_path, name):
    config = small(**GIVEN, data_name=write(tmp_path / "trees.jsonl"), model_name=name)
    fit(config)
    assert read(config.folder / "seed0")[0]["loss"] == pytest.approx(math.log(2), rel=0.35)


@pytest.mark.parametrize("more", [
    {"model_block": "residual"}, {"model_committee": 2}, {"model_readout": "log"}, {"model_scores": "last"},
    {"optim_average": 0.9}, {"run_precision": "64"},
])  # fmt: skip
def test_so_it_is_with_other_frames(small, fit, tmp_path, more):
    config = small(**GIVEN, data_name=write(tmp_path / "trees.jsonl"), model_name="gin", **more)
    fit(config)
    assert read(config.folder / "seed0")[0]["loss"] == pytest.approx(math.log(2), rel=0.35)


@pytest.mark.parametrize("node", [False, True])
def test_regression_starts_at_the_mean(small, fit, tmp_path, node):
    config = small(**GIVEN, data_name=write(tmp_path / "v.jsonl", target=lambda i: 1000.5 + i % 3, node=node))
    fit(config)
    assert read(config.folder / "seed0")[0]["loss"] < 4, "the variance is 0.67; from zero the loss is a million"


def test_glorot_is_as_it_was(small, fit, tmp_path):
    config = small(**GIVEN | {"model_init": "glorot"}, data_name=write(tmp_path / "trees.jsonl"))
    fit(config)
    assert read(config.folder / "seed0")[0]["loss"] > 10


def test_a_run_is_resumed_with_its_scales(small, fit, tmp_path, assert_same):
    data = write(tmp_path / "trees.jsonl")
    whole = small(**GIVEN | {"optim_epochs": 3}, data_name=data)
    fit(whole)
    fit(small("cut", **GIVEN, data_name=data))
    fit(small("cut", **GIVEN | {"optim_epochs": 3}, data_name=data), "last")
    assert_same(whole.folder / "seed0", tmp_path / "cut" / "seed0")


def test_guesses_leave_out_what_is_not_known():
    nan = math.nan
    assert Task(Schema("graph", "regression", 2)).guess(torch.tensor([[1, nan], [3, nan], [nan, nan]])).tolist() == [
        2,
        0,
    ]
    device = "cuda" if torch.cuda.is_available() else "cpu"  # PyTorch has no repeatable median of columns on a GPU
    median = Task(Schema("graph", "regression"), "mae").guess(torch.tensor([[1.0], [2.0], [30.0]], device=device))
    assert median.tolist() == [2] and median.device.type == device
    labels = Task(Schema("graph", "multilabel", 1)).guess(torch.tensor([[1.0], [nan], [0.0], [1.0], [1.0]]))
    assert labels.sigmoid().item() == pytest.approx(0.75)
    classes = Task(Schema("graph", "classification", classes=(0, 1, 2))).guess(torch.tensor([2, -1, 2, 0]))
    assert classes.exp().sum().item() == pytest.approx(1) and classes.argmax() == 2


def test_the_majority_stands_beside_each_figure(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "skewed.jsonl", 40, lambda i: int(i % 10 == 0))
    given = ["--model.layers", "1", "--model.hidden", "4", "--optim.epochs", "1", "--run.out", "run"]
    assert main(["train", "--data.name", "skewed.jsonl", *given]) == 0
    said = capsys.readouterr().out
    share = 100 * json.loads((tmp_path / "run/seed0/result.json").read_text())["baseline"]["test"]
    assert f"To compare with: always the most frequent class: {share:.1f} %. The network is no better" in said
    assert main(["evaluate", "run"]) == 0
    said = capsys.readouterr().out
    assert "macro F1  baseline\n" in said and f"{share / 100:.4f}\n" in said
    assert main(["report", "run", "--out", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert f"always the most frequent class: {share:.1f} %" in page and "The network is no better" in page
