"""The operation for a cell that is linear in its state: its kernels where there are such, else plain PyTorch."""

from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pggnn.groups import GROUPS
from pggnn.ops.graph import Graph, shared
from pggnn.ops.linear import arcs
from pggnn.ops.packed.operation import state_dtype
from pggnn.orderings import ROOT, Reading
from pggnn.plan import Plan


class ReadLists(NamedTuple):
    """What a kernel reads, one list after the other: cycles, or sequences step by step."""

    slot: Tensor
    """``[S]`` slots of the plan, or :data:`~pggnn.orderings.ROOT`."""
    first: Tensor
    """``[M + 1]`` where each list begins, and the last one ends."""
    node: Tensor
    """``[M]`` whose list it is."""
    longest: int


def cycles(graph: Graph | Plan, reading: Reading) -> ReadLists:
    """The cycle of each node: of 𝔊 behind its fixed point if there is one, or of a ring."""
    size = graph.degree
    node, place = arcs.spread(size, sum(n * nodes for n, nodes in graph.profile.tolist()))
    start, n = graph.start.index_select(0, node), size.index_select(0, node)
    if reading.group == "pairs":
        fixed = n & 1
        place = GROUPS["pairs"].slot((place - fixed).clamp(min=0), fixed * (place > 0), n)
    return _lists(start + place, size, torch.arange(size.size(0)), graph, lambda n: n)


def sequences(graph: Graph | Plan, reading: Reading) -> ReadLists:
    """Each sequence of each node."""
    node, number = arcs.spread(
        reading.count(graph.degree), sum(k * reading.count(n) for n, k in graph.profile.tolist())
    )
    size = reading.length(graph.degree.index_select(0, node))
    which, step = arcs.spread(size, reading.steps(graph.profile))
    owner = node.index_select(0, which)
    slot = reading.slot(number.index_select(0, which), step, graph.degree.index_select(0, owner))
    start = graph.start.index_select(0, owner)
    slot = torch.where(slot == ROOT, ROOT, start + slot) if reading.reads_root else start + slot
    return _lists(slot, size, node, graph, reading.length)


def _lists(slot: Tensor, size: Tensor, node: Tensor, graph: Graph | Plan, length: Callable[[int], int]) -> ReadLists:
    first = torch.cat([size.new_zeros(1), size.cumsum(0)])
    return ReadLists(slot, first, node, max((length(n) for n, _ in graph.profile.tolist()), default=0))


@cache
def kernels() -> ModuleType | None:
    """Those that Numba compiles, where it can, and has somewhere to keep what it compiled."""
    try:
        from pggnn.ops.linear import numba_arcs
    except (ImportError, RuntimeError):
        return None
    return numba_arcs


def has_kernel(gates: Tensor, weights: list[Tensor], graph: Graph, cell: str) -> bool:
    """Whether there is one for such tensors: the kernels know how the cell ``"linear"`` makes a and b."""
    known = cell == "linear" and gates.device.type == "cpu" and state_dtype(gates, weights) == torch.float
    return known and graph.codes is None and kernels() is not None


class LinearOperation:
    """The same as an :class:`~pggnn.ops.operator.Operation`, which keeps nothing and runs again to go back."""

    def __init__(
        self, gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, cell: str, plan: Plan | None = None
    ) -> None:
        self.gates, self.weights, self.graph, self.reading, self.cell = gates, weights, graph, reading, cell
        self.dtype, self.hidden = state_dtype(gates, weights), weights[0].size(1)
        self.jitted: Any = kernels() if has_kernel(gates, weights, graph, cell) else None
        if self.jitted is not None:
            self._check(plan)
            self.whole = arcs.is_sum_of_arcs(reading)
            self.lists = shared(graph, plan, cycles if self.whole else sequences, reading)

    def _check(self, plan: Plan | None) -> None:
        """Refuses rows that are not there: kernels read memory where they are told to."""
        rows, nodes, center = self.graph.rows, self.graph.degree.size(0), self.weights[2]
        least, needed = 0, 0
        if plan is not None and rows is plan.neighbor:  # which a plan has checked
            needed = plan.num_neighbors
        elif rows.numel() > 0:
            least, needed = (int(bound) for bound in rows.aminmax())
            needed += 1
        if self.reading.reads_root:
            least, needed = min(least, self.graph.root), max(needed, self.graph.root + nodes)
        if least < 0 or self.gates.size(0) < needed or center.size(0) not in (0, nodes):
            raise IndexError(
                f"gate rows {least} to {needed - 1} are read, and {nodes} of centres, "
                f"got {self.gates.size(0)} and {center.size(0)}"
            )

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        nothing = self.gates.new_empty(0, dtype=self.dtype)
        with torch.no_grad():
            if self.jitted is None:
                return arcs.recurrence(self.gates, self.weights, self.graph, self.reading, self.cell), nothing
            gates, center = (self._padded(one, 2) for one in (self.gates, self.weights[2]))
            out = gates.new_zeros(self.graph.degree.size(0), gates.size(1) // 2)
            self._run("forward", gates=gates, center=center, out=out)
        return out[:, : self.hidden], nothing

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        if self.jitted is None:  # Autograd records nothing inside an operator, torch.func does.
            call = partial(arcs.recurrence, graph=self.graph, reading=self.reading, cell=self.cell)
            d_gates, d_weights = torch.func.vjp(call, self.gates, self.weights)[1](d_out)
            return d_gates, d_weights
        gates, center = (self._padded(one, 2) for one in (self.gates, self.weights[2]))
        d_gates, d_center = torch.zeros_like(gates), torch.zeros_like(center)
        self._run(
            "backward", gates=gates, center=center, out=self._padded(d_out, 1), d_gates=d_gates, d_center=d_center
        )  # fmt: skip
        unpadded = [one.view(-1, 2, one.size(1) // 2)[..., : self.hidden].flatten(1) for one in (d_gates, d_center)]
        return unpadded[0], [*(torch.zeros_like(one) for one in self.weights[:2]), unpadded[1]]

    def _padded(self, table: Tensor, parts: int) -> Tensor:
        """Rows of so many parts, each with zeros up to a width that a kernel takes."""
        table, missing = table.detach().to(self.dtype), -self.hidden % self.jitted.LANES
        if missing:
            table = torch.nn.functional.pad(table.view(-1, parts, self.hidden), (0, missing)).flatten(1)
        return table.contiguous()

    def _run(self, way: str, **tensors: Tensor) -> None:
        graph, (slot, first, node, longest) = self.graph, self.lists
        tensors |= {"slot": slot, "first": first, "node": node, "rows": graph.rows.contiguous()}
        if tensors["center"].size(0) == 0:
            del tensors["center"]
        self.jitted.run_lists(
            way, self.whole, lists=node.size(0), steps=slot.size(0), hidden=tensors["out"].size(1),
            slots=graph.rows.size(0), longest=longest, root=graph.root, ring=self.reading.group == "dihedral",
            merged=self.reading.frame == "merged", closed=self.reading.frame == "closed",
            **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        )  # fmt: skip
