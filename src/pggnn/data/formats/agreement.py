"""What all graphs of a JSON-lines file must agree on, with each other or with the schema of an earlier file."""

from typing import Any

from pggnn.data.formats.validation import Record, describe
from pggnn.data.schema import Name, Schema


def outline(record: Record) -> dict[str, str]:
    """In words, what must be the same for all graphs; nothing of edges where there are none."""
    target = f"{_width(record.width)}, {_kind(record.targets)}"
    said = {
        "id": "none" if record.id is None else "one",
        "split": "none" if record.split is None else "one",
        "x": "none" if record.x is None else f"width {record.x.shape[1]}",
        "node_labels": _kind(record.node_labels),
        "y": target if record.level == "graph" else "none",
        "node_y": target if record.level == "node" else "none",
    }
    if len(record.edges):
        said["edge_attr"] = "none" if record.edge_attr is None else f"width {record.edge_attr.shape[1]}"
        said["edge_labels"] = _kind(record.edge_labels)
    return said


def expected(schema: Schema) -> dict[str, str]:
    """What :func:`outline` says of graphs that have this schema."""
    target = f"{_width(schema.width)}, {_kind([*schema.classes] or [0])}"
    return {
        "x": f"width {schema.features}" if schema.features else "none",
        "node_labels": _kind([*schema.node_labels]),
        "edge_attr": f"width {schema.edge_features}" if schema.edge_features else "none",
        "edge_labels": _kind([*schema.edge_labels]),
        "y": target if schema.level == "graph" else "none",
        "node_y": target if schema.level == "node" else "none",
    }


def unknown(schema: Schema, record: Record) -> list[str]:
    """Labels and classes of a graph that have no number in the schema, as problems."""
    classes: tuple[Name, ...] = (0, 1) if schema.task == "multilabel" else schema.classes
    problems = []
    for key, found, names in (
        ("node_labels", record.node_labels, schema.node_labels),
        ("edge_labels", record.edge_labels, schema.edge_labels),
        ("y" if schema.level == "graph" else "node_y", record.targets if classes else None, classes),
    ):
        known = set(names)
        strange = [label for label in dict.fromkeys(found or ()) if isinstance(label, float) or label not in known]
        if strange:
            some = ", ".join(map(describe, names[:5])) + ", …" * (len(names) > 5)
            problems.append(f"{key}: {describe(strange[0])} is not among the known: {some}")
    return problems


def _width(width: int | None) -> str:
    return "a single value" if width is None else f"a list of {width}"


def _kind(labels: list[Any] | None) -> str:
    """Text or numbers, which cannot be mixed."""
    if not labels:
        return "none"
    return "text" if isinstance(labels[0], str) else "numbers"
