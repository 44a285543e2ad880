"""Runs that read rings, from the search to the answers."""

import io
import json
import random

import pytest
from rich.console import Console

from pggnn.data.features import lists as features
from pggnn.train.runs.run import train


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty one."""
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def molecules(tmp_path):
    """A file of 30 graphs: a ring of 3 to 6 nodes, with a tail."""
    path, draw = tmp_path / "molecules.jsonl", random.Random(0)
    with open(path, "w") as file:
        for number in range(30):
            size = 3 + number % 4
            edges = [[i, (i + 1) % size] for i in range(size)] + [[0, size]]
            labels = [draw.choice("CNO") for _ in range(size + 1)]
            bonds = [draw.choice("-=") for _ in edges]
            file.write(
                json.dumps({"node_labels": labels, "edges": edges, "edge_labels": bonds, "y": float(size)}) + "\n"
            )
    return path


@pytest.fixture
def reading(small, molecules):
    """A config of a run on these graphs that reads stars and rings."""

    def reading(folder="run", **options):
        options = {"model_reads": ["star", "rings"], "model_edge_features": True} | options
        return small(folder, data_name=str(molecules), data_options={}, **options)

    return reading


def said(config, resume=None):
    """What is printed, by line."""
    file = io.StringIO()
    train(config, resume, Console(file=file, width=200))
    return file.getvalue().splitlines()


@pytest.fixture
def searches(monkeypatch):
    """The kinds that are searched for, graph by graph."""
    found = []

    def counted(kind, finder):
        return lambda *arguments: found.append(kind) or finder(*arguments)

    for kind, finder in list(features.FINDERS.items()):
        monkeypatch.setitem(features.FINDERS, kind, counted(kind, finder))
    return found


def test_rings_are_searched_for_once_before_the_trainings(reading, searches, in_this_process):
    lines = said(reading(protocol_seeds=(0, 1), run_jobs=2, optim_epochs=1))
    assert lines[0] == "Finding rings in graphs: 0 of 30"
    assert searches == ["rings"] * 30, "not by each training"
    assert not any("Finding" in line for line in said(reading("again", optim_epochs=1)))
    assert len(searches) == 30
