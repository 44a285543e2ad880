"""Batch normalisation over some of the rows."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor


def normalised(norm: torch.nn.Module, x: Tensor, real: OptTensor) -> Tensor:
    """What PyG's ``BatchNorm`` makes of ``x``, with statistics of its ``real`` rows only, if not all are."""
    if real is None or not norm.training:
        return norm(x)
    return masked_norm(cast(torch.nn.BatchNorm1d, norm.module), x, real)


def masked_norm(
    norm: torch.nn.BatchNorm1d, x: Tensor, real: OptTensor, total: Callable[[Tensor], Tensor] = lambda part: part
) -> Tensor:
    """What ``norm`` makes of ``x`` of shape ``[N, C]`` in training where only its ``real`` rows count.

    Args:
        norm: The module whose weights and running statistics are used and updated.
        x: All rows; those that do not count are normalised too.
        real: ``[N]`` which rows count; None for all.
        total: Adds up what each of several processes has.
    """
    wide = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
    rows = wide.new_ones(wide.size(0), 1) if real is None else real.to(wide.dtype).unsqueeze(-1)
    count = total(rows.sum(0))
    mean = total((wide * rows).sum(0)) / count
    centred = wide - mean
    variance = total((centred.square() * rows).sum(0)) / count
    if norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None:
        with torch.no_grad():
            norm.num_batches_tracked += 1
            momentum = norm.momentum or 1 / float(norm.num_batches_tracked)
            norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
            unbiased = variance * count / (count - 1).clamp(min=1)
            norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)
    out = centred * torch.rsqrt(variance + norm.eps)
    return (out * norm.weight + norm.bias if norm.affine else out).to(x.dtype)
