"""What a file of one's own graphs was understood to hold, and what the layer will cost on it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

import torch
from torch import Tensor
from torch_geometric.data import Data

from pggnn.data.jsonl import JsonGraphs, load_jsonl
from pggnn.data.records import Name, describe
from pggnn.orderings import Reading

MOST_NAMES = 8
"""Names that are listed one by one."""
MANY_CLASSES = 50
COSTLY = 8
"""Times a single ordering from which on fewer arrangements are worth a thought."""
FEWER = 16


@dataclass
class Summary:
    """What is known of a file, as text by topic, and what its owner may want to change."""

    topics: dict[str, str]
    hints: list[str] = field(default_factory=list)

    def text(self, width: int) -> str:
        """The summary, wrapped to ``width`` columns."""
        indent = max(map(len, self.topics)) + 2
        rows = [(f"{topic:{indent}}", words) for topic, words in self.topics.items()]
        rows += [(f"{'hint':{indent}}", words) for words in self.hints]
        return "\n".join(
            fill(words, max(width, 40), initial_indent=first, subsequent_indent=" " * indent) for first, words in rows
        )


def check(path: str | Path) -> Summary:
    """Reads a file and sums it up; what is wrong with it is a :class:`pggnn.data.jsonl.InvalidFile`."""
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; expected a file with one graph per line")
    return summarize(load_jsonl(path))


def summarize(graphs: JsonGraphs) -> Summary:
    """Sizes, features, targets and cost of the whole data set."""
    whole, slices, schema = graphs._data, graphs.slices, graphs.schema
    assert isinstance(whole, Data) and slices is not None
    count, edges = len(graphs), slices["edge_index"].diff()
    nodes = slices["x"].diff() if "x" in slices else torch.tensor(whole._store._num_nodes)
    edge_index = whole.edge_index + (nodes.cumsum(0) - nodes).repeat_interleave(edges)
    degree = torch.bincount(edge_index[1], minlength=int(nodes.sum()))
    hints = []

    parts = ", ".join(f"{name} {len(places):,}" for name, places in graphs.splits.items())
    ways = "counting both directions" if _symmetric(edge_index, len(degree)) else "directed"
    topics = {
        "graphs": f"{count:,}" + (f" ({parts})" if parts else ", no split given"),
        "nodes": f"{len(degree):,} in all, {_spread(nodes)} a graph",
        "edges": f"{whole.num_edges:,} in all, {_spread(edges)} a graph, {ways}",
        "neighbours": f"{_spread(degree)} a node, {int((degree == 0).sum()):,} nodes without any",
        "node features": _columns(schema.features, "x", schema.node_labels, "node_labels"),
        "edge features": _columns(schema.edge_features, "edge_attr", schema.edge_labels, "edge_labels"),
        "task": "none: there is no y and no node_y",
    }
    if schema.task is not None:
        assert isinstance(whole.y, Tensor)
        topics["task"] = f"{schema.level} {schema.task}, {_describe_targets(whole.y, schema.classes, schema.width)}"
    if not schema.in_channels:
        hints.append("Without features the layer sees no more than a GIN does; give x or node_labels if you can.")
    if len(schema.classes) > MANY_CLASSES and all(isinstance(name, int) for name in schema.classes):
        hints.append(f"{len(schema.classes):,} classes: if they are quantities, write them as 3.0 rather than 3.")
    if schema.task == "classification" and len(schema.classes) == 1:
        hints.append("There is only one class, so there is nothing to learn.")
    if graphs.splits and "train" not in graphs.splits:
        hints.append('No graph has "split": "train".')

    steps, fewer, single = (_steps(degree, limit) for limit in (None, FEWER, 1))
    graph_of_node = torch.arange(count).repeat_interleave(nodes)
    most = torch.zeros(count, dtype=torch.long).index_add(0, graph_of_node, steps).max()
    total = int(single.sum())
    ratio = int(steps.sum()) / total
    topics["cost"] = (
        f"{int(steps.sum()) / count:,.0f} RNN steps a graph for one aggregation over the whole group, {int(most):,} at "
        f"most: {ratio:.1f} × a single ordering"
    )
    if ratio >= COSTLY:
        saved = f"{int(fewer.sum()) / total:.1f} ×"
        hints.append(f"The whole group is costly here; orderings={FEWER} reads {saved} a single ordering instead.")
    return Summary(topics, hints)


def _steps(degree: Tensor, limit: int | None) -> Tensor:
    reading = Reading("merged", limit)
    steps: Tensor = reading.count(degree) * reading.length(degree)
    return steps


def _symmetric(edge_index: Tensor, nodes: int) -> bool:
    there, back = edge_index[0] * nodes + edge_index[1], edge_index[1] * nodes + edge_index[0]
    return torch.equal(there.sort().values, back.sort().values)


def _spread(sizes: Tensor) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{sizes.double().mean():,.2f} ({low:,} to {high:,})"


def _columns(features: int, key: str, labels: Sequence[Name], label_key: str) -> str:
    parts = [f"{features:,} from {key}"] if features else []
    if labels:
        parts.append(f"{len(labels):,} from {label_key} ({_listed([describe(label) for label in labels])})")
    return ", ".join(parts) or "none"


def _describe_targets(y: Tensor, classes: Sequence[Name], width: int | None) -> str:
    if not classes:
        low, high = y.min(), y.max()
        return (
            f"{'one value' if width is None else f'{width} values'} from {low:.4g} to {high:.4g}, mean {y.mean():.4g}"
        )
    counts = torch.bincount(y, minlength=len(classes)).tolist()
    named = [f"{describe(name)} {number:,}" for name, number in zip(classes, counts, strict=True)]
    return f"{len(classes):,} class{'es' * (len(classes) > 1)} ({_listed(named)})"


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
