"""Gradients of the weights through the fused kernels."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pggnn.ops.fused_shape import WIDEST_ROW, has_room
from pggnn.ops.fused_structure import StructureGradient
from pggnn.ops.triton_sums import finish_weights, weight_gradient

if TYPE_CHECKING:
    from pggnn.ops.fused import Fused

SHARE = 256
"""Rows from which on a share is worth it: each of them has to be added up in the end."""


class WeightGradient:
    """The gradients of all weights, collected chunk by chunk in shares that do not wait for each other."""

    def __init__(self, operation: "Fused") -> None:
        self.operation = operation
        self.wide = operation.fields * operation.width
        roomy = has_room(operation.gates.device, WIDEST_ROW)
        self.side = min(operation.width, 128 if operation.dtype.itemsize == 2 and roomy else 64)
        self.tiles = (self.wide // self.side) * (operation.width // self.side)
        self.alone = self.side > 64  # a program fills a multiprocessor
        programs = operation.processors * (1 if self.alone else 2)
        self.shares = max(1, min(-(-operation.extent.rows // SHARE), -(-programs // self.tiles)))
        layers = len(operation.layers)
        self.matrices = operation.empty(layers * self.shares * 2 * self.wide, 1, torch.float32).chunk(layers)
        self.vectors = operation.empty(layers * self.shares, operation.fields, torch.float32).chunk(layers)
        self.begun = [False] * layers
        told = operation.told
        self.structure = None if told is None else StructureGradient(operation, told, self.shares, self.side)

    def add(self, index: int, d_acts: Tensor, hidden: Tensor, below: Tensor, tiles: int, offset: Tensor) -> None:
        """Adds what a chunk contributes to a layer."""
        operation = self.operation
        weight_gradient[(self.tiles, self.shares)](
            d_acts, hidden, below, self.matrices[index], self.vectors[index], offset, tiles,
            W=self.wide, HP=operation.width, BU=self.side, BK=self.side,
            ROWS=64 if operation.dtype.itemsize == 2 else 32, B=operation.shape.block, UPPER=index > 0,
            ADDS=self.begun[index], PRECISION=operation.precision,
            num_warps=8 if self.alone else 4, num_stages=4 if self.alone else 3,
        )  # fmt: skip
        self.begun[index] = True

    def finish(self, rows: int) -> list[Tensor]:
        """The gradients, in the order of the weights; a program sees to so many ``rows``."""
        operation = self.operation
        gradients: list[Tensor] = []
        for index, layer in enumerate(operation.layers):
            upper = index > 0
            d_hh, d_bias_hh = (torch.empty_like(w, dtype=torch.float) for w in (layer.weight_hh, layer.bias_hh))
            d_ih, d_bias_ih = (torch.empty_like(d_hh), torch.empty_like(d_bias_hh)) if upper else (d_hh, d_bias_hh)
            if self.begun[index]:
                finish_weights[(-(-d_hh.size(0) // rows),)](
                    self.matrices[index], self.vectors[index], d_ih, d_hh, d_bias_ih, d_bias_hh, self.shares,
                    **operation.layout, **operation.gating, CELL=operation.cell, UPPER=upper, ROWS=rows, num_warps=1,
                )  # fmt: skip
            else:
                for gradient in (d_ih, d_hh, d_bias_ih, d_bias_hh):
                    gradient.zero_()
            gradients += [d_ih, d_hh, d_bias_ih, d_bias_hh] if upper else [d_hh, d_bias_hh]
        return gradients if self.structure is None else [*gradients, self.structure.finish()]
