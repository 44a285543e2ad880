"""Calls the kernels for cells h ← a ⊙ h + b, :mod:`pggnn.ops.triton.linear`."""

from typing import Any

import torch
import triton
from torch import Tensor

from pggnn.groups import GROUPS
from pggnn.ops.fused.sum import add_up, slot_readers
from pggnn.ops.graph import Graph
from pggnn.ops.linear.arcs import is_sum_of_arcs
from pggnn.ops.triton import linear as kernels
from pggnn.orderings import Reading
from pggnn.plan import Plan

CHANNELS = 64
"""Those of a program at most."""


class FusedLinear:
    """The same as an :class:`~pggnn.ops.operator.Operation`, which keeps nothing and runs again to go back."""

    def __init__(self, gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, plan: Plan | None) -> None:
        self.gates, self.weights, center = gates.detach().contiguous(), weights, weights[2].detach().contiguous()
        self.center = center
        self.graph, self.plan, self.whole = graph, plan, is_sum_of_arcs(reading)
        self.nodes, self.hidden = graph.degree.size(0), gates.size(1) // 2
        width = min(CHANNELS, triton.next_power_of_2(self.hidden))
        self.options: dict[str, Any] = {
            "H": self.hidden, "C": width, "CENTER": center.size(0) > 0, "num_warps": max(1, width // 32),
            "GROUP": GROUPS[reading.group].choice or reading.group, "FRAME": reading.frame,
        }  # fmt: skip
        if not self.whole:
            self.options["LIMIT"] = reading.limit or 0
        self.grid = self.nodes, -(-self.hidden // width)
        self.inputs = self.gates, self.center, graph.rows.contiguous(), graph.order, graph.degree, graph.start

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        """The sums over each node's sequences, in float32, and nothing."""
        out = self.gates.new_empty(self.nodes, self.hidden).float()
        kernel = kernels.arcs_forward if self.whole else kernels.steps_forward
        if out.numel() > 0:
            kernel[self.grid](*self.inputs, out, self.graph.root, **self.options)
        return out, out[:0]

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""
        edges, rows = self.graph.rows.size(0), self.graph.rows.size(0) + 2 * self.nodes
        d_slots = self.gates.new_zeros(edges + self.nodes, 2 * self.hidden).float()
        d_center = self.center.new_empty(self.center.shape).float()
        d_gates = self.gates.new_empty(self.gates.shape).float()
        scratch = d_slots.new_empty((3 if self.whole else 1) * rows * self.hidden)
        if d_out.numel() > 0:
            outputs = d_out.contiguous(), d_slots, d_center, scratch
            if self.whole:
                kernels.arcs_backward[self.grid](
                    *self.inputs, *outputs, self.graph.root, edges, rows * self.hidden, **self.options
                )  # fmt: skip
            else:
                kernels.steps_backward[self.grid](*self.inputs, *outputs, self.graph.root, edges, **self.options)
        readers = slot_readers(self.graph.rows, self.gates.size(0), self.plan)
        add_up(d_slots, d_gates, *readers, self.graph.root, self.nodes)
        return d_gates, [*(torch.zeros_like(one) for one in self.weights[:2]), d_center]
