"""Checked records of a JSON-lines file → :class:`~pggnn.data.graphs.Graphs`, made once for all of them."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pggnn.data.formats.validation import SPLITS, Record
from pggnn.data.graphs import Graphs, compact, join_columns
from pggnn.data.schema import Name, Schema


def assemble(place: str, records: list[Record], schema: Schema | None) -> Graphs:
    """All graphs, with the given schema or one that is found in them; ``place`` is named in errors."""
    listed = np.concatenate([record.edges for record in records])
    lengths = [len(record.edges) for record in records]
    directed = np.repeat([record.directed for record in records], lengths)
    # An edge that is read both ways is followed by its reverse, so that both ends have their edges in the listed order.
    copies = np.where(directed | (listed[:, 0] == listed[:, 1]), 1, 2)
    source = np.repeat(np.arange(len(listed)), copies)
    reverse = np.diff(source, prepend=-1) == 0
    pairs = listed[source]
    pairs[reverse] = pairs[reverse, ::-1]
    graph_of_edge = np.repeat(np.arange(len(records)), lengths)[source]

    schema = schema or _infer(records)
    node, edge = {}, {}
    if schema.in_channels:
        node["x"] = _columns(f"{place}: x", records, "x", schema.features, "node_labels", schema.node_labels)
    if schema.edge_dim:
        listed_attr = _columns(
            f"{place}: edge_attr", records, "edge_attr", schema.edge_features, "edge_labels", schema.edge_labels
        )
        edge["edge_attr"] = listed_attr[torch.from_numpy(source)]
    targets = {"y": _targets(records, schema)} if records[0].level is not None else {}
    positions = {name: [i for i, record in enumerate(records) if record.split == name] for name in SPLITS}
    return Graphs(
        torch.tensor([record.num_nodes for record in records]),
        torch.from_numpy(np.bincount(graph_of_edge, minlength=len(records))),
        compact(pairs.T),
        node | (targets if schema.level == "node" else {}),
        edge,
        targets if schema.level == "graph" else {},
        schema,
        {name: torch.tensor(found) for name, found in positions.items() if found},
    ).checked(place)


def _infer(records: list[Record]) -> Schema:
    first = records[0]
    kinds = set(map(type, chain.from_iterable(record.targets for record in records)))
    targets = [record.targets for record in records]
    task = None
    if kinds:
        task = "regression"
        if str in kinds or (float not in kinds and first.width is None):
            task = "classification"
        elif float not in kinds and set(chain.from_iterable(targets)) <= {0, 1}:
            task = "multilabel"
    edged: Record | None = next((record for record in records if len(record.edges)), None)
    return Schema(
        level=first.level,
        task=task,
        width=first.width,
        features=0 if first.x is None else first.x.shape[1],
        edge_features=0 if edged is None or edged.edge_attr is None else edged.edge_attr.shape[1],
        classes=_distinct(targets) if task == "classification" else (),
        node_labels=_distinct(record.node_labels for record in records),
        edge_labels=_distinct(record.edge_labels for record in records),
    )


def _distinct(groups: Iterable[Sequence[Name] | None]) -> tuple[Name, ...]:
    seen: set[Any] = set(chain.from_iterable(group for group in groups if group))
    return tuple(sorted(seen))


def _numbers(groups: Iterable[Sequence[Name] | None], names: tuple[Name, ...]) -> np.ndarray:
    number = {name: i for i, name in enumerate(names)}
    return np.fromiter(map(number.__getitem__, chain.from_iterable(group or () for group in groups)), np.int64)


def _columns(
    place: str, records: list[Record], features: str, width: int, labels: str, names: tuple[Name, ...]
) -> Tensor:
    given = [part for record in records if (part := getattr(record, features)) is not None and len(part)]
    rows = np.concatenate([np.empty((0, width), np.float32), *given]) if width else None
    ids = [(_numbers((getattr(record, labels) for record in records), names), len(names))] if names else []
    return join_columns(place, rows, ids)


def _targets(records: list[Record], schema: Schema) -> Tensor:
    groups = [record.targets for record in records]
    if schema.task == "classification":
        return torch.from_numpy(_numbers(groups, schema.classes))
    values = torch.from_numpy(np.fromiter(chain.from_iterable(groups), np.float32))
    return values if schema.width is None else values.view(-1, schema.width)
