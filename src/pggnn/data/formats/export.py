"""Any PyG data set → a JSON-lines file, in the format of :mod:`pggnn.data.formats.jsonl`."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx, from_scipy_sparse_matrix, to_edge_index

from pggnn.data.dataset import GraphDataset
from pggnn.data.formats.validation import MASKS
from pggnn.data.graphs import Graphs, is_known, starts
from pggnn.data.schema import SPLITS, UNKNOWN, Name, Schema
from pggnn.files import replacing

ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), check_circular=False)
KEPT = {"edge_index", "num_nodes", "_num_nodes", "x", "edge_attr", "y", *MASKS}
"""What is written of a graph, and PyG's list of the numbers of nodes."""
Column = tuple[np.ndarray, tuple[Name, ...]]
"""Rows, and what their values are called, if they have names."""
Columns = dict[str, Column]


def save_jsonl(
    graphs: Iterable[Any], path: str | Path, splits: Mapping[str, Sequence[int] | Tensor] | None = None
) -> Path:
    """Writes a data set whole or not at all; :func:`pggnn.data.formats.jsonl.load_jsonl` gives the same graphs.

    Whole numbers in ``y`` are written as classes (``y.float()`` for regression), those in ``x`` or ``edge_attr``, if
    there is one for each node or edge, as labels. Edges are written as they stand, with ``"directed": true``; turned
    round where the data set's ``flow`` is ``"target_to_source"``, since sources are the neighbours in a file: each node
    keeps its neighbours and their order. What else graphs have (``edge_weight``, ``pos`` …) has no place in
    the format: a warning names what is left out.

    Args:
        graphs: A data set or list of ``Data``; also graphs of NetworkX and SciPy's sparse matrices. Of a
            :class:`GraphDataset`, ids, splits and all names are kept.
        path: The file.
        splits: The graphs of ``"train"``, ``"val"`` and ``"test"``: numbers, each once, or a mask over all graphs.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn.data.formats.export import save_jsonl
        >>> graph = Data(x=torch.tensor([0, 1]), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([1.5]))
        >>> print(save_jsonl([graph], Path(mkdtemp()) / "graphs.jsonl").read_text())
        {"num_nodes":2,"directed":true,"node_labels":[0,1],"edges":[[0,1],[1,0]],"y":1.5}
    """
    own = graphs if isinstance(graphs, GraphDataset) and graphs.transform is None else None
    whole = own if own is not None and own._indices is None else None
    listed: list[Any] = [whole._data] if whole is not None else [*map(_as_data, graphs)]
    stored = Graphs.of(whole) if whole is not None else _gather(listed)
    if len(stored) == 0:
        raise ValueError("there are no graphs to write")
    if (stored.nodes == 0).any():
        raise ValueError(f"graph {int(stored.nodes.argmin())} cannot be written: it needs one node at least")
    stored.checked("the graphs cannot be written")
    for _, name, value in stored.attributes():
        if name in KEPT and value.is_complex():
            raise ValueError(
                f"the graphs cannot be written: {name} is {value.dtype}, but the format has real numbers; give real "
                "and imaginary parts as columns, torch.view_as_real"
            )
    if isinstance(graphs, GraphDataset) and graphs.schema.flow == "target_to_source":
        stored = replace(stored, edge_index=stored.edge_index.flip(0))
    if splits is None and own is not None:
        split_of = _split_of({name: own.splits[name] for name in SPLITS if name in own.splits}, own.len())
    else:
        split_of = _split_of(splits or {}, len(stored))
    if left := sorted({key for graph in listed for key in graph.to_dict()} - KEPT):
        what = "the format has no place for it; what a network should read belongs in x or edge_attr"
        warnings.warn(f"{', '.join(left)} left out: {what}", stacklevel=2)
    numbers = own.indices() if own is not None else range(len(stored))
    with replacing(path) as unfinished, open(unfinished, "w", encoding="ascii", newline="\n") as file:
        for i, entry in enumerate(_entries(stored, own.schema if own is not None else None)):
            try:
                if own is not None and own.ids is not None:
                    entry = {"id": own.ids[numbers[i]]} | entry
                if split_of:
                    entry["split"] = split_of.get(i if splits is not None else numbers[i])
                    if entry["split"] is None:
                        raise ValueError("it is in none of the splits")
                file.write(ENCODER.encode(entry) + "\n")
            except ValueError as error:
                raise ValueError(f"graph {i} cannot be written: {error}") from None
    return Path(path)


def _split_of(splits: Mapping[str, Sequence[int] | Tensor], count: int) -> dict[int, str]:
    """The split of each of ``count`` graphs; splits are lists of numbers or masks."""
    if strange := set(splits) - set(SPLITS):
        raise ValueError(f"splits must be named {', '.join(SPLITS)}, got {', '.join(map(str, strange))}")
    found: dict[int, str] = {}
    for name, members in splits.items():
        index = np.asarray(members.cpu() if isinstance(members, Tensor) else [*members])
        if index.dtype == bool and index.shape != (count,):
            raise ValueError(f"split {name!r}, a mask, must have the shape [{count}], got {list(index.shape)}")
        index = np.flatnonzero(index) if index.dtype == bool else index
        if index.size and (index.ndim != 1 or index.dtype.kind not in "iu"):
            raise ValueError(f"split {name!r} must be the numbers of its graphs, or a mask, got {members!r}")
        if index.size and not 0 <= index.min() <= index.max() < count:
            wrong = index.min() if index.min() < 0 else index.max()
            raise ValueError(f"split {name!r} names graph {wrong}; they are numbered 0 to {count - 1}")
        for i in index.tolist():
            if i in found:
                raise ValueError(f"graph {i} is in the splits twice, {found[i]!r} and {name!r}; it may be in one, once")
            found[i] = name
    return found


def _as_data(graph: Any) -> Any:
    """A graph of another library as PyG's ``Data``; ``adj_t`` as ``edge_index``."""
    library = type(graph).__module__.partition(".")[0]
    if library == "networkx":
        return from_networkx(graph)
    if library == "scipy":
        edge_index, weight = from_scipy_sparse_matrix(graph)
        attributes = {} if (weight == 1).all() else {"edge_attr": weight.view(-1, 1)}
        return Data(edge_index=edge_index, num_nodes=graph.shape[0], **attributes)
    if isinstance(graph, Data) and "adj_t" in graph and "edge_index" not in graph:
        graph = copy(graph)
        adj_t = graph.adj_t
        row, col = to_edge_index(adj_t)[0] if isinstance(adj_t, Tensor) else adj_t.coo()[:2]
        graph.edge_index = torch.stack([col, row])
        del graph.adj_t
    return graph


def _gather(graphs: list[Data]) -> Graphs:
    """The graphs end to end, with those of ``x``, ``edge_attr`` and ``y`` that they have."""
    for i, graph in enumerate(graphs):
        if not isinstance(graph.edge_index, Tensor) or not graph.num_nodes:
            raise ValueError(f"graph {i} cannot be written: it needs edge_index and one node at least, got {graph}")
    nodes, edges = (
        torch.tensor([getattr(graph, count) for graph in graphs], dtype=torch.long)
        for count in ("num_nodes", "num_edges")
    )
    found: dict[str, list[Tensor]] = {}
    for name in ("x", "edge_attr", "y", *MASKS):
        given = [_tensor(graph.get(name), f"graph {i} cannot be written: {name}") for i, graph in enumerate(graphs)]
        values = [value if value.dim() else value.reshape(1) for value in given if value is not None]
        if values and len(values) < len(graphs):
            raise ValueError(f"the graphs cannot be written: {len(values)} of {len(graphs)} have {name}")
        first = next((i for i, value in enumerate(values) if value.shape != (0,)), 0)  # others may be of no edges
        for i, value in enumerate(values):
            if value.shape != (0,) and value.shape[1:] != values[first].shape[1:]:
                shapes = f"{list(value.shape)}, that of graph {first} {list(values[first].shape)}"
                raise ValueError(f"graph {i} cannot be written: {name} has the shape {shapes}; widths must be the same")
        if values:
            found[name] = values
    node = {name: torch.cat(found[name]) for name in ("x", *MASKS) if name in found}
    edge = {"edge_attr": torch.cat(found["edge_attr"])} if "edge_attr" in found else {}
    graph_level: dict[str, Tensor] = {}
    if "y" in found:
        rows = torch.tensor([value.size(0) for value in found["y"]])
        by_node, by_graph = rows == nodes, rows == 1
        if not by_node.all() and not by_graph.all():
            wrong = int((by_node | by_graph).to(torch.uint8).argmin())
            raise ValueError(
                f"graph {wrong}: y of shape {list(found['y'][wrong].shape)}; all graphs must have one row in y, or all "
                "one for each node"
            )
        (graph_level if by_graph.all() else node)["y"] = torch.cat(found["y"])
    edge_index = torch.cat([torch.empty(2, 0, dtype=torch.long), *(graph.edge_index.long() for graph in graphs)], dim=1)
    return Graphs(nodes, edges, edge_index, node, edge, graph_level)


def _tensor(value: Any, what: str) -> Tensor | None:
    """What a graph has as a tensor: it may also be a number, or several."""
    if value is None or isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{what} must be a tensor, or numbers, got {value!r}") from None


def _entries(graphs: Graphs, schema: Schema | None) -> Iterator[dict[str, Any]]:
    """The graphs as objects of the format; given a schema, labels and classes by name."""
    known = (schema.features, schema.node_labels) if schema else None
    of_nodes = _columns(graphs.node.get("x"), "x", "node_labels", known)
    known = (schema.edge_features, schema.edge_labels) if schema else None
    of_edges: Columns = {"edges": (graphs.edge_index.t().cpu().numpy(), ())}
    of_edges |= _columns(graphs.edge.get("edge_attr"), "edge_attr", "edge_labels", known)
    of_graphs: Columns = {}
    for columns, key, level in ((of_nodes, "node_y", graphs.node), (of_graphs, "y", graphs.graph)):
        if "y" in level:
            columns[key] = _targets(level["y"], schema)
    of_nodes |= {mask: (graphs.node[mask].bool().cpu().numpy(), ()) for mask in MASKS if mask in graphs.node}
    node, edge = starts(graphs.nodes).tolist(), starts(graphs.edges).tolist()
    for i, bounds in enumerate(zip(pairwise(node), pairwise(edge), strict=True)):
        entry: dict[str, Any] = {"num_nodes": node[i + 1] - node[i], "directed": True}
        for columns, (first, last) in zip((of_nodes, of_edges), bounds, strict=True):
            entry |= {key: _rows(column, first, last) for key, column in columns.items()}
        yield entry | {key: _rows(column, i, i + 1)[0] for key, column in of_graphs.items()}


def _rows(column: Column, first: int, last: int) -> list[Any]:
    values, names = column
    rows: list[Any] = values[first:last].tolist()
    return [None if i == UNKNOWN else names[i] for i in rows] if names else rows


def _columns(value: Tensor | None, features: str, labels: str, known: tuple[int, tuple[Name, ...]] | None) -> Columns:
    if value is None or (value.dim() > 1 and value.size(1) == 0):
        return {}
    if known is None:
        if value.numel() == len(value) and not value.is_floating_point():
            return {labels: _column(value.flatten())}
        return {features: _column(value.flatten(1) if value.dim() > 1 else value.unsqueeze(1))}
    width, names = known
    columns = {features: _column(value[:, :width])} if width else {}
    if names:
        columns[labels] = _column(value if value.dim() == 1 else value[:, width:].argmax(1), names)
    return columns


def _targets(y: Tensor, schema: Schema | None) -> Column:
    if schema is None and not y.is_floating_point() and y.numel() == len(y):
        y = y.flatten()
    known = is_known(y).flatten(1) if y.dim() > 1 else is_known(y)
    if schema is not None and schema.task == "multilabel":
        y = y.nan_to_num().long()
    values, names = _column(y.flatten(1) if y.dim() > 1 else y, schema.classes if schema else ())
    if not names and not known.all():
        values = values.astype(object)
        values[~known.cpu().numpy()] = None
    return values, names


def _column(value: Tensor, names: tuple[Name, ...] = ()) -> Column:
    """In main memory; true and false as 1 and 0, and what NumPy does not know (bfloat16) as float32."""
    if value.is_floating_point() and value.dtype not in (torch.half, torch.float, torch.double):
        value = value.float()
    return (value.long() if value.dtype == torch.bool else value).cpu().numpy(), names
