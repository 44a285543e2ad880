"""Structural bits through the fused kernels: what the first layer's launch needs, and the gradient of their rows."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pggnn.ops.structure import first_steps, stride
from pggnn.ops.tiles import Chunk
from pggnn.ops.triton_structure import finish_structure, prepare_structure, structure_gradient

if TYPE_CHECKING:
    from pggnn.ops.fused import Fused


class Told:
    """The bits of all steps and the rows that they add to the gates of a :class:`~pggnn.ops.fused.Fused` operation,
    which it does not refer to: the two would only be freed by the garbage collector."""

    def __init__(self, operation: "Fused", codes: Tensor, rows: Tensor) -> None:
        self.codes, self.rows = codes, rows
        self.first_step = first_steps(operation.degree, operation.reading)
        width = rows.size(0)
        self.constants = {"LAGS": max(16, stride(width)), "STRIDE": stride(width), "WIDTH": width}
        self.table = operation.empty(self.constants["LAGS"], operation.fields).zero_()
        """The rows as :func:`forward_layer` reads them, and zeros after them."""
        layout = {name: operation.layout[name] for name in ("HP", "WN", "FIELDS")}
        prepare_structure[(width,)](rows, self.table, **layout, **operation.gating, CELL=operation.cell, num_warps=1)


class StructureGradient:
    """The gradient of the rows, collected chunk by chunk in shares that do not wait for each other."""

    def __init__(self, operation: "Fused", told: Told, shares: int, side: int) -> None:
        self.operation, self.told, self.shares, self.side = operation, told, shares, side
        self.sums: Tensor | None = None

    def add(self, chunk: Chunk, begin: int, d_acts: Tensor) -> None:
        """Adds what the steps of a chunk contribute, from step ``begin`` on."""
        told, operation = self.told, self.operation
        adds = self.sums is not None
        if self.sums is None:
            self.sums = operation.empty(self.shares * told.constants["LAGS"], operation.fields, torch.float32)
        wide, tiles = operation.fields * operation.width, operation.tiles
        structure_gradient[(wide // self.side, self.shares)](
            d_acts, told.codes, told.first_step, tiles.node_of, tiles.first, operation.degree,
            tiles.offsets(chunk, begin), self.sums, tiles.total, chunk.first_sequence, begin, chunk.tiles,
            W=wide, BU=self.side, ADDS=adds, PRECISION=operation.precision,
            LAGS=told.constants["LAGS"], STRIDE=told.constants["STRIDE"], **operation.reads, num_warps=4,
        )  # fmt: skip

    def finish(self) -> Tensor:
        """The gradient, in the order of the rows."""
        operation, rows = self.operation, self.told.rows
        gradient = torch.zeros_like(rows, dtype=torch.float)
        if self.sums is not None:
            finish_structure[(-(-rows.size(1) // 16),)](
                self.sums, gradient, self.shares, WIDTH=rows.size(0), LAGS=self.told.constants["LAGS"],
                **operation.layout, **operation.gating, COLUMNS=16, num_warps=1,
            )  # fmt: skip
        return gradient
