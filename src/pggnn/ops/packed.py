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

from pggnn.cells import split_layers
from pggnn.ops.memory import POOL
from pggnn.ops.unroll import UNROLLED, Prepared, Unrolled
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


class Carry(NamedTuple):
    """The state after a slab: all layers' hidden vectors, and what else each cell carries on."""

    state: Tensor
    own: Sequence[Tensor | None]


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

    def gate_rows(self, begin: int, end: int) -> Tensor:
        """The gate rows read at steps ``begin`` … ``end − 1``, one step after the other."""
        graph, sizes = self.graph, self.sizes[begin:end]
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
        self.graph, self.reading, self.cell = graph, reading, UNROLLED[cell]
        self.dtype = state_dtype(gates, weights)
        self.weights = [weight.detach().to(self.dtype) for weight in weights]
        self.layers = split_layers(self.weights)
        self.hidden = weights[0].size(1)
        self.widths = [sum(self.cell.fields(index)) * self.hidden for index in range(len(self.layers))]
        scratch = (2 * len(self.cell.gate_scale) + 2) * self.hidden
        self.most_rows = max(1, workspace // ((sum(self.widths) + scratch) * self.dtype.itemsize))
        self.ends = reading.count(graph.degree.index_select(0, graph.order)).cumsum(0)
        self.table, self.prepared = self._prepare(gates.detach().to(self.dtype))

    def _prepare(self, gates: Tensor) -> tuple[Tensor, list[Prepared]]:
        """Gate rows and weights as :class:`Unrolled` wants them."""
        scale = self.weights[0].new_tensor(self.cell.gate_scale).repeat_interleave(self.hidden)
        prepared = []
        for weight_ih, weight_hh, bias_ih, bias_hh in self.layers:
            weight = weight_hh if weight_ih is None else torch.cat([weight_ih, weight_hh], dim=1)
            if bias_ih is None:
                bias_ih = bias_hh
            elif self.cell.additive:
                bias_ih = bias_ih + bias_hh
            prepared.append(Prepared((weight.t() * scale).contiguous(), bias_ih * scale, bias_hh))
        table = (gates + self.layers[0].bias_hh) * scale if self.cell.additive else gates
        return table, prepared

    @property
    def saved_rows(self) -> int:
        """Steps of all sequences together, or 0 if their states do not fit the workspace."""
        rows = total_rows(self.graph.profile, self.reading)
        return rows if rows <= self.most_rows else 0

    def unroll(
        self, sizes: list[int], keep: bool, memory: Tensor | None = None, carry: Carry | None = None
    ) -> list[Unrolled]:
        """The layers over some steps of a block, from their beginning or from the state ``carry``."""
        rows = sum(sizes) if keep else sizes[0]
        if memory is None:
            memory = POOL.take(rows * sum(self.widths), self.table)
        if carry is None:
            state = self.table.new_zeros(sizes[0], self.hidden * len(self.layers))
            own: Sequence[Tensor | None] = [None] * len(self.layers)
        else:
            state, own = carry.state[: sizes[0]].clone(), carry.own
        parts = memory[: rows * sum(self.widths)].split([rows * width for width in self.widths])
        return [
            self.cell(index, part, sizes, state, self.hidden, keep, own[index]) for index, part in enumerate(parts)
        ]

    def run(self, layers: list[Unrolled], steps: range, rows: Tensor, first: int = 0) -> None:
        """Runs all layers over some of their steps, of which step ``first`` is their sequences' first.

        ``rows`` are the gate rows that these steps read, one step after the other.
        """
        sizes = layers[0].sizes[steps.start : steps.stop]
        for layer in layers:
            layer.prepare()
        for t, step_rows in zip(steps, rows.split(sizes), strict=True):
            torch.index_select(self.table, 0, step_rows, out=layers[0].gate_steps[t])
            for layer, weights in zip(layers, self.prepared, strict=True):
                layer.forward(t, weights, begins=t == first)

    def blocks(self) -> Iterator[tuple[Block, BlockIndex]]:
        for block in blocks(self.graph.profile, self.reading, self.most_rows):
            yield block, BlockIndex(block, self.graph, self.reading, self.ends)

    def forward(self, saved: Tensor, saved_rows: Tensor) -> Tensor:
        """The sum over each node's sequences; fills ``saved`` and ``saved_rows`` unless they are empty."""
        out = self.table.new_zeros(self.graph.degree.size(0), self.hidden)
        keep = saved.numel() > 0
        for block, index in self.blocks():
            layers = self.unroll(block.sizes, keep, saved if keep else None)
            for begin, end in block.slabs(self.most_rows):
                rows = index.gate_rows(begin, end)
                self.run(layers, range(begin, end), rows)
                if keep:
                    saved_rows[: rows.numel()] = rows
                    saved, saved_rows = saved[rows.numel() * sum(self.widths) :], saved_rows[rows.numel() :]
            out.index_add_(0, index.node, layers[-1].last_hidden)
        return out

    def backward(self, d_out: Tensor, saved: Tensor, saved_rows: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of the weights; runs blocks again whose states were not saved."""
        gradients = Gradients(self)
        for block, index in self.blocks():
            d_last = d_out.index_select(0, index.node).to(self.dtype)
            d_states = [[torch.zeros_like(d_last) for _ in range(self.cell.states)] for _ in self.layers]
            d_states[-1][0] = d_last
            if saved.numel() > 0:
                total = sum(block.sizes)
                layers = self.unroll(block.sizes, True, saved)
                gradients.add(layers, saved_rows[:total], d_states, begins=True)
                saved, saved_rows = saved[total * sum(self.widths) :], saved_rows[total:]
                continue
            slabs = list(block.slabs(self.most_rows))
            carries = self.carries(block, index, slabs)
            for begin, end in reversed(slabs):
                rows = index.gate_rows(begin, end)
                layers = self.unroll(block.sizes[begin:end], True, carry=carries.pop())
                self.run(layers, range(end - begin), rows, first=-begin)
                gradients.add(layers, rows, d_states, begins=begin == 0)
        return gradients.finish()

    def carries(self, block: Block, index: BlockIndex, slabs: list[tuple[int, int]]) -> list[Carry | None]:
        """The states before each slab of a block."""
        carries: list[Carry | None] = [None]
        if len(slabs) > 1:
            layers = self.unroll(block.sizes, False)
            for begin, end in slabs[:-1]:
                self.run(layers, range(begin, end), index.gate_rows(begin, end))
                carries.append(Carry(layers[-1].state.clone(), [layer.own_state(end - 1) for layer in layers]))
        return carries


class Gradients:
    """What the backward pass accumulates: gradients of the gate rows, and of each layer's weights and biases."""

    def __init__(self, operation: Packed) -> None:
        self.layers, self.additive = operation.layers, operation.cell.additive
        self.table = torch.zeros_like(operation.table)
        self.weights = [torch.zeros_like(weights.weight) for weights in operation.prepared]
        self.bias_ih = [torch.zeros_like(weights.bias_hh) for weights in operation.prepared]
        self.bias_hh = [torch.zeros_like(weights.bias_hh) for weights in operation.prepared]

    def add(self, layers: list[Unrolled], rows: Tensor, d_states: list[list[Tensor]], begins: bool) -> None:
        """Runs a slab backwards from the gradient of the state after it."""
        d_h: Tensor | None = None
        for index in reversed(range(len(layers))):
            layer, weights = layers[index], self.layers[index]
            d_input, d_hidden = layer.backward(weights.weight_hh, d_states[index], d_h, begins)
            if self.additive:
                self.weights[index].addmm_(layer.inputs.t(), d_input)
            else:
                self.weights[index][-layer.hidden :].addmm_(layer.inputs[:, -layer.hidden :].t(), d_hidden)
                self.bias_hh[index].add_(d_hidden.sum(0))
            if weights.weight_ih is None:
                self.table.index_add_(0, rows, d_input)
            else:
                if not self.additive:
                    self.weights[index][: layer.hidden].addmm_(layer.inputs[:, : layer.hidden].t(), d_input)
                self.bias_ih[index].add_(d_input.sum(0))
                d_h = torch.mm(d_input, weights.weight_ih, out=layer.scratch(1))

    def finish(self) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows, and of the weights in their order."""
        d_weights: list[Tensor] = []
        for index, (weight, bias_ih, bias_hh) in enumerate(zip(self.weights, self.bias_ih, self.bias_hh, strict=True)):
            if self.additive:
                bias_hh = self.table.sum(0) if index == 0 else bias_ih.clone()
            if index == 0:
                d_weights += [weight.t(), bias_hh]
            else:
                weight_ih, weight_hh = weight.t().chunk(2, dim=1)
                d_weights += [weight_ih, weight_hh, bias_ih, bias_hh]
        return self.table, [gradient.contiguous() for gradient in d_weights]
