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
``id``                    text or a whole number, different for each graph
========================  =============================================================================================

Text and whole numbers as targets are classes, numbered in sorted order as labels are. If any target of the file is
written with a decimal point (``3.0``), they are all regression targets. Lists of targets are regression, or multilabel
if they hold nothing but 0 and 1. A node's neighbours are numbered in the order in which its edges are listed. An edge
that joins nodes already joined is an error unless ``directed``, for then all would be doubled.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from pggnn.data.assembly import assemble
from pggnn.data.records import MOST_NODES, SPLITS, Name, Problem, Record, check_graph, describe, read_line
from pggnn.data.schema import Schema
from pggnn.files import replacing

MOST_PROBLEMS = 20
LONGEST_LINE = 128 * 2**20


class InvalidFile(ValueError):
    """A file that cannot be read as graphs; :attr:`problems` says why, each with its place."""

    def __init__(self, path: str | Path, problems: list[str], more: bool):
        self.problems = problems
        count = f"{len(problems)}{' or more' * more} problem{'s' * (len(problems) > 1)}"
        super().__init__("\n  ".join([f"{path}: {count}", *problems]))


class JsonGraphs(InMemoryDataset):
    """The graphs of a file, as :func:`load_jsonl` gives them."""

    def __init__(
        self,
        data: Data,
        slices: dict[str, Tensor],
        schema: Schema,
        ids: list[Name] | None,
        splits: dict[str, Tensor],
        transform: Callable[[Data], Data] | None = None,
    ):
        super().__init__(None, transform)
        self._data, self.slices = data, slices
        self.schema = schema
        self.ids = ids
        """Of all graphs of the file, or None if it gives none."""
        self.splits = splits
        """Positions in the file of the graphs of each split that it names: ``graphs[graphs.splits["train"]]``."""

    @property
    def num_classes(self) -> int:
        """Numbers that a model has to give for each graph or node, as elsewhere in PyG."""
        return self.schema.out_channels


def load_jsonl(
    path: str | Path, schema: Schema | None = None, transform: Callable[[Data], Data] | None = None
) -> JsonGraphs:
    """Reads and checks a file of graphs; all its problems, up to 20, are in one :class:`InvalidFile`.

    Args:
        path: The file, in UTF-8.
        schema: That of an earlier file, if this one must be read alike: labels and classes get the same numbers,
            unknown ones are errors, and targets may be left out.
        transform: Applied to each graph whenever it is taken out.
    """
    records, problems, more = _read_records(path, schema)
    if not records and not problems:
        problems = ["the file holds no graph; expected one JSON object per line"]
    if problems:
        raise InvalidFile(path, problems, more)
    try:
        data, slices, schema = assemble(records, schema)
    except Problem as problem:
        raise InvalidFile(path, [str(problem)], False) from None
    ids = [record.id for record in records if record.id is not None] or None
    positions = {name: [i for i, record in enumerate(records) if record.split == name] for name in SPLITS}
    splits = {name: torch.tensor(found) for name, found in positions.items() if found}
    return JsonGraphs(data, slices, schema, ids, splits, transform)


def _read_records(path: str | Path, schema: Schema | None) -> tuple[list[Record], list[str], bool]:
    """The good graphs, what is wrong with the others, and whether there is more."""
    expected = {key: ("the schema", said) for key, said in schema.outline().items()} if schema else {}
    records: list[Record] = []
    problems: list[str] = []
    ids: dict[Name, int] = {}
    nodes = 0
    for number, line in _lines(path):
        if len(problems) >= MOST_PROBLEMS:
            return records, problems[:MOST_PROBLEMS], True
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            if len(line) > LONGEST_LINE:
                raise Problem(f"a line may have {LONGEST_LINE >> 20} MiB; split the graph or leave out digits")
            graph = read_line(line)
        except Problem as problem:
            problems.append(f"{place}, {problem}")
            continue
        record, wrong = check_graph(graph)
        if record is not None:
            if schema and not records and record.level is None:
                expected.pop("y", None)
                expected.pop("node_y", None)
            for key, said in record.outline().items():
                where, agreed = expected.setdefault(key, (place, said))
                if said != agreed:
                    hint = "; targets of nodes go to node_y" if key == "y" and "list" in said else ""
                    wrong.append(f"{key}: found {said}, but {where} has {agreed}{hint}")
            if record.id is not None and ids.setdefault(record.id, number) != number:
                wrong.append(f"id: line {ids[record.id]} has the same")
            nodes += record.num_nodes
            if nodes > MOST_NODES:
                wrong.append(f"a file may have {MOST_NODES} nodes, this graph is beyond")
            if schema:
                wrong += schema.unknown(record)
            if not wrong:
                records.append(record)
        named = f" (graph {describe(graph['id'])})" if type(graph.get("id")) in (str, int) else ""
        problems += [f"{place}{named}, {text}" for text in wrong]
    return records, problems[:MOST_PROBLEMS], len(problems) > MOST_PROBLEMS


def _lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of one that is too long only its beginning, as long as it takes to see that."""
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            rest = line
            while len(line) > LONGEST_LINE and rest and not rest.endswith(b"\n"):
                rest = file.readline(2**24)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def save_jsonl(
    graphs: Iterable[Data], path: str | Path, splits: Mapping[str, Sequence[int] | Tensor] | None = None
) -> Path:
    """Writes any PyG data set, whole or not at all, so that :func:`load_jsonl` gives the same graphs.

    Whole numbers in ``y`` are written as classes (``y.float()`` for regression), those in ``x`` or ``edge_attr``, if
    there is one for each node or edge, as labels. Edges are written as they stand, with ``"directed": true``.

    Args:
        graphs: A data set or list of ``Data``. Of :class:`JsonGraphs`, ids, splits and all names are kept.
        path: The file.
        splits: Positions of the graphs of ``"train"``, ``"val"`` and ``"test"``.
    """
    graphs = graphs if isinstance(graphs, InMemoryDataset) else list(graphs)
    if len(graphs) == 0:
        raise ValueError("there are no graphs to write")
    own = graphs if isinstance(graphs, JsonGraphs) and graphs.transform is None else None
    given = splits if splits is not None else own.splits if own is not None else {}
    if unknown := set(given) - set(SPLITS):
        raise ValueError(f"splits must be named {', '.join(SPLITS)}, got {', '.join(map(str, unknown))}")
    split_of = {int(i): name for name, positions in given.items() for i in positions}
    level = own.schema.level if own is not None else _find_level(graphs)
    places = own.indices() if own is not None else None
    with replacing(path) as unfinished, open(unfinished, "w", encoding="ascii", newline="\n") as file:
        for i, graph in enumerate(graphs):
            place = i if places is None else places[i]
            entry: dict[str, Any] = {} if own is None or own.ids is None else {"id": own.ids[place]}
            try:
                entry |= _entry(graph, level, own.schema if own is not None else None)
                if split_of:
                    entry["split"] = split_of.get(i if splits is not None else place)
                    if entry["split"] is None:
                        raise ValueError("it is in none of the splits")
                file.write(json.dumps(entry, allow_nan=False, separators=(",", ":")) + "\n")
            except ValueError as error:
                raise ValueError(f"graph {i} cannot be written: {error}") from None
    return Path(path)


def _find_level(graphs: Iterable[Data]) -> str:
    fits = {"graph": True, "node": True}
    for i, graph in enumerate(graphs):
        if isinstance(graph.y, Tensor):
            rows = graph.y.size(0) if graph.y.dim() else 1
            fits["graph"] &= rows == 1
            fits["node"] &= rows == graph.num_nodes
            if not any(fits.values()):
                shape = list(graph.y.shape)
                raise ValueError(f"graph {i}: y of shape {shape} is neither one row nor one for each of the nodes")
    return "graph" if fits["graph"] else "node"


def _entry(graph: Data, level: str | None, schema: Schema | None) -> dict[str, Any]:
    n, edges = graph.num_nodes, graph.edge_index
    if not n or edges is None:
        raise ValueError(f"it needs edge_index and one node at least, got {graph}")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < n:
        raise ValueError(f"edge_index must be between 0 and {n - 1}, the last of its nodes")
    entry: dict[str, Any] = {"num_nodes": n}
    known = (schema.features, schema.node_labels) if schema else None
    entry |= _describe_rows(graph.x, n, "x", "node_labels", known)
    entry |= {"directed": True, "edges": edges.t().tolist()}
    known = (schema.edge_features, schema.edge_labels) if schema else None
    entry |= _describe_rows(graph.edge_attr, edges.size(1), "edge_attr", "edge_labels", known)
    if isinstance(y := graph.y, Tensor):
        if y.dtype == torch.bool or (schema and schema.task == "multilabel"):
            y = y.long()
        values: Any = y.tolist() if level == "node" else y.reshape(-1).tolist() if y.dim() > 1 else y.item()
        if schema and schema.classes:
            values = [schema.classes[i] for i in values] if level == "node" else schema.classes[values]
        entry["node_y" if level == "node" else "y"] = values
    return entry


def _describe_rows(
    value: Tensor | None, rows: int, features: str, labels: str, known: tuple[int, tuple[Name, ...]] | None
) -> dict[str, Any]:
    if value is None or (value.dim() > 1 and value.size(1) == 0):
        return {}
    value = value.long() if value.dtype == torch.bool else value
    if known is None:
        if value.numel() == rows and not value.is_floating_point():
            return {labels: value.flatten().tolist()}
        return {features: value.reshape(rows, -1).tolist() if rows else []}
    width, names = known
    entry = {features: value[:, :width].tolist()} if width else {}
    return entry | ({labels: [names[i] for i in value[:, width:].argmax(1).tolist()]} if names else {})
