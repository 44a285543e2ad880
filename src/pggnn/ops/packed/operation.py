"""The operation in plain PyTorch on every device: sequences sorted by length, in blocks under a workspace budget.

The states that the backward pass needs are bounded by ``workspace`` bytes. Where those of all sequences fit, the
forward pass keeps them: the paper's "parallel" mode, Θ(N Δ c) memory. Where they do not, blocks of sequences, and slabs
of steps where sequences are long, run one after the other and are run again in the backward pass: in the limit its
"serial" mode, Θ(N c) memory.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from pggnn.cells import split_layers
from pggnn.ops.graph import Graph, shared
from pggnn.ops.packed.memory import POOL
from pggnn.ops.packed.schedule import Block, BlockIndex, blocks, neighbors_and_centers, row_of_slot
from pggnn.ops.packed.unroll import UNROLLED, Prepared, Unrolled
from pggnn.ops.structure import first_steps
from pggnn.orderings import Reading
from pggnn.plan import Plan


class Carry(NamedTuple):
    """The state between two steps, a row for each sequence: all layers' hidden vectors, and each cell's own state."""

    hidden: Tensor
    own: list[Tensor | None]


def state_dtype(gates: Tensor, weights: Sequence[Tensor]) -> torch.dtype:
    """States are kept in float32 at least, also where autocast gives gate rows of less."""
    return torch.promote_types(torch.promote_types(gates.dtype, weights[0].dtype), torch.float)


@cache
def jitted() -> dict[str, type[Unrolled]]:
    """The cells that Numba compiles, where it can, and has somewhere to keep what it compiled."""
    try:
        from pggnn.ops.packed.jitted import JITTED
    except (ImportError, RuntimeError):
        return {}
    return JITTED


def fastest(cell: str, dtype: torch.dtype, device: torch.device) -> type[Unrolled]:
    """The cell as it runs fastest on such tensors."""
    jittable = dtype == torch.float and device.type == "cpu"
    return (jitted() if jittable else {}).get(cell, UNROLLED[cell])


class Packed:
    """The operation on one graph: what the forward and the backward pass share."""

    def __init__(
        self, gates: Tensor, weights: Sequence[Tensor], graph: Graph, reading: Reading, cell: str, workspace: int,
        plan: Plan | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.reading, self.plan = graph, reading, plan
        self.dtype = state_dtype(gates, weights)
        self.cell = fastest(cell, self.dtype, gates.device)
        self.weights = [weight.detach().to(self.dtype) for weight in weights]
        self.structure = None if graph.codes is None else self.weights.pop()
        self.layers = split_layers(self.weights)
        self.hidden = weights[0].size(1)
        self.widths = [sum(self.cell.fields(index)) * self.hidden for index in range(len(self.layers))]
        scratch = (2 * len(self.cell.gate_scale) + 2) * self.hidden
        self.most_rows = max(1, workspace // ((sum(self.widths) + scratch) * self.dtype.itemsize))
        self.gates = gates.detach().to(self.dtype)
        self.blocks = list(blocks(graph.profile, reading, self.most_rows))

    @cached_property
    def scale(self) -> Tensor:
        """:attr:`Unrolled.gate_scale` for each column of the gates."""
        scales = [self.gates.new_full((self.hidden,), scale) for scale in self.cell.gate_scale]
        return torch.cat(scales)

    @cached_property
    def table(self) -> Tensor:
        """The gate rows as :class:`Unrolled` wants them."""
        return (self.gates + self.layers[0].bias_hh) * self.scale if self.cell.additive else self.gates

    @cached_property
    def structure_table(self) -> Tensor:
        """The rows of the structural bits, likewise."""
        assert self.structure is not None
        return self.structure * self.scale

    @cached_property
    def first_steps(self) -> Tensor:
        """Where each node's structural bits begin."""
        return first_steps(self.graph.degree, self.reading)

    def bits(self, index: BlockIndex, begin: int, end: int) -> Tensor | None:
        """Structural bits of some steps of a block, if there are such."""
        if self.structure is None or self.graph.codes is None:
            return None
        return index.bits(begin, end, self.first_steps, self.graph.codes, self.structure.size(0)).to(self.dtype)

    @cached_property
    def prepared(self) -> list[Prepared]:
        """The weights as :class:`Unrolled` wants them."""
        prepared = []
        for weight_ih, weight_hh, bias_ih, bias_hh in self.layers:
            weight = weight_hh if weight_ih is None else torch.cat([weight_ih, weight_hh], dim=1)
            if bias_ih is None:
                bias_ih = bias_hh
            elif self.cell.additive:
                bias_ih = bias_ih + bias_hh
            prepared.append(Prepared((weight.t() * self.scale).contiguous(), bias_ih * self.scale, bias_hh))
        return prepared

    @property
    def width(self) -> int:
        """Elements that the layers keep of each step of a sequence."""
        return sum(self.widths)

    @cached_property
    def saved_rows(self) -> int:
        """Steps of all blocks together, or 0 if their states do not fit the workspace."""
        rows = sum(sum(block.sizes) for block in self.blocks)
        return rows if rows <= self.most_rows else 0

    def unroll(
        self, sizes: tuple[int, ...], *, keep: bool, memory: Tensor | None = None, carry: Carry | None = None
    ) -> list[Unrolled]:
        """The layers over some steps, from the state ``carry`` or, without one, from the sequences' beginning."""
        rows = sum(sizes) if keep else sizes[0]
        if memory is None:
            memory = POOL.take(rows * self.width, self.gates)
        if carry is None:
            hidden = self.gates.new_zeros(sizes[0], self.hidden * len(self.layers))
            own: list[Tensor | None] = [None] * len(self.layers)
        else:
            hidden, own = carry.hidden[: sizes[0]].clone(), carry.own
        parts = memory.split([rows * width for width in self.widths])
        return [
            self.cell(index, part, sizes, hidden, self.hidden, keep, own[index]) for index, part in enumerate(parts)
        ]

    def run(self, layers: list[Unrolled], steps: range, rows: Tensor, bits: Tensor | None, begins: bool) -> None:
        """Runs all layers over some of their steps, the first of them their sequences' first if ``begins``.

        ``rows`` are the gate rows that these steps read, ``bits`` their structural bits, one step after the other.
        """
        sizes = layers[0].sizes[steps.start : steps.stop]
        step_bits = None if bits is None else bits.split(sizes)
        for t, step_rows in zip(steps, rows.split(sizes), strict=True):
            torch.index_select(self.table, 0, step_rows, out=layers[0].gate_steps[t])
            if step_bits is not None:
                layers[0].gate_steps[t].addmm_(step_bits[t - steps.start], self.structure_table)
            for layer, weights in zip(layers, self.prepared, strict=True):
                layer.forward(t, weights, begins and t == steps.start)

    def index(self, block: Block) -> BlockIndex:
        """What the steps of a block read; where all states fit the workspace, layers on the same plan share it."""
        slots = self.graph.rows.size(0)
        if self.saved_rows == 0:
            return BlockIndex(self.graph, block, self.reading, slots)
        return shared(self.graph, self.plan, BlockIndex, block, self.reading, slots)

    @cached_property
    def row_of_slot(self) -> Tensor:
        """:func:`row_of_slot` of this graph; layers share it where their rows are a plan's neighbours."""
        if self.plan is None or self.graph.rows is not self.plan.neighbor or not self.reading.reads_root:
            return row_of_slot(self.graph, self.reading)
        return self.plan.derived(neighbors_and_centers, self.graph.root)

    def rows(self, index: BlockIndex, begin: int, end: int) -> Tensor:
        """The gate rows read at some steps of a block."""
        whole = (begin, end) == (0, len(index.sizes))
        return self.row_of_slot.index_select(0, index.all_slots if whole else index.slots(begin, end))

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        """The sum over each node's sequences; states, if they are to be kept and fit."""
        kept = POOL.take(self.saved_rows * self.width if keep else 0, self.gates)
        states = self.split(kept)
        out = self.gates.new_zeros(self.graph.degree.size(0), self.hidden)
        for block, memory in zip(self.blocks, states, strict=True):
            index = self.index(block)
            layers = self.unroll(block.sizes, keep=memory is not None, memory=memory)
            for begin, end in block.slabs(self.most_rows):
                rows, bits = self.rows(index, begin, end), self.bits(index, begin, end)
                self.run(layers, range(begin, end), rows, bits, begins=begin == 0)
            out.index_add_(0, index.node, layers[-1].last_hidden)
        return out, kept

    def split(self, states: Tensor) -> Sequence[Tensor | None]:
        """What was kept of each block, if anything was."""
        if states.numel() == 0:
            return [None] * len(self.blocks)
        return states.split([sum(block.sizes) * self.width for block in self.blocks])

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of the weights; runs blocks again whose states were not kept."""
        gradients = Gradients(self)
        for block, memory in zip(self.blocks, self.split(kept), strict=True):
            index = self.index(block)
            d_last = d_out.index_select(0, index.node).to(self.dtype)
            d_states = [[torch.zeros_like(d_last) for _ in range(self.cell.states)] for _ in self.layers]
            d_states[-1][0] = d_last
            if memory is not None:
                steps, layers = len(block.sizes), self.unroll(block.sizes, keep=True, memory=memory)
                rows, bits = self.rows(index, 0, steps), self.bits(index, 0, steps)
                gradients.add(layers, rows, bits, d_states, begins=True)
                continue
            slabs = list(block.slabs(self.most_rows))
            carries = self.carries(block, index, slabs)
            for (begin, end), carry in zip(reversed(slabs), reversed(carries), strict=True):
                rows, bits = self.rows(index, begin, end), self.bits(index, begin, end)
                layers = self.unroll(block.sizes[begin:end], keep=True, carry=carry)
                self.run(layers, range(end - begin), rows, bits, begins=begin == 0)
                gradients.add(layers, rows, bits, d_states, begins=begin == 0)
        return gradients.finish()

    def carries(self, block: Block, index: BlockIndex, slabs: list[tuple[int, int]]) -> list[Carry | None]:
        """The states before each slab of a block; ``None`` before the first."""
        carries: list[Carry | None] = [None]
        if len(slabs) > 1:
            layers = self.unroll(block.sizes, keep=False)
            for begin, end in slabs[:-1]:
                rows, bits = self.rows(index, begin, end), self.bits(index, begin, end)
                self.run(layers, range(begin, end), rows, bits, begins=begin == 0)
                carries.append(Carry(layers[0].state.clone(), [layer.own_state(end - 1) for layer in layers]))
        return carries


class Gradients:
    """What the backward pass accumulates: gradients of the gate rows, and of each layer's weights and biases."""

    def __init__(self, operation: Packed) -> None:
        self.layers, self.additive = operation.layers, operation.cell.additive
        self.table = torch.zeros_like(operation.gates)
        self.structure = None if operation.structure is None else torch.zeros_like(operation.structure)
        biases = [layer.bias_hh for layer in operation.layers]
        widths = [min(index + 1, 2) * operation.hidden for index in range(len(biases))]
        self.weights = [bias.new_zeros(len(bias), width) for bias, width in zip(biases, widths, strict=True)]
        self.bias_ih, self.bias_hh = ([torch.zeros_like(bias) for bias in biases] for _ in range(2))

    def add(
        self, layers: list[Unrolled], rows: Tensor, bits: Tensor | None, d_states: list[list[Tensor]], begins: bool
    ) -> None:
        """Runs some steps backwards, from the gradient of the state after them to that of the state before."""
        d_h: Tensor | None = None
        for index in reversed(range(len(layers))):
            layer, weights = layers[index], self.layers[index]
            d_input, d_hidden = layer.backward(weights.weight_hh, d_states[index], d_h, begins)
            if self.additive:
                self.weights[index].addmm_(d_input.t(), layer.inputs)
            else:
                self.weights[index][:, -layer.hidden :].addmm_(d_hidden.t(), layer.inputs[:, -layer.hidden :])
                self.bias_hh[index].add_(d_hidden.sum(0))
            if weights.weight_ih is None:
                self.table.index_add_(0, rows, d_input)
                if self.structure is not None and bits is not None:
                    self.structure.addmm_(bits.t(), d_input)
            else:
                if not self.additive:
                    self.weights[index][:, : layer.hidden].addmm_(d_input.t(), layer.inputs[:, : layer.hidden])
                self.bias_ih[index].add_(d_input.sum(0))
                d_h = torch.mm(d_input, weights.weight_ih, out=layer.scratch(1))

    def finish(self) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows, and of the weights in their order."""
        d_weights: list[Tensor] = []
        for index, (weight, bias_ih, bias_hh) in enumerate(zip(self.weights, self.bias_ih, self.bias_hh, strict=True)):
            if self.additive:
                bias_hh = self.table.sum(0) if index == 0 else bias_ih.clone()
            if index == 0:
                d_weights += [weight, bias_hh]
            else:
                weight_ih, weight_hh = weight.chunk(2, dim=1)
                d_weights += [weight_ih, weight_hh, bias_ih, bias_hh]
        if self.structure is not None:
            d_weights.append(self.structure)
        return self.table, [gradient.contiguous() for gradient in d_weights]
