"""The operation in plain PyTorch on every device: sequences sorted by length, in blocks under a workspace budget.

Each layer is one gather or matrix product for the whole block and then a few in-place operations per step. What a block
keeps for the backward pass is bounded by ``workspace`` bytes: where all sequences fit, the forward pass hands its states
to the backward pass (the paper's "parallel" mode, Θ(N Δ c) memory); where they do not, blocks run one after the other and
are run again in the backward pass, down to a single step of a single sequence at a time (its "serial" mode).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pggnn.cells import Layer, split_layers
from pggnn.ops.unroll import UNROLLED, Carry, Unrolled
from pggnn.orderings import ROOT, Reading

MOST_SEQUENCES = 1024
"""Sequences per block: enough for a full-speed matrix product, few enough to stay in cache."""
FEWEST_SEQUENCES = 128
"""Below this, long sequences are cut into slabs of steps rather than read fewer at a time."""


@dataclass(frozen=True)
class Block:
    """Sequences ``first`` … ``first + sizes[0] − 1``, of which ``sizes[t]`` are still running at step t."""

    first: int
    sizes: list[int]

    def slabs(self, most_rows: int) -> Iterator[tuple[int, int]]:
        """Cuts the steps into ranges of at most ``most_rows`` rows, or one step."""
        begin, rows = 0, 0
        for step, size in enumerate(self.sizes):
            if rows + size > most_rows and step > begin:
                yield begin, step
                begin, rows = step, 0
            rows += size
        yield begin, len(self.sizes)


def state_dtype(gates: Tensor, weights: Sequence[Tensor]) -> torch.dtype:
    """States are kept in float32 at least, whatever autocast makes of the gate rows."""
    return torch.promote_types(torch.promote_types(gates.dtype, weights[0].dtype), torch.float)


def total_rows(profile: Tensor, reading: Reading) -> int:
    """Steps of all sequences together."""
    return sum(nodes * reading.count(n) * reading.length(n) for n, nodes in profile.tolist())


def row_bytes(cell: str, hidden: int, layers: int, element: int) -> int:
    """Memory that a training pass needs for each step of a sequence."""
    unrolled = UNROLLED[cell]
    saved = layers * sum(unrolled.fields)
    gradients = len(unrolled.gate_scale) * (1 if unrolled.additive else 2) + 1
    return (saved + gradients) * hidden * element + 64


def blocks(profile: Tensor, reading: Reading, most_rows: int) -> Iterator[Block]:
    """Cuts the sequences, sorted by falling length, into blocks."""
    groups = [(nodes * reading.count(n), reading.length(n)) for n, nodes in profile.tolist()]
    groups = [(count, length) for count, length in groups if count > 0]
    first = 0
    while groups:
        longest = groups[0][1]
        room = max(1, min(MOST_SEQUENCES, max(FEWEST_SEQUENCES, most_rows // longest), most_rows))
        lengths: list[tuple[int, int]] = []
        while groups and room > 0:
            count, length = groups[0]
            taken = min(count, room)
            lengths.append((taken, length))
            room -= taken
            groups[0] = (count - taken, length)
            if taken == count:
                groups.pop(0)
        block = Block(first, active(lengths))
        first += block.sizes[0]
        yield block


def active(lengths: list[tuple[int, int]]) -> list[int]:
    """How many sequences run at each step, from (how many, how long) by falling length."""
    running = sum(count for count, _ in lengths)
    sizes: list[int] = []
    for count, length in reversed(lengths):
        sizes += [running] * (length - len(sizes))
        running -= count
    return sizes


class BlockIndex:
    """Which node each sequence of a block belongs to, and which gate row each of its steps reads."""

    def __init__(self, block: Block, graph: "Graph", reading: Reading, ends: Tensor) -> None:
        ids = torch.arange(block.first, block.first + block.sizes[0], device=ends.device)
        rank = torch.searchsorted(ends, ids, right=True)
        self.graph, self.reading, self.sizes = graph, reading, block.sizes
        self.node = graph.order.index_select(0, rank)
        self.n = graph.degree.index_select(0, self.node)
        self.i = ids - ends.index_select(0, rank) + reading.count(self.n)
        self.start = graph.start.index_select(0, self.node)

    def gate_rows(self, begin: int, end: int) -> Sequence[Tensor]:
        """The gate rows read at each of the steps ``begin`` … ``end − 1``."""
        sizes = self.sizes[begin:end]
        return self._packed_rows(sizes, begin).split(sizes)

    def _packed_rows(self, sizes: list[int], begin: int) -> Tensor:
        graph = self.graph
        total, per_step = sum(sizes), torch.tensor(sizes).to(self.n.device, non_blocking=True)
        step = torch.repeat_interleave(per_step, output_size=total)
        sequence = torch.arange(total, device=self.n.device) - (per_step.cumsum(0) - per_step).index_select(0, step)
        n, i, start = (tensor.index_select(0, sequence) for tensor in (self.n, self.i, self.start))
        slot = self.reading.slot(i, step + begin, n)
        if not self.reading.reads_root:
            return graph.rows.index_select(0, start + slot)
        root = graph.root + self.node.index_select(0, sequence)
        if graph.rows.numel() == 0:
            return root
        neighbor = graph.rows.index_select(0, (start + slot).clamp_(0, graph.rows.numel() - 1))
        return torch.where(slot == ROOT, root, neighbor)


class Graph(NamedTuple):
    """The tensors of a :class:`~pggnn.plan.Plan`, with the gate row of each slot and of the first centre node."""

    start: Tensor
    degree: Tensor
    order: Tensor
    profile: Tensor
    rows: Tensor
    root: int


class Packed:
    """The operation on one graph: what the forward and the backward pass share."""

    def __init__(
        self, gates: Tensor, weights: Sequence[Tensor], graph: Graph, reading: Reading, cell: str, workspace: int
    ) -> None:
        self.graph, self.reading, self.unrolled = graph, reading, UNROLLED[cell]
        self.dtype = state_dtype(gates, weights)
        self.weights = [weight.detach().to(self.dtype) for weight in weights]
        self.layers = split_layers(self.weights)
        self.hidden = weights[0].size(1)
        self.width = len(self.layers) * self.hidden * sum(self.unrolled.fields)
        self.most_rows = max(1, workspace // row_bytes(cell, self.hidden, len(self.layers), self.dtype.itemsize))
        self.ends = reading.count(graph.degree.index_select(0, graph.order)).cumsum(0)
        self.table, self.prepared = self._prepare(gates.detach().to(self.dtype))

    @property
    def saved_elements(self) -> int:
        """Size of the states of all sequences, or 0 if they do not fit the workspace."""
        rows = total_rows(self.graph.profile, self.reading)
        return rows * self.width if rows <= self.most_rows else 0

    def _prepare(self, gates: Tensor) -> tuple[Tensor, list[Layer]]:
        """Gate rows and weights with gates scaled, matrices transposed and, for additive cells, biases folded."""
        scale = self.weights[0].new_tensor(self.unrolled.gate_scale).repeat_interleave(self.hidden)
        prepared = []
        for weight_ih, weight_hh, bias_ih, bias_hh in self.layers:
            if self.unrolled.additive and bias_ih is not None:
                bias_ih = (bias_ih + bias_hh) * scale
            if weight_ih is not None:
                weight_ih = (weight_ih.t() * scale).contiguous()
            prepared.append(Layer(weight_ih, (weight_hh.t() * scale).contiguous(), bias_ih, bias_hh))
        return ((gates + self.layers[0].bias_hh) * scale if self.unrolled.additive else gates), prepared

    def blocks(self) -> Iterator[tuple[Block, BlockIndex]]:
        for block in blocks(self.graph.profile, self.reading, self.most_rows):
            yield block, BlockIndex(block, self.graph, self.reading, self.ends)

    def unroll(
        self, buffer: Tensor | None, sizes: list[int], keep: bool, carries: Sequence[Carry] = ()
    ) -> list[Unrolled]:
        """The layers over some steps of a block, on memory that holds, or is to hold, their states."""
        elements = (sum(sizes) if keep else sizes[0]) * self.width
        buffer = self.table.new_empty(elements) if buffer is None else buffer[:elements]
        parts = buffer.chunk(len(self.layers))
        carries = carries or [()] * len(parts)
        return [self.unrolled(part, sizes, self.hidden, keep, carry) for part, carry in zip(parts, carries, strict=True)]

    def step(self, unrolled: list[Unrolled], t: int, rows: Tensor) -> None:
        """Runs all layers over step t, given the gate rows it reads."""
        for index, (layer, weights) in enumerate(zip(unrolled, self.prepared, strict=True)):
            if weights.weight_ih is None or weights.bias_ih is None:
                torch.index_select(self.table, 0, rows, out=layer.gates[t])
            else:
                torch.addmm(weights.bias_ih, unrolled[index - 1].h[t], weights.weight_ih, out=layer.gates[t])
            layer.forward(t, weights.weight_hh, weights.bias_hh)

    def forward(self, saved: Tensor) -> Tensor:
        """The sum over each node's sequences; fills ``saved`` with all states unless it is empty."""
        out = self.table.new_zeros(self.graph.degree.size(0), self.hidden)
        keep = saved.numel() > 0
        for block, index in self.blocks():
            unrolled = self.unroll(saved if keep else None, block.sizes, keep)
            saved = saved[sum(block.sizes) * self.width :]
            for begin, end in block.slabs(self.most_rows):
                for t, rows in zip(range(begin, end), index.gate_rows(begin, end), strict=True):
                    self.step(unrolled, t, rows)
            out.index_add_(0, index.node, last_rows(unrolled[-1].h))
        return out

    def backward(self, d_out: Tensor, saved: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of the weights; runs blocks again whose states were not saved."""
        gradients = Gradients(self)
        keep = saved.numel() > 0
        for block, index in self.blocks():
            gradients.begin(d_out.index_select(0, index.node).to(self.dtype))
            slabs = list(block.slabs(self.most_rows))
            carries = self.carries(block, index, slabs)
            for begin, end in reversed(slabs):
                unrolled = self.unroll(saved if keep else None, block.sizes[begin:end], True, carries.pop())
                rows = index.gate_rows(begin, end)
                if not keep:
                    for t in range(end - begin):
                        self.step(unrolled, t, rows[t])
                for t in reversed(range(end - begin)):
                    gradients.step(unrolled, t, rows[t])
            saved = saved[sum(block.sizes) * self.width :]
        return gradients.finish()

    def carries(self, block: Block, index: BlockIndex, slabs: list[tuple[int, int]]) -> list[list[Carry]]:
        """The states before each slab of a block."""
        carries: list[list[Carry]] = [[()] * len(self.layers)]
        unrolled = self.unroll(None, block.sizes, False) if len(slabs) > 1 else []
        for begin, end in slabs[:-1]:
            for t, rows in zip(range(begin, end), index.gate_rows(begin, end), strict=True):
                self.step(unrolled, t, rows)
            carries.append([tuple(state.clone() for state in layer.end(end - 1)) for layer in unrolled])
        return carries


def last_rows(steps: Sequence[Tensor]) -> Tensor:
    """The last row of each sequence of a block, in order."""
    following = [step.size(0) for step in steps[1:]] + [0]
    ends = [step[after:] for step, after in zip(steps, following, strict=True) if step.size(0) > after]
    return torch.cat(ends[::-1])


class Gradients:
    """What the backward pass accumulates over blocks and steps."""

    def __init__(self, operation: Packed) -> None:
        self.operation = operation
        self.table = torch.zeros_like(operation.table)
        self.weights = [torch.zeros_like(weight) for weight in operation.weights]
        self.layers = split_layers(self.weights)

    def begin(self, d_last: Tensor) -> None:
        """Starts a block, given the gradient of its sequences' last hidden states."""
        operation = self.operation
        self.states = [[torch.zeros_like(d_last) for _ in range(operation.unrolled.states)] for _ in self.layers]
        self.states[-1][0] = d_last
        self.gates = d_last.new_empty(d_last.size(0), operation.table.size(1))

    def step(self, unrolled: list[Unrolled], t: int, rows: Tensor) -> None:
        size = rows.size(0)
        d_gates = self.gates[:size]
        for index in reversed(range(len(unrolled))):
            layer, weights, gradients = unrolled[index], self.operation.layers[index], self.layers[index]
            d_hidden = layer.backward(t, weights.weight_hh, [state[:size] for state in self.states[index]], d_gates)
            h_before = layer.h_before[t]
            if h_before is not None:
                gradients.weight_hh.addmm_(d_hidden.t(), h_before)
            if not layer.additive:
                gradients.bias_hh.add_(d_hidden.sum(0))
            if weights.weight_ih is None or gradients.weight_ih is None or gradients.bias_ih is None:
                self.table.index_add_(0, rows, d_gates)
            else:
                gradients.weight_ih.addmm_(d_gates.t(), unrolled[index - 1].h[t])
                gradients.bias_ih.add_(d_gates.sum(0))
                self.states[index - 1][0][:size].addmm_(d_gates, weights.weight_ih)

    def finish(self) -> tuple[Tensor, list[Tensor]]:
        if self.operation.unrolled.additive:
            for layer in self.layers:
                layer.bias_hh.copy_(self.table.sum(0) if layer.bias_ih is None else layer.bias_ih)
        return self.table, self.weights
