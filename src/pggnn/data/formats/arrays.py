"""One graph as arrays with names: ``.npz``, ``.pt`` (a saved ``Data.to_dict()``), ``.safetensors``.

Names are the keys of :mod:`pggnn.data.formats.jsonl`, or PyG's: ``edge_index`` is a list of directed edges, ``y`` has
the targets of the nodes. An ``.npz`` may also be a SciPy matrix, and ``adj_t`` a sparse tensor. Nothing is unpickled
but tensors.
"""

from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

from pggnn.data.formats.archives import check_size, read_npz
from pggnn.data.formats.jsonl import to_graphs
from pggnn.data.formats.validation import InvalidFile, Problem
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema

Arrays = dict[str, Any]
MATRICES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
"""Arrays of the formats of SciPy's matrices that are taken, beside ``data``, ``shape`` and ``format``."""


def read_arrays(path: str | Path, schema: Schema | None = None) -> Graphs:
    """The graph of a file, checked; read as those that a ``schema`` is of, where one is given."""
    path = Path(path)
    try:
        return to_graphs(path, [_with_our_names(READERS[path.suffix.lower()](path))], schema)
    except Problem as problem:
        raise InvalidFile(path, [str(problem)], more=False) from None


def _with_our_names(given: Arrays) -> Arrays:
    """The arrays of a graph as a line of a file has them."""
    if "format" in given and "shape" in given:
        given = _from_scipy(given)
    if "adj_t" in given:
        if "edge_index" in given or "edges" in given:
            raise Problem("adj_t and edges are both given: keep one of them")
        given = {**given, "edge_index": _from_adj_t(given["adj_t"])}
        del given["adj_t"]
    found = {"num_nodes" if name == "n" else name: _plain(name, value) for name, value in given.items()}
    if "edge_index" in found:
        edges = found.pop("edge_index")
        if not isinstance(edges, np.ndarray) or edges.ndim != 2 or len(edges) != 2:
            raise Problem(f"edge_index: expected two rows, sources and targets, found {_shape(edges)}")
        found |= {"edges": edges.T, "directed": True}
    nodes = next((len(found[key]) for key in ("x", "node_labels") if key in found and np.ndim(found[key])), None)
    nodes = found.setdefault("num_nodes", nodes) if nodes is not None else found.get("num_nodes")
    if "y" in found and np.ndim(found["y"]) and (len(found["y"]) != 1 or nodes == 1):
        found["node_y"] = found.pop("y")
    for name in ("y", "node_y"):
        if name in found and np.ndim(found[name]) == 2 and found[name].shape[1] == 1:
            found[name] = found[name].ravel()
    return found


def _plain(name: str, value: Any) -> Any:
    """An array, or the number or text of one without dimensions."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_complex():
            raise Problem(f"{name}: expected a dense tensor of real numbers, found {value.layout} of {value.dtype}")
        value = value.detach().float() if value.dtype == torch.bfloat16 else value.detach()
        value = value.cpu().numpy()
    if not isinstance(value, np.ndarray | bool | int | float | str):
        raise Problem(f"{name}: expected an array or a tensor, found {type(value).__name__}; leave it out")
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _from_scipy(given: Arrays) -> Arrays:
    """An edge from i to j for each entry at row i and column j. Entries that are not 1 are features of the edges."""
    kind = given["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind not in MATRICES or not {"data", *MATRICES[kind]} <= given.keys() or given["shape"].shape != (2,):
        raise Problem(f"a SciPy matrix in the format {kind!r}: save A.tocoo() with scipy.sparse.save_npz")
    first, second = (given[name] for name in MATRICES[kind])
    rows, columns = int(given["shape"][0]), int(given["shape"][1])
    if rows != columns:
        raise Problem(f"the matrix has {rows} rows and {columns} columns, expected as many rows as columns")
    if kind != "coo":
        sizes = np.diff(second)
        if len(second) != rows + 1 or second.min() < 0 or sizes.min(initial=0) < 0 or second[-1] != len(first):
            raise Problem("the matrix is damaged: its indptr does not fit its indices")
        first, second = np.repeat(np.arange(rows), sizes), first
    pair = (second, first) if kind == "csc" else (first, second)
    weights = {} if (given["data"] == 1).all() else {"edge_attr": given["data"].reshape(-1, 1)}
    return {"num_nodes": rows, "edge_index": np.stack(pair), **weights}


def _from_adj_t(value: Any) -> torch.Tensor:
    """The edges of a transposed adjacency matrix: its rows are the targets."""
    if not isinstance(value, torch.Tensor) or value.layout not in (torch.sparse_coo, torch.sparse_csr):
        raise Problem("adj_t: expected a sparse tensor; row, col, _ = adj_t.t().coo() are the two rows of edge_index")
    return value.to_sparse_coo().coalesce().indices().flip(0)


def _shape(value: Any) -> str:
    return f"the shape {list(np.shape(value))}"


def _read_npz(path: Path) -> Arrays:
    return dict(read_npz(path))


def _read_pt(path: Path) -> Arrays:
    check_size(path, path.stat().st_size)
    how = 'save tensors alone: torch.save(data.to_dict(), "graph.pt")'
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, ValueError, EOFError, KeyError, AttributeError, TypeError):
        raise Problem(f"it holds more than tensors, or is damaged; {how}") from None
    if not isinstance(found, dict):
        raise Problem(f"expected a dict of tensors, found {type(found).__name__}; {how}")
    return found


def _read_safetensors(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_size(path, path.stat().st_size)
    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise Problem(f"it is no file of safetensors, or damaged ({error})") from None


READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": _read_npz,
    ".pt": _read_pt,
    ".safetensors": _read_safetensors,
}
