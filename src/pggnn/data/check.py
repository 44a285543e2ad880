"""What a file of one's own graphs was understood to hold, and what the layer will cost on it."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from textwrap import fill
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import is_undirected

from pggnn.data.cost import RINGS_COST, Aggregation, count_list_steps, measure_work
from pggnn.data.features.lists import search_lists
from pggnn.data.formats.validation import describe
from pggnn.data.graphs import Graphs, is_known, starts
from pggnn.data.loading import is_table, read_own
from pggnn.data.schema import SPLITS, Name
from pggnn.search import TooMany
from pggnn.transforms import AddRings

MOST_NAMES = 8
"""Names that are listed one by one."""
MANY_CLASSES = 50
COSTLY = 8
"""Times a single ordering from which on fewer steps are worth a thought."""
MANY_ON_RINGS = 0.25
"""Part of the nodes from which on reading rings is recommended."""
SEARCH_SECONDS = 10
"""How long rings are sought; a graph that takes long is finished."""


@dataclass
class FileSummary:
    """What is known of a file, as text by topic, and what its owner may want to change."""

    topics: dict[str, str]
    hints: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Rows of the file that were not read, and why."""

    def text(self, width: int) -> str:
        """The summary, wrapped to ``width`` columns."""
        indent = max(map(len, self.topics)) + 2
        rows = [(f"{topic:{indent}}", words) for topic, words in self.topics.items()]
        for topic, found in (("left out", self.left_out), ("hint", self.hints)):
            rows += [(f"{topic:{indent}}", words) for words in found]
        return "\n".join(
            fill(words, max(width, 40), initial_indent=first, subsequent_indent=" " * indent) for first, words in rows
        )


Track = Callable[[Sequence[int]], Iterable[int]]


def check(path: str | Path, track: Track = iter, **options: Any) -> FileSummary:
    """Reads a JSON-lines file, a CSV file of molecules, or a zip or folder in TU's or GIN's format, and sums it up;
    errors say what is wrong.

    Args:
        path: The file, zip or folder.
        track: Shows progress: it is given the numbers of the graphs whose rings are sought, and returns them.
        options: Those of a CSV file: ``target``, ``smiles``, ``skip_invalid``.
    """
    if not is_table(path):
        if options:
            raise ValueError(f"{path} is no CSV file: it has no option {' or '.join(options)}")
        return summarize(read_own(path), track)
    from pggnn.data.formats.molecules import describe_molecules, load_molecules

    dataset = load_molecules(path, **options)
    found = summarize(Graphs.of(dataset), track, "sum")  # which the config of molecules reads
    table, targets = dataset.table, dataset.schema.targets
    assert table is not None
    found.topics["molecules"], hints = describe_molecules(table, dataset.left_out, options.get("smiles"), targets)
    found.left_out = [f"line {table.lines[row]}, {why}" for row, why in dataset.left_out.items()]
    if not targets:
        hints.append(
            f"Which column is to be predicted? --target NAME (of pggnn train: --data.target): {table.columns}."
        )
    found.hints += hints
    return found


def summarize(graphs: Graphs, track: Track = iter, near: str = "star") -> FileSummary:
    """Sizes, features, targets, cost and rings of all graphs; rings are read beside ``near``."""
    nodes, edges, schema = graphs.nodes, graphs.edges, graphs.schema
    count, (edge_index, _) = len(graphs), graphs.batched_edges()
    around = edge_index[1 if schema.flow == "source_to_target" else 0]
    degree = torch.bincount(around, minlength=int(nodes.sum()))
    hints = []

    parts, masks = (
        ", ".join(f"{name} {len(places):,}" for name, places in one.items())
        for one in ({} if graphs.has_folds else graphs.splits, graphs.node_splits)
    )
    if graphs.has_folds:
        parts = "with folds of their own: pggnn train --protocol.kind folds --protocol.folds given"
        if untested := count - sum(map(len, graphs.splits.values())):
            parts += f"; {untested:,} are in no test fold and train in each"
    ways = "counting both directions" if is_undirected(edge_index, num_nodes=len(degree)) else "directed"
    topics = {
        "graphs": f"{count:,}" + (f" ({parts})" if parts else "" if masks else ", no split given"),
        "nodes": f"{len(degree):,} in all{f' ({masks})' * bool(masks)}, {_spread(nodes)} a graph",
        "edges": f"{edge_index.size(1):,} in all, {_spread(edges)} a graph, {ways}",
        "neighbours": f"{_spread(degree)} a node, {int((degree == 0).sum()):,} without any",
        "node features": _columns(schema.features, "x", schema.node_labels, _origin(graphs, degree)),
        "edge features": _columns(schema.edge_features, "edge_attr", schema.edge_labels, "edge_labels"),
        "task": "none: there are no targets",
    }
    y = (graphs.node if schema.level == "node" else graphs.graph).get("y")
    if y is not None:
        topics["task"] = f"{schema.level} {schema.task}, {_describe_targets(y, schema.classes, schema.width)}"
        if gaps := int((~is_known(y)).sum()):
            topics["task"] += f"; {gaps:,} of {y.numel():,} targets are not known"
    if not edge_index.numel():
        hints.append("No graph has an edge, so no node has neighbours to read: is that what edges should say?")
    if not schema.in_channels:
        hints.append("Without features the layer sees no more than a GIN does; give x or node_labels if you can.")
    if len(schema.classes) > MANY_CLASSES and all(isinstance(name, int) for name in schema.classes):
        hints.append(f"{len(schema.classes):,} classes: if they are quantities, write them as 3.0 rather than 3.")
    if schema.task == "classification" and len(schema.classes) == 1:
        hints.append("There is only one class, so there is nothing to learn.")
    if (
        graphs.splits
        and not graphs.has_folds
        and (missing := [f'"{name}"' for name in SPLITS if name not in graphs.splits])
    ):
        hints.append(f'No graph has "split": {" or ".join(missing)}; pggnn train needs all three.')
    if masks and (missing := [f"{name}_mask" for name in SPLITS if not len(graphs.node_splits.get(name, ()))]):
        hints.append(f"No node is in {' or '.join(missing)}; pggnn train needs all three.")

    work = measure_work(graphs, Aggregation())
    topics["cost"] = (
        f"{work.steps.double().mean():,.0f} RNN steps a graph for one aggregation over the whole group, "
        f"{int(work.steps.max()):,} at most: {work.ratio:.1f} × a single ordering"
    )
    if work.ratio >= COSTLY and work.cheaper:
        single = int(work.single.sum())
        cheaper = [
            f"{name}={value!r} takes {int(steps.sum()) / single:.1f} × a single ordering"
            for (name, value), steps in work.cheaper.items()
        ]
        hints.append(f"The whole group is costly here: {', '.join(cheaper)}.")
    topics["rings"], hint = _describe_rings(graphs, work.steps, track, near)
    return FileSummary(topics, [*hints, *hint])


def _describe_rings(graphs: Graphs, star: Tensor, track: Track, near: str) -> tuple[str, list[str]]:
    """The rings of the graphs that can be searched in time, and a hint to read them."""
    end, most = time.monotonic() + SEARCH_SECONDS, AddRings.max_size
    numbers = takewhile(lambda _: time.monotonic() < end, track(range(len(graphs))))
    try:
        found = search_lists(graphs, "rings", most, numbers)
    except TooMany as error:
        return f"not counted: {error.found}", []
    searched, rings = len(found.counts), len(found.size)
    where = "" if searched == len(graphs) else f"in the first {searched:,} graphs, after {SEARCH_SECONDS} s of search: "
    if not rings:
        return f"{where}none of up to {most} nodes", []
    first = starts(graphs.nodes)
    nodes = found.index + first[:searched].repeat_interleave(found.counts).repeat_interleave(found.size)
    part = len(nodes.unique()) / int(first[searched])
    usual, steps, beside = int(found.size.mode().values), count_list_steps("rings", found), star[:searched]
    said = (
        f"{where}{rings:,} of {_spread(found.size)} nodes, most often {usual}; {100 * part:.0f} % of the nodes lie on "
        f"one; reading them takes {steps.double().mean():,.0f} RNN steps a graph beside those of the stars, "
        f"{beside.double().mean():,.0f}"
    )
    worth = part >= MANY_ON_RINGS and int(steps.sum()) <= RINGS_COST * int(beside.sum())
    return said, [f"Many nodes lie on rings: pggnn train --model.reads {near} rings reads them too."] if worth else []


def _origin(graphs: Graphs, degree: Tensor) -> str:
    """Where one-hot columns of nodes come from: in TU's and GIN's formats degrees stand in for labels."""
    names, ids = graphs.schema.node_labels, graphs.node.get("x")
    if ids is None or ids.dim() > 1 or not all(isinstance(name, int) and 0 <= name <= len(degree) for name in names):
        return "node_labels"
    return "degrees" if torch.equal(torch.tensor(names)[ids.long()], degree) else "node_labels"


def _spread(sizes: Tensor) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{sizes.double().mean():,.2f} ({low:,} to {high:,})"


def _columns(features: int, key: str, labels: Sequence[Name], label_key: str) -> str:
    parts = [f"{features:,} from {key}"] if features else []
    if labels:
        parts.append(f"{len(labels):,} from {label_key} ({_listed([describe(label) for label in labels])})")
    return ", ".join(parts) or "none"


def _describe_targets(y: Tensor, classes: Sequence[Name], width: int | None) -> str:
    y = y[is_known(y)]
    if not classes:
        low, high, mean = y.min(), y.max(), y.double().mean()
        values = "one value" if width in (None, 1) else f"{width} values"
        return f"{values} from {low:.4g} to {high:.4g}, mean {mean:.4g}"
    counts = torch.bincount(y, minlength=len(classes)).tolist()
    named = [f"{describe(name)} {number:,}" for name, number in zip(classes, counts, strict=True)]
    return f"{len(classes):,} class{'es' * (len(classes) > 1)} ({_listed(named)})"


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
