"""What the page is told of a run."""

import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data

from pggnn.cli import main
from pggnn.data.graphs import Graphs
from pggnn.explore.answers import MOST_DRAWN, NUMBERINGS, collect, errors
from pggnn.train.options import parse
from pggnn.train.runs import protocol
from pggnn.train.runs.predict import Trained, predict
from pggnn.train.runs.run import train
from pggnn.train.runs.stored import Run


@pytest.fixture(scope="module")
def told(run_folder):
    return collect(run_folder)


@pytest.fixture(scope="module")
def known(run_folder):
    """The run's test graphs by name: what ``pggnn predict`` says, and the graph."""
    run, trained = Run.read(run_folder), Trained.load(run_folder)
    dataset = trained.read(run.config.data.name)
    test = protocol.split(run.config, Graphs.of(dataset), next(iter(trained.scorers))).test.tolist()
    rows = list(predict(trained, dataset))
    return {rows[i]["graph"]: (rows[i], dataset[i]) for i in test}


def test_rows_are_the_answers_of_the_test_graphs(told, known, run_folder):
    assert {row["graph"] for row in told["rows"]} == known.keys() and len(told["rows"]) == len(known)
    classes = Trained.load(run_folder).schema.classes
    for row in told["rows"]:
        said, graph = known[row["graph"]]
        truth = str(classes[int(graph.y)])
        assert row["truth"] == truth
        best = said["prediction"]
        assert row["answer"] == f"{best} ({said[f'p({best})']:.2f})"
        assert row["error"] == pytest.approx(1 - said[f"p({truth})"], abs=1e-4)
    wrong = [row["error"] for row in told["rows"]]
    assert wrong == sorted(wrong, reverse=True)
    assert f"{len(known)} answers" in told["about"] and "accuracy" in told["about"]


def test_graphs_are_drawn_as_they_are(told, known):
    for row in told["rows"]:
        _, graph = known[row["graph"]]
        drawn = told["drawings"][row["drawing"]]
        assert drawn["n"] == graph.num_nodes == len(drawn["labels"])
        edges = {(u, v) for u, v in graph.edge_index.t().tolist() if u < v}
        assert {tuple(edge) for edge in drawn["edges"]} == edges
        assert drawn["labels"][1] == "<b>1" and drawn["labels"][0].startswith("</script>")


def test_renumbering_moves_answers_as_it_moves_the_network(told, known, run_folder):
    """Stars of five different neighbours move; rings do not: two neighbours are read in both orders."""
    trained = Trained.load(run_folder)
    for row in told["rows"]:
        _, graph = known[row["graph"]]
        assert len(row["values"]) == NUMBERINGS and row["value"] == pytest.approx(row["error"], abs=1e-4)
        ring = graph.num_edges == 12
        assert (row["moved"] < 1e-6) == ring and row["largest"] >= row["moved"]
        if not ring:
            changes = [abs(value - row["value"]) for value in row["values"]]
            assert row["moved"] == pytest.approx(sum(changes) / NUMBERINGS, rel=0.02), "two classes move alike"
            possible = set()
            for _ in range(60):
                order = torch.randperm(graph.num_edges)
                shuffled = Data(x=graph.x, edge_index=graph.edge_index[:, order])
                answer = trained.predict([shuffled])[0]
                possible.add(1 - answer[f"p({row['truth']})"])
            assert min(possible) - 0.02 < min(row["values"]) and max(row["values"]) < max(possible) + 0.02
            break


def test_errors_of_other_kinds(run_folder):
    trained = Trained.load(run_folder)
    values = replace(trained, schema=replace(trained.schema, task="regression", classes=(), width=2))
    nan, inf = torch.nan, torch.inf
    outputs = torch.tensor([[1.0, 2.0], [1.0, 2.0], [nan, 0.0], [1.0, 1.0]])
    targets = torch.tensor([[0.0, 4.0], [nan, 4.0], [0.0, 0.0], [nan, nan]])
    assert torch.equal(errors(values, outputs, targets)[:3], torch.tensor([1.5, 2.0, inf]))
    assert errors(values, outputs, targets)[3].isnan()
    found = errors(trained, torch.tensor([[0.25, 0.75], [nan, nan], [0.5, 0.5]]), torch.tensor([1, 0, -1]))
    assert found[:2].tolist() == [0.25, inf] and found[2].isnan()


@pytest.fixture(scope="module")
def trained_on(tmp_path_factory):
    """Trains for an epoch, and gives the folder."""

    def trained_on(path, *options):
        out = path.with_suffix("")
        small = ["--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "1", "--run.jobs", "1", "--run.device",
                 "cpu", "--run.tensorboard", "false", "--data.name", str(path), "--run.out", str(out)]  # fmt: skip
        train(parse([*small, *options])[0], console=Console(quiet=True))
        return out

    return trained_on


def test_nodes_of_many_graphs(trained_on, tmp_path):
    graphs = [{"num_nodes": 5, "edges": [[0, j] for j in range(1, 5)], "x": [[j, i] for j in range(5)],
               "node_y": [float(j + i) for j in range(5)]} for i in range(60)]  # fmt: skip
    (tmp_path / "nodes.jsonl").write_text("\n".join(map(json.dumps, graphs)))
    told = collect(trained_on(tmp_path / "nodes.jsonl", "--protocol.seeds", "[0,1]"))
    assert {row["training"] for row in told["rows"]} == {"seed0", "seed1"} and told["strip"] == "error"
    for row in told["rows"]:
        if row["nodes"]:
            pairs = zip(row["nodes"]["truth"], row["nodes"]["answer"], strict=True)
            assert sum(abs(one - other) for one, other in pairs) / 5 == pytest.approx(row["error"], rel=1e-3)
            assert row["nodes"]["truth"] == [row["graph"] + j for j in range(5)]


def test_nodes_of_one_graph(trained_on, tmp_path):
    torch.manual_seed(0)
    edges = (torch.rand(120, 120).triu(1) > 0.95).nonzero().tolist()
    graph = {"num_nodes": 120, "edges": edges, "x": torch.rand(120, 3).tolist(),
             "node_y": [["even", "odd"][i % 2] for i in range(120)]}  # fmt: skip
    (tmp_path / "one.jsonl").write_text(json.dumps(graph))
    told = collect(trained_on(tmp_path / "one.jsonl"))
    drawn = [row for row in told["rows"] if row["drawing"] is not None]
    assert len(drawn) == len(told["rows"]) == 12 <= 2 * MOST_DRAWN
    assert any(row["moved"] > 0 for row in drawn)
    for row in drawn:
        number, drawing = int(row["graph"].split()[1]), told["drawings"][row["drawing"]]
        assert row["truth"] == ["even", "odd"][number % 2] and drawing["names"][row["centre"]] == number
        near = {v if u == number else u for u, v in edges if number in (u, v)}
        assert {*drawing["names"]} == {number, *near}
        named = {tuple(sorted(drawing["names"][end] for end in edge)) for edge in drawing["edges"]}
        assert named == {tuple(edge) for edge in edges if {*edge} <= {number, *near}}


def test_the_command(run_folder, tmp_path, capsys, monkeypatch):
    out = tmp_path / "new" / "page.html"
    assert main(["explore", str(run_folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"Page: {out}\n" and [file.name for file in out.parent.iterdir()] == ["page.html"]
    (tmp_path / "none").mkdir()
    assert main(["explore", str(tmp_path / "none"), "--out", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error == f"pggnn: error: {tmp_path / 'none'} is not the folder of a run: there is no config.yaml in it\n"
    assert not (tmp_path / "page.html").exists()
    addresses = []
    monkeypatch.setattr("webbrowser.open", lambda address: addresses.append(address) or False)
    assert main(["explore", "--open", "--out", str(out)]) == 0
    assert addresses == [out.resolve().as_uri()]
    assert capsys.readouterr().out == f"Page: {out}\nThere is no browser to open it here.\n"
