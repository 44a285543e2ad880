"""Runs that read rings, from the search to the answers."""

import csv
import io
import json
import random
from functools import partial

import pytest
import torch
from rich.console import Console

from pggnn.cli import main
from pggnn.data.features import lists as features
from pggnn.data.schema import Schema
from pggnn.search import find_rings
from pggnn.train.engine.models import build
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


def answers(path):
    with open(path) as file:
        return [float(row["prediction"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize("reads", [["star", "rings"], ["sum", "rings", "paths", "hops"], ["rings"]], ids=" ".join)
def test_from_the_file_to_the_answers(reads, reading, molecules, tmp_path, capsys, assert_same):
    """Trained, stopped and gone on with, evaluated, and asked about other graphs."""
    whole, resumed = (
        reading("whole", model_reads=reads, optim_epochs=2),
        reading("resumed", model_reads=reads, optim_epochs=1),
    )
    said(whole)
    said(resumed)
    said(reading("resumed", model_reads=reads, optim_epochs=2), "last")
    assert_same(whole.folder / "seed0", resumed.folder / "seed0")
    assert main(["evaluate", str(whole.folder)]) == 0
    shown = capsys.readouterr().out
    assert f"{json.loads((whole.folder / 'seed0' / 'result.json').read_text())['test']:.4f}" in shown
    new = tmp_path / "new.jsonl"
    lines = molecules.read_text().splitlines()
    new.write_text("\n".join([*lines[3::-1], '{"node_labels": ["C", "O"], "edges": [], "y": 0.0, "edge_labels": []}']))
    for graphs in (molecules, new):
        assert main(["predict", str(whole.folder), str(graphs), "--out", str(tmp_path / f"{graphs.stem}.csv")]) == 0
    first, other = answers(tmp_path / "molecules.csv"), answers(tmp_path / "new.csv")
    assert other[:4] == pytest.approx(first[3::-1], abs=1e-5) and len(other) == 5
    assert main(["evaluate", str(whole.folder), "--data", str(new)]) == 0


def test_rings_matter_to_the_answers(reading, molecules, tmp_path, monkeypatch):
    """With other rings the same weights answer otherwise."""
    config = reading(optim_epochs=1)
    said(config)
    files = [tmp_path / "with.csv", tmp_path / "without.csv"]
    for file in files:
        assert main(["predict", str(config.folder), str(molecules), "--out", str(file)]) == 0
        monkeypatch.setitem(features.FINDERS, "rings", lambda *_: find_rings(torch.empty(2, 0, dtype=torch.long), 0))
        monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "other cache"))
    with_rings, without = map(answers, files)
    assert max(abs(a - b) for a, b in zip(with_rings, without, strict=True)) > 1e-4


def test_batches_of_other_processes_have_the_rings(reading, assert_same):
    one, other = reading("one", optim_epochs=2), reading("other", optim_epochs=2, data_workers=2)
    said(one)
    said(other)
    assert_same(one.folder / "seed0", other.folder / "seed0")


@pytest.mark.parametrize(
    "kind, most, message",
    [
        ("rings", 18, r"graph 30 .*a graph of 5 nodes has more than 3 chordless.*; --data\.rings 6 searches less$"),
        ("rings", 5, r"graph 30 .*more than 3 chordless cycles of 3 to 5 nodes; leave rings out of --model\.reads$"),
        ("paths", 3, r"graph 0 .*more than 3 simple paths of 2 to 3 edges; --data\.paths 2 searches less$"),
        ("hops", 2, r"graph 0 .*more than 3 places within distance 2; --model\.hops 1 searches less$"),
    ],
)
def test_too_many_are_refused_before_there_is_a_folder(kind, most, message, reading, molecules, monkeypatch):
    edges = [[i, j] for i in range(5) for j in range(i)]
    with open(molecules, "a") as file:
        file.write(json.dumps({"node_labels": ["C"] * 5, "edges": edges, "edge_labels": ["-"] * 10, "y": 0.0}) + "\n")
    config = reading(model_reads=["star", kind], **{f"{'model' if kind == 'hops' else 'data'}_{kind}": most})
    monkeypatch.setitem(features.FINDERS, kind, partial(features.FINDERS[kind], limit=3))
    with pytest.raises(ValueError, match=message):
        said(config)
    assert not config.folder.exists()


def test_what_cannot_be_answered_for_is_said_without_options_of_training(reading, molecules, tmp_path, capsys):
    run = reading().run.out
    train(reading())
    dense, nodes = tmp_path / "dense.jsonl", range(50)
    edges = [[one, other] for one in nodes for other in range(one)]
    graph = {"node_labels": ["C"] * len(nodes), "edges": edges, "edge_labels": ["-"] * len(edges), "y": 1.0}
    dense.write_text(molecules.read_text() + json.dumps(graph) + "\n")
    for command in (["predict", str(run), str(dense)], ["evaluate", str(run), "--data", str(dense)]):
        assert main(command) != 0
        assert capsys.readouterr().err.splitlines()[-1] == (
            "pggnn: error: graph 30 (counted from 0): a graph of 50 nodes has more than 10,000 chordless cycles of 3 "
            "to 18 nodes; leave that graph out, or train networks for it: --data.rings 6 searches less"
        )


def test_each_distance_has_a_vector_of_its_own(reading):
    options = {"model_reads": ["hops"], "model_hops": 3, "model_hidden": 4, "model_edge_features": False}
    network = build(reading(**options).model, Schema("graph", "regression"))
    assert [*network.convs[0].layers["hops"].distance.shape] == [3, 4 * 4]


def test_other_networks_ignore_what_is_to_be_read_and_say_so(reading, searches):
    lines = said(reading(model_name="gin", optim_epochs=1))
    assert lines[0] == "GIN has no option model.reads, got ['star', 'rings']: it is ignored."
    assert searches == []
    assert not any("ignored" in line for line in said(reading("plain", model_name="gin", model_reads=["star"])))
