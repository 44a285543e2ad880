"""Normalisation: over the nodes of a batch, some of them, here and in other processes; or over those of each graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch_geometric.nn.norm
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.nn.readout import read_out, unpool
from pggnn.ops import HAS_TRITON

MOST_ROWS = 2**15
"""Rows up to which one kernel is faster than PyTorch's operations."""


class RowNorm(torch.nn.BatchNorm1d):
    """``BatchNorm1d`` of ``[N, C]`` whose statistics can be those of some of the rows, and of several processes.

    Processes may have different numbers of rows, or none; PyTorch's own ``SyncBatchNorm`` works on GPUs only.
    """

    real: OptTensor = None
    """``[N]`` which rows count in training, see :func:`masked_rows`; None for all. All are normalised."""
    total: Callable[[Tensor], Tensor] | None = None
    """Adds up what each of several processes has; None where there is one."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalises ``x``."""
        if not self.training or (self.real is None and self.total is None):
            return super().forward(x)
        if self._has_kernel(x):
            return self._fused(x)
        wide = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
        rows = wide.new_ones(wide.size(0), 1) if self.real is None else self.real.to(wide.dtype).unsqueeze(-1)
        count = self._total(rows.sum(0))
        mean = self._total((wide * rows).sum(0)) / count
        centred = wide - mean
        variance = self._total((centred.square() * rows).sum(0)) / count
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked += 1
                momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                unbiased = variance * count / (count - 1).clamp(min=1)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        out = centred * torch.rsqrt(variance + self.eps)
        return (out * self.weight + self.bias if self.affine else out).to(x.dtype)

    def _has_kernel(self, x: Tensor) -> bool:
        """Whether one kernel should do it: on one GPU, with all that ``BatchNorm1d`` has by default."""
        usual = self.affine and self.track_running_stats and self.momentum is not None
        return (
            HAS_TRITON
            and usual
            and x.is_cuda
            and x.dtype != torch.double
            and self.total is None
            and len(x) <= MOST_ROWS
        )

    def _fused(self, x: Tensor) -> Tensor:
        from pggnn.ops.fused.norm import RowNormalisation

        statistics = self.running_mean, self.running_var, self.num_batches_tracked
        out: Tensor = RowNormalisation.apply(
            x, self.real, self.weight, self.bias, *statistics, self.eps, self.momentum
        )  # fmt: skip
        return out

    def _total(self, part: Tensor) -> Tensor:
        return part if self.total is None else self.total(part)


class GraphNorm(torch_geometric.nn.norm.GraphNorm):
    """PyG's ``GraphNorm``, in float32 at least, with means that a GPU repeats at no cost."""

    def forward(self, x: Tensor, batch: OptTensor = None, batch_size: int | None = None) -> Tensor:
        """Normalises ``x`` over the nodes of each graph."""

        def mean(values: Tensor) -> Tensor:
            return unpool(read_out(values, batch, batch_size, "mean"), batch)

        wide = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
        centred = wide - mean(wide) * self.mean_scale
        out = centred * torch.rsqrt(mean(centred.square()) + self.eps)
        return (out * self.weight + self.bias).to(x.dtype)


def _batch_norm(width: int) -> torch.nn.Module:
    norm = torch_geometric.nn.norm.BatchNorm(width, allow_single_element=True)
    norm.module = RowNorm(width)
    return norm


NORMS: dict[str, Callable[[int], torch.nn.Module]] = {
    "batch": _batch_norm, "graph": GraphNorm, "none": torch.nn.Identity,
}  # fmt: skip
"""By the name in the config. ``"batch"``: PyG's ``BatchNorm``, of the rows that count; ``"none"``: rows stay as they
are."""


def norm_layer(kind: str, width: int) -> torch.nn.Module:
    """One of :data:`NORMS`, for rows of this width."""
    return NORMS[kind](width)


@contextmanager
def masked_rows(module: torch.nn.Module, real: OptTensor) -> Iterator[None]:
    """Inside this context, every :class:`RowNorm` of the module takes its statistics from the ``real`` rows only."""
    if real is None:
        yield
        return
    norms = [norm for norm in module.modules() if isinstance(norm, RowNorm)]
    for norm in norms:
        norm.real = real
    try:
        yield
    finally:
        for norm in norms:
            norm.real = None
