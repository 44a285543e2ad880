"""Calls the kernels for cells h ← a ⊙ h + b, :mod:`pggnn.ops.triton.linear` and :mod:`~pggnn.ops.triton.arcs`."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from pggnn.groups import GROUPS
from pggnn.ops.fused.sum import sum_slots
from pggnn.ops.graph import Graph
from pggnn.ops.linear.arcs import is_sum_of_arcs
from pggnn.ops.triton import arcs as arcs_kernels
from pggnn.ops.triton import linear as steps_kernels
from pggnn.orderings import Reading
from pggnn.plan import Plan

TILES = ((16384, 256, 8), (1024, 32, 16), (160, 4, 16), (-1, 1, 64))
"""Rows and channels of a tile, for nodes of a degree above the first number. Any tile is right for any node: they
differ in speed."""
ELEMENTS = 128
"""Those of a tile that a warp has."""
SCRATCH = 2**26
"""Numbers that the backward pass keeps between its two loops, if a single node does not need more: 256 MiB."""


class FusedLinear:
    """The same as an :class:`~pggnn.ops.operator.Operation`, which keeps nothing and runs again to go back."""

    def __init__(self, gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, plan: Plan | None) -> None:
        self.gates, self.weights, center = gates.detach().contiguous(), weights, weights[2].detach().contiguous()
        self.center = center
        self.graph, self.plan, self.reading, self.whole = graph, plan, reading, is_sum_of_arcs(reading)
        self.nodes, self.hidden = graph.degree.size(0), gates.size(1) // 2
        self.options: dict[str, Any] = {
            "H": self.hidden, "CENTER": center.size(0) > 0,
            "GROUP": GROUPS[reading.group].choice or reading.group, "FRAME": reading.frame,
        }  # fmt: skip
        if not self.whole:
            self.options["LIMIT"] = reading.limit or 0
        self.inputs = self.gates, self.center, graph.rows.contiguous(), graph.order, graph.degree, graph.start

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        """The sums over each node's sequences, in float32, and nothing."""
        out = self.gates.new_empty(self.nodes, self.hidden, dtype=torch.float)
        kernel = arcs_kernels.arcs_forward if self.whole else steps_kernels.steps_forward
        for begin, _, _, grid, tile in self._launches() if out.numel() > 0 else ():
            kernel[grid](*self.inputs, begin, self.graph.root, out, **self.options, **tile)
        return out, self.gates.new_empty(0)

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""
        edges = self.graph.rows.size(0)
        d_slots = self.gates.new_zeros(edges + self.nodes, 2 * self.hidden, dtype=torch.float)
        d_center = torch.empty_like(self.center, dtype=torch.float)
        kernel = arcs_kernels.arcs_backward if self.whole else steps_kernels.steps_backward
        taken, d_out = self._launches(SCRATCH) if d_out.numel() > 0 else (), d_out.contiguous()
        scratch = d_slots.new_empty(max((launch.nodes * launch.numbers for launch in taken), default=0))
        for begin, _, numbers, grid, tile in taken:
            kernel[grid](
                *self.inputs, begin, self.graph.root, d_out, d_slots, d_center, scratch, edges, numbers,
                **self.options, **tile,
            )  # fmt: skip
        d_gates = sum_slots(d_slots, self.gates, self.graph, self.plan)
        return d_gates, [*(torch.zeros_like(one) for one in self.weights[:2]), d_center]

    def _launches(self, most: int | None = None) -> tuple["Launch", ...]:
        return launches(self.graph.profile.numpy().tobytes(), self.hidden, self.reading, TILES, most)


class Launch(NamedTuple):
    """Some of the nodes, by falling degree."""

    begin: int
    nodes: int
    numbers: int
    """What the backward pass keeps for each of them."""
    grid: tuple[int, int]
    tile: dict[str, int]


@lru_cache(maxsize=256)
def launches(
    profile: bytes, hidden: int, reading: Reading, tiles: tuple[tuple[int, int, int], ...], most: int | None
) -> tuple[Launch, ...]:
    """One for each kind of tile, or more where all together would keep more than ``most`` numbers."""
    degrees, counts = np.frombuffer(profile, np.int64).reshape(-1, 2).T
    ends, begin, found = counts.cumsum(), 0, []
    for above, rows, channels in tiles:
        width = min(channels, triton.next_power_of_2(hidden))
        tile = {"P": rows, "C": width, "num_warps": max(1, rows * width // ELEMENTS)}
        end = int(counts[degrees > above].sum())
        while begin < end:
            n = int(degrees[np.searchsorted(ends, begin, side="right")])
            numbers = hidden * _kept(n, reading)
            nodes = end - begin if most is None else min(end - begin, max(1, most // max(1, numbers)))
            found.append(Launch(begin, nodes, numbers, (nodes, -(-hidden // width)), tile))
            begin += nodes
    return tuple(found)


def _kept(n: int, reading: Reading) -> int:
    """Numbers that the backward pass keeps for each channel of a node with n neighbours."""
    if not is_sum_of_arcs(reading):
        return int(reading.length(n))
    return n // 2 * 5 if reading.group == "pairs" else n * 3
