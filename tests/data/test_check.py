import zipfile
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from pggnn.cli import main
from pggnn.data import check as module
from pggnn.data.check import check
from pggnn.data.cli import CHECK_EXAMPLES
from pggnn.data.cost import Aggregation, measure_work
from pggnn.data.features import lists
from pggnn.data.formats.export import save_jsonl
from pggnn.data.loading import read_own
from pggnn.groups import group
from pggnn.search import find_rings


def graph_lines(text):
    return [line.strip().encode() for line in text.splitlines() if line.strip().startswith('{"')]


def test_the_example_in_the_help_is_valid(write, capsys):
    path = write(*graph_lines(CHECK_EXAMPLES))
    assert main(["data", "check", str(path)]) == 0
    out = capsys.readouterr().out
    for row in (
        "graphs         2, no split given",
        "nodes          5 in all, 2.50 (2 to 3) a graph",
        "edges          6 in all, 3.00 (2 to 4) a graph, counting both directions",
        "neighbours     1.20 (1 to 2) a node, 0 without any",
        "node features  3 from node_labels ('C', 'H', 'O')",
        "edge features  none",
        "task           graph classification, 2 classes ('dry' 1, 'wet' 1)",
    ):
        assert row in out.splitlines()


@pytest.mark.parametrize("leaves", [0, 1, 2, 3, 7, 8, 40])
def test_the_cost_is_that_of_the_group(leaves, write):
    star = {"num_nodes": leaves + 1, "edges": [[0, i + 1] for i in range(leaves)]}
    summary = check(write(star, star))
    steps = [group(degree).order * (degree + 2) for degree in [leaves, *[1] * leaves]]
    single = [degree + 2 for degree in [leaves, *[1] * leaves]]
    assert summary.topics["cost"].startswith(f"{sum(steps):,} RNN steps a graph")
    assert summary.topics["cost"].endswith(
        f"{sum(steps):,} at most: {sum(steps) / sum(single):.1f} × a single ordering"
    )
    assert any("orderings=16" in hint for hint in summary.hints) == (leaves == 40)


def test_hints_about_the_cost_name_only_what_saves_steps(write):
    def cost(nodes, edges):
        graph = {"num_nodes": nodes, "edges": edges, "x": [[1]] * nodes}
        return [hint for hint in check(write(graph, graph)).hints if "costly" in hint]

    def complete(nodes):
        return cost(nodes, [[i, j] for i in range(nodes) for j in range(i)])

    said = "The whole group is costly here: cell='linear' takes 1.0 × a single ordering, orderings={} takes {} × a"
    assert [hint.startswith(said.format(16, 4.9)) for hint in cost(41, [[0, i + 1] for i in range(40)])] == [True]
    assert [hint.startswith(said.format(4, "4.0")) for hint in complete(10)] == [True], "16 orderings are all there are"
    assert complete(5) == []


def test_what_is_said_of_other_files(write):
    plain = {"num_nodes": 2, "edges": [[0, 1]]}
    summary = check(write(plain))
    assert summary.topics["task"] == "none: there are no targets"
    assert summary.topics["graphs"] == "1, no split given"
    assert any("no more than a GIN" in hint for hint in summary.hints)
    summary = check(
        write(plain | {"directed": True, "split": "val", "y": [0, 1.5], "edge_attr": [[1, 2]], "x": [[1]] * 2})
    )
    assert summary.topics["edges"] == "1 in all, 1 a graph, directed"
    assert summary.topics["edge features"] == "2 from edge_attr"
    assert summary.topics["task"] == "graph regression, 2 values from 0 to 1.5, mean 0.75"
    assert summary.topics["graphs"] == "1 (val 1)"
    assert summary.hints == ['No graph has "split": "train" or "test"; pggnn train needs all three.']
    assert check(write(plain | {"y": 3e38}, plain | {"y": 2e38})).topics["task"].endswith("to 3e+38, mean 2.5e+38")
    summary = check(write(*(plain | {"y": i, "node_labels": ["a\x1b[31m", "b"]} for i in range(60))))
    assert "60 classes (0 1, 1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1 and 52 more)" in summary.topics["task"]
    assert any("write them as 3.0" in hint for hint in summary.hints)
    assert r"'a\x1b[31m'" in summary.topics["node features"]
    summary = check(write(plain | {"node_y": ["only", "only"]}))
    assert summary.topics["task"] == "node classification, 1 class ('only' 2)"
    assert any("only one class" in hint for hint in summary.hints)


RING = [[i, (i + 1) % 6] for i in range(6)]


def test_rings_are_counted_and_recommended(write):
    """A ring of 6, with and without a chord; each is read from each of its nodes, both ways and back."""
    two = {"num_nodes": 8, "edges": [*RING, [0, 2], [3, 6], [6, 7]]}
    summary = check(write({"num_nodes": 6, "edges": RING}, two, {"num_nodes": 2, "edges": [[0, 1]]}))
    stars = (
        measure_work(
            read_own(write({"num_nodes": 6, "edges": RING}, two, {"num_nodes": 2, "edges": [[0, 1]]})), Aggregation()
        )
        .steps.double()
        .mean()
    )
    steps = (12 * 7 + (6 * 4 + 10 * 6)) / 3
    assert summary.topics["rings"] == (
        f"3 of 4.67 (3 to 6) nodes, most often 3; 75 % of the nodes lie on one; reading them takes {steps:.0f} RNN "
        f"steps a graph beside those of the stars, {stars:.0f}"
    )
    assert summary.hints[1:] == ["Many nodes lie on rings: pggnn train --model.reads star rings reads them too."]
    tail = [[i, i + 1] for i in range(5, 60)]
    assert "10 % of the nodes lie" in check(write({"num_nodes": 61, "edges": RING + tail})).topics["rings"]
    assert not any("rings" in hint for hint in check(write({"num_nodes": 61, "edges": RING + tail})).hints)


def test_the_search_for_rings_ends(write, monkeypatch):
    monkeypatch.setitem(lists.FINDERS, "rings", partial(find_rings, limit=3))
    full = {"num_nodes": 5, "edges": [[i, j] for i in range(5) for j in range(i)]}
    summary = check(write({"num_nodes": 6, "edges": RING}, full))
    said = "not counted: graph 1 (counted from 0): a graph of 5 nodes has more than 3 chordless cycles of 3 to 18 nodes"
    assert summary.topics["rings"] == said
    assert not any("rings" in hint for hint in summary.hints)
    clock = iter([0.0, 1.0, 11.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    said = check(write({"num_nodes": 6, "edges": RING}, full)).topics["rings"]
    assert said.startswith("in the first 1 graphs, after 10 s of search: 1 of 6 nodes, most often 6; 100 % of")


def test_graphs_without_any_edge_are_pointed_out(write):
    lonely = {"node_labels": ["a", "b"], "edges": []}
    assert check(write(lonely, lonely | {"edges": [[0, 1]]})).hints == []
    assert check(write(lonely, lonely)).hints == [
        "No graph has an edge, so no node has neighbours to read: is that what edges should say?"
    ]


def test_an_exported_data_set_is_valid(tmp_path):
    graph = Data(x=torch.rand(3, 4), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1, 0, 1]))
    summary = check(save_jsonl([graph] * 5, tmp_path / "a.jsonl"))
    assert summary.topics["task"] == "node classification, 2 classes (0 5, 1 10)"
    assert summary.topics["node features"] == "4 from x"


def test_errors_are_all_shown(write, capsys, tmp_path, monkeypatch):
    path = write({"num_nodes": 2, "edges": [[0, 2]]}, {"num_nodes": 2, "edges": [], "split": 3}, b"no graph")
    assert main(["data", "check", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"pggnn: error: {path}: 3 problems",
        "  line 1, edges[0][1]: expected a node from 0 to 1, found 2",
        '  line 2, split: expected "train", "val" or "test", found 3',
        "  line 3, column 1: not JSON (Expecting value); expected one object {…} per line",
    ]
    assert main(["data", "check", str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().err == f"pggnn: error: there is no file or folder {tmp_path / 'none.jsonl'}\n"
    monkeypatch.chdir(tmp_path)
    assert main(["data", "check", "mutag"]) == 2
    assert capsys.readouterr().err.endswith("mutag; pggnn data stats mutag describes the data set\n")


def test_a_folder_or_zip_in_tus_or_gins_format(tmp_path, capsys):
    folder = tmp_path / "MINE"
    folder.mkdir()
    assert main(["data", "check", str(folder)]) == 2
    assert "MINE: expected one NAME_A.txt (TU's format) or NAME.txt (GIN's), got no .txt" in capsys.readouterr().err
    files = {"A": "1, 2\n2, 1\n2, 3\n3, 2\n", "graph_indicator": "1\n1\n1\n2\n", "graph_labels": "1\n-1\n"}
    for kind, text in (files | {"node_labels": "7\n7\n9\n9\n", "edge_attributes": "1\n1\n2\n2\n"}).items():
        (folder / f"MINE_{kind}.txt").write_text(text)
    assert main(["data", "check", str(folder)]) == 0
    out = capsys.readouterr().out.splitlines()
    for row in (
        "graphs         2, no split given",
        "edges          4 in all, 2.00 (0 to 4) a graph, counting both directions",
        "node features  2 from node_labels (7, 9)",
        "edge features  1 from edge_attr",
        "task           graph classification, 2 classes (-1 1, 1 1)",
    ):
        assert row in out
    (folder / "MINE_node_labels.txt").unlink()
    assert check(folder).topics["node features"] == "3 from degrees (0, 1, 2)"
    (folder / "MINE_A.txt").write_text("1, 9\n")
    assert main(["data", "check", str(folder)]) == 2
    assert "MINE_A.txt, line 1: expected two nodes of 1 to 4" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "GIN.zip", "w") as archive:
        archive.writestr("GIN/GIN.txt", "1\n2 0\n5 1 1\n6 1 0\n")
    assert check(tmp_path / "GIN.zip").topics["node features"] == "2 from node_labels (5, 6)"


@pytest.mark.parametrize("width", [80, 120])
def test_output_fits_the_terminal(width, write, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"label-{i}" * 3 for i in range(30)]
    assert main(["data", "check", str(write({"node_labels": names, "edges": [], "y": "a"}))]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width
    with pytest.raises(SystemExit):
        main(["data", "check", "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
