"""Linear maps whose gradients by weight and bias take one launch, through :mod:`pggnn.ops.triton.products`.

PyTorch has four for them: a product in parts, memory for these, their sum, and the sum for the bias.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from pggnn.ops.fused.shape import INTERPRETED, is_exact
from pggnn.ops.operator import Gradients, differentiable_once
from pggnn.ops.triton.products import linear_gradient

SIDE = 32
"""Rows and columns of the weight that a program has at most."""
ROWS = 128
"""Rows that a program reads at a time."""
SHARE, MOST_SHARES = 4096 if INTERPRETED else 256, 64
"""Rows of a program at least, and how many programs share the rows of a tile at most."""


def tiles(weight: Tensor) -> int:
    """Counters that :class:`LinearMap` needs for this weight."""
    outs, ins = weight.shape
    return -(-outs // _side(outs)) * -(-ins // _side(ins))


class LinearMap(torch.autograd.Function):
    """``torch.nn.functional.linear`` of float32 rows. ``arrived`` are zeros, :func:`tiles` of them, which nothing else
    uses at the same time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, arrived: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.arrived, ctx.has_bias = arrived, bias is not None
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    @differentiable_once("a recorded pass")
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        d_out, x, (outs, ins) = d_out.contiguous(), x.contiguous(), weight.shape
        d_weight = torch.empty_like(weight, memory_format=torch.contiguous_format)
        d_bias = weight.new_empty(outs) if ctx.has_bias else None
        side, across = _side(outs), _side(ins)
        shares = max(1, min(MOST_SHARES, -(-len(x) // SHARE)))
        parts = x.new_empty(tiles(weight) * shares * (across + 1) * side)
        with torch.cuda.device_of(x):
            linear_gradient[(tiles(weight), shares)](
                d_out, x, parts, ctx.arrived, d_weight, d_weight if d_bias is None else d_bias, len(x), outs, ins,
                BO=side, BI=across, ROWS=ROWS, BIAS=ctx.has_bias, PRECISION="tf32x3" if is_exact(x) else "tf32",
                num_warps=4,
            )  # fmt: skip
        return d_out @ weight if ctx.needs_input_grad[0] else None, d_weight, d_bias, None


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether these can be given to :class:`LinearMap`, and its gradient is worth it."""
    return (
        x.dtype == weight.dtype == torch.float
        and x.dim() == 2
        and (x.is_cuda or (INTERPRETED and x.device.type == "cpu"))
        and weight.requires_grad
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled(x.device.type)
    )


def _side(width: int) -> int:
    return max(16, min(SIDE, triton.next_power_of_2(width)))
