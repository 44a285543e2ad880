import gzip
import json
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from pggnn import Plan
from pggnn.data import graphs as graphs_module
from pggnn.data.formats import jsonl
from pggnn.data.formats.jsonl import InvalidFile, load_jsonl

WATER = {"id": "water", "node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "y": -1.5, "split": "train"}
PLAIN = {"num_nodes": 3, "edges": [[0, 1], [2, 1]]}


def problems(path, schema=None):
    with pytest.raises(InvalidFile) as caught:
        load_jsonl(path, schema)
    assert str(caught.value).startswith(f"{path}: {len(caught.value.problems)}")
    return caught.value.problems


def test_a_file_of_molecules(write):
    ring = {"id": "c", "node_labels": ["C", "C", "O"], "edges": [[2, 0], [1, 0]], "y": 2, "split": "test"}
    graphs = load_jsonl(write(WATER, b"", ring))
    assert len(graphs) == 2
    assert graphs.ids == ["water", "c"]
    assert {name: places.tolist() for name, places in graphs.splits.items()} == {"train": [0], "test": [1]}
    assert graphs.schema.node_labels == ("C", "H", "O")
    assert (graphs.schema.task, graphs.schema.level) == ("regression", "graph")
    assert (graphs.schema.in_channels, graphs.schema.edge_dim, graphs.schema.out_channels) == (3, 0, 1)
    assert (graphs.num_features, graphs.num_classes) == (3, 1)
    assert graphs[0].x.tolist() == [[0, 0, 1], [0, 1, 0], [0, 1, 0]]
    assert graphs[0].edge_index.tolist() == [[0, 1, 0, 2], [1, 0, 2, 0]]
    assert graphs[1].edge_index.tolist() == [[2, 0, 1, 0], [0, 2, 0, 1]]
    assert graphs[1].y.tolist() == [2.0]
    batch = next(iter(DataLoader(graphs, batch_size=2)))
    assert batch.x.shape == (6, 3)
    assert batch.y.tolist() == [-1.5, 2.0]


def test_features_come_before_labels_on_nodes_and_edges(write):
    graph = {
        "x": [[0.5, 1], [2, 3]], "node_labels": [7, -1], "edges": [[1, 0]], "edge_attr": [[9]], "edge_labels": ["="],
    }  # fmt: skip
    bare = {"x": [[0, 0]], "node_labels": [7], "edges": []}
    loop = {"x": [[0, 0]], "node_labels": [7], "edges": [[0, 0]], "edge_attr": [[8]], "edge_labels": ["-"]}
    graphs = load_jsonl(write(bare, graph, loop))
    assert graphs[1].x.tolist() == [[0.5, 1, 0, 1], [2, 3, 1, 0]]
    assert graphs[1].edge_attr.tolist() == [[9, 0, 1], [9, 0, 1]]
    assert graphs[0].edge_attr.shape == (0, 3)
    assert graphs[2].edge_index.tolist() == [[0], [0]], "a self-loop is read once"
    assert graphs[2].edge_attr.tolist() == [[8, 1, 0]]
    assert graphs.schema.edge_dim == 3


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30), st.booleans())
def test_neighbours_are_numbered_as_listed(tmp_path_factory, edges, directed):
    if not directed:
        edges = list({frozenset(edge): edge for edge in edges}.values())
    path = tmp_path_factory.mktemp("order") / "one.jsonl"
    path.write_text(json.dumps({"num_nodes": 8, "edges": edges, "directed": directed}))
    graph = load_jsonl(path)[0]
    for flow in ("source_to_target", "target_to_source"):
        into, out_of = (1, 0) if flow == "source_to_target" else (0, 1)
        plan = Plan.build(graph.edge_index, 8, flow)
        for v in range(8):
            seen = plan.neighbor[plan.start[v] : plan.start[v] + plan.degree[v]].tolist()
            if directed:
                assert seen == [edge[out_of] for edge in edges if edge[into] == v]
            else:
                assert seen == [edge[0] if edge[1] == v else edge[1] for edge in edges if v in edge]


@pytest.mark.parametrize(
    ("targets", "task", "classes", "y"),
    [
        ([{"y": 1.0}, {"y": 2}], "regression", (), [1, 2]),
        ([{"y": 5}, {"y": -1}], "classification", (-1, 5), [1, 0]),
        ([{"y": "b"}, {"y": "a"}], "classification", ("a", "b"), [1, 0]),
        ([{"y": [1, 0]}, {"y": [0, 1]}], "multilabel", (), [[1, 0], [0, 1]]),
        ([{"y": [1, 0]}, {"y": [0, 2]}], "regression", (), [[1, 0], [0, 2]]),
        ([{"y": [1]}, {"y": [0.5]}], "regression", (), [[1], [0.5]]),
        ([{"node_y": [4, 4, 2]}, {"node_y": [2, 2, 9]}], "classification", (2, 4, 9), [1, 1, 0, 0, 0, 2]),
        ([{"node_y": [1, 2.5, 3]}, {"node_y": [0, 0, 0]}], "regression", (), [1, 2.5, 3, 0, 0, 0]),
        ([{"node_y": [[1], [0], [0]]}] * 2, "multilabel", (), [[1], [0], [0], [1], [0], [0]]),
        ([{}, {}], None, (), None),
    ],
)
def test_targets(write, targets, task, classes, y):
    graphs = load_jsonl(write(*(PLAIN | target for target in targets)))
    assert (graphs.schema.task, graphs.schema.classes) == (task, classes)
    assert graphs.schema.level == (None if y is None else "node" if "node_y" in targets[0] else "graph")
    if y is None:
        assert graphs[0].y is None
    else:
        assert torch.cat([graph.y for graph in graphs]).tolist() == y
        assert graphs[0].y.dtype == (torch.long if task == "classification" else torch.float)
    assert [graph.num_nodes for graph in graphs] == [3, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": [[0, 1], [1, 12]]}, "edges[1][1]: expected a node from 0 to 2, found 12"),
        ({"edges": [[0, 1], [3, 0]]}, "edges[1][0]: expected a node from 0 to 2, found 3"),
        ({"edges": [[0, -1]]}, "edges[0][1]: expected a node from 0 to 2, found -1"),
        ({"edges": [[0, 10**40]]}, "edges[0][1]: expected a node from 0 to 2, found a number of more"),
        ({"edges": [[0, 1.0]]}, "edges[0][1]: expected a node's number, found 1.0"),
        ({"edges": [[0, True]]}, "edges[0][1]: expected a node's number, found true or false"),
        ({"edges": [[0, 1, 2]]}, "edges[0]: expected a pair [source, target], found a list of 3"),
        ({"edges": [[0, 1], "12"]}, "edges[1]: expected a pair [source, target], found '12'"),
        ({"edges": {}}, "edges: expected a list with a pair [source, target] for each edge, found an object"),
        ({"edges": [[0, 1], [2, 1], [1, 0]]}, "edges[2]: [1, 0] joins the same nodes as edges[0]; give each edge once"),
        ({"edges": [[1, 1], [1, 1]]}, "edges[1]: [1, 1] joins the same nodes as edges[0]"),
        ({"edges": None}, "edges: expected a list with a pair [source, target] for each edge, found null"),
        ({"directed": "yes"}, "directed: expected true or false, found 'yes'"),
        ({"num_nodes": 10**12}, "num_nodes: expected 1 to 50000000, found 1000000000000"),
        ({"num_nodes": 0}, "num_nodes: expected 1 to 50000000, found 0"),
        ({"num_nodes": 3.0}, "num_nodes: expected a whole number, found 3.0"),
        ({"num_nodes": True}, "num_nodes: expected a whole number, found true or false"),
        ({"num_nodes": 4, "x": [[1]] * 3}, "x: found 3 entries, but there are 4 nodes"),
        ({"x": [[1], [2, 3], [4]]}, "x[1]: expected a list of numbers, 1 as in x[0], found a list of 2"),
        ({"x": [[], [], []]}, "x[0]: expected a list of numbers, found a list of 0"),
        ({"x": [1, 2, 3]}, "x[0]: expected a list of numbers, found 1; write one number as [1], a label"),
        ({"x": [[1], [float("nan")], [2]]}, "x[1][0]: expected a number up to 3.4e38, found nan"),
        ({"x": [[1], [2], [float("-inf")]]}, "x[2][0]: expected a number up to 3.4e38, found -inf"),
        ({"x": [[1], [2], [1e39]]}, "x[2][0]: expected a number up to 3.4e38, found 1e+39"),
        ({"x": [[1], [2], [10**400]]}, "x[2][0]: expected a number up to 3.4e38, found a number of more"),
        ({"x": [[1], [2], [True]]}, "x[2][0]: expected a number, found true or false; write 1 or 0"),
        ({"x": [[1], [2], ["3"]]}, "x[2][0]: expected a number, found '3'"),
        ({"x": "abc"}, "x: expected a list with a list of numbers for each node, found 'abc'"),
        ({"node_labels": ["C", 1, "C"]}, "node_labels[1]: text and numbers are mixed: 'C', 1"),
        ({"node_labels": [1, 2, 3.5]}, "node_labels[2]: expected text or a whole number, found 3.5"),
        ({"node_labels": [1, 2, True]}, "node_labels[2]: expected text or a whole number, found true or false"),
        ({"edge_attr": [[1]]}, "edge_attr: found 1 entries, but there are 2 edges"),
        ({"edge_labels": [1, None]}, "edge_labels[1]: expected text or a whole number, found null"),
        ({"y": True}, "y: expected a number or text, found true or false; write 1 or 0"),
        ({"y": float("inf")}, "y: expected a number up to 3.4e38, found inf"),
        ({"y": []}, "y: expected a list of numbers, found a list of 0"),
        ({"y": ["a", "b"]}, "y[0]: expected a number, found 'a'"),
        ({"y": {}}, "y: expected a number or text, found an object"),
        ({"node_y": [1, 2]}, "node_y: found 2 entries, but there are 3 nodes"),
        ({"node_y": [1, [2], 3]}, "node_y[1]: expected a number or text, found a list of 1"),
        ({"node_y": [1, "b", 3]}, "node_y[1]: text and numbers are mixed: 1, 'b'"),
        ({"node_y": [[1], [2, 3], [3]]}, "node_y[1]: expected a list of numbers, 1 as in node_y[0], found a list of 2"),
        ({"node_y": [1, 2, float("inf")]}, "node_y[2]: expected a number up to 3.4e38, found inf"),
        ({"y": 1, "node_y": [1, 2, 3]}, "y and node_y are both given"),
        ({"split": "validation"}, """split: expected "train", "val" or "test", found 'validation'"""),
        ({"split": ["train"]}, """split: expected "train", "val" or "test", found a list"""),
        ({"id": 1.5}, "id: expected text or a whole number, found 1.5"),
        ({"Edges": []}, """'Edges' is no key of a graph; did you mean "edges"?"""),
        ({"node_features": []}, """'node_features' is no key of a graph; did you mean "x"?"""),
        ({"edge_lables": []}, """'edge_lables' is no key of a graph; did you mean "edge_labels"?"""),
        ({"\x1b[31m": 1}, r"'\x1b[31m' is no key of a graph; keys are id, num_nodes"),
    ],
)  # fmt: skip
def test_errors_name_line_graph_and_field(write, change, message):
    (problem,) = problems(write(PLAIN | {"id": "a"}, b"", {"id": "mol-3"} | PLAIN | change))[:1]
    graph = "" if "id" in change else " (graph 'mol-3')"
    assert problem.startswith(f"line 3{graph}, {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"num_nodes": 1', "column 16: not JSON (Expecting ',' delimiter)"),
        (b"[", "column 2: not JSON (Expecting value); a graph must be on one line"),
        (
            b"[1, 2]",
            "expected an object {…} with a graph, found a list of 2; write each of its graphs on a line of its own",
        ),
        (b'{"num_nodes": 1, "edges": []}, ', "column 30: not JSON (Extra data); leave out the comma at its end"),
        (b'"text"', "expected an object {…} with a graph, found 'text'"),
        (b'{"num_nodes": 1, "edges": [], "id": "\xff"}', "byte 38 is not UTF-8; save the file as UTF-8 text"),
        (b'{"num_nodes": 1, "edges": [], "id": "\\ud800"}', "\\ud800 is half of a surrogate pair, which is no text"),
        (b'{"node_labels": ["a", "b\\uDFFF"], "edges": []}', "\\udfff is half of a surrogate pair"),
        (b'{"num_nodes": 1, "edges": [], "y": "\\ud83dx"}', "\\ud83d is half of a surrogate pair"),
        (b'{"num_nodes": 1, "edges": [], "\\ud83d": 1}', "\\ud83d is half of a surrogate pair"),
        (b'{"num_nodes": 1, "edges": [], "num_nodes": 2}', "'num_nodes' is given twice"),
        (b'{"num_nodes": 1}', 'edges is missing; for a graph without edges write "edges": []'),
        (b'{"edges": []}', "the number of nodes is missing; give num_nodes, x or node_labels"),
        (b'{"edges": [], "num_nodes": ' + b"9" * 5000 + b"}", "not a graph: it has a number of thousands of digits"),
        (b"[" * 200_000, "not a graph: brackets are nested too deeply"),
        (b'{"a":' * 200_000, "not a graph: brackets are nested too deeply"),
        (b"\xff\xfe{\x00", "byte 1 is not UTF-8"),
        (b"\x00", "column 1: not JSON"),
        (b"a,b,c", "column 1: not JSON (Expecting value); expected one object {…} per line"),
    ],
)
def test_lines_that_are_no_graph(write, line, message):
    (problem,) = problems(write(line))
    assert problem.startswith(f"line 1, {message}")


def test_a_character_may_be_written_as_a_surrogate_pair(write):
    assert load_jsonl(write(b'{"num_nodes": 1, "edges": [], "id": "\\ud83d\\ude00"}')).ids == ["\U0001f600"]


def test_labels_take_the_memory_of_numbers(write):
    """A label that occurs again is the same object, in all of the file."""
    path = write(*[{"node_labels": ["Cl", "Br"] * 500, "node_y": ["in", "out"] * 500, "edges": []}] * 100)
    tracemalloc.start()
    try:
        graphs, _ = jsonl.read_jsonl(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 80 * int(graphs.nodes.sum())


def test_a_packed_file(write):
    path = write(PLAIN)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert problems(path) == ["it is packed by gzip: unpack it first"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"x": [[1]] * 3}, {"x": [[1, 2]] * 3}, "x: found lists of 2, but line 1 has lists of 1"),
        ({"x": [[1]] * 3}, {}, "x: found none, but line 1 has lists of 1"),
        ({"node_labels": ["a"] * 3}, {"node_labels": [1] * 3}, "node_labels: found numbers, but line 1 has text"),
        ({"edge_attr": [[1]] * 2}, {}, "edge_attr: found none, but line 1 has lists of 1"),
        ({"y": 1}, {"node_y": [1] * 3}, "y: found none, but line 1 has numbers"),
        ({"y": [1, 2]}, {"y": [1, 2, 3]}, "y: found lists of 3, but line 1 has lists of 2; t"),
        ({"y": "a"}, {"y": 1}, "y: found numbers, but line 1 has text"),
        ({"y": 1}, {}, "y: found none, but line 1 has numbers; a target that is not known is null"),
        ({"split": "val"}, {}, "split: found none, but line 1 has one"),
        ({"id": 7}, {"id": 7}, "id: line 1 has the same"),
        ({"id": 7}, {}, "id: found none, but line 1 has one"),
    ],
)  # fmt: skip
def test_graphs_of_a_file_must_agree(write, first, second, message):
    problem = problems(write(PLAIN | first, PLAIN | second))[0]
    graph = " (graph 7)" if "id" in second else ""
    assert problem.startswith(f"line 2{graph}, {message}")


def test_all_problems_are_collected_up_to_twenty(write):
    bad = {"num_nodes": 2, "edges": [[0, 5]], "y": {}, "split": "no"}
    assert len(problems(write(PLAIN, bad, PLAIN, bad))) == 6
    with pytest.raises(InvalidFile, match="20 or more problems") as caught:
        load_jsonl(write(*[bad] * 100))
    assert len(caught.value.problems) == 20
    assert len(str(caught.value).splitlines()) == 21


def test_keys_of_edges_are_not_counted_where_edges_is_wrong(write):
    for edges in ({"edges": 3}, {}):
        (problem,) = problems(write({"num_nodes": 2, "edge_attr": [[1]], "edge_labels": ["a"]} | edges))
        assert problem.startswith("line 1, edges")


def test_many_strange_keys_do_not_take_for_ever(write):
    graph = PLAIN | {f"key{i}": i for i in range(100_000)}
    assert len(problems(write(graph))) == 5
    line = json.dumps(graph).encode()[:-1] + b', "key7": 1}'
    assert problems(write(line)) == ["line 1, 'key7' is given twice"]


def test_ways_to_write_a_file(write, tmp_path):
    line = json.dumps(PLAIN).encode()
    for content in (line, line + b"\n", b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line + b"\r\n", b"\n \n" + line):
        path = tmp_path / "g.jsonl"
        path.write_bytes(content)
        assert all(graph.num_nodes == 3 for graph in load_jsonl(path))
    for content in (b"", b"\n\n", b"\xef\xbb\xbf"):
        assert problems(write(content)) == ["the file holds no graph; expected one JSON object per line"]
    with pytest.raises(OSError, match="missing"):
        load_jsonl(tmp_path / "missing.jsonl")


def test_absurd_sizes_are_refused_before_memory_is_touched(write, monkeypatch):
    graph = {"num_nodes": 30_000_000, "edges": []}
    assert "a file may have 50000000 nodes" in problems(write(graph, graph))[0]
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 1000)
    long = PLAIN | {"id": "x" * 2000}
    found = problems(write(PLAIN | {"id": 1}, long, PLAIN | {"id": 2}, PLAIN | {"id": 2}))
    assert found[0].startswith("line 2, a line may have")
    assert found[1] == "line 4 (graph 2), id: line 3 has the same"
    monkeypatch.setattr(graphs_module, "MOST_ONE_HOT", 300)
    labels = {"node_labels": [*range(10)], "edges": []}
    for graph in (labels, labels | {"x": [[1]] * 10}):
        with pytest.raises(ValueError, match=r"graphs.jsonl: x: 10 different labels on 10 nodes or edges would take"):
            load_jsonl(write(graph))


def test_a_line_of_more_than_a_hundred_megabytes(tmp_path):
    path = tmp_path / "large.jsonl"
    line = json.dumps(PLAIN)
    path.write_text(line[:-1] + " " * 140_000_000 + "}\n" + line)
    assert problems(path) == ["line 1, a line may have 128 MiB; leave out digits, or save one large graph as .npz"]


def test_later_files_are_read_as_the_first(write):
    first = load_jsonl(write(WATER | {"y": "wet"}, WATER | {"id": 2, "y": "dry", "edges": []}))
    later = {"node_labels": ["H"], "edges": []}
    graphs = load_jsonl(write(later, later), first.schema)
    assert graphs[0].x.tolist() == [[1, 0]]
    assert graphs[0].y is None
    assert load_jsonl(write(later | {"y": "wet"}), first.schema)[0].y.tolist() == [1]
    assert problems(write(later | {"y": "moist"}, later | {"y": "wet", "node_labels": ["He"]}), first.schema) == [
        "line 1, y: 'moist' is not among the known: 'dry', 'wet'",
        "line 2, node_labels: 'He' is not among the known: 'H', 'O'",
    ]
    assert problems(write(PLAIN), first.schema) == ["line 1, node_labels: found none, but the schema has text"]
    counts = load_jsonl(write(PLAIN | {"y": 0}, PLAIN | {"y": 1}))
    assert "y: 1.0 is not among the known: 0, 1" in problems(write(PLAIN | {"y": 1.0}), counts.schema)[0]
    labelled = load_jsonl(write(PLAIN | {"edge_attr": [[1.5], [2]], "edge_labels": [3, 4]}))
    assert load_jsonl(write({"num_nodes": 1, "edges": []}), labelled.schema)[0].edge_attr.shape == (0, 3)
