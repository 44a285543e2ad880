import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pggnn.data.formats.graph6 import decode, load_graph6


def encode(graph):
    return nx.to_graph6_bytes(graph, header=False).rstrip(b"\n")


def edges(graph):
    return sorted([u, v] for u in graph for v in graph[u])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 90), st.floats(0, 1), st.integers(0, 10**6))
def test_edges_are_sorted_and_in_both_directions(nodes, density, seed):
    graph = nx.gnp_random_graph(nodes, density, seed=seed)
    for line in (encode(graph), encode(graph).decode() + "\r\n", b">>graph6<<" + encode(graph)):
        data = decode(line)
        assert data.num_nodes == nodes
        assert data.edge_index.shape == (2, 2 * graph.number_of_edges())
        assert data.edge_index.t().tolist() == edges(graph)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "ends before the number of nodes"),
        (">>graph6<<", "ends before the number of nodes"),
        ("~", "ends before the number of nodes"),
        (":An", "b':' is no graph6 character"),
        ("&An", "b'&' is no graph6 character"),
        ("C~\x20", "b' ' is no graph6 character"),
        ("Cé", r"b'\\xc3' is no graph6 character"),
        ("C\x00", r"b'\\x00' is no graph6 character"),
        ("C", "not graph6: Expected 6 bits but got 0"),
        ("C~~", "not graph6: Expected 6 bits but got 12"),
        ("~}~~", "Expected 33293998081 bits but got 0"),
        ("~~?????", "Expected .* bits|ends before the number of nodes"),
    ],
)
def test_errors_name_the_place(line, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        decode(line)
    if line.removeprefix(">>graph6<<"):
        path = tmp_path / "graphs.g6"
        path.write_text("C~\n\n" + line + "\n", encoding="utf-8")
        with pytest.raises(ValueError, match=f"graphs.g6, line 3: .*{message}"):
            load_graph6(path)


def test_files(tmp_path):
    graphs = [nx.gnp_random_graph(n, 0.4, seed=n) for n in range(1, 30)]
    path = tmp_path / "graphs.g6"
    path.write_bytes(b">>graph6<<\n" + b"\n\n".join(map(encode, graphs)))
    again = load_graph6(path)
    assert [graph.num_nodes for graph in again] == list(range(1, 30))
    assert [graph.edge_index.t().tolist() for graph in again] == list(map(edges, graphs))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 20), st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 40), st.integers(0, 4))
def test_mutated_lines_are_refused_or_read_as_they_stand(nodes, seed, inserted, at, removed):
    line = bytearray(encode(nx.gnp_random_graph(nodes, 0.5, seed=seed)))
    line[at : at + removed] = inserted
    try:
        data = decode(bytes(line))
    except ValueError:
        return
    stripped = bytes(line).rstrip(b"\r\n")
    assert all(63 <= byte <= 126 for byte in stripped)
    assert data.edge_index.t().tolist() == edges(nx.from_graph6_bytes(stripped))
