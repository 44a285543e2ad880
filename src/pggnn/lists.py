"""Lists that nodes read beside their neighbours: rings, paths, the nodes at a distance, or lists of one's own.

As data a kind of list is two attributes that PyG's ``DataLoader`` batches: ``NAME_index`` (``[P]`` nodes of all lists,
one list after the other) and ``NAME_size`` (``[L]`` their lengths). :data:`LISTS` says how each kind is read.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from pggnn.neighbourhoods import Lists, check_edges, check_flow, own_lists
from pggnn.plan import Known, Plan, derived, outside_inference_mode

T = TypeVar("T")
Sequences = tuple[Tensor, Tensor, Tensor, Tensor]
"""``[S]`` list of each sequence, ``[S]`` its length, ``[S]`` the place in its list where it begins, ``[S]`` its step
from place to place, 1 or −1."""


class ListPlan(NamedTuple):
    """What is read of lists: the sequences, and the node that each is read for."""

    plan: Plan
    """Its readers are the sequences. Its ``edge`` is the row of :attr:`head` that leads to a place, or the number of
    these rows where none does; with distances, the distance, counted from 0."""
    owner: Tensor
    """``[R]`` node that each sequence is read for."""
    head: Tensor
    """``[E]`` node that each edge of the graph leads to."""
    times: Tensor | None = None
    """Sparse ``[N, R]``: how often each node has each sequence; by default once its owner, and never another. Several
    nodes may share a sequence where their features are the same."""

    def to(self, device: torch.device | str) -> "ListPlan":
        """On another device."""
        times = None if self.times is None else self.times.to(device)
        return ListPlan(self.plan.to(device), self.owner.to(device), self.head.to(device), times)

    def derived(self, build: Callable[..., T], *args: Hashable) -> T:
        """``build(self, *args)``, which layers on the same lists then share."""
        return derived(self, self.known, build, *args)

    @property
    def known(self) -> Known:
        """What has been :meth:`derived`, by function and arguments."""
        found: Known = self.plan.__dict__.setdefault("_known_of_lists", {})
        return found


@dataclass(frozen=True)
class ListKind:
    """How a kind of list is read."""

    attribute: str
    """What the attributes begin with: ``"ring"`` stands for ``ring_index`` and ``ring_size``."""
    sequences: Callable[[Tensor], Sequences]
    """The sequences, given the lengths of the lists."""
    last: bool = False
    """Whether a sequence is read for its last node, instead of its first."""
    apart: bool = False
    """Whether the first node stands apart: the others are read, with the features of their distance."""
    least: int = 1
    """The shortest list."""

    @property
    def search(self) -> str:
        """The kind that is searched for, whose lists these are."""
        return f"{self.attribute}s"


def around(size: Tensor) -> Sequences:
    """Each ring from each of its members, both ways, back to that member."""
    ring = torch.repeat_interleave(2 * size)
    length = size[ring]
    number = torch.arange(len(ring), device=size.device) - _starts(2 * size)[ring]
    back = (number >= length).long()
    return ring, length + 1, number - length * back, 1 - 2 * back


def around_once(size: Tensor) -> Sequences:
    """Each ring from each of its members, the way it is stored."""
    ring, length, first, step = around(size)
    return ring[step > 0], length[step > 0], first[step > 0], step[step > 0]


def once_around(size: Tensor) -> Sequences:
    """Each ring once, from its first member round to it."""
    nothing = torch.zeros_like(size)
    return torch.arange(len(size), device=size.device), size + 1, nothing, nothing + 1


def to_ends(size: Tensor) -> Sequences:
    """Each path towards each of its ends."""
    path = torch.arange(len(size), device=size.device).repeat_interleave(2)
    length, back = size[path], torch.arange(2 * len(size), device=size.device) % 2
    return path, length, (length - 1) * back, 1 - 2 * back


def as_given(size: Tensor) -> Sequences:
    """Each list once, in its order."""
    return torch.arange(len(size), device=size.device), size, torch.zeros_like(size), torch.ones_like(size)


LISTS: dict[str, ListKind] = {
    "rings": ListKind("ring", around, least=3),
    "paths": ListKind("path", to_ends, last=True, least=2),
    "hops": ListKind("hop", as_given, apart=True),
    "lists": ListKind("list", as_given),
    "rings-one-way": ListKind("ring", around_once, least=3),
    "ring-sets": ListKind("ring", around, least=3),
    "ring-cells": ListKind("ring", once_around, least=3),
    "triangle-cells": ListKind("triangle", once_around, least=3),
}
"""``rings``: chordless or simple cycles. ``paths``: each is stored once, and read towards both of its ends, for that
end. ``hops``: a node, then those at one distance from it, which ``hop_distance`` (``[L]``) says. ``lists``: those of
one's own, each read in its order for the node that it begins with. To compare with: ``rings-one-way`` depends on how a
ring is stored, and ``ring-sets`` does not depend on the order of its members. For models whose cells have features:
``ring-cells`` and ``triangle-cells``, each once, with its edges."""


def read_lists(kind: str, data: Data, flow: str = "source_to_target") -> ListPlan:
    """What is read of the lists of this kind in a graph or batch. Checks them.

    Args:
        kind: One of :data:`LISTS`.
        data: The graph or batch, with ``edge_index`` and the attributes of its lists.
        flow: That of the layer which reads them. With ``"source_to_target"`` the features of the edge from u to v enter
            the step from v to u, as they do where v reads its neighbour u; with ``"target_to_source"`` those of the
            edge from v to u.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn.lists import read_lists
        >>> data = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]))
        >>> data.ring_index, data.ring_size = torch.tensor([0, 1, 2]), torch.tensor([3])
        >>> read_lists("rings", data).plan
        Plan(nodes=6, edges=24, max_degree=4)
    """
    if kind not in LISTS:
        raise ValueError(f"lists must be of the kind {', '.join(map(repr, LISTS))}, got {kind!r}")
    check_flow(flow)
    if not isinstance(data, Data):
        raise TypeError(f"lists are read of a graph or batch, Data of one kind of nodes, got {type(data).__name__}")
    name, least, nodes = LISTS[kind].attribute, LISTS[kind].least, data.num_nodes
    missing = [one for one in (*(f"{name}_{part}" for part in _parts(kind)), "edge_index") if data.get(one) is None]
    if missing or nodes is None:
        raise ValueError(
            f"to read {kind} a graph needs {', '.join(missing) or 'num_nodes'}"
            + ("; transforms such as pggnn.transforms.AddRings write them" if missing[:1] != ["edge_index"] else "")
        )
    index, size = data[f"{name}_index"], data[f"{name}_size"]
    own_lists(index, size, nodes, kind)
    if len(size) and int(size.min()) < least:
        raise ValueError(f"{kind}: a list has at least {least} nodes, got one of {int(size.min())}")
    distance = data[f"{name}_distance"] if LISTS[kind].apart else None
    if distance is not None:
        _check_distances(f"{kind}: {name}_distance", distance, size)
    edge_index, _ = check_edges(data.edge_index, nodes)
    with outside_inference_mode():
        return expand_lists(kind, index, size, edge_index, nodes, flow, distance)


def _check_distances(what: str, distance: Tensor, size: Tensor) -> None:
    """Refuses what is not one distance for each list."""
    if not isinstance(distance, Tensor) or distance.dtype != torch.long:
        kind = str(distance.dtype) if isinstance(distance, Tensor) else type(distance).__name__
        raise TypeError(f"{what} must be a tensor of int64, got {kind}")
    if distance.shape != size.shape or (len(size) and int(distance.min()) < 1):
        given = f"shape {list(distance.shape)}" if distance.shape != size.shape else f"one of {int(distance.min())}"
        raise ValueError(f"{what} must be one number from 1 on for each of {len(size)} lists, got {given}")


def expand_lists(
    kind: str, index: Tensor, size: Tensor, edge_index: Tensor, num_nodes: int, flow: str = "source_to_target",
    distance: Tensor | None = None,
) -> ListPlan:  # fmt: skip
    """The sequences of checked lists, see :func:`read_lists`; node numbers count from 0 in the whole batch."""
    how = LISTS[kind]
    number, length, first, step = how.sequences(size)
    start, total = _starts(size)[number], int(length.sum())
    reader = torch.repeat_interleave(length, output_size=total)
    t = torch.arange(total, device=size.device) - _starts(length)[reader]
    place = start[reader] + (first[reader] + t * step[reader]) % size[number][reader].clamp(min=1)
    member = index[place]
    owner = member[_starts(length) + (length - 1 if how.last else 0)]
    head, tail = edge_index[0 if flow == "source_to_target" else 1], edge_index[1 if flow == "source_to_target" else 0]
    if how.apart:
        kept = t > 0
        member, reader, length = member[kept], reader[kept], length - 1
        edge = distance[number][reader] - 1 if distance is not None else torch.zeros_like(member)
    else:
        edge = _edge_to(member, t, head, tail, num_nodes)
    return ListPlan(Plan.read_by(Lists(member, reader, edge, length), num_nodes, flow), owner, head)


def _edge_to(member: Tensor, t: Tensor, head: Tensor, tail: Tensor, num_nodes: int) -> Tensor:
    """The edge from the place before to each place; the number of edges where there is none."""
    none = len(head)
    if none == 0 or len(member) == 0:
        return torch.full_like(member, none)
    keys, order = torch.sort(head * num_nodes + tail, stable=True)
    wanted = member * num_nodes + member.roll(1)
    at = torch.searchsorted(keys, wanted).clamp(max=none - 1)
    return torch.where((keys[at] == wanted) & (t > 0), order[at], none)


def _parts(kind: str) -> tuple[str, ...]:
    return ("index", "size", "distance") if LISTS[kind].apart else ("index", "size")


def _starts(size: Tensor) -> Tensor:
    return size.cumsum(0) - size


torch.serialization.add_safe_globals([ListPlan])
