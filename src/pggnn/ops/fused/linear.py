"""Calls the kernels for cells h ← a ⊙ h + b, :mod:`pggnn.ops.triton.linear` and :mod:`~pggnn.ops.triton.arcs`."""

from collections.abc import Iterator
from typing import Any

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
        out = self.gates.new_empty(self.nodes, self.hidden).float()
        kernel = arcs_kernels.arcs_forward if self.whole else steps_kernels.steps_forward
        for begin, nodes, _, options in self._launches() if out.numel() > 0 else ():
            kernel[self._grid(nodes, options)](*self.inputs, begin, self.graph.root, out, **options)
        return out, self.gates.new_empty(0)

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""
        edges = self.graph.rows.size(0)
        d_slots = self.gates.new_zeros(edges + self.nodes, 2 * self.hidden).float()
        d_center = self.center.new_empty(self.center.shape).float()
        kernel = arcs_kernels.arcs_backward if self.whole else steps_kernels.steps_backward
        launches = list(self._launches(SCRATCH)) if d_out.numel() > 0 else []
        scratch = d_slots.new_empty(max((nodes * numbers for _, nodes, numbers, _ in launches), default=0))
        for begin, nodes, numbers, options in launches:
            kernel[self._grid(nodes, options)](
                *self.inputs, begin, self.graph.root, d_out.contiguous(), d_slots, d_center, scratch, edges, numbers,
                **options,
            )  # fmt: skip
        d_gates = sum_slots(d_slots, self.gates, self.graph, self.plan)
        return d_gates, [*(torch.zeros_like(one) for one in self.weights[:2]), d_center]

    def _launches(self, most: int | None = None) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
        """First node by falling degree, number of nodes, numbers to keep for each node, and options of each launch: one
        for each kind of tile, or more where all together would keep more than ``most``."""
        degrees, counts = self.graph.profile.unbind(1)
        ends, begin = counts.cumsum(0), 0
        for above, rows, channels in TILES:
            width = min(channels, triton.next_power_of_2(self.hidden))
            tile = {"P": rows, "C": width, "num_warps": max(1, rows * width // ELEMENTS)}
            end = int(counts[degrees > above].sum())
            while begin < end:
                numbers = self._kept(int(degrees[torch.searchsorted(ends, begin, right=True)]))
                nodes = end - begin if most is None else min(end - begin, max(1, most // max(1, numbers)))
                yield begin, nodes, numbers, self.options | tile
                begin += nodes

    def _kept(self, n: int) -> int:
        """Numbers that the backward pass keeps for a node with n neighbours."""
        if not self.whole:
            return int(self.reading.length(n)) * self.hidden
        return (n // 2 * 5 if self.reading.group == "pairs" else n * 3) * self.hidden

    def _grid(self, nodes: int, options: dict[str, Any]) -> tuple[int, int]:
        return nodes, -(-self.hidden // options["C"])
