"""``pggnn tune``: one change at a time, then together, and validation decides."""

import io
import re
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from pggnn.baselines.gin import GIN
from pggnn.cli import main
from pggnn.data.features import lists
from pggnn.data.schema import Schema
from pggnn.nn import PGGNN
from pggnn.search import find_rings
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig
from pggnn.train.engine import log
from pggnn.train.engine.models import Committee, build
from pggnn.train.options import load, parse
from pggnn.train.runs import pool
from pggnn.train.sweeps import tune as module
from pggnn.train.sweeps.sweep import Sweep
from pggnn.train.sweeps.tune import changes, tune

DOCS = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
SMALL = (
    *("--data.name", "ER", "--data.options", "{task: triangles, seed: 0, graphs: 60}", "--model.hidden", "4"),
    *("--model.layers", "1", "--model.rnn_layers", "1", "--optim.epochs", "1", "--run.device", "cpu"),
    *("--run.tensorboard", "false", "--protocol.kind", "random", "--model.init", "glorot"),
)
OTHER = ("--model.name", "gin")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, trainings_in_this_process):
    """Changes that must help, as nearly nothing is learnt without them, two of them to one option; and a folder where
    they were tried."""
    tried = {
        "as given": (), "faster": ("--optim.lr", "0.03"), "longer": ("--optim.epochs", "12"),
        "a bit longer": ("--optim.epochs", "3"), "GIN": OTHER,
    }  # fmt: skip
    out = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "changes", lambda *_: dict(tried))
        patch.setattr(pool, "WorkerPool", trainings_in_this_process)
        with open(out / "said.txt", "w") as said:
            ranked = tune(SMALL, out, Sweep(jobs=1, console=Console(file=said)))
        yield ranked


def test_no_test_figure_is_shown(tuned):
    said = (tuned[1] / "said.txt").read_text()
    assert re.search(r"epoch 1/1, loss [\d.e-]+ val \d\.\d+ lr ", said) and "test" not in said


def test_what_helped_is_tried_together_and_validation_decides(tuned):
    ranked, out = tuned
    found = {one.name: one for one in ranked}
    assert found.keys() == {"as given", "faster", "longer", "a bit longer", "GIN", "faster + longer"}
    assert [one.mean for one in ranked] == sorted(one.mean for one in ranked), "an error: less is better"
    assert found["a bit longer"].mean < found["as given"].mean, "it helps, but not as much"
    assert found["faster + longer"].options == ("--optim.lr", "0.03", "--optim.epochs", "12")
    for one in ranked:
        (folder,) = out.glob(f"{one.name.lower().replace(' + ', '-').replace(' ', '-')}/seed0")
        assert one.mean == min(record["val"] for record in log.read(folder))
    assert re.search(r"ER, always the mean: \d", (out / "tune.md").read_text())
    best, given = load(out / "best.yaml"), parse([*SMALL, *ranked[0].options])[0]
    assert (best.data, best.model, best.optim, best.protocol) == (given.data, given.model, given.optim, given.protocol)


def test_a_candidate_that_fails_does_not_keep_the_others_from_being_ranked(tmp_path, monkeypatch, in_this_process):
    tried = {"as given": (), "too fast": ("--optim.lr", "1e30"), "GIN": OTHER}
    monkeypatch.setattr(module, "changes", lambda *_: dict(tried))
    ranked, out = tune(SMALL, tmp_path / "tuned", Sweep(jobs=2, console=Console(quiet=True)))
    assert {one.name for one in ranked} == {"as given", "GIN"}
    assert (out / "tune.md").exists() and (out / "best.yaml").exists()
    with pytest.raises(ValueError, match=r"in epoch 1; nothing was saved; try a lower --optim\.lr"):
        tune(SMALL, tmp_path / "other", Sweep(["too fast"], 1, console=Console(quiet=True)))


def test_walks_are_not_tried_where_a_graph_is_too_large_for_them(tmp_path, trainings_in_this_process, monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 5)
    monkeypatch.setattr(pool, "WorkerPool", trainings_in_this_process)
    with pytest.raises(ValueError, match="walks"):
        tune(SMALL, tmp_path, Sweep(["walks"], 1, console=Console(quiet=True)))


@pytest.mark.parametrize("limit, tried", [(10_000, True), (3, False)])
def test_rings_are_tried_where_graphs_have_some(limit, tried, tmp_path, monkeypatch, in_this_process):
    monkeypatch.setattr(module, "changes", changes)
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(lists.FINDERS, "rings", partial(find_rings, limit=limit))
    said = io.StringIO()
    sweep = Sweep(["rings", "sum and rings"], 1, console=Console(file=said, width=300))
    if tried:
        ranked, out = tune(SMALL, tmp_path / "tuned", sweep)
        assert {one.options for one in ranked} == {
            ("--model.reads", "star", "rings"), ("--model.reads", "sum", "rings"),
        }  # fmt: skip
        assert load(out / "sum-and-rings").model.reads == ["sum", "rings"]
    else:
        with pytest.raises(ValueError, match="has no row or column 'rings'"):
            tune(SMALL, tmp_path / "tuned", sweep)
        assert "Reading rings is not tried: graph 0 (counted from 0): a graph of" in said.getvalue()


def test_rings_are_not_tried_in_trees(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "changes", changes)
    path = tmp_path / "trees.jsonl"
    path.write_text('{"num_nodes": 3, "edges": [[0, 1], [1, 2]], "y": 1.5}\n' * 20)
    options = ("--data.name", str(path), *SMALL[4:])
    with pytest.raises(ValueError, match="has no row or column 'rings'"):
        tune(options, tmp_path / "tuned", Sweep(["rings"], 1, console=Console(quiet=True)))


def test_the_command_says_how_to_go_on_and_trains_nothing_again(tuned, capsys):
    ranked, out = tuned
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*/result.json")}
    assert main(["tune", *SMALL, "--jobs", "1", "--out", str(out)]) == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/*/result.json")}
    said = capsys.readouterr().out
    assert said.count("| ER | ") == len(ranked)
    assert f"Best: {ranked[0].name}, MAE {ranked[0]} on validation graphs" in said and "more seeds" in said
    evaluate = re.search(rf"pggnn (evaluate {re.escape(str(out))}/\S+)\n", said)
    assert evaluate and main(evaluate[1].split()) == 0


@pytest.mark.parametrize(
    "options, message",
    [
        (("--run.out", "elsewhere"), "give one for all of them by --out"),
        (("--run.out=elsewhere",), "give one for all of them by --out"),
        (OTHER, "leave model.name out, got gin"),
        (("--protocol.kind", "folds"), "choose nested"),
        (("--only", "wider"), "tune has no row or column 'wider'; its rows are 'as given', 'faster'"),
    ],
)
def test_mistakes(options, message, tuned, tmp_path, capsys):
    assert main(["tune", *SMALL, "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_candidates_are_those_of_the_docs_unless_the_options_say_so_already():
    schema = Schema("graph", "classification", features=3, edge_features=2, classes=(0, 1))
    first = changes(Config(DataConfig("mine.jsonl")), schema)
    listed = re.findall(r"^\| `([^|]+)` \| `--", DOCS, re.MULTILINE)
    named = {name for entry in listed for name in entry.split("`, or `")}
    settled = (
        DataConfig("mine.jsonl", walks=8),
        ModelConfig(
            orderings="single", readout="mean", dropout=0.1, structure=1, numbering="random", numberings=4,
            edge_features=True, committee=2, norm="graph", reads=["sum", "rings"],
        ),
    )  # fmt: skip
    second = changes(Config(*settled, OptimConfig(average=0.5)), schema)
    values = changes(Config(DataConfig("mine.jsonl")), Schema("node", "regression"))
    assert values["not normalised"] == ("--model.norm", "none")
    assert named | {"as given"} == first.keys() | second.keys() | {"not normalised"}
    assert second.keys() == {
        "as given",
        "whole group",
        "sum",
        "sum and mean",
        "log of sum",
        "twice as wide",
        "cosine",
        "GIN",
    }
    assert {"mean", "edge features"}.isdisjoint(values)
    assert "not normalised" not in first, "classes are not counts"


@pytest.mark.parametrize("aggregation", ["arrangements", "pairs", "triplets", "trios", "chain"])
def test_every_candidate_is_a_network(aggregation):
    given = ("--data.name", "mine.jsonl", "--model.aggregation", aggregation)
    schema = Schema("graph", "classification", features=3, edge_features=2, classes=(0, 1))
    found = changes(parse(given)[0], schema)
    networks = {name: build(parse([*given, *options])[0].model, schema) for name, options in found.items()}
    others = {"GIN": GIN, "committee": Committee}
    assert {name: type(network) for name, network in networks.items()} == dict.fromkeys(found, PGGNN) | others
    assert all(name in found for name in ("structure", "single ordering")) == (aggregation == "arrangements")
