"""PyG transforms that write the lists of a graph as plain attributes, which PyG's ``DataLoader`` batches.

Lists of a kind are ``NAME_index`` (``[P]`` nodes of all lists, one list after the other; PyG shifts attributes whose
name contains ``index`` by the number of nodes) and ``NAME_size`` (``[R]`` length of each list). A graph without any
has empty ones. See :mod:`pggnn.search` for what is found, in which order, and what ``limit`` is for.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from pggnn.search import find_hops, find_paths, find_rings


class AddLists(BaseTransform):
    """The base of the transforms below."""

    attributes: ClassVar[tuple[str, ...]]
    """What is written."""

    @abstractmethod
    def find(self, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
        """What is written of one graph: a tensor for each of the attributes."""

    def __post_init__(self) -> None:
        self.find(torch.empty(2, 0, dtype=torch.long), 0)  # an error about an option is raised here

    def forward(self, data: Data) -> Data:
        """Writes the attributes, also over those that are there."""
        if not isinstance(data, Data):
            raise TypeError(f"{self} takes a graph of one kind of nodes, Data, got {type(data).__name__}")
        edge_index, nodes = data.edge_index, data.num_nodes
        if edge_index is None or nodes is None:
            raise ValueError(f"{self.attributes[0]} is found along edges: the graph needs edge_index, got {data}")
        try:
            found = self.find(edge_index, nodes)
        except ValueError as error:
            raise ValueError(f"{self.attributes[0]}: {error}") from None
        for name, tensor in zip(self.attributes, found, strict=True):
            data[name] = tensor
        return data


@functional_transform("add_rings")
@dataclass(frozen=True)
class AddRings(AddLists):
    """Adds ``ring_index`` and ``ring_size``: the rings of a graph (functional name: ``add_rings``).

    Args:
        max_size: Most nodes of a ring.
        chords: Also rings with chords, every simple cycle.
        limit: Most rings of a graph.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddRings
        >>> data = AddRings()(Data(edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), num_nodes=4))
        >>> data.ring_index, data.ring_size
        (tensor([0, 1, 2]), tensor([3]))
    """

    attributes = ("ring_index", "ring_size")

    max_size: int = 18
    chords: bool = False
    limit: int = 10_000

    def find(self, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
        """By :func:`pggnn.search.find_rings`."""
        return find_rings(edge_index, num_nodes, self.max_size, self.chords, self.limit)


@functional_transform("add_paths")
@dataclass(frozen=True)
class AddPaths(AddLists):
    """Adds ``path_index`` and ``path_size``: the paths of 2 edges or more (functional name: ``add_paths``).

    Args:
        length: Most edges of a path.
        shortest: Only paths whose ends no shorter path joins.
        limit: Most paths of a graph.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddPaths
        >>> data = AddPaths(length=2)(Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4))
        >>> data.path_index.split(data.path_size.tolist())
        (tensor([0, 1, 2]), tensor([1, 2, 3]))
    """

    attributes = ("path_index", "path_size")

    length: int = 3
    shortest: bool = False
    limit: int = 100_000

    def find(self, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
        """By :func:`pggnn.search.find_paths`."""
        return find_paths(edge_index, num_nodes, self.length, self.shortest, self.limit)


@functional_transform("add_hops")
@dataclass(frozen=True)
class AddHops(AddLists):
    """Adds ``hop_index``, ``hop_size`` and ``hop_distance``: each node with those at each distance from it
    (functional name: ``add_hops``).

    Args:
        hops: Largest distance.
        limit: Most places of all lists of a graph.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddHops
        >>> data = AddHops(hops=2)(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
        >>> data.hop_index.split(data.hop_size.tolist())[:2], data.hop_distance[:2]
        ((tensor([0, 1]), tensor([0, 2])), tensor([1, 2]))
    """

    attributes = ("hop_index", "hop_size", "hop_distance")

    hops: int = 2
    limit: int = 1_000_000

    def find(self, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
        """By :func:`pggnn.search.find_hops`."""
        return find_hops(edge_index, num_nodes, self.hops, self.limit)
