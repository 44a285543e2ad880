"""An operation and its gradient without the cost of PyTorch's operator registry, where nothing is being compiled."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Operation(Protocol):
    """What a backend makes of one call, see :class:`pggnn.ops.packed.Packed`."""

    def forward(self, keep: bool) -> tuple[Tensor, ...]:
        """The result, and what the backward pass needs."""

    def backward(self, d_out: Tensor, *kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""


def without_autocast(gates: Tensor) -> AbstractContextManager[object]:
    """Each backend chooses its own precision."""
    device = gates.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operation: Operation, gates: Tensor, *weights: Tensor) -> Tensor:
        with without_autocast(gates):
            out, *ctx.kept = operation.forward(keep=True)
        ctx.operation = operation
        ctx.save_for_backward(gates, *weights)
        return out.to(gates.dtype)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        gates, *weights = ctx.saved_tensors  # refuses weights that were changed since
        with without_autocast(gates):
            d_gates, d_weights = ctx.operation.backward(d_out, *ctx.kept)
        return None, d_gates.to(gates.dtype), *(d.to(w.dtype) for d, w in zip(d_weights, weights, strict=True))


def run(operation: Operation, gates: Tensor, weights: list[Tensor]) -> Tensor:
    """The operation's result, differentiable."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (gates, *weights)):
        out: Tensor = _Function.apply(operation, gates, *weights)
        return out
    with without_autocast(gates):
        return operation.forward(keep=False)[0].to(gates.dtype)


def wanted(gates: Tensor) -> bool:
    """Whether these are tensors with values, rather than a compiler's or exporter's stand-ins."""
    return not torch.compiler.is_compiling() and type(gates) in (Tensor, torch.nn.Parameter)
