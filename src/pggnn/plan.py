"""``edge_index`` → :class:`Plan`: each node's neighbours in their numbering, ready for any layer on the graph."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import GetAttrKey, tree_flatten, tree_unflatten
from torch_geometric.data import Data

from pggnn.neighbourhoods import Lists, own_lists, star

T = TypeVar("T")
Known = dict[tuple[Callable[..., Any], tuple[Hashable, ...]], Any]
"""What has been made of something, by function and arguments."""
FEW = 2**13
"""Edges and nodes up to which those of a GPU are sorted on the host: to call PyTorch's operations takes less there."""
ALIGNED = 16
"""Multiples of bytes where kernels have tensors begin."""


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """The neighbourhoods of a graph, or of a batch of graphs, with nodes sorted by degree.

    Build it once per batch with :meth:`build`, in the data loader where there is one: that is the only step that checks
    indices and reads degrees back to the host. One plan serves every layer, form and ordering; memory is O(N + E).

    Neighbour ``i`` of node ``v`` sits in slot ``start[v] + i``; its number ``i`` is the rank of its edge among those of
    ``v`` in ``edge_index``. Duplicate edges are neighbours of their own; a self-loop makes ``v`` its own neighbour.

    Example:
        >>> import torch
        >>> from pggnn import PGConv, Plan
        >>> edges = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])  # a triangle, and node 3
        >>> plan = Plan.build(edges, num_nodes=4)
        >>> plan
        Plan(nodes=4, edges=8, max_degree=3)
        >>> PGConv(8, 16)(torch.randn(4, 8), plan).shape  # as many layers as you like read the same plan
        torch.Size([4, 16])
    """

    neighbor: Tensor
    """``[E]`` node in each slot."""
    center: Tensor
    """``[E]`` node whose neighbourhood the slot belongs to."""
    edge: Tensor
    """``[E]`` column of ``edge_index`` that the slot came from."""
    start: Tensor
    """``[N]`` first slot of each node."""
    degree: Tensor
    """``[N]`` number of neighbours of each node."""
    order: Tensor
    """``[N]`` nodes by falling degree."""
    profile: Tensor
    """``[D, 2]`` on the CPU: the distinct degrees, falling, and how many nodes have each. All scheduling reads this."""
    extent: Tensor
    """``[num_neighbors, 0]``: holds no data but a size, which compilation and export can then keep symbolic."""
    flow: str = "source_to_target"
    """Whether neighbours are the sources of a node's incoming edges, or the targets of its outgoing ones."""

    @classmethod
    def build(cls, edge_index: Tensor, num_nodes: int | tuple[int, int], flow: str = "source_to_target") -> "Plan":
        """Checks ``edge_index`` and sorts it into neighbourhoods: arguments as in :func:`pggnn.neighbourhoods.star`."""
        with outside_inference_mode():
            if not _are_few(edge_index, num_nodes):
                return cls.read_by(*star(edge_index, num_nodes, flow), flow=flow)
            return cls.read_by(*star(edge_index.cpu(), num_nodes, flow), flow=flow).brought(edge_index.device)

    @classmethod
    def read_by(cls, lists: Lists, num_neighbors: int, flow: str = "source_to_target") -> "Plan":
        """The plan of any neighbourhoods: who reads whom."""
        by_size, order = torch.sort(lists.size, descending=True, stable=True)
        sizes, readers = torch.unique_consecutive(by_size, return_counts=True)
        profile = torch.stack([sizes, readers], dim=1).cpu()
        return cls.of_slots(
            lists.member, lists.reader, lists.edge, lists.size, profile, order, num_neighbors=num_neighbors, flow=flow
        )

    @classmethod
    def of_slots(
        cls, neighbor: Tensor, center: Tensor, edge: Tensor, degree: Tensor, profile: Tensor,
        order: Tensor | None = None, start: Tensor | None = None, num_neighbors: int | None = None,
        flow: str = "source_to_target",
    ) -> "Plan":  # fmt: skip
        """A plan from neighbourhoods that are sorted already, unchecked. All plans are made here."""
        return cls(
            neighbor=neighbor,
            center=center,
            edge=edge,
            start=degree.cumsum(0) - degree if start is None else start,
            degree=degree,
            order=torch.sort(degree, descending=True, stable=True)[1] if order is None else order,
            profile=profile,
            extent=degree.new_empty(degree.size(0) if num_neighbors is None else num_neighbors, 0),
            flow=flow,
        )

    @property
    def num_nodes(self) -> int:
        """Number of centre nodes."""
        return self.degree.size(0)

    @property
    def num_neighbors(self) -> int:
        """Number of nodes that may be neighbours; differs from the number of centres on bipartite graphs."""
        return self.extent.size(0)

    @property
    def num_edges(self) -> int:
        """Number of slots."""
        return self.neighbor.size(0)

    def __repr__(self) -> str:
        if type(self.profile) is not Tensor:  # while a program is traced, or in a tree of something else
            return object.__repr__(self)
        largest = int(self.profile[0, 0]) if self.profile.size(0) else 0
        return f"Plan(nodes={self.num_nodes}, edges={self.num_edges}, max_degree={largest})"

    def renumbered(self) -> "Plan":
        """The same neighbourhoods, each in a fresh uniformly random numbering. No host synchronisation."""
        shuffle = (self.center + torch.rand_like(self.center, dtype=torch.double) / 2).argsort()
        plan = replace(self, neighbor=self.neighbor[shuffle], edge=self.edge[shuffle])
        if not torch.compiler.is_compiling():
            plan.__dict__["_shape"] = self.shape
        return plan

    @property
    def shape(self) -> "Plan":
        """The plan that this one is a renumbering of, or itself: to derive from what depends on degrees alone."""
        found: Plan = self.__dict__.get("_shape", self)
        return found

    def repeated(self, times: int) -> "Plan":
        """Each neighbourhood repeated, for more centres: node v's becomes that of v, v + N, v + 2N …"""
        copy = torch.arange(times, device=self.degree.device)
        nodes, edges = self.num_nodes, self.num_edges
        return replace(
            self, neighbor=self.neighbor.repeat(times), edge=self.edge.repeat(times), degree=self.degree.repeat(times),
            center=(self.center + nodes * copy.unsqueeze(1)).flatten(),
            start=(self.start + edges * copy.unsqueeze(1)).flatten(),
            order=(self.order.unsqueeze(1) + nodes * copy).flatten(),
            profile=self.profile * torch.tensor([1, times], device="cpu"),
        )  # fmt: skip

    def truncated(self, max_degree: int) -> "Plan":
        """Only the first ``max_degree`` neighbours of each node, by their numbering. No host synchronisation."""
        degrees, nodes = self.profile.unbind(1)
        profile = torch.stack([degrees.clamp(max=max_degree), nodes], dim=1)
        return replace(self, degree=self.degree.clamp(max=max_degree), profile=profile)

    def drawn(self, size: int) -> "Plan":
        """So many neighbours of each node, drawn with replacement; none where there are none. No host synchronisation.

        :attr:`edge` stays what it was for each neighbour; slots of nodes without neighbours are there but not read.
        """
        if self.num_edges == 0:
            return self
        node = torch.arange(self.num_nodes, device=self.degree.device)
        draw = torch.rand(self.num_nodes, size, dtype=torch.double, device=node.device)
        slot = (self.start.unsqueeze(-1) + (draw * self.degree.unsqueeze(-1)).long()).flatten()
        slot = slot.clamp(max=self.num_edges - 1)
        degrees, nodes = self.profile.unbind(1)
        return replace(
            self, neighbor=self.neighbor[slot], edge=self.edge[slot], center=node.repeat_interleave(size),
            start=node * size, degree=(self.degree > 0) * size,
            profile=torch.stack([(degrees > 0) * size, nodes], dim=1),
        )  # fmt: skip

    def derived(self, build: Callable[..., T], *args: Hashable) -> T:
        """``build(self, *args)``, which layers on the same plan then share."""
        host: Plan | None = self.__dict__.get("_host") if hasattr(build, "hosted") else None
        if host is None or torch.compiler.is_compiling() or (build, args) in self.known or _is_captured(self.degree):
            return derived(self, self.known, build, *args)
        with outside_inference_mode():
            tensors, form = tree_flatten(host.derived(build, *args))
            self.known[build, args] = tree_unflatten(brought(tensors, self.degree.device), form)
        found: T = self.known[build, args]
        return found

    def brought(self, device: torch.device) -> "Plan":
        """This plan of the host on a device. What is ``hosted`` is then derived here, and brought there too."""
        moved = iter(brought([one for one in map(self.__getattribute__, TENSORS) if one is not self.profile], device))
        plan = self._map(lambda _: next(moved))
        plan.__dict__["_host"] = self
        return plan

    @property
    def known(self) -> "Known":
        """What has been :meth:`derived`, by function and arguments."""
        found: Known = self.__dict__.setdefault("_known", {})
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}

    def to(self, *args: Any, **kwargs: Any) -> "Plan":
        """Moves the tensors as ``Tensor.to`` does; :attr:`profile` stays on the CPU."""
        return self._map(lambda tensor: tensor.to(*args, **kwargs))

    def cpu(self) -> "Plan":
        """Moves the tensors to the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> "Plan":
        """Moves the tensors as ``Tensor.cuda`` does, so that PyG's ``batch.cuda()`` takes a plan along."""
        return self._map(lambda tensor: tensor.cuda(*args, **kwargs))

    def pin_memory(self) -> "Plan":
        """Copies the tensors to pinned memory, for the loader's sake."""
        return self._map(Tensor.pin_memory)

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Plan":
        changed: dict[str, Any] = {name: function(getattr(self, name)) for name in TENSORS if name != "profile"}
        return replace(self, **changed)


def outside_inference_mode() -> AbstractContextManager[object]:
    """Tensors that are made inside are normal ones, also under ``torch.inference_mode``: what is kept may be trained
    with after it."""
    inside = not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
    return torch.inference_mode(False) if inside else nullcontext()


def derived(source: object, known: Known, build: Callable[..., T], *args: Hashable) -> T:
    """``build(source, *args)``, which is then ``known``."""
    if torch.compiler.is_compiling():
        return build(source, *args)
    if (build, args) not in known:
        with outside_inference_mode():
            known[build, args] = build(source, *args)
    found: T = known[build, args]
    return found


def hosted(build: T) -> T:
    """Marks what is :meth:`~Plan.derived` from a plan's numbers by operations that a host is good at where they are
    few."""
    build.hosted = True  # type: ignore[attr-defined]
    return build


def _are_few(edge_index: Tensor, num_nodes: int | tuple[int, int]) -> bool:
    """Whether these are edges of a GPU that are sooner sorted on the host, which has to look at them anyway."""
    if not isinstance(edge_index, Tensor) or not edge_index.is_cuda or torch.compiler.is_compiling():
        return False
    return edge_index.numel() <= 2 * FEW and isinstance(num_nodes, int) and num_nodes <= FEW


def _is_captured(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being recorded, which can take nothing from the host."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def brought(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Contiguous tensors of the host on a device, by one copy, each beginning at a multiple of :data:`ALIGNED`."""
    ends = [*accumulate((-(-one.nbytes // ALIGNED) * ALIGNED for one in tensors), initial=0)]
    packed = torch.empty(ends[-1], dtype=torch.uint8)
    place = packed.numpy()
    for one, begin in zip(tensors, ends, strict=False):
        place[begin : begin + one.nbytes] = one.numpy().reshape(-1).view(np.uint8)
    packed = packed.to(device, non_blocking=True)  # what is not pinned has been read when this returns
    typed = {one.dtype: packed.view(one.dtype) for one in tensors}
    return [
        typed[one.dtype].as_strided(one.size(), one.stride(), begin // one.itemsize)
        for one, begin in zip(tensors, ends, strict=False)
    ]


def slot_numbers(plan: Plan) -> Tensor:
    """``[E]``, for :meth:`Plan.derived`: the rows that are read where each slot has its own, in their order."""
    return torch.arange(plan.num_edges, device=plan.neighbor.device)


def as_plan(edge_index: Tensor | Plan, num_nodes: int | tuple[int, int], flow: str) -> Plan:
    """The plan of these edges, or the one that was given, if it was built with this flow."""
    if not isinstance(edge_index, Plan):
        return Plan.build(edge_index, num_nodes, flow)
    if edge_index.flow != flow:
        raise ValueError(
            f"the plan was built with flow={edge_index.flow!r}, but the layer has flow={flow!r}; "
            f"use Plan.build(edge_index, num_nodes, flow={flow!r})"
        )
    return edge_index


def plans_of(data: Data, flow: str = "source_to_target") -> dict[str, Plan]:
    """A plan for each kind of neighbourhood of a graph or batch, side by side.

    ``"star"`` is the plan of ``edge_index``. Lists of one's own are two attributes that PyG's ``DataLoader`` batches:
    ``NAME_index`` (``[E]`` nodes, one list after the other) and ``NAME_size`` (``[R]`` lengths of lists). Their plan
    is ``NAME``, and its readers are the lists.

    Example:
        >>> data = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 0, 2]]))
        >>> data.ring_index, data.ring_size = torch.tensor([0, 1, 2]), torch.tensor([3])
        >>> plans_of(data)
        {'star': Plan(nodes=4, edges=4, max_degree=2), 'ring': Plan(nodes=1, edges=3, max_degree=3)}
    """
    nodes = data.num_nodes
    if nodes is None:
        raise ValueError("the graph has neither features nor num_nodes: its number of nodes is not known")
    plans = {"star": Plan.build(data.edge_index, nodes, flow)}
    for name in (key.removesuffix("_size") for key in data.keys() if key.endswith("_size")):  # noqa: SIM118
        if f"{name}_index" in data:
            plans[name] = Plan.read_by(*own_lists(data[f"{name}_index"], data[f"{name}_size"], nodes, name), flow=flow)
    return plans


class PaddedPlan(Plan):
    """The plan of a padded batch. Its :attr:`profile` is an upper bound: the k-th largest degree is at most the k-th
    largest there.

    Different batches then have the same profile, and the same launches, as a recorded CUDA graph needs. Only the fused
    kernels read it: they see on the device where the sequences end.
    """


def profile_of(degrees: np.ndarray, nodes: np.ndarray) -> Tensor:
    """:attr:`Plan.profile` from the number of nodes of each degree; degrees ascend."""
    table = np.stack([degrees, nodes], axis=1)[::-1].astype(np.int64)
    return torch.from_numpy(np.ascontiguousarray(table[table[:, 1] > 0]))


FIELDS = [field.name for field in fields(Plan)]
TENSORS = [name for name in FIELDS if name != "flow"]


def _flatten(plan: Plan) -> tuple[list[Tensor], str]:
    return [getattr(plan, name) for name in TENSORS], plan.flow


def _unflatten(tensors: Iterable[Any], flow: str) -> Plan:
    arguments: dict[str, Any] = dict(zip(TENSORS, tensors, strict=True))
    return Plan(**arguments, flow=flow)


def _flatten_with_keys(plan: Plan) -> tuple[list[tuple[Any, Tensor]], str]:
    tensors, flow = _flatten(plan)
    return [(GetAttrKey(name), tensor) for name, tensor in zip(TENSORS, tensors, strict=True)], flow


torch.utils._pytree.register_pytree_node(
    Plan, _flatten, _unflatten, serialized_type_name="pggnn.Plan",
    to_dumpable_context=str, from_dumpable_context=str, flatten_with_keys_fn=_flatten_with_keys,
)  # fmt: skip
torch.serialization.add_safe_globals([Plan])
