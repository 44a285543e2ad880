"""The operation in operations that PyTorch differentiates itself: any number of times, in any mode, for any cell.

Slower than the others, and autograd keeps every step. Second derivatives, the transforms of ``torch.func`` and cells
without a fast path run here.
"""

import sys
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from pggnn.cells import CELLS, Layer, State, split_layers
from pggnn.ops.graph import Graph
from pggnn.ops.packed.operation import state_dtype
from pggnn.ops.packed.schedule import BlockIndex, blocks, row_of_slot
from pggnn.ops.structure import first_steps
from pggnn.orderings import Reading


def recurrence(gates: Tensor, weights: Sequence[Tensor], graph: Graph, reading: Reading, cell: str) -> Tensor:
    """The sum over each node's sequences of the last hidden state; the last weight belongs to ``graph.codes``."""
    reading.check(graph.profile)
    dtype = state_dtype(gates, weights)
    table, weights = gates.to(dtype), [weight.to(dtype) for weight in weights]
    structure = None if graph.codes is None else weights.pop()
    layers, hidden = split_layers(weights), weights[0].size(1)
    # The empty sum connects the result to its inputs where there is nothing to read.
    out = table.new_zeros(graph.degree.size(0), hidden) + table[:0].sum()
    rows = row_of_slot(graph, reading)
    for block in blocks(graph.profile, reading, sys.maxsize):
        index = BlockIndex(graph, block, reading, graph.rows.size(0))
        steps = table.index_select(0, rows.index_select(0, index.all_slots))
        if structure is not None and graph.codes is not None:
            first = first_steps(graph.degree, reading)
            bits = index.bits(0, len(block.sizes), first, graph.codes, structure.size(0))
            steps = steps + bits.to(dtype) @ structure
        out = out.index_add(0, index.node, last_hidden(steps.split(block.sizes), layers, cell, hidden))
    return out.to(gates.dtype)


def last_hidden(steps: Sequence[Tensor], layers: Sequence[Layer], cell: str, hidden: int) -> Tensor:
    """The top layer's last hidden state of sequences that are sorted by falling length, from what each step reads."""
    start = steps[0].new_zeros(steps[0].size(0), hidden)
    states: list[State] = [(start,) * CELLS[cell].states for _ in layers]
    ended: list[Tensor] = []
    for x in steps:
        running = x.size(0)
        if running < states[-1][0].size(0):
            ended.append(states[-1][0][running:])
            states = [tuple(part[:running] for part in state) for state in states]
        for index, layer in enumerate(layers):
            if layer.weight_ih is not None:
                x = linear(states[index - 1][0], layer.weight_ih, layer.bias_ih)
            h = linear(states[index][0], layer.weight_hh, layer.bias_hh)
            states[index] = CELLS[cell].step(x, h, states[index])
    return torch.cat([states[-1][0], *reversed(ended)])
