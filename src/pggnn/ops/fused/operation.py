"""The operation through the fused kernels: one launch per layer for any mix of degrees."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from pggnn.cells import split_layers
from pggnn.ops.fused.geometry import Geometry
from pggnn.ops.fused.portions import portions
from pggnn.ops.fused.shape import fetches, program_rows
from pggnn.ops.fused.structure import StructureBits, StructureGradient
from pggnn.ops.fused.sum import name_of, step_readers, sum_slots
from pggnn.ops.fused.tiles import Chunk, Tiles
from pggnn.ops.fused.weights import WeightGradient
from pggnn.ops.graph import Graph, shared
from pggnn.ops.triton.fields import backward_fields, forward_fields
from pggnn.ops.triton.prepare import prepare
from pggnn.ops.triton.recurrence import backward_layer, forward_layer
from pggnn.ops.triton.sums import gate_gradient, sequence_sum, sum_steps
from pggnn.ops.triton.wide import backward_wide, forward_wide
from pggnn.orderings import Reading
from pggnn.plan import Plan

HELD = 32
"""Numbers that a thread reads at a time where gradients of gate rows are summed."""
STEPS = 1024
"""Numbers that a program reads at a time where those of single steps are summed."""
NO_BITS = {"LAGS": 0, "STRIDE": 1, "WIDTH": 0}
"""A layer without structural bits."""


class Weights(NamedTuple):
    """A layer's weights as :func:`prepare` leaves them, of its input and of its state for either pass; those of
    a pass lie side by side."""

    forward_ih: Tensor
    forward_hh: Tensor
    backward_ih: Tensor
    backward_hh: Tensor
    bias: Tensor


class States(NamedTuple):
    """What is kept of one layer over a chunk."""

    acts: Tensor
    hidden: Tensor
    cells: Tensor


class Fused:
    """The operation on one graph: what the forward and the backward pass share."""

    def __init__(
        self, gates: Tensor, weights: Sequence[Tensor], graph: Graph, reading: Reading, cell: str, workspace: int,
        plan: Plan | None = None,
    ) -> None:  # fmt: skip
        self.gates = gates.detach().contiguous()
        self.graph, self.start, self.degree = graph, graph.start, graph.degree
        self.rows, self.root = graph.rows, graph.root
        self.reading, self.plan = reading, plan
        weights = [weight.detach().contiguous() for weight in weights]
        rows = None if graph.codes is None else weights.pop()
        self.layers = split_layers(weights)
        self.geometry = geometry = Geometry.of(gates, weights[0].size(1), reading, cell, graph.profile)
        self.tiles = shared(graph, plan, Tiles.build, reading, geometry.shape.block)
        self.portions = portions(self.tiles.extent, geometry, len(self.layers), workspace, plan is None)
        self.bits = (
            None if graph.codes is None or rows is None else StructureBits(geometry, self.degree, graph.codes, rows)
        )
        self._paused: dict[Chunk, list[Tensor | None]] = {}
        self._kept: tuple[Tensor, list[States]] | None = None

    @property
    def table(self) -> Tensor:
        """The gate rows as :func:`forward_layer` reads them."""
        return self._prepared[0]

    @property
    def weights(self) -> list[Weights]:
        """All layers' weights as the kernels want them."""
        return self._prepared[1]

    @cached_property
    def _prepared(self) -> tuple[Tensor, list[Weights]]:
        geometry, layers = self.geometry, self.layers
        wide, count, num_rows = geometry.wide, len(layers), self.gates.size(0)
        table = geometry.empty(num_rows, geometry.fields)
        parts = geometry.empty(4 * count * wide, 1).view(4 * count, wide, -1).unbind()
        biases = table.new_empty(count, wide, dtype=torch.float if geometry.shape.projects else None).unbind()
        rows, table_rows = min(wide, program_rows(16)), 8
        for index in range(0, count, 2):
            pair, tables = layers[index : index + 2], 0 if index else -(-num_rows // table_rows)
            prepare[(tables + len(pair) * (wide // rows),)](
                self.gates, table, *pair[0].filled, *pair[-1].filled, parts[4 * index], biases[index], num_rows, tables,
                **geometry.layout, **geometry.gating, CELL=geometry.cell, UPPER=index > 0,
                ARRANGED=not geometry.shape.projects, TABLE_ROWS=table_rows, ROWS=rows, num_warps=4,
            )  # fmt: skip
        prepared = [Weights._make((*parts[4 * index : 4 * index + 4], biases[index])) for index in range(count)]
        if geometry.streams:  # transposed: what is added up is then contiguous, as TF32 units want it
            for weights in prepared:
                weights.backward_hh.copy_(weights.backward_hh.t().contiguous().view(wide, -1))
        return table, prepared

    def memory(self) -> Tensor:
        """For the states of any one of the chunks."""
        # One block of each tile stays unwritten: an operator's output must still be the same each time.
        repeatable = self.plan is None and torch.are_deterministic_algorithms_enabled()
        allocate = self.gates.new_zeros if repeatable else self.gates.new_empty
        return allocate(self.portions.memory, dtype=self.geometry.dtype)

    def states(self, memory: Tensor, chunk: Chunk) -> list[States]:
        """Deals ``memory`` out to the layers."""
        geometry, rows = self.geometry, chunk.rows * self.geometry.width
        sizes = [rows * geometry.fields, rows, rows * (geometry.states - 1)] * len(self.layers)
        parts = memory[: chunk.rows * self.portions.kept_width].split_with_sizes(sizes)
        return [States(*parts[first : first + 3]) for first in range(0, len(parts), 3)]

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        """The sum over each node's sequences, and the states for the backward pass if an operator is to return them."""
        geometry = self.geometry
        chunks, kept = self.portions.forward(keep)
        pauses = keep and self.portions.keeps_pauses
        last = geometry.empty(self.tiles.extent.sequences, 1, torch.float32)
        for chunk in chunks:
            states = None
            if chunk is kept:
                memory = self.memory()
                states = self.states(memory, chunk)
                self._kept = memory, states
            carries: list[Tensor | None] = [None]
            for begin in chunk.begins:
                carries.append(self.run(chunk, begin, states, carries[-1], last))
                if not pauses:
                    carries = carries[-1:]
            if pauses and chunk.slab is not None:
                self._paused[chunk] = carries[:-1]
        out = self.gates.new_empty(self.degree.size(0), geometry.hidden)
        if out.numel() > 0:
            sequence_sum[(out.size(0),)](
                last, out, self.tiles.first, self.tiles.counts, H=geometry.hidden, HP=geometry.width, ROWS=16,
                num_warps=1,
            )  # fmt: skip
        if self._kept is None or self.plan is not None:
            return out, self.gates.new_empty(0, dtype=geometry.dtype)
        return out, self._kept[0]

    def carry(self, chunk: Chunk) -> Tensor | None:
        """Memory for the state of all layers, where a chunk's steps cannot all be run at once or states lie in memory
        between the steps."""
        if chunk.slab is None and not self.geometry.streams:
            return None
        return self.geometry.empty(len(self.layers) * chunk.tiles * self.geometry.shape.block, 2, torch.float32)

    def run(
        self, chunk: Chunk, begin: int, states: list[States] | None, carry: Tensor | None, last: Tensor | None = None
    ) -> Tensor | None:
        """Runs all layers over a chunk from step ``begin`` on, and returns the state where it had to stop."""
        geometry = self.geometry
        pauses = chunk.slab is not None
        out = self.carry(chunk)
        carries_in = None if carry is None else carry.chunk(len(self.layers))
        carries_out = None if out is None else out.chunk(len(self.layers))
        wide, block = geometry.wide, geometry.shape.block
        below = unused = self.table
        offsets = self.tiles.offsets(chunk, begin)
        for index, weights in enumerate(self.weights):
            ends = index + 1 == len(self.layers) and last is not None
            kept = states[index] if states is not None else None
            needed = not ends or geometry.streams
            hidden = kept.hidden if kept is not None else geometry.empty(chunk.rows, 1) if needed else unused
            source = "table" if index == 0 else "below" if geometry.shape.projects else "product"
            bits = self.bits if index == 0 else None
            if source == "product":
                lower = below.view(-1, geometry.width)[block : chunk.rows]
                # Taken field by field, what is read at a step is then overwritten by what is kept of it.
                target = kept.acts.view(-1, wide)[: lower.size(0)] if kept is not None and geometry.by_field else None
                below = torch.addmm(weights.bias, lower, weights.forward_ih.t(), out=target)
            by_field = geometry.by_field and bits is None
            kernel = forward_wide if geometry.streams else forward_fields if by_field else forward_layer
            kernel[(chunk.tiles,)](
                self.table, self.rows, below, weights.forward_ih, weights.forward_hh, weights.bias,
                self.tiles.node_of, self.tiles.first, self.degree, self.start, offsets,
                kept.acts if kept is not None else unused, kept.cells if kept is not None else unused, hidden,
                last if ends else unused,
                unused if carries_in is None else carries_in[index],
                unused if carries_out is None else carries_out[index],
                *((unused,) * 3 if bits is None else (bits.codes, bits.first_step, bits.table)),
                self.tiles.total, chunk.first_sequence, begin, self.root,
                SOURCE=source, KEEP=kept is not None, TOP=ends, RESUMES=carry is not None, PAUSES=pauses,
                **geometry.running, **(NO_BITS if bits is None else bits.constants),
            )  # fmt: skip
            below = hidden
        return out

    def backward(self, d_out: Tensor, saved: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""
        scatters = not torch.are_deterministic_algorithms_enabled()
        steps = self.steps
        if steps is None:
            rows = self.gates.size(0) if scatters else self.rows.numel() + self.degree.numel()
            d_gates = self.gates.new_zeros(rows, self.gates.size(1), dtype=torch.float)
        else:
            d_gates = torch.empty_like(self.gates)
        chunks, spares = self.portions.chunks, saved.numel() > 0
        (memory, kept), self._kept = self._kept or (None, None), None
        if spares:
            memory, kept = saved, self.states(saved, chunks[0])
        if memory is None:
            memory = self.memory()
        gradient = WeightGradient(self.geometry, self.layers, self.tiles.extent.rows)
        bits = None
        if self.bits is not None:
            bits = StructureGradient(self.geometry, self.bits, self.tiles, self.degree, gradient.shares, gradient.side)
        d_out = d_out.contiguous()
        for chunk in chunks:
            ready = kept is not None and chunk is chunks[0]
            states = kept if kept is not None and ready else self.states(memory, chunk)
            begins = chunk.begins
            carries: list[Tensor | None] = self._paused.pop(chunk, [None])
            for begin in begins[len(carries) - 1 : -1]:
                carries.append(self.run(chunk, begin, None, carries[-1]))
            carry = self.carry(chunk)
            for begin in reversed(begins):
                before = carries.pop()
                if not ready:
                    self.run(chunk, begin, states, before)
                d_acts = self.run_back(chunk, begin, states, carry, begin != begins[-1], d_out, gradient, spares)
                if steps is None:
                    self.reduce_gates(chunk, begin, d_acts, d_gates, scatters)
                else:
                    self.sum_steps(d_acts, d_gates, *steps)
                if bits is not None:
                    bits.add(chunk, begin, d_acts)
        if steps is None and not scatters:
            d_gates = sum_slots(d_gates, self.gates, self.graph, self.plan)
        found = gradient.finish(program_rows(1))
        return d_gates, found if bits is None else [*found, bits.finish()]

    def run_back(
        self, chunk: Chunk, begin: int, states: list[States], carry: Tensor | None, resumes: bool, d_out: Tensor,
        gradient: WeightGradient, spares: bool,
    ) -> Tensor:  # fmt: skip
        """Runs all layers back over a chunk, down to step ``begin``, adds to the gradients of the weights, and returns
        those of the first layer's gates; overwrites ``states`` unless it ``spares`` them."""
        geometry = self.geometry
        carries = None if carry is None else carry.chunk(len(self.layers))
        wide, offsets = geometry.wide, self.tiles.offsets(chunk, begin)
        d_hidden = d_acts = d_out
        for index in reversed(range(len(self.layers))):
            upper, weights, kept = index > 0, self.weights[index], states[index]
            projects = upper and geometry.shape.projects
            d_below = geometry.empty(chunk.rows, 1) if projects else d_out
            d_acts = geometry.empty(chunk.rows, geometry.fields) if spares else kept.acts
            kernel = backward_wide if geometry.streams else backward_fields if geometry.by_field else backward_layer
            kernel[(chunk.tiles,)](
                d_out, d_hidden, d_below, weights.backward_ih, weights.backward_hh, self.tiles.node_of, self.degree,
                offsets, kept.acts, d_acts, kept.cells, kept.hidden,
                d_out if carries is None else carries[index], self.tiles.total, chunk.first_sequence, begin,
                H=geometry.hidden, TOP=index + 1 == len(self.layers), PROJECTS=projects, RESUMES=resumes,
                PAUSES=carry is not None, **geometry.running,
                **({"FETCHES": fetches(self.gates.device)} if geometry.by_field else {}),
            )  # fmt: skip
            gradient.add(index, d_acts, kept.hidden, states[index - 1].hidden, chunk.tiles, offsets)
            if upper and not projects:
                target = None if spares else kept.hidden.view(-1, geometry.width)
                d_below = torch.mm(d_acts.view(-1, wide)[: chunk.rows], weights.backward_ih, out=target)
            d_hidden = d_below
        return d_acts

    @property
    def steps(self) -> tuple[Tensor, Tensor] | None:
        """:func:`step_readers`, if each slot is read by one step, and the steps of all are kept at the same time."""
        once = self.reading.group == "trivial" and self.reading.frame == "open"
        chunks = self.portions.chunks
        if not once or len(chunks) != 1 or chunks[0].slab is not None:
            return None
        name = None if self.plan is None else name_of(self.rows, self.plan)
        if self.plan is None or name is None:
            return None
        return self.plan.derived(step_readers, name, self.gates.size(0), self.reading, self.geometry.shape.block)

    def sum_steps(self, acts: Tensor, d_gates: Tensor, steps: Tensor, begins: Tensor) -> None:
        """Writes the sums of the gate gradients of the steps that read each gate row."""
        geometry = self.geometry
        if d_gates.numel() > 0:
            sum_steps[(d_gates.size(0),)](
                acts, d_gates, steps, begins, **geometry.layout, **geometry.gating,
                READERS=max(1, STEPS // geometry.wide), num_warps=max(1, geometry.wide // 128),
            )  # fmt: skip

    def reduce_gates(self, chunk: Chunk, begin: int, acts: Tensor, d_gates: Tensor, scatters: bool) -> None:
        """Adds the gate gradients of a chunk's steps to the rows they read, or to rows of the slots' own."""
        geometry = self.geometry
        wide = geometry.wide
        warps = max(1, wide // 512)
        gate_gradient[(chunk.end_slot - chunk.first_slot,)](
            acts, d_gates, self.rows, self.tiles.slot_node, self.tiles.slot_first, self.tiles.first, self.degree,
            self.start, self.tiles.offsets(chunk, begin), chunk.first_slot, chunk.first_sequence, chunk.end_sequence,
            begin, begin + (chunk.slab or chunk.longest), self.root if scatters else self.rows.numel(),
            **geometry.layout, **geometry.gating, **geometry.reads, QUEUE=min(8, HELD * 32 * warps // wide),
            SCATTERS=scatters, num_warps=warps,
        )  # fmt: skip
