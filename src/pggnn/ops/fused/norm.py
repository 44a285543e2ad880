"""Batch normalisation by the statistics of some of the rows, through the kernels of :mod:`pggnn.ops.triton.norm`."""

from typing import Any

import torch
from torch import Tensor

from pggnn.ops.operator import Gradients, differentiable_once
from pggnn.ops.triton.norm import normalise, normalise_back

CHANNELS = 8
"""Channels of a program: neighbours in memory that are read together."""


class RowNormalisation(torch.autograd.Function):
    """Normalises all rows of ``x`` by the statistics of the ``real`` ones, which the running ones move towards."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, real: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor,
        batches: Tensor, eps: float, momentum: float,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        out, statistics = torch.empty_like(x), x.new_empty(2, x.size(1), dtype=torch.float)
        with torch.cuda.device_of(x):
            normalise[grid(x)](
                x, real, weight, bias, out, statistics, running_mean, running_var, batches, *x.shape, eps, momentum,
                **shape(x),
            )  # fmt: skip
        ctx.save_for_backward(x, real, weight, statistics)
        return out

    @staticmethod
    @differentiable_once("a padded batch")
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        x, real, weight, statistics = ctx.saved_tensors
        d_x, d_weight, d_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        normalise_back[grid(x)](
            d_out.contiguous(), x, real, weight, statistics, d_x, d_weight, d_bias, *x.shape, **shape(x)
        )
        return d_x, None, d_weight, d_bias, None, None, None, None, None


def grid(x: Tensor) -> tuple[int]:
    """A program for some channels each."""
    return (-(-x.size(1) // CHANNELS),)


def shape(x: Tensor) -> dict[str, int]:
    """How much a program reads at a time: all of a small batch."""
    return {"ROWS": 256 if x.size(0) <= 1024 else 1024, "C": CHANNELS, "num_warps": 8}
