"""Rings, paths and nodes at a distance of all graphs of a data set, found once and kept in the cache."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pggnn.console import tracked
from pggnn.data.cache import cache_home, keep, read
from pggnn.data.features.motifs import find_triangles
from pggnn.data.graphs import Graphs, starts
from pggnn.search import TooMany, find_hops, find_paths, find_rings

if TYPE_CHECKING:
    from rich.console import Console

FINDERS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "rings": find_rings, "paths": find_paths, "hops": find_hops, "triangles": find_triangles,
}  # fmt: skip
"""By the name in :data:`pggnn.lists.LISTS`: takes edges, the number of nodes and how large or far lists may be."""
VERSION = 1


@dataclass(frozen=True)
class GraphLists:
    """Lists, graph by graph; nodes count from 0 in each graph."""

    counts: Tensor
    """``[G]`` lists of each graph."""
    size: Tensor
    """``[L]`` nodes of each list."""
    index: Tensor
    """``[P]`` nodes of all lists, one after the other."""
    distance: Tensor | None = None
    """``[L]`` distance of the nodes of a list from its first, where that is what they have in common."""


def find_lists(
    graphs: Graphs, kind: str, most: int, console: "Console | None" = None, chords: bool = False,
    limit: int | None = None,
) -> GraphLists:  # fmt: skip
    """The lists of this kind in all graphs, from the cache where it holds them.

    Args:
        graphs: The graphs, on the CPU.
        kind: ``"rings"``, ``"paths"``, ``"hops"`` or ``"triangles"``.
        most: Nodes of the largest ring, edges of the longest path, or the largest distance.
        console: Where to show progress.
        chords: Also rings with chords.
        limit: Most lists of a graph, if not that of the search.
    """
    every, options = range(len(graphs)), dict[str, int]({"chords": True} if chords else {})
    options |= {} if limit is None else {"limit": limit}
    path = cache_home() / "lists" / f"{kind}{most}{'-chords' * chords}-{VERSION}-{graphs.structure_digest()}.npz"
    arrays = read(path)
    if arrays is None:
        doing = f"Finding {kind} in graphs"
        numbers = every if console is None else tracked(every, doing, len(graphs), console=console)
        keep(arrays := _search(graphs, kind, most, numbers, **options), path)
    return _as_lists(arrays)


def search_lists(graphs: Graphs, kind: str, most: int, numbers: Iterable[int]) -> GraphLists:
    """The same in the graphs with these numbers alone, without the cache."""
    return _as_lists(_search(graphs, kind, most, numbers))


def _search(graphs: Graphs, kind: str, most: int, numbers: Iterable[int], **options: int) -> dict[str, np.ndarray]:
    first, nodes, found = starts(graphs.edges).tolist(), graphs.nodes.tolist(), []
    for number in numbers:
        edges = graphs.edge_index[:, first[number] : first[number + 1]].long()
        try:
            found.append(FINDERS[kind](edges, nodes[number], most, **options))
        except TooMany as error:
            raise TooMany(f"graph {number} (counted from 0): {error.found}", error.advice) from None
    arrays = {"counts": np.array([len(one[1]) for one in found], np.int64)}
    for place, name in enumerate(("index", "size", "distance")):
        if not found or len(found[0]) > place:
            arrays[name] = torch.cat([torch.zeros(0, dtype=torch.long), *(one[place] for one in found)]).int().numpy()
    return arrays


def _as_lists(arrays: dict[str, np.ndarray]) -> GraphLists:
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return GraphLists(tensors["counts"], tensors["size"], tensors["index"], tensors.get("distance"))
