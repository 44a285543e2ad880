"""Structural bits through the fused kernels: what the first layer's launch needs, and the gradient of their rows."""

import torch
from torch import Tensor

from pggnn.ops.fused.geometry import Geometry
from pggnn.ops.fused.tiles import Chunk, Tiles
from pggnn.ops.structure import first_steps, stride
from pggnn.ops.triton.structure import finish_structure, prepare_structure, structure_gradient


class StructureBits:
    """The bits of all steps, and the rows that they add to the gates."""

    def __init__(self, geometry: Geometry, degree: Tensor, codes: Tensor, rows: Tensor) -> None:
        self.codes, self.rows = codes, rows
        self.first_step = first_steps(degree, geometry.reading)
        width = rows.size(0)
        self.constants = {"LAGS": max(16, stride(width)), "STRIDE": stride(width), "WIDTH": width}
        self.table = geometry.empty(self.constants["LAGS"], geometry.fields).zero_()
        """The rows as :func:`forward_layer` reads them, and zeros after them."""
        layout = {name: geometry.layout[name] for name in ("HP", "WN", "FIELDS")}
        prepare_structure[(width,)](rows, self.table, **layout, **geometry.gating, CELL=geometry.cell, num_warps=1)


class StructureGradient:
    """The gradient of the rows, collected chunk by chunk in shares that do not wait for each other."""

    def __init__(
        self, geometry: Geometry, bits: StructureBits, tiles: Tiles, degree: Tensor, shares: int, side: int
    ) -> None:
        self.geometry, self.bits, self.tiles, self.degree = geometry, bits, tiles, degree
        self.shares, self.side = shares, side
        self.sums: Tensor | None = None

    def add(self, chunk: Chunk, begin: int, d_acts: Tensor) -> None:
        """Adds what the steps of a chunk contribute, from step ``begin`` on."""
        bits, geometry, tiles = self.bits, self.geometry, self.tiles
        adds = self.sums is not None
        if self.sums is None:
            self.sums = geometry.empty(self.shares * bits.constants["LAGS"], geometry.fields, torch.float32)
        structure_gradient[(geometry.wide // self.side, self.shares)](
            d_acts, bits.codes, bits.first_step, tiles.node_of, tiles.first, self.degree,
            tiles.offsets(chunk, begin), self.sums, tiles.total, chunk.first_sequence, begin, chunk.tiles,
            W=geometry.wide, BU=self.side, ADDS=adds, PRECISION=geometry.precision,
            LAGS=bits.constants["LAGS"], STRIDE=bits.constants["STRIDE"], **geometry.reads, num_warps=4,
        )  # fmt: skip

    def finish(self) -> Tensor:
        """The gradient, in the order of the rows."""
        geometry, rows = self.geometry, self.bits.rows
        gradient = torch.zeros_like(rows, dtype=torch.float)
        if self.sums is not None:
            finish_structure[(-(-rows.size(1) // 16),)](
                self.sums, gradient, self.shares, WIDTH=rows.size(0), LAGS=self.bits.constants["LAGS"],
                **geometry.layout, **geometry.gating, COLUMNS=16, num_warps=1,
            )  # fmt: skip
        return gradient
