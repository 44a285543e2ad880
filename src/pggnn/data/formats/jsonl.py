"""Your own graphs as a JSON-lines file: one graph per line, each a JSON object.

    {"id": "water", "node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "y": -1.36, "split": "train"}

========================  =============================================================================================
``num_nodes``             how many nodes; may be left out where ``x`` or ``node_labels`` is given
``x``                     the features of each node: a list of numbers per node, of one length throughout the file
``node_labels``           a label per node, text or whole numbers; becomes one-hot columns after those of ``x``
``edges``                 pairs ``[source, target]`` of nodes, counted from 0; always given, ``[]`` if there are none
``directed``              false unless given: each edge is listed once and read both ways. If true, the list is taken
                          as it stands
``edge_attr``             the features of each listed edge, as ``x``
``edge_labels``           a label per listed edge, as ``node_labels``
``y``                     the graph's target, or a list of several
``node_y``                a target, or a list of several, for each node
``split``                 ``"train"``, ``"val"`` or ``"test"``
``train_mask``,           true or false for each node, instead of ``split``: where the nodes of a graph are split
``val_mask``,
``test_mask``
``id``                    text or a whole number, different for each graph
========================  =============================================================================================

Text and whole numbers as targets are classes, numbered in sorted order as labels are. If any target of the file is
written with a decimal point (``3.0``), they are all regression targets. Lists of targets are regression, or multilabel
if they hold nothing but 0 and 1. A target that is not known is ``null`` (or NaN): losses and metrics leave it out. A
node's neighbours are numbered in the order in which its edges are listed. An edge that joins nodes already joined is an
error unless ``directed``, for then all would be doubled.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pggnn.data.dataset import GraphDataset, Transform
from pggnn.data.formats.validation import (
    GZIP,
    MASKS,
    MOST_NODES,
    MOST_PROBLEMS,
    GraphLine,
    InvalidFile,
    KeyColumn,
    Problem,
    check_graph,
    describe,
    read_line,
)
from pggnn.data.graphs import Graphs, compact, join_columns
from pggnn.data.schema import SPLITS, UNKNOWN, Name, Schema

OF_NODES = ("x", "node_labels", "y", "node_y")
COLUMNS = (*OF_NODES, "edge_attr", "edge_labels")
LONGEST_LINE = 128 * 2**20


def load_jsonl(
    path: str | Path,
    schema: Schema | None = None,
    split: str | None = None,
    transform: Transform = None,
    pre_transform: Transform = None,
) -> GraphDataset:
    """Reads and checks a file of graphs; all its problems, up to 20, are in one :class:`InvalidFile`.

    Args:
        path: The file, in UTF-8.
        schema: That of an earlier file, if this one must be read alike: labels and classes get the same numbers,
            unknown ones are errors, and targets may be left out.
        split, transform, pre_transform: See :class:`GraphDataset`.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> file = Path(mkdtemp()) / "graphs.jsonl"
        >>> lines = ['{"node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "y": "wet"}']
        >>> lines += ['{"node_labels": ["H", "H"], "edges": [[0, 1]], "y": "gas"}']
        >>> _ = file.write_text("\\n".join(lines))
        >>> from pggnn.data.formats.jsonl import load_jsonl
        >>> graphs = load_jsonl(file)
        >>> len(graphs), graphs.schema.task, graphs.schema.in_channels
        (2, 'classification', 2)
    """
    graphs, ids = read_jsonl(path, schema)
    dataset = GraphDataset(graphs, split=split, transform=transform, pre_transform=pre_transform)
    dataset.ids = ids
    return dataset


def read_jsonl(path: str | Path, schema: Schema | None = None) -> tuple[Graphs, list[Name] | None]:
    """The graphs of a file and their ids, if it has any; see :func:`load_jsonl`."""
    lines = _checked(path, _lines(path), schema)
    ids = [line["id"] for line in lines if "id" in line]
    return _to_graphs(str(path), lines, schema or _infer(lines)), ids or None


def to_graphs(path: str | Path, graphs: list[dict[str, Any]], schema: Schema | None = None) -> Graphs:
    """Graphs from what the lines of a file would hold; the values of nodes and edges may be arrays."""
    lines = _checked(path, ((0, graph) for graph in graphs), schema)
    return _to_graphs(str(path), lines, schema or _infer(lines))


def _checked(
    path: str | Path, texts: Iterable[tuple[int, bytes | dict[str, Any]]], schema: Schema | None
) -> list[GraphLine]:
    """The graphs of a file, or all that is wrong with them."""
    lines, problems, more = _read_graphs(texts, schema)
    if not lines and not problems:
        problems = ["the file holds no graph; expected one JSON object per line"]
    if problems:
        raise InvalidFile(path, problems, more)
    return lines


def _read_graphs(
    texts: Iterable[tuple[int, bytes | dict[str, Any]]], schema: Schema | None
) -> tuple[list[GraphLine], list[str], bool]:
    """The good graphs, what is wrong with the others, and whether there is more. Each has the number of its line, 0
    where there are no lines."""
    kinds: dict[str, str | None] = {}
    if schema:
        kinds = {key: column.kind for key, column in _columns_of(schema).items()}
    origin = dict.fromkeys(kinds, "the schema")
    lines: list[GraphLine] = []
    problems: list[str] = []
    ids: dict[Name, int] = {}
    nodes = 0
    for number, text in texts:
        if len(problems) >= MOST_PROBLEMS:
            return lines, problems[:MOST_PROBLEMS], True
        if isinstance(text, bytes) and not text.strip():
            continue
        place = f"line {number}" if number else "the graph"
        try:
            if isinstance(text, bytes) and len(text) > LONGEST_LINE:
                raise Problem(
                    f"a line may have {LONGEST_LINE >> 20} MiB; leave out digits, or save one large graph as .npz"
                )
            graph = read_line(text) if isinstance(text, bytes) else text
        except Problem as problem:
            problems.append(f"{place}, {problem}")
            continue
        line, wrong = check_graph(graph)
        if not wrong:
            if schema and not lines and line.target is None:
                del kinds["y"], kinds["node_y"]
            found = _kinds(line)
            if not found.items() <= kinds.items():
                for key in found.keys() - kinds:
                    kinds[key], origin[key] = found[key], place
                for key in [key for key in found if found[key] != kinds[key]]:
                    hint = "; targets of nodes go to node_y" if key == "y" and "list" in found[key] else ""
                    if key in ("y", "node_y") and line.target is None:
                        hint = "; a target that is not known is null"
                    wrong.append(f"{key}: found {found[key]}, but {origin[key]} has {kinds[key]}{hint}")
            if "id" in line and ids.setdefault(line["id"], number) != number:
                wrong.append(f"id: line {ids[line['id']]} has the same")
            nodes += line["num_nodes"]
            if nodes > MOST_NODES:
                wrong.append(f"a file may have {MOST_NODES} nodes; with this graph it has more")
            if schema:
                wrong += _unknown_names(schema, line)
            if not wrong:
                lines.append(line)
        named = f" (graph {describe(graph['id'])})" if type(graph.get("id")) in (str, int) else ""
        problems += [f"{place}{named}, {problem}" for problem in wrong]
    return lines, problems[:MOST_PROBLEMS], len(problems) > MOST_PROBLEMS


def _kinds(line: GraphLine) -> dict[str, str]:
    """What must be the same for all graphs; keys of edges count only where there are edges, and targets where one is
    known."""
    keys = COLUMNS if len(line["edges"].values) else OF_NODES
    kinds = {key: kind for key in keys if (kind := line[key].kind if key in line else "none")}
    return kinds | {key: "one" if key in line else "none" for key in ("id", "split", *MASKS)}


def _columns_of(schema: Schema) -> dict[str, KeyColumn]:
    """Columns of the kinds that graphs of this schema have."""
    target, none = KeyColumn(schema.classes or [0], schema.width), KeyColumn(())
    return {
        "x": KeyColumn([0], schema.features) if schema.features else none,
        "node_labels": KeyColumn(schema.node_labels),
        "edge_attr": KeyColumn([0], schema.edge_features) if schema.edge_features else none,
        "edge_labels": KeyColumn(schema.edge_labels),
        "y": target if schema.level == "graph" else none,
        "node_y": target if schema.level == "node" else none,
    }


def _unknown_names(schema: Schema, line: GraphLine) -> list[str]:
    """Labels and classes that the schema does not have, as problems."""
    known = {"node_labels": schema.node_labels, "edge_labels": schema.edge_labels}
    if line.target and (classes := (0, 1) if schema.task == "multilabel" else schema.classes):
        known[line.target] = classes
    problems = []
    for key, names in known.items():
        found = dict.fromkeys(line[key].values if key in line else ())
        found.pop(None, None)
        strange = [name for name in found if isinstance(name, float) or name not in names]
        if strange:
            some = ", ".join(map(describe, names[:5])) + ", …" * (len(names) > 5)
            problems.append(f"{key}: {describe(strange[0])} is not among the known: {some}")
    return problems


def _lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of one that is too long only its beginning, as long as it takes to see that."""
    with open(path, "rb") as file:
        if file.peek(2)[:2] == GZIP:
            raise InvalidFile(path, ["it is packed by gzip: unpack it first"], more=False)
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            rest = line
            while len(line) > LONGEST_LINE and rest and not rest.endswith(b"\n"):
                rest = file.readline(2**24)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _to_graphs(place: str, lines: list[GraphLine], schema: Schema) -> Graphs:
    edges = [line["edges"].values.reshape(-1, 2) for line in lines]
    lengths, listed = list(map(len, edges)), np.concatenate(edges)
    directed = np.repeat([line.get("directed", False) for line in lines], lengths)
    # An edge that is read both ways is followed by its reverse, so that both ends have their edges in the listed order.
    copies = np.where(directed | (listed[:, 0] == listed[:, 1]), 1, 2)
    source = np.repeat(np.arange(len(listed)), copies)
    reverse = np.diff(source, prepend=-1) == 0
    pairs = listed[source]
    pairs[reverse] = pairs[reverse, ::-1]
    graph_of_edge = np.repeat(np.arange(len(lines)), lengths)[source]

    node: dict[str, Tensor] = {}
    edge: dict[str, Tensor] = {}
    graph: dict[str, Tensor] = {}
    node |= {
        key: torch.from_numpy(np.concatenate([line[key].values for line in lines])) for key in MASKS if key in lines[0]
    }
    if schema.in_channels:
        node["x"] = _features(place, lines, "x", schema.features, "node_labels", schema.node_labels)
    if schema.edge_dim:
        of_listed = _features(place, lines, "edge_attr", schema.edge_features, "edge_labels", schema.edge_labels)
        edge["edge_attr"] = of_listed[torch.from_numpy(source)]
    if (target := lines[0].target) and schema.task:
        (node if target == "node_y" else graph)["y"] = _targets(lines, target, schema)
    positions = {name: [i for i, line in enumerate(lines) if line.get("split") == name] for name in SPLITS}
    return Graphs(
        torch.tensor([line["num_nodes"] for line in lines]),
        torch.from_numpy(np.bincount(graph_of_edge, minlength=len(lines))),
        compact(pairs.T),
        node,
        edge,
        graph,
        schema,
        {name: torch.tensor(found) for name, found in positions.items() if found},
    ).checked(place)


def _infer(lines: list[GraphLine]) -> Schema:
    target, task = lines[0].target, None
    if target and not any(True for _ in _chained(lines, target)):
        target = None
    width = next((line[target].width for line in lines if line[target].width), None) if target else None
    if target:
        types, task = set(map(type, _chained(lines, target))), "regression"
        if str in types or (float not in types and width is None):
            task = "classification"
        elif float not in types and set(_chained(lines, target)) <= {0, 1}:
            task = "multilabel"
    return Schema(
        level={"y": "graph", "node_y": "node"}.get(target or ""),
        task=task,
        width=width,
        features=_width(lines, "x"),
        edge_features=_width(lines, "edge_attr"),
        classes=_distinct(lines, target) if target and task == "classification" else (),
        node_labels=_distinct(lines, "node_labels"),
        edge_labels=_distinct(lines, "edge_labels"),
    )


def _chained(lines: list[GraphLine], key: str) -> Iterable[Any]:
    """All values of a key, without gaps."""
    return (value for line in lines if key in line for value in line[key].values if value is not None)


def _width(lines: list[GraphLine], key: str) -> int:
    return next((line[key].width or 0 for line in lines if key in line and len(line[key].values)), 0)


def _distinct(lines: list[GraphLine], key: str) -> tuple[Name, ...]:
    return tuple(sorted(set(_chained(lines, key))))


def _numbers(lines: list[GraphLine], key: str, names: tuple[Name, ...]) -> np.ndarray:
    number = {name: i for i, name in enumerate(names)}
    return np.fromiter(map(number.__getitem__, _chained(lines, key)), np.int64)


def _features(place: str, lines: list[GraphLine], key: str, width: int, labels: str, names: tuple[Name, ...]) -> Tensor:
    empty = np.empty(0, np.float32)
    rows = np.concatenate([empty, *(line[key].values for line in lines if key in line)]) if width else None
    ids = [(_numbers(lines, labels, names), len(names))] if names else []
    return join_columns(f"{place}: {key}", None if rows is None else rows.reshape(-1, width), ids)


def _targets(lines: list[GraphLine], key: str, schema: Schema) -> Tensor:
    columns, width = [line[key] for line in lines], schema.width or 1
    rows = chain.from_iterable(
        column.values if column.width == schema.width else [None] * (width * len(column.values)) for column in columns
    )
    if schema.task == "classification":
        number = {name: i for i, name in enumerate(schema.classes)} | {None: UNKNOWN}
        return torch.from_numpy(np.fromiter(map(number.__getitem__, rows), np.int64))
    values = torch.from_numpy(np.array([*rows], np.float32))  # None is NaN there
    return values if schema.width is None else values.view(-1, schema.width)
