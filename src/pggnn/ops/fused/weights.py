"""Gradients of the weights through the fused kernels."""

import torch
from torch import Tensor

from pggnn.cells import Layer
from pggnn.ops.fused.geometry import Geometry
from pggnn.ops.fused.shape import WIDEST_ROW, has_room
from pggnn.ops.triton.sums import finish_weights, weight_gradient

SHARE = 256
"""Rows from which on a share is worth it: each of them has to be added up in the end."""
SIDE_BY_SIDE = 2
"""Programs on a multiprocessor, where one does not fill it."""
AT_ONCE = 32
"""Shares that a program reads at once where they are added up."""


class WeightGradient:
    """The gradients of all weights, collected chunk by chunk in shares that do not wait for each other."""

    def __init__(self, geometry: Geometry, layers: list[Layer], rows: int) -> None:
        self.geometry, self.layers = geometry, layers
        large = has_room(geometry.device, WIDEST_ROW)
        self.side = min(geometry.width, 128 if geometry.dtype.itemsize == 2 and large else 64)
        self.tiles = (geometry.wide // self.side) * (geometry.width // self.side)
        self.alone = self.side > 64  # a program fills a multiprocessor
        # Two warps read operands in TF32 as they are; four would have them transposed, see turned_by_pieces.
        self.warps = 8 if self.alone else 2 if geometry.dtype.itemsize == 4 and not geometry.exact else 4
        programs = geometry.processors * (1 if self.alone else SIDE_BY_SIDE)
        self.shares = max(1, min(-(-rows // SHARE), -(-programs // self.tiles)))
        count = len(layers)
        self.matrices = geometry.empty(count * self.shares * 2 * geometry.wide, 1, torch.float32).chunk(count)
        self.vectors = geometry.empty(count * self.shares, geometry.fields, torch.float32).chunk(count)
        self.begun: set[int] = set()

    def add(self, index: int, d_acts: Tensor, hidden: Tensor, below: Tensor, tiles: int, offset: Tensor) -> None:
        """Adds what a chunk contributes to a layer."""
        geometry = self.geometry
        weight_gradient[(self.tiles, self.shares)](
            d_acts, hidden, below, self.matrices[index], self.vectors[index], offset, tiles,
            W=geometry.wide, HP=geometry.width, BU=self.side, BK=self.side,
            ROWS=64 if geometry.dtype.itemsize == 2 else 32, B=geometry.shape.block, UPPER=index > 0,
            ADDS=index in self.begun, PRECISION=geometry.precision,
            num_warps=self.warps, num_stages=3 if self.warps == 4 else 4,
        )  # fmt: skip
        self.begun.add(index)

    def finish(self, rows: int) -> list[Tensor]:
        """The gradients, in the order of the weights; each program takes ``rows`` rows."""
        geometry = self.geometry
        layers: list[tuple[Tensor, ...]] = []
        for index, layer in enumerate(self.layers):
            hh, bias = (torch.empty_like(one, dtype=torch.float) for one in (layer.weight_hh, layer.bias_hh))
            layers.append((torch.empty_like(hh), hh, torch.empty_like(bias), bias) if index else (hh, hh, bias, bias))
        gradients = [one for index, layer in enumerate(layers) for one in (layer if index else layer[1::2])]
        if not self.begun:
            return [one.zero_() for one in gradients]
        for index in range(0, len(layers), 2):
            pair = layers[index : index + 2]
            finish_weights[(-(-hh.size(0) // rows), len(pair))](
                self.matrices[index], self.vectors[index], *pair[0], *pair[-1], self.shares,
                **geometry.layout, **geometry.gating, CELL=geometry.cell, UPPER=index > 0, ROWS=rows, SHARES=AT_ONCE,
                num_warps=4,
            )  # fmt: skip
        return gradients
