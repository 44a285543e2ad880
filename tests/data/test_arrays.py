"""One graph as arrays: what is read, from which files, and what is refused."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch_geometric.data import Data

from pggnn.data.formats.export import save_jsonl
from pggnn.data.loading import load

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 2]])
X = np.arange(8, dtype=np.float32).reshape(4, 2)
MASKS = {f"{part}_mask": np.arange(4) == i for i, part in enumerate(("train", "val", "test"))}
PYG = {"edge_index": EDGES.T, "x": X, "y": np.array([2, 0, 2, 5]), "edge_attr": np.ones((4, 1), np.float32), **MASKS}


def write(path, **arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
        torch.save(Data(**tensors).to_dict(), path) if path.suffix == ".pt" else save_file(tensors, path)
    return path


@pytest.mark.parametrize("end", ["npz", "pt", "safetensors"])
def test_a_graph_of_pyg(end, tmp_path):
    found = load(write(tmp_path / f"graph.{end}", **PYG))
    assert found.schema.level == "node" and found.schema.classes == (0, 2, 5) and len(found) == 1
    graph = found[0]
    assert graph.edge_index.tolist() == EDGES.T.tolist() and graph.x.tolist() == X.tolist()
    assert graph.y.tolist() == [1, 0, 1, 2] and graph.val_mask.tolist() == [False, True, False, False]
    again = load(save_jsonl(found, tmp_path / "again.jsonl"))[0]
    for name in ("edge_index", "x", "y", "edge_attr", *MASKS):
        assert torch.equal(again[name], graph[name])
    later = load(write(tmp_path / f"later.{end}", **{k: v for k, v in PYG.items() if k != "y"}), schema=found.schema)
    assert later[0].y is None


def test_edges_are_read_both_ways_as_in_json_lines(tmp_path):
    labels = np.array(["C", "H", "H", "O"])
    graph = load(
        write(tmp_path / "graph.npz", n=4, edges=EDGES, node_labels=labels, node_y=np.array([0.5, np.nan, 1, 2]))
    )
    assert graph[0].num_edges == 8 and graph.schema.node_labels == ("C", "H", "O")
    assert graph.schema.task == "regression" and graph[0].y.isnan().tolist() == [False, True, False, False]
    assert load(write(tmp_path / "many.npz", n=4, edges=EDGES, y=np.eye(4, dtype=int))).schema.task == "multilabel"


@pytest.mark.parametrize("change, said", [
    ({"edge_index": EDGES}, "edge_index: expected two rows, sources and targets, found the shape [4, 2]"),
    ({"edge_index": EDGES.T + 1}, "edges[3][0]: expected a node from 0 to 3, found 4"),
    ({"edge_index": EDGES.T.astype(float)}, "edges: expected a node's number, found an array of float64"),
    ({"x": X[:3]}, "y: "),
    ({"y": np.arange(3)}, "node_y: found 3 entries, but there are 4 nodes"),
    ({"x": X * np.nan}, "x[0][0]: expected a number up to 3.4e38, found nan"),
    ({"x": X[:, 0]}, "x: expected an array of shape [nodes, columns], found [4]"),
    ({"y": np.full(4, np.inf)}, "node_y[0]: expected a number up to 3.4e38, found inf"),
    ({"train_mask": np.arange(4)}, "train_mask: expected true or false, found an array of int64"),
    ({"train_mask": np.ones((4, 10), bool)}, "train_mask: expected an array of shape [nodes], found [4, 10]"),
    ({"pos": X}, "'pos' is no key of a graph"),
])  # fmt: skip
def test_what_is_wrong_is_named(change, said, tmp_path):
    with pytest.raises(ValueError) as caught:
        load(write(tmp_path / "bad.npz", **PYG | change))
    assert said in str(caught.value)


def test_edges_given_twice(tmp_path):
    with pytest.raises(ValueError, match=r"edges\[4\]: \[1, 0\] joins the same nodes as edges\[0\]"):
        load(write(tmp_path / "bad.npz", n=4, edges=np.concatenate([EDGES, [[1, 0]]])))


def test_nothing_but_tensors_is_unpickled(tmp_path):
    torch.save(Data(x=torch.ones(1, 1)), tmp_path / "data.pt")
    for content in (None, b"not a file of PyTorch"):
        if content:
            (tmp_path / "data.pt").write_bytes(content)
        with pytest.raises(ValueError, match=r"it holds more than tensors, or is damaged; .*data\.to_dict\(\)"):
            load(tmp_path / "data.pt")
    (tmp_path / "data.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no file of safetensors"):
        load(tmp_path / "data.safetensors")


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_scipy_matrices_are_taken(form, tmp_path):
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.coo_matrix((np.ones(4), tuple(EDGES.T)), (5, 5)).asformat(form)
    scipy.save_npz(tmp_path / "graph.npz", matrix)
    read, written = load(tmp_path / "graph.npz")[0], load(save_jsonl([matrix], tmp_path / "graph.jsonl"))[0]
    for graph in (read, written):
        assert graph.num_nodes == 5 and graph.edge_attr is None
        assert {*map(tuple, graph.edge_index.t().tolist())} == {*map(tuple, EDGES.tolist())}
    scipy.save_npz(tmp_path / "graph.npz", matrix * 2)
    assert load(tmp_path / "graph.npz")[0].edge_attr.tolist() == [[2]] * 4
    scipy.save_npz(tmp_path / "graph.npz", scipy.bsr_matrix(matrix))
    with pytest.raises(ValueError, match=r"format 'bsr': save A\.tocoo\(\)"):
        load(tmp_path / "graph.npz")


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_coo"])
def test_adj_t_is_taken(layout, tmp_path):
    dense = torch.zeros(4, 4)
    dense[EDGES[:, 1], EDGES[:, 0]] = 1
    data = Data(adj_t=getattr(dense, layout)(), x=torch.from_numpy(X))
    torch.save(data.to_dict(), tmp_path / "graph.pt")
    for path in (tmp_path / "graph.pt", save_jsonl([data], tmp_path / "graph.jsonl")):
        assert {*map(tuple, load(path)[0].edge_index.t().tolist())} == {*map(tuple, EDGES.tolist())}
    torch.save({"adj_t": dense, "x": data.x}, tmp_path / "graph.pt")
    with pytest.raises(ValueError, match=r"adj_t: expected a sparse tensor; row, col, _ = adj_t\.t\(\)\.coo\(\)"):
        load(tmp_path / "graph.pt")


def test_networkx_graphs_are_taken(tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.cycle_graph(5)
    networkx.set_node_attributes(graph, {i: [float(i)] for i in range(5)}, "x")
    read = load(save_jsonl([graph], tmp_path / "ring.jsonl"))[0]
    assert read.num_edges == 10 and read.x.view(-1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name, said", [
    ("a.graphml", r"save_jsonl\(\[networkx\.read_graphml\(path\)\]"),
    ("a.gpickle", "a pickle could run any code"),
    ("a.mtx", r"scipy\.io\.mmread"),
])  # fmt: skip
def test_other_files_name_the_conversion(name, said, tmp_path):
    (tmp_path / name).write_text("something")
    with pytest.raises(ValueError, match=said):
        load(tmp_path / name)
