"""Graph classification sets in GIN's text format and in TU's own, from a zip or a folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from pggnn.data.cache import data_root
from pggnn.data.dataset import GraphDataset, Transform, load_graphs
from pggnn.data.formats.archives import read_file, read_zip
from pggnn.data.formats.text import check_finite, check_lines, parse_numbers, ranges, whole
from pggnn.data.graphs import Graphs, compact, join_columns
from pggnn.data.schema import FOLDS, Name, Schema
from pggnn.data.splits import stratified_folds

VERSION = "tu 4"
INDEX = "10fold_idx"
"""Folder of the folds that come with a set in GIN's format."""
Table = np.ndarray


class TU(GraphDataset):
    """A set of labelled graphs: ``tu/NAME.zip`` or the folder ``tu/NAME`` under the data root.

    Labels are renumbered 0 … C−1 in sorted order, self-loops are removed. Features are, as in the paper, one-hot node
    labels, or one-hot degrees where nodes have no labels; node attributes, where given, come before them. Edge labels
    (one-hot) and attributes become ``edge_attr``. A node's neighbours are numbered as in the file.

    Args:
        name: Name of the set, for instance ``"PROTEINS"``.
        root, split, transform, pre_transform: See :class:`GraphDataset`; there are :meth:`folds` instead of splits.
    """

    def __init__(
        self,
        name: str,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
    ) -> None:
        file = f"tu/{name}"
        if Path(name).name != name:
            raise ValueError(f"a data set's name has no folders in it, got {name!r}")
        if not (data_root(root) / file).is_dir():
            file += ".zip"
        self.name = name
        super().__init__(load_graphs(file, root, VERSION, read_tu), file, root, split, transform, pre_transform)

    def folds(self, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
        """The paper's ten folds: indices for training and testing; see :func:`pggnn.data.splits.stratified_folds`."""
        return stratified_folds(self._data.y, seed)


def read_tu(path: str | Path, schema: Schema | None = None) -> Graphs:
    """Reads a zip or folder that holds ``NAME.txt`` (GIN's format) or ``NAME_A.txt`` and its companions (TU's), or a
    file in GIN's format alone. Folds in a folder ``10fold_idx`` become splits.

    With the ``schema`` of other graphs labels and classes get the numbers that they have there, and targets may be left
    out of TU's format.
    """
    path = Path(path)
    members: dict[PurePosixPath, bytes | bytearray]
    if path.is_file() and path.suffix.lower() == ".txt":
        if path.stem.endswith("_A"):
            raise ValueError(f"{path} is one of several files in TU's format: give their folder, {path.parent}")
        files = [path, *path.parent.glob(f"{INDEX}/*.txt")]
        members = {PurePosixPath(file): read_file(file) for file in sorted(files)}
    elif path.is_dir():
        files = [*path.glob("*.txt"), *path.glob(f"{INDEX}/*.txt")]
        if not files and (below := sorted({file.parent for file in path.glob("*/*.txt")})):
            raise ValueError(f"{path} has no .txt, but {below[0]} has: give that folder")
        members = {PurePosixPath(file): read_file(file) for file in sorted(files)}
    else:
        members = {PurePosixPath(name): text for name, text in read_zip(path, ".txt").items()}
    inside = [name for name in members if name.parent.name != INDEX]
    texts = {name.name: members[name] for name in inside}
    if len(texts) < len(inside):
        raise ValueError(f"{path}: two folders of the archive have files of the same name")
    return _with_folds(path, _read_texts(path, texts, schema), members)


def _with_folds(path: Path, graphs: Graphs, members: Mapping[PurePosixPath, bytes | bytearray]) -> Graphs:
    """The graphs with the folds that came with them, if there are ten and no graph is tested twice. Some sets of the
    authors of GIN leave up to nine graphs out, so that all folds have one size: these train in each."""
    files = {name.name: (name, text) for name, text in members.items() if name.parent.name == INDEX}
    expected = {fold: f"test_idx-{number}.txt" for number, fold in enumerate(FOLDS, start=1)}
    found: dict[str, Tensor] = {}
    for fold, file in expected.items():
        if file in files:
            name, text = files[file]
            values, counts = parse_numbers(str(name), text)
            found[fold] = torch.from_numpy(whole(str(name), values, np.repeat(np.arange(len(counts)), counts)))
    if not found:
        return graphs
    tested = torch.cat([*found.values()]).sort()[0]
    twice = tested[1:][tested[1:] == tested[:-1]].tolist()
    beyond = tested[(tested < 0) | (tested >= len(graphs))].tolist()
    wrong = [f"{file} is not there" for file in expected.values() if file not in files]
    wrong += [f"graph {graph} is tested twice" for graph in twice[:1]]
    wrong += [f"graph {graph} is named, but there are 0 to {len(graphs) - 1}" for graph in beyond[:1]]
    if wrong:
        raise ValueError(f"{path}: the folds in {INDEX} are not whole: {', '.join(wrong)}; mend or remove that folder")
    return replace(graphs, splits=found)


def _read_texts(path: Path, texts: Mapping[str, bytes | bytearray], schema: Schema | None) -> Graphs:
    names = [name.removesuffix("_A.txt") for name in texts if name.endswith("_A.txt")]
    if len(names) == 1:
        return _read_own_format(path, names[0], texts, schema)
    plain = [name for name in texts if f"{path.stem}.txt" == name] or [n for n in texts if n != "README.txt"]
    if len(names) > 1 or len(plain) != 1:
        raise ValueError(
            f"{path}: expected one NAME_A.txt (TU's format) or NAME.txt (GIN's), got {', '.join(texts) or 'no .txt'}"
        )
    return _read_gin_format(f"{path}: {plain[0]}", texts[plain[0]], schema)


def _read_gin_format(place: str, text: bytes | bytearray, schema: Schema | None) -> Graphs:
    """Number of graphs; for each ``n label``, then for each node ``tag degree neighbours… [attributes…]``."""
    values, counts = parse_numbers(place, text)
    first = np.cumsum(counts) - counts
    if len(counts) == 0 or counts[0] != 1:
        raise ValueError(f"{place}, line 1: expected the number of graphs alone")
    graphs = whole(place, values[:1], np.zeros(1, int))[0]
    heads = np.empty((max(min(graphs, len(counts)), 0), 2), np.int64)
    line, lines = 1, np.zeros(len(counts), bool)
    for graph in range(graphs):
        if line >= len(counts):
            raise ValueError(f"{place}: the first line promises {graphs} graphs, the file ends after {graph}")
        if counts[line] != 2:
            raise ValueError(
                f"{place}, line {line + 1}: expected 'nodes label' of graph {graph}, got {counts[line]} numbers"
            )
        heads[graph] = whole(place, values[first[line] : first[line] + 2], np.full(2, line))
        nodes = heads[graph, 0]
        if not 0 <= nodes < len(counts) - line:
            raise ValueError(
                f"{place}, line {line + 1}: graph {graph} has {nodes} nodes, but {len(counts) - line - 1} lines follow"
            )
        lines[line + 1 : line + 1 + nodes] = True
        line += 1 + nodes
    if graphs < 0 or line < len(counts):
        raise ValueError(f"{place}, line {line + 1}: more lines than the {graphs} graphs need")
    at = np.flatnonzero(lines)
    if len(at) == 0:
        raise ValueError(f"{place}: there are no nodes in it")
    check_lines(place, counts[at] < 2, at, "expected 'tag degree neighbours…'")
    tags = whole(place, values[first[at]], at)
    degrees = whole(place, values[first[at] + 1], at)
    extra = counts[at] - 2 - degrees
    wrong = (degrees < 0) | (extra < 0) | (extra != extra[0])
    if wrong.any():
        bad = int(wrong.argmax())
        raise ValueError(
            f"{place}, line {at[bad] + 1}: the node says it has {degrees[bad]} neighbours, "
            f"{counts[at[bad]] - 2} numbers follow" + (f", expected {extra[0]} attributes" if extra[0] > 0 else "")
        )
    neighbours = whole(place, values[ranges(first[at] + 2, degrees)], np.repeat(at, degrees))
    attributes = values[ranges(first[at] + 2 + degrees, extra)].reshape(len(at), -1)
    check_finite(place, attributes, at)
    sizes = heads[:, 0]
    graph_of_node = np.repeat(np.arange(graphs), sizes)
    center = np.repeat(np.arange(len(at)) - np.repeat(np.cumsum(sizes) - sizes, sizes), degrees)
    beyond = (neighbours < 0) | (neighbours >= np.repeat(sizes[graph_of_node], degrees))
    if beyond.any():
        bad = int(beyond.argmax())
        graph = graph_of_node[np.repeat(np.arange(len(at)), degrees)[bad]]
        raise ValueError(
            f"{place}, line {np.repeat(at, degrees)[bad] + 1}: neighbour {neighbours[bad]} in graph {graph}, "
            f"which has nodes 0 to {sizes[graph] - 1}"
        )
    # plans number a node's neighbours by the order of its incoming edges
    return _assemble(
        place, sizes, np.repeat(graph_of_node, degrees), np.stack([neighbours, center]), heads[:, 1], tags, attributes,
        schema=schema,
    )  # fmt: skip


def _read_own_format(path: Path, name: str, texts: Mapping[str, bytes | bytearray], schema: Schema | None) -> Graphs:
    """``A`` (edges, nodes counted from 1 over all graphs), ``graph_indicator``, and labels and attributes by name."""
    files = f"{path}: {name}"

    def table(kind: str, rows: int | None = None, needed: bool = False) -> Table | None:
        file = f"{name}_{kind}.txt"
        if file not in texts:
            if needed:
                raise ValueError(f"{path}: {file} is missing beside {name}_A.txt")
            return None
        place = f"{path}: {file}"
        values, counts = parse_numbers(place, texts[file], comma=True)
        if len(counts) and (counts != counts[0]).any():
            bad = int((counts != counts[0]).argmax())
            raise ValueError(f"{place}, line {bad + 1}: {counts[bad]} numbers, but {counts[0]} in line 1")
        found = values.reshape(len(counts), -1 if len(counts) else 0)
        if rows is not None and len(found) != rows:
            raise ValueError(f"{place}: {len(found)} lines, expected {rows}")
        if kind.endswith("attributes"):
            gaps = np.isnan(found) & (kind == "graph_attributes")  # targets
            check_finite(place, np.where(gaps, 0, found), np.arange(len(found)))
            return found.astype(np.float64)
        return whole(place, found, np.arange(len(found))[:, None])

    indicator = table("graph_indicator", needed=True)
    assert indicator is not None
    if indicator.shape[1] > 1:
        raise ValueError(f"{files}_graph_indicator.txt: expected one number in each line, got {indicator.shape[1]}")
    graph_of_node = indicator.reshape(-1) - 1
    steps = np.diff(graph_of_node, prepend=0)
    every = np.arange(nodes := len(graph_of_node))
    check_lines(f"{files}_graph_indicator.txt", steps < 0, every, "graphs must be numbered 1, 2, … in order")
    if nodes == 0:
        raise ValueError(f"{files}_graph_indicator.txt: there are no nodes in it")
    y = table("graph_labels")
    targets = table("graph_attributes", None if y is None else len(y))
    if y is not None and y.shape[1] > 1:
        raise ValueError(f"{files}_graph_labels.txt: expected one class in each line, got {y.shape[1]} numbers")
    given = y if targets is None else targets
    if given is None and schema is None:
        both = f"{name}_graph_labels.txt nor {name}_graph_attributes.txt"
        raise ValueError(f"{path}: neither {both} is there; only pggnn predict needs neither")
    graphs = int(graph_of_node[-1]) + 1 if given is None else len(given)
    if graph_of_node[-1] >= graphs:
        raise ValueError(f"{files}_graph_indicator.txt names graph {graph_of_node[-1] + 1}, but {graphs} have labels")
    sizes = np.bincount(graph_of_node, minlength=graphs)
    edges = table("A", needed=True)
    assert edges is not None
    edges = edges.reshape(-1, 2) - 1 if edges.shape[1] in (0, 2) else edges
    beyond = ((edges < 0) | (edges >= nodes)).any(1) | (edges.shape[1] != 2)
    check_lines(f"{files}_A.txt", beyond, np.arange(len(edges)), f"expected two nodes of 1 to {nodes}")
    graph_of_edge = graph_of_node[edges[:, 0]]
    apart = graph_of_edge != graph_of_node[edges[:, 1]]
    check_lines(f"{files}_A.txt", apart, np.arange(len(edges)), "an edge between two graphs")
    tags, attributes = table("node_labels", nodes), table("node_attributes", nodes)
    labels, edge_attributes = table("edge_labels", len(edges)), table("edge_attributes", len(edges))
    order = np.argsort(graph_of_edge, kind="stable")
    local = edges - (np.cumsum(sizes) - sizes)[graph_of_edge][:, None]
    return _assemble(
        str(path), sizes, graph_of_edge[order], local[order].T, given, tags, attributes,
        None if labels is None else labels[order], None if edge_attributes is None else edge_attributes[order], schema,
    )  # fmt: skip


def _assemble(
    place: str,
    sizes: np.ndarray,
    graph_of_edge: np.ndarray,
    edge_index: np.ndarray,
    y: np.ndarray | None,
    tags: np.ndarray | None,
    attributes: np.ndarray | None,
    edge_labels: np.ndarray | None = None,
    edge_attributes: np.ndarray | None = None,
    schema: Schema | None = None,
) -> Graphs:
    known = schema or Schema()
    kept = edge_index[0] != edge_index[1]
    edge_index, graph_of_edge = edge_index[:, kept], graph_of_edge[kept]
    constant = tags is not None and len(np.unique(tags.reshape(len(tags), -1), axis=0)) < 2
    if constant and (known.degrees or not known.node_labels):
        tags = None  # one label for all says nothing, unless others are known
    degrees = tags is None and (attributes is None or attributes.shape[1] == 0)
    if degrees:
        center = edge_index[1] + (np.cumsum(sizes) - sizes)[graph_of_edge]
        tags = np.bincount(center, minlength=int(sizes.sum()))
    x, features, node_labels = _columns(f"{place}: x", tags, attributes, known.node_labels)
    edge: dict[str, Tensor] = {}
    edge_features = 0
    edge_names: tuple[Name, ...] = ()
    if kept.any() and (edge_labels is not None or edge_attributes is not None):
        named, plain = (None if table is None else table[kept] for table in (edge_labels, edge_attributes))
        columns = _columns(f"{place}: edge_attr", named, plain, known.edge_labels)
        edge["edge_attr"], edge_features, edge_names = columns
    target: dict[str, Tensor] = {}
    level, task, width, classes = known.level, known.task, known.width, known.classes
    if y is not None and y.dtype.kind == "i":
        names, index = np.unique(y.reshape(-1), return_inverse=True)
        level, task, width, classes = "graph", "classification", None, tuple(names.tolist())
        if set(classes) <= set(known.classes):  # else they are none of the model's, and it says so where they matter
            index, classes = np.array([known.classes.index(name) for name in classes])[index], known.classes
        target["y"] = torch.from_numpy(index)
    elif y is not None:
        target["y"] = torch.from_numpy(y).float()
        level, task, width, classes = "graph", "regression", y.shape[1], ()
    return Graphs(
        torch.from_numpy(sizes.astype(np.int64)),
        torch.from_numpy(np.bincount(graph_of_edge, minlength=len(sizes))),
        compact(edge_index), {"x": x}, edge, target,
        Schema(level, task, width, features, edge_features, classes, node_labels, edge_names, degrees),
    )  # fmt: skip


def _columns(
    place: str, labels: np.ndarray | None, attributes: np.ndarray | None, known: tuple[Name, ...]
) -> tuple[Tensor, int, tuple[Name, ...]]:
    """Attributes and labels as columns or ids, how many columns have no name, and the names of the others: those that
    are ``known``, if any, and no others then."""
    if attributes is not None and attributes.shape[1] == 0:
        attributes = None
    ids = [] if labels is None else [np.unique(one, return_inverse=True) for one in np.atleast_2d(labels.T)]
    if len(ids) == 1 and known:
        found, index = ids[0]
        unknown = sorted(set(found.tolist()) - set(known))
        if unknown:
            raise ValueError(f"{place}: label {unknown[0]} is none of those known: {', '.join(map(str, known[:8]))}, …")
        ids = [(np.array(known), np.array([known.index(name) for name in found.tolist()], int)[index])]
    columns = join_columns(place, attributes, [(index, len(found)) for found, index in ids])
    names = tuple(ids[0][0].tolist()) if len(ids) == 1 else ()
    return columns, (columns.size(1) - len(names) if columns.dim() > 1 else 0), names
