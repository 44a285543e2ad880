"""The operation for a cell that is linear in its state: its kernels where there are such, else plain PyTorch."""

from functools import partial

import torch
from torch import Tensor

from pggnn.ops.graph import Graph
from pggnn.ops.linear import arcs
from pggnn.ops.packed.operation import state_dtype
from pggnn.orderings import Reading


class LinearOperation:
    """The same as an :class:`~pggnn.ops.operator.Operation`, which keeps nothing and runs again to go back."""

    def __init__(self, gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, cell: str) -> None:
        self.gates, self.weights, self.graph, self.reading, self.cell = gates, weights, graph, reading, cell

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            out = arcs.recurrence(self.gates, self.weights, self.graph, self.reading, self.cell)
        return out, self.gates.new_empty(0, dtype=state_dtype(self.gates, self.weights))

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        # Autograd records nothing inside an operator, torch.func does.
        call = partial(arcs.recurrence, graph=self.graph, reading=self.reading, cell=self.cell)
        d_gates, d_weights = torch.func.vjp(call, self.gates, self.weights)[1](d_out)
        return d_gates, d_weights
