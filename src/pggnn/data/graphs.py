"""Many graphs end to end in a few tensors: how data sets are read, checked, cached and batched."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from pggnn.data.schema import FOLDS, SPLITS, UNKNOWN, Schema

LEVELS = ("node", "edge", "graph")
MOST = 2**31 - 1
"""The most nodes or edges of one graph."""
MOST_ONE_HOT = 2**32
"""Bytes that one-hot columns may take: those of a graph, or of all graphs where features stand beside them."""
MOST_CLASSES = 2**16
"""Larger whole numbers as targets are taken for quantities, in data sets that do not say."""
LAYOUT = "graphs 2"
"""Version of :meth:`Graphs.to_arrays`, for the cache."""


@dataclass(frozen=True)
class Graphs:
    """Graphs stored compactly: small integer types, and ids where one-hot columns are meant.

    :func:`expand` gives the tensors that models read. The order of edges is kept as it was read: it numbers neighbours.
    """

    nodes: Tensor
    """``[G]`` int64, number of nodes of each graph."""
    edges: Tensor
    """``[G]`` int64, number of (directed) edges of each graph."""
    edge_index: Tensor
    """``[2, E]`` any integer type; ids count from 0 in each graph."""
    node: dict[str, Tensor] = field(default_factory=dict)
    """Attributes of nodes: ``x``, and ``y`` where nodes are labelled."""
    edge: dict[str, Tensor] = field(default_factory=dict)
    """Attributes of edges: ``edge_attr``."""
    graph: dict[str, Tensor] = field(default_factory=dict)
    """Attributes of graphs: ``y`` where graphs are labelled."""
    schema: Schema = field(default_factory=Schema)
    """What they have in common; :attr:`Schema.widths` are the attributes that are stored as ids."""
    splits: dict[str, Tensor] = field(default_factory=dict)
    """Published splits, as indices of graphs: ``"train"``, ``"val"``, ``"test"``; or the test graphs of published
    folds, ``"fold0"`` to ``"fold9"``."""

    def __len__(self) -> int:
        return self.nodes.size(0)

    def attributes(self) -> Iterator[tuple[str, str, Tensor]]:
        """Level, name and tensor of each attribute."""
        for level in LEVELS:
            for name, value in getattr(self, level).items():
                yield level, name, value

    @property
    def has_folds(self) -> bool:
        """Whether folds came with the graphs."""
        return FOLDS[0] in self.splits

    def targets(self, index: Tensor, by_node: bool = False) -> Tensor:
        """``y`` of these graphs, or of their nodes; of nodes with these numbers if ``by_node``."""
        if by_node or self.schema.level == "graph":
            return (self.node if by_node else self.graph)["y"][index]
        chosen = torch.zeros(len(self), dtype=torch.bool, device=self.nodes.device)
        chosen[index] = True
        return self.node["y"][chosen.repeat_interleave(self.nodes)]

    @property
    def node_splits(self) -> dict[str, Tensor]:
        """Splits of the nodes, as numbers over all graphs, where there are masks."""
        names = {name: f"{name}_mask" for name in SPLITS}
        return {name: self.node[mask].nonzero().view(-1).cpu() for name, mask in names.items() if mask in self.node}

    def known_targets(self, by_node: bool = False) -> Tensor:
        """``[G]`` how many targets of each graph, or of its nodes, are known; ``[N]`` of each node if ``by_node``."""
        of_nodes = self.schema.level == "node"
        known = is_known((self.node if of_nodes else self.graph)["y"]).cpu()
        rows = known.view(len(known), -1).sum(1) if len(known) else known.long()
        return starts(rows)[starts(self.nodes.cpu())].diff() if of_nodes and not by_node else rows

    def _tensors(self) -> dict[str, Tensor]:
        """All tensors by flat names: ``nodes``, ``node.x``, ``split.train`` …"""
        tensors = {"nodes": self.nodes, "edges": self.edges, "edge_index": self.edge_index}
        tensors |= {f"{level}.{name}": value for level, name, value in self.attributes()}
        return tensors | {f"split.{name}": index for name, index in self.splits.items()}

    def fingerprint(self, *left_out: str) -> str:
        """A digest of the graphs, their attributes except ``left_out`` (such as ``"node.x"``), splits, and the names of
        classes and labels."""
        schema = self.schema
        digest = sha256(repr((schema.classes, schema.node_labels, schema.edge_labels)).encode())
        for name, tensor in self._tensors().items():
            if name not in left_out:
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def structure_digest(self) -> str:
        """A digest of nodes and edges alone."""
        return Graphs(self.nodes, self.edges, self.edge_index).fingerprint()[:20]

    def checked(self, place: str) -> "Graphs":
        """These graphs, or an error that names the place where sizes do not match or an edge leaves its graph."""
        for name, counts, total in (
            ("nodes", self.nodes, None),
            ("edges", self.edges, self.edge_index.size(1)),
        ):
            wrong = (counts < 0) | (counts > MOST)
            if wrong.any():
                graph = int(wrong.to(torch.uint8).argmax())
                raise ValueError(f"{place}: graph {graph} has {int(counts[graph])} {name}, expected 0 to {MOST}")
            if total is not None and int(counts.sum()) != total:
                raise ValueError(f"{place}: the graphs have {int(counts.sum())} {name} together, but {total} are given")
        sizes = {"node": self.nodes, "edge": self.edges, "graph": torch.ones_like(self.nodes)}
        ranges = self.schema.widths | ({"y": len(self.schema.classes)} if self.schema.classes else {})
        for level, name, value in self.attributes():
            if value.size(0) != (total := int(sizes[level].sum())):
                raise ValueError(f"{place}: {name} has {value.size(0)} rows for {total} {level}s")
            if name not in ranges or value.numel() == 0:
                continue
            low = UNKNOWN if name == "y" else 0
            if not low <= int(value.min()) <= int(value.max()) < ranges[name]:
                raise ValueError(
                    f"{place}: {name} goes from {value.min()} to {value.max()}, expected {low} to {ranges[name] - 1}"
                )
            if name != "y":
                _check_one_hot(f"{place}: {name}", int(sizes[level].max()), ranges[name])
        limit = self.nodes.to(torch.int32).repeat_interleave(self.edges)
        bad = ((self.edge_index < 0) | (self.edge_index >= limit)).any(0)
        if bad.any():
            edge = int(bad.to(torch.uint8).argmax())
            graph = int(torch.searchsorted(self.edges.cumsum(0), edge, right=True))
            raise ValueError(
                f"{place}: graph {graph} (counted from 0) has {int(self.nodes[graph])} nodes, "
                f"but an edge from {int(self.edge_index[0, edge])} to {int(self.edge_index[1, edge])}"
            )
        masks = self.node_splits
        if self.splits and masks:
            raise ValueError(f"{place}: the graphs have a split and the nodes have masks: keep one of the two")
        for (one, first), (other, second) in combinations(masks.items(), 2):
            both = first[torch.isin(first, second)]
            if len(both):
                raise ValueError(f"{place}: node {int(both[0])} is in {one}_mask and in {other}_mask; it may be in one")
        for name, index in self.splits.items():
            if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(self):
                raise ValueError(
                    f"{place}: split {name!r} refers to graphs {int(index.min())} to {int(index.max())} of {len(self)}"
                )
        if self.splits:
            named, times = torch.cat([index.long() for index in self.splits.values()]).unique(return_counts=True)
            if (times > 1).any():
                graph = int(named[times > 1][0])
                found = [repr(name) for name, index in self.splits.items() for _ in range(int((index == graph).sum()))]
                raise ValueError(
                    f"{place}: graph {graph} is in the splits twice, {' and '.join(found[:2])}; it may be in one, once"
                )
        return self

    def chunk(self, first: int, last: int) -> "Graphs":
        """The graphs from ``first`` up to but without ``last``."""
        bounds = {"graph": (first, last)}
        for level, counts in (("node", self.nodes), ("edge", self.edges)):
            bounds[level] = int(counts[:first].sum()), int(counts[:last].sum())
        parts = {level: {k: v[slice(*bounds[level])] for k, v in getattr(self, level).items()} for level in LEVELS}
        return Graphs(
            self.nodes[first:last], self.edges[first:last], self.edge_index[:, slice(*bounds["edge"])],
            node=parts["node"], edge=parts["edge"], graph=parts["graph"], schema=self.schema,
        )  # fmt: skip

    def select(self, numbers: Tensor) -> "Graphs":
        """The graphs with these numbers, in that order."""
        rows = {"graph": numbers}
        for level, counts in (("node", self.nodes), ("edge", self.edges)):
            own = counts[numbers]
            shift = starts(counts)[numbers] - starts(own)[:-1]
            rows[level] = torch.arange(int(own.sum())) + shift.repeat_interleave(own)
        parts = {level: {k: v[rows[level]] for k, v in getattr(self, level).items()} for level in LEVELS}
        edge_index = self.edge_index[:, rows["edge"]]
        return Graphs(self.nodes[numbers], self.edges[numbers], edge_index, **parts, schema=self.schema)

    @classmethod
    def join(cls, parts: Sequence["Graphs"]) -> "Graphs":
        """All graphs of several, in memory of their own, with the attributes and the schema of the first."""
        first = parts[0]
        joined = {
            level: {name: torch.cat([getattr(part, level)[name] for part in parts]) for name in getattr(first, level)}
            for level in LEVELS
        }
        nodes, edges = (torch.cat([getattr(part, name) for part in parts]) for name in ("nodes", "edges"))
        return cls(nodes, edges, torch.cat([part.edge_index for part in parts], 1), **joined, schema=first.schema)

    def chunks(self, most_edges: int) -> Iterator["Graphs"]:
        """All graphs, in chunks of at most ``most_edges`` edges; a chunk has at least one graph."""
        ends = self.edges.cumsum(0)
        first = done = 0
        while first < len(self):
            last = max(first + 1, int(torch.searchsorted(ends, done + most_edges, right=True)))
            yield self.chunk(first, last)
            first, done = last, int(ends[last - 1])

    def induced(self, nodes: Tensor) -> "Graphs":
        """The same graphs with the given nodes alone, numbered over all graphs, and the edges between them."""
        kept = torch.zeros(int(self.nodes.sum()), dtype=torch.bool)
        kept[nodes] = True
        edge_index, ptr = self.batched_edges()
        between = kept[edge_index].all(0)
        place = starts(kept.long())
        own = edge_index[:, between]
        graph = torch.searchsorted(ptr, own[0], right=True) - 1
        return replace(
            self, nodes=place[ptr].diff(), edges=starts(between.long())[starts(self.edges)].diff(),
            edge_index=place[own] - place[ptr[graph]], node={name: value[kept] for name, value in self.node.items()},
            edge={name: value[between] for name, value in self.edge.items()},
        )  # fmt: skip

    def without_loops(self) -> "Graphs":
        """The same graphs without edges from a node to itself."""
        kept = self.edge_index[0] != self.edge_index[1]
        if bool(kept.all()):
            return self
        edges = starts(kept.long())[starts(self.edges)].diff()
        edge = {name: value[kept] for name, value in self.edge.items()}
        return replace(self, edges=edges, edge_index=self.edge_index[:, kept], edge=edge)

    def batched_edges(self) -> tuple[Tensor, Tensor]:
        """``edge_index`` with ids counted over all graphs, int64, and ``ptr``, the first node of each graph."""
        ptr = starts(self.nodes)
        return self.edge_index.long() + ptr[:-1].repeat_interleave(self.edges), ptr

    def to_pyg(self) -> tuple[Data, dict[str, Tensor]]:
        """The collated ``data`` and ``slices`` of PyG's in-memory data sets, still compact."""
        data = Data(edge_index=self.edge_index)
        pointers = {"node": starts(self.nodes), "edge": starts(self.edges), "graph": torch.arange(len(self) + 1)}
        slices = {"edge_index": pointers["edge"]}
        for level, name, value in self.attributes():
            data[name], slices[name] = value, pointers[level]
        if "x" not in self.node:
            data.num_nodes = int(self.nodes.sum())
            data._store._num_nodes = self.nodes.tolist()  # as PyG's own collate does
        return data, slices

    @classmethod
    def of(cls, dataset: InMemoryDataset) -> "Graphs":
        """All graphs of any in-memory data set of PyG; a schema is inferred where it has none. Lists that a transform
        has added, such as rings, are left out: where networks read them, they are found again."""
        data = dataset._data
        if data is None or "edge_index" not in data:
            raise ValueError(f"{dataset!r} has no edge_index")
        if dataset.slices is None:
            tensors = {name: value for name, value in data.to_dict().items() if isinstance(value, Tensor)}
            ends = {name: value.size(data.__cat_dim__(name, value)) for name, value in tensors.items()}
            slices = {name: torch.tensor([0, end]) for name, end in ends.items()}
        else:
            tensors = {name: data[name] for name in dataset.slices if isinstance(data[name], Tensor)}
            slices = dataset.slices
        counts = {name: slices[name].diff() for name in tensors}
        kinds = [name.removesuffix("_size") for name in tensors if name.endswith("_size")]
        lists = {
            f"{kind}_{part}" for kind in kinds if f"{kind}_index" in tensors for part in ("index", "size", "distance")
        }
        edges = counts["edge_index"]
        listed = getattr(data._store, "_num_nodes", None) or [data.num_nodes]
        nodes = counts["x"] if "x" in counts else torch.tensor(listed)
        if len(nodes) != len(edges):
            raise ValueError(f"{dataset!r} has neither x nor num_nodes in each of its graphs")
        schema: Schema | None = getattr(dataset, "schema", None)
        found: dict[str, dict[str, Tensor]] = {level: {} for level in LEVELS}
        for name, value in tensors.items():
            if name == "edge_index" or name in lists:
                continue
            likely = "edge" if name.startswith("edge") else "node" if name in ("x", "pos") else "graph"
            if name == "y" and schema is not None and schema.level is not None:
                likely = schema.level
            fits = {"graph": torch.ones_like(nodes), "node": nodes, "edge": edges}
            level = next((one for one in (likely, *fits) if torch.equal(counts[name], fits[one])), None)
            if level is None:
                raise ValueError(f"attribute {name!r} of {dataset!r} has one row for neither nodes, edges nor graphs")
            found[level][name] = value
        schema, splits = schema or infer_schema(**found), getattr(dataset, "splits", {})
        return cls(nodes, edges, data.edge_index, found["node"], found["edge"], found["graph"], schema, splits)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As arrays with flat names, for the cache."""
        schema = {"schema": np.array(self.schema.to_json())}
        return {name: value.contiguous().numpy() for name, value in self._tensors().items()} | schema

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Graphs":
        """The reverse of :meth:`to_arrays`."""
        groups: dict[str, dict[str, Any]] = {group: {} for group in (*LEVELS, "split")}
        for name, array in arrays.items():
            group, dot, key = name.partition(".")
            if dot:
                groups[group][key] = torch.from_numpy(array)
        schema = Schema.from_json(arrays["schema"].item())
        nodes, edges, edge_index = (torch.from_numpy(arrays[name]) for name in ("nodes", "edges", "edge_index"))
        return cls(nodes, edges, edge_index, groups["node"], groups["edge"], groups["graph"], schema, groups["split"])


def is_known(y: Tensor) -> Tensor:
    """Which targets are known: not NaN, and not the class :data:`~pggnn.data.schema.UNKNOWN`."""
    return ~y.isnan() if y.is_floating_point() else y != UNKNOWN


def starts(counts: Tensor) -> Tensor:
    """``[0, c_0, c_0 + c_1, …]``."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def expand(name: str, value: Tensor, widths: Mapping[str, int]) -> Tensor:
    """An attribute as models read it: ids as one-hot columns, features as float32, edges as int64."""
    if name in widths and value.dim() == 1:
        columns = torch.zeros(value.size(0), widths[name], device=value.device)
        return columns.scatter_(1, value.long().unsqueeze(1), 1.0)
    if name == "edge_index":
        return value.long()
    return value.float() if name in ("x", "edge_attr") else value


def join_columns(place: str, features: np.ndarray | None, labels: Sequence[tuple[np.ndarray, int]]) -> Tensor:
    """Features, then one-hot columns of each pair of ids and their number; labels that stand alone stay ids."""
    if features is None and len(labels) == 1:
        return compact(labels[0][0])
    columns = [] if features is None else [torch.from_numpy(features).float()]
    if labels:
        _check_one_hot(place, len(labels[0][0]), sum(count for _, count in labels))
    columns += [torch.nn.functional.one_hot(torch.from_numpy(ids), count).float() for ids, count in labels]
    return torch.cat(columns, dim=1)


def _check_one_hot(place: str, rows: int, labels: int) -> None:
    if 4 * rows * labels > MOST_ONE_HOT:
        raise ValueError(
            f"{place}: {labels:,} different labels on {rows:,} nodes or edges would take {4 * rows * labels >> 30} GiB "
            "as one-hot columns; labels should be few, other numbers are features"
        )


def infer_schema(node: dict[str, Tensor], edge: dict[str, Tensor], graph: dict[str, Tensor]) -> Schema:
    """What tensors alone tell: whole numbers are classes if each graph or node has one, features if in ``x``."""
    features, edge_features = (
        0 if value is None else value.size(1) if value.dim() > 1 else 1
        for value in (node.get("x"), edge.get("edge_attr"))
    )
    level = "node" if "y" in node else "graph" if "y" in graph else None
    if level is None:
        return Schema(features=features, edge_features=edge_features)
    y = (node if level == "node" else graph)["y"]
    width = y[0].numel() if y.dim() > 1 and len(y) else None
    task, classes = "regression", 0
    if not y.is_floating_point() and y.numel():
        low, high = int(y.min()), int(y.max())
        if width is None and 0 <= low <= high < MOST_CLASSES:
            task, classes = "classification", high + 1
        elif width is not None and 0 <= low <= high <= 1:
            task = "multilabel"
    return Schema(level, task, width, features, edge_features, tuple(range(classes)))


def compact(ids: np.ndarray) -> Tensor:
    """Ids in the smallest of PyTorch's integer types that holds them; int64 cuts larger ones off, at either end."""
    low, high = (int(ids.min()), int(ids.max())) if ids.size else (0, 0)
    limits = np.iinfo(np.int64)
    if not limits.min <= low <= high <= limits.max:
        low, high, ids = limits.min, limits.max, np.clip(ids, 0, limits.max)
    dtype = next(
        t for t in (np.uint8, np.int16, np.int32, np.int64) if np.iinfo(t).min <= low and high <= np.iinfo(t).max
    )
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=dtype))
