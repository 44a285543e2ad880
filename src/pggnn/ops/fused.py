"""The operation through the fused kernels: one launch per layer, whatever the mix of degrees."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from pggnn.cells import CELLS, Layer, split_layers
from pggnn.ops.tiles import Chunk, Extent, Tiles
from pggnn.ops.triton_kernels import backward_layer, forward_layer, gate_gradient, sequence_sum, weight_gradient
from pggnn.orderings import Reading

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Whether kernels run on the CPU, in Triton's interpreter."""


class Shape(NamedTuple):
    """How a layer is cut up: sequences in a tile, warps that read it, whether the input is projected in the kernel."""

    block: int
    warps: int
    projects: bool
    stages: int = 1


def padded(hidden: int) -> int:
    """The width that the kernels compute with."""
    return max(16, triton.next_power_of_2(hidden))


def operand_dtype(gates: Tensor) -> torch.dtype:
    """What the matrix products read: 16-bit numbers if the gate rows are such, float32 otherwise."""
    return gates.dtype if gates.dtype in (torch.bfloat16, torch.float16) else torch.float32


def supports(gates: Tensor, hidden: int) -> bool:
    """Whether one layer's weights fit the shared memory of one multiprocessor."""
    if gates.dtype == torch.double or not (gates.is_cuda or INTERPRETED):
        return False
    return padded(hidden) * operand_dtype(gates).itemsize <= 256


def shape(gates: Tensor, hidden: int, sequences: int) -> Shape:
    """Small tiles while there are multiprocessors without one, large ones from then on."""
    wide = padded(hidden) * operand_dtype(gates).itemsize > 128
    if sequences <= 16 * 4 * processors(gates.device):
        return Shape(16, 4, not wide)
    return Shape(64, 8 if wide else 4, not wide)


def processors(device: torch.device) -> int:
    """Multiprocessors of the GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


class Prepared(NamedTuple):
    """A layer's weights as the kernels want them: padded, by gate, in the operands' type; biases summed where the
    cell only ever adds them."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    bias_hidden: Tensor


class States(NamedTuple):
    """What is kept of one layer over a chunk."""

    acts: Tensor
    hidden: Tensor
    cells: Tensor


class Fused:
    """The operation on one graph: what the forward and the backward pass share."""

    def __init__(
        self, gates: Tensor, weights: Sequence[Tensor], profile: Tensor, start: Tensor, degree: Tensor, rows: Tensor,
        tiles: Tiles, root: int, reading: Reading, cell: str, workspace: int,
    ) -> None:  # fmt: skip
        self.hidden = weights[0].size(1)
        self.width = padded(self.hidden)
        self.dtype = operand_dtype(gates)
        self.gates = gates.detach().contiguous()
        self.start, self.degree, self.rows, self.tiles, self.root = start, degree, rows, tiles, root
        self.cell, self.reading = cell, reading
        self.gate_count = CELLS[cell].gates
        self.acts = 1 if cell.startswith("srn") else 4
        self.state_count = CELLS[cell].states
        self.layers = split_layers([weight.detach() for weight in weights])
        self.shape = shape(gates, self.hidden, tiles.node_of.size(0))
        self.extent = Extent(profile, reading, self.shape.block)
        self.prepared = [self._prepare(layer) for layer in self.layers]
        exact = self.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
        self.constants = {
            "H": self.hidden, "HP": self.width, "B": self.shape.block, "GATES": self.gate_count, "ACTS": self.acts,
            "FORM": reading.form, "LIMIT": reading.limit or 0,
        }  # fmt: skip
        self.precision = "ieee" if exact else "tf32"
        self.fast = not exact and not INTERPRETED
        between = 1 if self.shape.projects else 1 + self.gate_count
        self.kept_width = (self.acts + self.state_count) * self.width * len(self.layers)
        spare = between * self.width if len(self.layers) > 1 else 0
        self.most_rows = max(2 * self.shape.block, workspace // ((self.kept_width + spare) * self.dtype.itemsize))
        passing = (1 + between) * self.width
        self.most_passing = max(2 * self.shape.block, workspace // (passing * self.dtype.itemsize))
        self.wave = processors(gates.device)

    def _prepare(self, layer: Layer) -> Prepared:
        gates, hidden, width = self.gate_count, self.hidden, self.width

        def matrix(weight: Tensor) -> Tensor:
            blocks = weight.to(self.dtype).view(gates, hidden, hidden)
            return torch.nn.functional.pad(blocks, (0, width - hidden, 0, width - hidden)).contiguous()

        def vector(bias: Tensor) -> Tensor:
            return torch.nn.functional.pad(bias.float().view(gates, hidden), (0, width - hidden))

        bias, bias_hidden = vector(layer.bias_hh), vector(layer.bias_hh)[-1].contiguous()
        if self.cell == "gru":
            bias[-1] = 0
        if layer.bias_ih is not None:
            bias = bias + vector(layer.bias_ih)
        weight_hh = matrix(layer.weight_hh)
        weight_ih = weight_hh if layer.weight_ih is None else matrix(layer.weight_ih)
        return Prepared(weight_ih, weight_hh, bias.contiguous(), bias_hidden)

    @property
    def saved_rows(self) -> int:
        """Rows of states of all sequences together, or 0 if they do not fit the workspace."""
        rows = self.extent.rows
        return rows if rows <= self.most_rows else 0

    def states(self, memory: Tensor) -> list[States]:
        """Deals ``memory`` out to the layers."""
        rows = memory.numel() // self.kept_width
        sizes = [self.acts, 1, self.state_count - 1] * len(self.layers)
        parts = memory.split([rows * self.width * size for size in sizes])
        parts = [part.view(rows, self.width * size) for part, size in zip(parts, sizes, strict=True)]
        return [States(*parts[first : first + 3]) for first in range(0, len(parts), 3)]

    def empty(self, rows: int, width: int, dtype: torch.dtype | None = None) -> Tensor:
        return self.gates.new_empty(rows, width * self.width, dtype=dtype or self.dtype)

    def forward(self, saved: Tensor | None) -> Tensor:
        """The sum over each node's sequences; fills ``saved``."""
        last = self.empty(self.extent.sequences, 1, torch.float32)
        most_rows = self.extent.rows if saved is not None else self.most_passing
        for chunk in self.extent.chunks(most_rows, self.wave):
            states = None if saved is None else self.states(saved)
            carry: Tensor | None = None
            for begin in range(0, chunk.longest, chunk.slab or chunk.longest):
                carry = self.run(chunk, begin, states, carry, last)
        out = self.gates.new_empty(self.degree.size(0), self.hidden)
        if out.numel() > 0:
            sequence_sum[(out.size(0),)](
                last, out, self.tiles.first, self.tiles.count, H=self.hidden, HP=self.width, ROWS=16, num_warps=1
            )
        return out

    def offset(self, chunk: Chunk) -> Tensor:
        """Where the states of each tile of a chunk begin."""
        if chunk.slab is None:
            return self.tiles.offset[chunk.first_tile :]
        return torch.arange(chunk.tiles + 1, device=self.gates.device) * ((chunk.slab + 1) * self.shape.block)

    def run(
        self, chunk: Chunk, begin: int, states: list[States] | None, carry: Tensor | None, last: Tensor
    ) -> Tensor | None:
        """Runs all layers over a chunk from step ``begin`` on, and returns the state where it had to stop."""
        pauses = chunk.slab is not None
        out = self.empty(len(self.layers) * chunk.tiles * self.shape.block, 2, torch.float32) if pauses else None
        carries_in = [None] * len(self.layers) if carry is None else carry.chunk(len(self.layers))
        carries_out = [None] * len(self.layers) if out is None else out.chunk(len(self.layers))
        below = self.gates
        for index, weights in enumerate(self.prepared):
            top = index + 1 == len(self.layers)
            kept = states[index] if states is not None else None
            hidden = kept.hidden if kept is not None else (last if top else self.empty(chunk.rows, 1))
            source = "gates" if index == 0 else "below" if self.shape.projects else "product"
            if source == "product":
                product = weights.weight_ih.view(-1, self.width).t()
                below = torch.mm(below[self.shape.block : chunk.rows], product)
            forward_layer[(chunk.tiles,)](
                self.gates, self.rows, below, weights.weight_ih, weights.weight_hh, weights.bias, weights.bias_hidden,
                self.tiles.node_of, self.tiles.first, self.degree, self.start, self.offset(chunk),
                kept.acts if kept is not None else hidden, kept.cells if kept is not None else hidden, hidden, last,
                last if carry is None else carries_in[index], last if out is None else carries_out[index],
                self.extent.sequences, chunk.first_sequence, begin, self.root,
                **self.constants, CELL=self.cell, SOURCE=source, KEEP=kept is not None, TOP=top,
                RESUMES=carry is not None, PAUSES=pauses, PRECISION=self.precision, FAST=self.fast,
                num_warps=self.shape.warps, num_stages=self.shape.stages,
            )  # fmt: skip
            below = hidden
        return out

    def backward(self, d_out: Tensor, saved: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""
        scatters = not torch.are_deterministic_algorithms_enabled()
        columns = self.gates.size(1)
        d_gates = self.gates.new_zeros(self.gates.size(0) if scatters else self.extent.slots, columns).float()
        shares = max(1, min(-(-self.extent.rows // 64), -(-2 * self.wave // self.acts)))
        d_weights = [
            self.gates.new_zeros(shares, 2, self.acts, self.width, self.width, dtype=torch.float) for _ in self.layers
        ]
        d_biases = [self.gates.new_zeros(shares, self.acts, self.width, dtype=torch.float) for _ in self.layers]
        d_out = d_out.contiguous()
        last = self.empty(self.extent.sequences if saved is None else 0, 1, torch.float32)
        for chunk in self.extent.chunks(self.extent.rows if saved is not None else self.most_rows, self.wave):
            memory = (
                saved if saved is not None else self.gates.new_empty(chunk.rows * self.kept_width, dtype=self.dtype)
            )
            states = self.states(memory)
            begins = range(0, chunk.longest, chunk.slab or chunk.longest)
            carries: list[Tensor | None] = [None]
            for begin in begins[:-1]:
                carries.append(self.run(chunk, begin, None, carries[-1], last))
            carry = None
            if chunk.slab is not None:
                carry = self.empty(len(self.layers) * chunk.tiles * self.shape.block, 2, torch.float32)
            for begin, before in zip(reversed(begins), reversed(carries), strict=True):
                if saved is None:
                    self.run(chunk, begin, states, before, last)
                self.run_back(chunk, begin, states, carry, begin != begins[-1], d_out, d_weights, d_biases)
                self.reduce_gates(chunk, begin, states[0].acts, d_gates, scatters)
        if not scatters:
            d_gates = self.gates.new_zeros(self.gates.shape, dtype=torch.float).index_add_(0, self.keys(), d_gates)
        return d_gates, self.unpad(d_weights, d_biases)

    def run_back(
        self, chunk: Chunk, begin: int, states: list[States], carry: Tensor | None, resumes: bool, d_out: Tensor,
        d_weights: list[Tensor], d_biases: list[Tensor],
    ) -> None:  # fmt: skip
        """Runs all layers back over a chunk, down to step ``begin``, and adds to the gradients of the weights."""
        carries = [d_out] * len(self.layers) if carry is None else carry.chunk(len(self.layers))
        d_hidden = d_out
        for index in reversed(range(len(self.layers))):
            top, upper = index + 1 == len(self.layers), index > 0
            weights, kept = self.prepared[index], states[index]
            projects = upper and self.shape.projects
            d_below = self.empty(chunk.rows, 1) if projects else d_out
            backward_layer[(chunk.tiles,)](
                d_out, d_hidden, d_below, weights.weight_ih, weights.weight_hh, self.tiles.node_of, self.degree,
                self.offset(chunk), kept.acts, kept.cells, kept.hidden, carries[index],
                self.extent.sequences, chunk.first_sequence, begin,
                **self.constants, CELL=self.cell, TOP=top, PROJECTS=projects, RESUMES=resumes,
                PAUSES=carry is not None, PRECISION=self.precision, FAST=self.fast, num_warps=self.shape.warps, num_stages=self.shape.stages,
            )  # fmt: skip
            if upper and not projects:
                product = weights.weight_ih.view(-1, self.width)
                d_below = torch.mm(kept.acts[: chunk.rows, : product.size(0)], product)
            side = min(self.width, 128)
            grid = self.acts * (self.width // side) ** 2, d_weights[index].size(0)
            weight_gradient[grid](
                kept.acts, kept.hidden, states[index - 1].hidden, d_weights[index], d_biases[index], chunk.rows,
                HP=self.width, BU=side, BK=side, ROWS=64 if self.dtype.itemsize == 2 else 32, B=self.shape.block,
                ACTS=self.acts, UPPER=upper, PRECISION=self.precision, num_warps=8 if side > 64 else 4,
            )  # fmt: skip
            d_hidden = d_below

    def reduce_gates(self, chunk: Chunk, begin: int, acts: Tensor, d_gates: Tensor, scatters: bool) -> None:
        """Adds the gate gradients of a chunk's steps to the rows they read."""
        flat = self.gate_count & (self.gate_count - 1) == 0
        columns = self.gate_count * self.width if flat else self.width
        grid = chunk.end_slot - chunk.first_slot, self.gate_count * self.width // columns
        constants = {name: value for name, value in self.constants.items()}
        gate_gradient[grid](
            acts, d_gates, self.rows, self.tiles.slot_node, self.tiles.slot_first, self.tiles.first, self.degree,
            self.start, self.offset(chunk), chunk.first_slot, chunk.first_sequence, chunk.end_sequence,
            begin, begin + (chunk.slab or chunk.longest), self.root,
            **constants, COLS=columns, QUEUE=8, SCATTERS=scatters, num_warps=1,
        )  # fmt: skip

    def keys(self) -> Tensor:
        """The gate row of each slot, in the order of the tiles."""
        node = self.tiles.slot_node.long()
        number = torch.arange(node.size(0), device=node.device) - self.tiles.slot_first.index_select(0, node)
        inner = number < self.degree.index_select(0, node)
        root = self.root + node if self.reading.reads_root else torch.zeros_like(node)
        if self.rows.numel() == 0:
            return root
        slot = (self.start.index_select(0, node) + number).clamp(max=self.rows.numel() - 1)
        return torch.where(inner, self.rows.index_select(0, slot), root)

    def unpad(self, d_weights: list[Tensor], d_biases: list[Tensor]) -> list[Tensor]:
        """The gradients in the order and shape of the weights."""
        hidden, gates = self.hidden, self.gate_count
        inputs = list(range(gates))
        recurrent = [0, 1, 3] if self.cell == "gru" else inputs
        unpadded: list[Tensor] = []
        for index, (weight, bias) in enumerate(zip(d_weights, d_biases, strict=True)):
            own, lower = weight.sum(0)[..., :hidden, :hidden]
            total = bias.sum(0)[..., :hidden]
            if index == 0:
                unpadded += [own[recurrent].reshape(-1, hidden), total[recurrent].reshape(-1)]
            else:
                unpadded += [
                    lower[inputs].reshape(-1, hidden), own[recurrent].reshape(-1, hidden),
                    total[inputs].reshape(-1), total[recurrent].reshape(-1),
                ]  # fmt: skip
        return unpadded
