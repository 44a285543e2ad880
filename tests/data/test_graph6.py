import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from pggnn.data.formats.graph6 import MOST_NODES, decode, encode, load_graph6, save_graph6

CALM = settings(max_examples=200, deadline=None, derandomize=True)


def networkx_line(graph):
    return nx.to_graph6_bytes(graph, header=False).decode().rstrip("\n")


def undirected(data):
    graph = nx.Graph()
    graph.add_nodes_from(range(data.num_nodes))
    graph.add_edges_from(data.edge_index.t().tolist())
    return graph


@CALM
@given(st.integers(0, 90), st.floats(0, 1), st.integers(0, 10**6))
def test_reads_and_writes_what_networkx_does(nodes, density, seed):
    graph = nx.gnp_random_graph(nodes, density, seed=seed)
    line = networkx_line(graph)
    data = decode(line)
    assert data.num_nodes == nodes
    assert data.edge_index.t().tolist() == sorted([u, v] for u in graph for v in graph[u])
    assert encode(data.edge_index, nodes) == line
    once = data.edge_index[:, data.edge_index[0] > data.edge_index[1]]
    assert encode(once, nodes) == line


@pytest.mark.parametrize("nodes", [0, 1, 2, 62, 63, 64, 700])
def test_sizes_around_the_longer_size_field(nodes):
    path = torch.stack([torch.arange(max(nodes - 1, 0)), torch.arange(1, max(nodes, 1))])
    line = encode(path, nodes)
    assert line == networkx_line(nx.path_graph(nodes))
    assert undirected(decode(line)).edges == nx.path_graph(nodes).edges


def test_the_last_pairs_of_a_very_large_graph_are_placed_exactly():
    nodes, edges = 20_000, torch.tensor([[0, 19_998, 0, 12_345], [19_999, 19_999, 1, 19_998]])
    data = decode(encode(edges, nodes))
    assert {frozenset(edge) for edge in data.edge_index.t().tolist()} == {frozenset(e) for e in edges.t().tolist()}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "position 1: the line ends where the number of nodes was expected"),
        (">>graph6<<", "position 11: the line ends"),
        (":An", "position 1: this is sparse6; only graph6 is read"),
        ("&An", "position 1: this is digraph6"),
        ("C~\x20", r"position 3: b' ' is no graph6 character"),
        ("Cé", r"position 2: b'\\xc3' is no graph6 character"),
        ("C\x00", r"position 2: b'\\x00' is no graph6 character"),
        ("C", "position 2: 4 nodes need 1 characters from here, but there are 0"),
        ("C~~", "position 2: 4 nodes need 1 characters from here, but there are 2"),
        ("A?" + "?", "2 nodes need 1 characters"),
        ("A~", "position 2: the bits after the last pair of nodes must be zero"),
        ("~", "'~' must be followed by three characters"),
        ("~~?????", f"graphs of more than {MOST_NODES} nodes are not read"),
        ("~}~~", "need 5548999681 characters from here, but there are 0"),
    ],
)
def test_errors_name_the_place(line, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        decode(line)
    if line:
        path = tmp_path / "graphs.g6"
        path.write_text("C~\n\n" + line + "\n", encoding="utf-8")
        if line != ">>graph6<<":
            with pytest.raises(ValueError, match=f"graphs.g6, line 3, .*{message}"):
                load_graph6(path)


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ([[0], [3]], 3, "refers to node 3, but the graph has 3 nodes"),
        ([[-1], [1]], 3, "refers to node -1"),
        ([[1], [1]], 3, "no self-loops, but node 1 has one"),
        ([[0], [1]], MOST_NODES + 1, "0 to 258047 nodes, got 258048"),
        ([[0], [1]], -1, "got -1"),
        ([0, 1], 2, "shape"),
        ([[0.0], [1.0]], 2, "whole numbers"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(edges, nodes, message):
    with pytest.raises(ValueError, match=message):
        encode(torch.tensor(edges), nodes)


def test_files_round_trip_and_are_whole_or_absent(tmp_path):
    graphs = [decode(networkx_line(nx.gnp_random_graph(n, 0.4, seed=n))) for n in range(30)]
    path = save_graph6(graphs, tmp_path / "new" / "graphs.g6")
    again = load_graph6(path)
    assert [g.num_nodes for g in again] == list(range(30))
    assert all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(graphs, again, strict=True))
    with pytest.raises(ValueError, match="self-loops"):
        save_graph6([graphs[5], Data(edge_index=torch.tensor([[0], [0]]), num_nodes=1)], tmp_path / "b.g6")
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.integers(0, 20), st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 40), st.integers(0, 4))
def test_mutated_lines_are_refused_or_read_as_they_stand(nodes, seed, inserted, at, removed):
    line = bytearray(networkx_line(nx.gnp_random_graph(nodes, 0.5, seed=seed)).encode())
    line[at : at + removed] = inserted
    try:
        data = decode(bytes(line))
    except ValueError as error:
        assert "position" in str(error)
    else:
        rewritten = encode(data.edge_index, data.num_nodes).encode()
        stripped = bytes(line).rstrip(b"\r\n")
        assert rewritten == stripped or stripped.startswith(b"~")
        assert np.array_equal(
            nx.to_numpy_array(undirected(data), nodelist=range(data.num_nodes)),
            nx.to_numpy_array(nx.from_graph6_bytes(stripped), nodelist=range(data.num_nodes)),
        )
