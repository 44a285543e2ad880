"""Checked records → the tensors of a data set, made once for all graphs."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from pggnn.data.records import Name, Problem, Record
from pggnn.data.schema import Schema

MOST_BYTES = 16 * 2**30
"""For the one-hot columns of labels."""


def assemble(records: list[Record], schema: Schema | None) -> tuple[Data, dict[str, Tensor], Schema]:
    """All graphs in one ``Data``, where each begins, and what they have in common: the given schema, if any."""
    nodes = [record.num_nodes for record in records]
    listed = np.concatenate([record.edges for record in records])
    begins = _offsets(len(record.edges) for record in records)
    directed = np.repeat([record.directed for record in records], np.diff(begins))
    # An edge that is read both ways is followed by its reverse, so that both ends have their edges in the listed order.
    copies = np.where(directed | (listed[:, 0] == listed[:, 1]), 1, 2)
    source = np.repeat(np.arange(len(listed)), copies)
    reverse = np.diff(source, prepend=-1) == 0
    pairs = listed[source]
    pairs[reverse] = pairs[reverse, ::-1]

    schema = schema or _infer(records)
    x = _columns(records, "x", schema.features, "node_labels", schema.node_labels)
    edge_attr = _columns(records, "edge_attr", schema.edge_features, "edge_labels", schema.edge_labels)
    tensors = {"edge_index": torch.from_numpy(np.ascontiguousarray(pairs.T))}
    slices = {"edge_index": _offsets(copies)[begins]}
    if x is not None:
        tensors["x"], slices["x"] = torch.from_numpy(x), _offsets(nodes)
    if edge_attr is not None:
        tensors["edge_attr"], slices["edge_attr"] = torch.from_numpy(edge_attr[source]), slices["edge_index"]
    if records[0].level is not None:
        tensors["y"] = _targets(records, schema)
        slices["y"] = _offsets(nodes if schema.level == "node" else [1] * len(records))
    data = Data(**tensors)
    if x is None:
        data.num_nodes = sum(nodes)
        data._store._num_nodes = nodes  # as PyG's own collate does for graphs without features
    return data, {key: torch.from_numpy(value) for key, value in slices.items()}, schema


def _offsets(lengths: Iterable[int]) -> np.ndarray:
    return np.cumsum(np.fromiter(chain([0], lengths), np.int64))


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
    records: list[Record], features: str, width: int, labels: str, names: tuple[Name, ...]
) -> np.ndarray | None:
    blocks = []
    if width:
        given = [part for record in records if (part := getattr(record, features)) is not None and len(part)]
        blocks.append(np.concatenate([np.empty((0, width), np.float32), *given]))
    if names:
        codes = _numbers((getattr(record, labels) for record in records), names)
        if (size := 4 * len(codes) * len(names)) > MOST_BYTES:
            raise Problem(
                f"{labels}: {len(names)} different labels on {len(codes)} nodes or edges would need {size >> 30} GiB "
                f"as one-hot columns; labels should be few, other numbers belong in {features}"
            )
        one_hot = np.zeros((len(codes), len(names)), np.float32)
        one_hot[np.arange(len(codes)), codes] = 1
        blocks.append(one_hot)
    return np.concatenate(blocks, axis=1) if blocks else None


def _targets(records: list[Record], schema: Schema) -> Tensor:
    groups = [record.targets for record in records]
    if schema.task == "classification":
        return torch.from_numpy(_numbers(groups, schema.classes))
    values = torch.from_numpy(np.fromiter(chain.from_iterable(groups), np.float32))
    return values if schema.width is None else values.view(-1, schema.width)
