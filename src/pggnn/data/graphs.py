"""Many graphs end to end in a few tensors: how data sets are read, checked, cached and batched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

LEVELS = ("node", "edge", "graph")
MOST = 2**31 - 1
"""The most nodes or edges of one graph."""


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
    widths: dict[str, int] = field(default_factory=dict)
    """Number of one-hot columns of the attributes that are stored as ids."""
    splits: dict[str, Tensor] = field(default_factory=dict)
    """Published splits, as indices of graphs."""

    def __len__(self) -> int:
        return self.nodes.size(0)

    def attributes(self) -> Iterator[tuple[str, str, Tensor]]:
        """Level, name and tensor of each attribute."""
        for level in LEVELS:
            for name, value in getattr(self, level).items():
                yield level, name, value

    def checked(self, place: str) -> "Graphs":
        """These graphs, if sizes fit together and each edge stays in its graph; else an error that says where not."""
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
        totals = {"node": int(self.nodes.sum()), "edge": int(self.edges.sum()), "graph": len(self)}
        for level, name, value in self.attributes():
            if value.size(0) != totals[level]:
                raise ValueError(f"{place}: {name} has {value.size(0)} rows for {totals[level]} {level}s")
            if (
                name in self.widths
                and value.numel()
                and not 0 <= int(value.min()) <= int(value.max()) < self.widths[name]
            ):
                raise ValueError(
                    f"{place}: {name} goes from {value.min()} to {value.max()}, expected 0 to {self.widths[name] - 1}"
                )
        limit = self.nodes.to(torch.int32).repeat_interleave(self.edges)
        bad = ((self.edge_index < 0) | (self.edge_index >= limit)).any(0)
        if bad.any():
            edge = int(bad.to(torch.uint8).argmax())
            graph = int(torch.searchsorted(self.edges.cumsum(0), edge, right=True))
            raise ValueError(
                f"{place}: graph {graph} (counted from 0) has {int(self.nodes[graph])} nodes, "
                f"but an edge from {int(self.edge_index[0, edge])} to {int(self.edge_index[1, edge])}"
            )
        for name, index in self.splits.items():
            if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(self):
                raise ValueError(
                    f"{place}: split {name!r} refers to graphs {int(index.min())} to {int(index.max())} of {len(self)}"
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
            node=parts["node"], edge=parts["edge"], graph=parts["graph"], widths=self.widths,
        )  # fmt: skip

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
        return data, slices

    @classmethod
    def of(cls, dataset: InMemoryDataset) -> "Graphs":
        """The storage of any in-memory data set of PyG that has ``x`` and ``edge_index``."""
        data = dataset._data
        if data is None or "x" not in data or "edge_index" not in data:
            raise ValueError(f"{dataset!r} has no x or no edge_index")
        if dataset.slices is None:
            tensors = {name: value for name, value in data.to_dict().items() if isinstance(value, Tensor)}
            ends = {name: value.size(data.__cat_dim__(name, value)) for name, value in tensors.items()}
            slices = {name: torch.tensor([0, end]) for name, end in ends.items()}
        else:
            tensors = {name: data[name] for name in dataset.slices if isinstance(data[name], Tensor)}
            slices = dataset.slices
        counts = {name: slices[name].diff() for name in tensors}
        nodes, edges = counts["x"], counts["edge_index"]
        found: dict[str, dict[str, Tensor]] = {level: {} for level in LEVELS}
        for name, value in tensors.items():
            if name == "edge_index":
                continue
            likely = "edge" if name.startswith("edge") else "node" if name in ("x", "pos") else "graph"
            fits = {"node": nodes, "edge": edges, "graph": torch.ones_like(nodes)}
            level = next((one for one in (likely, *LEVELS[::-1]) if torch.equal(counts[name], fits[one])), None)
            if level is None:
                raise ValueError(f"attribute {name!r} of {dataset!r} has one row for neither nodes, edges nor graphs")
            found[level][name] = value
        return cls(
            nodes, edges, data.edge_index, found["node"], found["edge"], found["graph"], getattr(dataset, "widths", {})
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As arrays with flat names, for the cache."""
        arrays = {"nodes": self.nodes, "edges": self.edges, "edge_index": self.edge_index}
        arrays |= {f"{level}.{name}": value for level, name, value in self.attributes()}
        arrays |= {f"width.{name}": torch.tensor(width) for name, width in self.widths.items()}
        arrays |= {f"split.{name}": index for name, index in self.splits.items()}
        return {name: value.contiguous().numpy() for name, value in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Graphs":
        """The reverse of :meth:`to_arrays`."""
        groups: dict[str, dict[str, Any]] = {group: {} for group in (*LEVELS, "width", "split")}
        for name, array in arrays.items():
            group, dot, key = name.partition(".")
            if dot:
                groups[group][key] = torch.from_numpy(array)
        widths = {name: int(width) for name, width in groups["width"].items()}
        nodes, edges, edge_index = (torch.from_numpy(arrays[name]) for name in ("nodes", "edges", "edge_index"))
        return cls(nodes, edges, edge_index, groups["node"], groups["edge"], groups["graph"], widths, groups["split"])


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
