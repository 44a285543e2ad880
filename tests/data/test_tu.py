import zipfile

import pytest
import torch
from torch_geometric.datasets import TUDataset

from pggnn import Plan
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.data.sets.tu import TU, read_tu

GIN = "2\n3 5\n0 2 2 1\n1 1 0\n1 1 0\n2 -1\n0 1 1\n4 1 0\n"
OWN = {
    "A": "1, 3\n1, 2\n2, 1\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "5\n-1\n",
    "node_labels": "0\n1\n1\n0\n4\n",
}


def write_gin(folder, text=GIN, name="SET"):
    (folder / "tu").mkdir(exist_ok=True, parents=True)
    with zipfile.ZipFile(folder / "tu" / f"{name}.zip", "w") as archive:
        archive.writestr(f"{name}/{name}.txt", text)
        archive.writestr(f"__MACOSX/{name}/._{name}.txt", "not for us")
        archive.writestr(f"{name}/10fold_idx/train_idx-1.txt", "0")
    return folder / "tu" / f"{name}.zip"


def write_own(folder, files=OWN, name="SET"):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in files.items():
        (folder / f"{name}_{kind}.txt").write_text(text)
    return folder


def test_both_formats_give_the_same_graphs(tmp_path):
    write_gin(tmp_path / "gin")
    write_own(tmp_path / "own" / "tu" / "SET")
    gin, own = TU("SET", tmp_path / "gin"), TU("SET", tmp_path / "own")
    first = gin[0]
    assert first.x.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert (first.y.tolist(), gin[1].y.tolist()) == ([1], [0]), "classes -1 and 5 become 0 and 1"
    assert gin[1].x.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert [a.edge_index.t().sort(0)[0].tolist() for a in gin] == [b.edge_index.t().sort(0)[0].tolist() for b in own]
    assert all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) for a, b in zip(gin, own, strict=True))


def test_neighbours_keep_the_order_of_the_file(tmp_path):
    write_gin(tmp_path)
    graph = TU("SET", tmp_path)[0]
    assert Plan.build(graph.edge_index, 3).neighbor[:2].tolist() == [2, 1], "node 0 lists 2 before 1"


def test_own_format_with_attributes_and_edge_features(tmp_path):
    folder = write_own(
        tmp_path / "SET",
        OWN
        | {
            "node_attributes": "0.5, 1\n0.25, 2\n0, 3\n1, 4\n2, 5\n",
            "edge_labels": "7\n3\n3\n7\n3\n3\n",
            "edge_attributes": "1\n2\n3\n4\n5\n6\n",
            "graph_attributes": "0.5\n1.5\n",
        },
    )
    graphs = read_tu(folder)
    assert graphs.node["x"].tolist()[0] == [0.5, 1, 1, 0, 0]
    assert graphs.edge["edge_attr"].tolist()[:2] == [[1, 0, 1], [2, 1, 0]]
    assert graphs.graph["y"].tolist() == [[0.5], [1.5]], "graph attributes are regression targets"
    assert graphs.schema == Schema("graph", "regression", 1, 2, 1, (), (0, 1, 4), (3, 7))
    (folder / "SET_graph_attributes.txt").write_text("1\n2\n")
    assert read_tu(folder).schema.task == "regression", "also if they happen to be whole"
    (folder / "SET_A.txt").write_text("1, 1\n2, 2\n")
    (folder / "SET_edge_labels.txt").write_text("7\n3\n")
    (folder / "SET_edge_attributes.txt").write_text("1\n2\n")
    assert read_tu(folder).checked("a").schema.edge_dim == 0, "no edge is left, so none has features"


def test_gin_format_with_attributes_and_isolated_nodes(tmp_path):
    graphs = read_tu(write_gin(tmp_path, "2\n2 0\n0 0 0.5 1\n1 0 1.5 2\n0 1\n"))
    assert graphs.nodes.tolist() == [2, 0]
    assert graphs.node["x"].tolist() == [[0.5, 1, 1, 0], [1.5, 2, 0, 1]]


def test_self_loops_go_and_degrees_are_features_where_labels_say_nothing(tmp_path):
    graphs = read_tu(write_gin(tmp_path, "1\n3 0\n0 3 0 1 2\n0 1 0\n0 1 0\n"))
    assert graphs.edge_index.tolist() == [[1, 2, 0, 0], [0, 0, 1, 2]]
    assert (graphs.node["x"].tolist(), graphs.schema.node_labels) == ([1, 0, 0], (1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the number of graphs alone"),
        ("one\n", r"line 1: b'one' is not a number"),
        ("2\n1 0\n0 0\n", "promises 2 graphs, the file ends after 1"),
        ("1\n1 0\n0 0\n0 0\n", "line 4: more lines than the 1 graphs need"),
        ("1\n5 0\n0 0\n", "line 2: graph 0 has 5 nodes, but 1 lines follow"),
        ("1\n1\n0 0\n", "line 2: expected 'nodes label' of graph 0, got 1 numbers"),
        ("1\n2 0\n0 1 1\n0 1 2\n", "line 4: neighbour 2 in graph 0, which has nodes 0 to 1"),
        ("1\n2 0\n0 1 1\n0 1 -1\n", "line 4: neighbour -1 in graph 0"),
        ("1\n2 0\n0 2 1\n0 1 0\n", "line 3: the node says it has 2 neighbours, 1 numbers follow"),
        ("1\n2 0\n0 1 1\n0 1 0.5\n", "line 4: expected a whole number, got 0.5"),
        ("1\n2 0\n0 1 1 nan\n0 1 0 1\n", "line 3: an attribute is NaN or infinite"),
        ("1\n1 0\n0\n", "line 3: expected 'tag degree neighbours…'"),
        ("99999999999999999999\n", "line 1: expected a whole number, got 9.22"),
        ("1\n1 0\n0 0\n\0", "zero bytes"),
    ],
)
def test_errors_in_gin_format_name_line_and_cause(text, message, tmp_path):
    with pytest.raises(ValueError, match=r"SET.zip: SET.txt.*" + message):
        read_tu(write_gin(tmp_path, text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": "1, 9\n"}, r"SET_A.txt, line 1: expected two nodes of 1 to 5"),
        ({"A": "1, 2\n0, 2\n"}, r"SET_A.txt, line 2: expected two nodes"),
        ({"A": "1, 4\n"}, r"SET_A.txt, line 1: an edge between two graphs"),
        ({"A": "1\n"}, r"SET_A.txt, line 1: expected two nodes"),
        ({"A": "1, 2\n2, 1, 1\n"}, r"SET_A.txt, line 2: 3 numbers, but 2 in line 1"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n"}, "line 3: graphs must be numbered 1, 2, … in order"),
        ({"graph_indicator": "0\n1\n1\n2\n2\n"}, "line 1: graphs must be numbered"),
        ({"graph_indicator": "1\n1\n1\n2\n999999999\n"}, "names graph 999999999, but 2 have labels"),
        ({"graph_indicator": None}, "SET_graph_indicator.txt is missing beside SET_A.txt"),
        ({"graph_labels": "1, 2\n3, 4\n"}, r"graph_labels.txt: expected one class in each line, got 2 numbers"),
        ({"graph_labels": None}, "neither SET_graph_labels.txt nor SET_graph_attributes.txt"),
        ({"graph_labels": "1\nx\n"}, r"SET_graph_labels.txt, line 2: b'x' is not a number"),
        ({"node_labels": "1\n"}, "SET_node_labels.txt: 1 lines, expected 5"),
        ({"node_attributes": "1\n2\nnan\n4\n5\n"}, "SET_node_attributes.txt, line 3: an attribute is NaN"),
        ({"edge_labels": "1\n"}, "SET_edge_labels.txt: 1 lines, expected 6"),
    ],
)
def test_errors_in_own_format_name_file_line_and_cause(change, message, tmp_path):
    files = {kind: text for kind, text in (OWN | change).items() if text is not None}
    with pytest.raises(ValueError, match=message):
        read_tu(write_own(tmp_path, files))


def test_what_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected one NAME_A.txt \(TU's format\) or NAME.txt \(GIN's\), got no .txt"):
        read_tu(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "SET_A.txt").write_text("1, 2\n")
    with pytest.raises(ValueError, match=r"has no .txt, but .*inner has: give that folder"):
        read_tu(tmp_path)
    with pytest.raises(ValueError, match="has no folders in it"):
        TU("../SET", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"SET.zip is not there"):
        TU("SET", tmp_path)


def test_agrees_with_pygs_reader(tmp_path):
    """PyG's own TUDataset reads the same folder; it keeps columns for labels that no node has."""
    write_own(tmp_path / "SET" / "raw")
    theirs = TUDataset(tmp_path, "SET")
    ours = read_tu(tmp_path / "SET" / "raw")
    labels = torch.unique(theirs._data.x.argmax(1), return_inverse=True)[1]
    assert torch.equal(labels, ours.node["x"].long())
    assert [graph.num_nodes for graph in theirs] == ours.nodes.tolist()
    edges = {(a, b) for graph in theirs for a, b in graph.edge_index.t().tolist()}
    assert edges == {(a, b) for a, b in ours.edge_index.t().tolist()}


@pytest.mark.parametrize(
    ("name", "graphs", "features", "classes"),
    [
        ("MUTAG", 188, 7, 2),
        ("PROTEINS", 1113, 3, 2),
        ("NCI1", 4110, 37, 2),
        ("IMDBBINARY", 1000, 65, 2),
        ("IMDBMULTI", 1500, 59, 3),
    ],
)
def test_published_sets(name, graphs, features, classes, data_root):
    dataset = TU(name, data_root)
    assert (len(dataset), dataset.num_features, dataset.num_classes) == (graphs, features, classes)
    assert (dataset[3].x.sum(1) == 1).all()
    with zipfile.ZipFile(data_root / "tu" / f"{name}.zip") as archive:
        lines = archive.read(f"{name}/{name}.txt").decode().splitlines()
    nodes = int(lines[1].split()[0])
    listed = [[int(word) for word in line.split()[2:]] for line in lines[2 : 2 + nodes]]
    plan = Plan.build(dataset[0].edge_index, nodes)
    assert [part.tolist() for part in plan.neighbor.split(plan.degree.tolist())] == listed


def test_collab_lies_compactly(collab):
    graphs = Graphs.of(collab)
    assert len(graphs) == 5000
    assert graphs.edge_index.shape == (2, 24_572_158)
    assert (graphs.edge_index[0] != graphs.edge_index[1]).all()
    stored = sum(value.nbytes for _, _, value in graphs.attributes()) + graphs.edge_index.nbytes
    assert stored < 110e6, "one-hot degrees alone would take 550 MB"


def test_a_zip_from_the_wild(tmp_path):
    """Windows' ends of lines, byte order marks, other files, another name of the archive, a graph without edges."""
    with zipfile.ZipFile(tmp_path / "download (1).zip", "w") as archive:
        for kind, text in OWN.items():
            archive.writestr(f"SET/SET_{kind}.txt", "\ufeff" + text.replace("\n", "\r\n") + "\r\n\r\n")
        archive.writestr("SET/README.txt", "of no use")
        archive.writestr("__MACOSX/SET/._SET_A.txt", b"\0\5")
    found, expected = read_tu(tmp_path / "download (1).zip"), read_tu(write_own(tmp_path / "SET"))
    assert found.schema == expected.schema and torch.equal(found.edge_index, expected.edge_index)
    assert torch.equal(found.node["x"], expected.node["x"]) and torch.equal(found.graph["y"], expected.graph["y"])
    (tmp_path / "SET" / "SET_graph_labels.txt").unlink()
    later = read_tu(tmp_path / "SET", expected.schema)
    assert "y" not in later.graph and len(later) == len(expected), "predictions need no targets"
    with pytest.raises(ValueError, match="only pggnn predict needs neither"):
        read_tu(tmp_path / "SET")
