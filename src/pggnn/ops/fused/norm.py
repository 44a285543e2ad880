"""Batch normalisation by the statistics of some of the rows, through the kernels of :mod:`pggnn.ops.triton.norm`."""

from typing import Any

import torch
import triton
from torch import Tensor

from pggnn.ops.operator import Gradients, differentiable_once
from pggnn.ops.triton.norm import measure, measure_back, normalise, normalise_back

LEAST_ROWS, MOST_BLOCKS = 32, 128
"""Rows of a program at least, and blocks of rows at most: every program adds up what is left of all."""
ELEMENTS = 8192
"""Numbers that a program reads at a time."""


class RowNormalisation(torch.autograd.Function):
    """Normalises all rows of ``x`` by the statistics of the ``real`` ones, which the running ones move towards."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, real: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor,
        batches: Tensor, eps: float, momentum: float,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        out, statistics = torch.empty_like(x), x.new_empty(3, x.size(1), dtype=torch.float)
        grid, shape, blocks = cut(x)
        parts = x.new_empty(3, grid[0], x.size(1), dtype=torch.float)
        with torch.cuda.device_of(x):
            measure[grid](x, real, parts, *x.shape, **shape)
            normalise[grid](
                x, parts, weight, bias, out, statistics, running_mean, running_var, batches, *x.shape, eps, momentum,
                **shape, BLOCKS=blocks,
            )  # fmt: skip
        ctx.save_for_backward(x, real, weight, statistics)
        return out

    @staticmethod
    @differentiable_once("a padded batch")
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        x, real, weight, statistics = ctx.saved_tensors
        d_x, d_weight, d_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        grid, shape, blocks = cut(x)
        parts, d_out = x.new_empty(2, grid[0], x.size(1), dtype=torch.float), d_out.contiguous()
        measure_back[grid](d_out, x, statistics, parts, *x.shape, **shape)
        normalise_back[grid](
            d_out, x, real, weight, statistics, parts, d_x, d_weight, d_bias, *x.shape, **shape, BLOCKS=blocks
        )
        return d_x, None, d_weight, d_bias, None, None, None, None, None


def cut(x: Tensor) -> tuple[tuple[int, int], dict[str, int], int]:
    """Blocks of rows by blocks of channels, the shape of one, and a power of two of as many blocks of rows."""
    rows, channels = x.shape
    block = max(LEAST_ROWS, triton.next_power_of_2(-(-rows // MOST_BLOCKS)))
    width = min(triton.next_power_of_2(channels), ELEMENTS // block)
    blocks = max(1, -(-rows // block))
    shape = {"ROWS": block, "C": width, "num_warps": 4 if block * width <= ELEMENTS // 2 else 8}
    return (blocks, -(-channels // width)), shape, triton.next_power_of_2(blocks)
