"""The operation as PyTorch knows it: an autograd function while values flow, a registered operator while a compiler or
an exporter looks on. The registry's bookkeeping costs more than a small graph's arithmetic."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from pggnn.ops.packed import Packed, state_dtype
from pggnn.ops.schedule import Graph
from pggnn.orderings import Form, Reading
from pggnn.plan import Plan


class Operation(Protocol):
    """What a backend makes of one call, see :class:`pggnn.ops.packed.Packed` and :class:`pggnn.ops.fused.Fused`."""

    def forward(self, keep: bool) -> tuple[Tensor, Tensor]:
        """The result, and what the backward pass needs if it is to come; nothing where that does not fit."""

    def backward(self, d_out: Tensor, kept: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the gate rows and of each weight."""


def differentiable(
    gates: Tensor, weights: list[Tensor], plan: Plan, rows: Tensor, root: int, reading: Reading, cell: str,
    workspace: int, fused: bool, codes: Tensor | None,
) -> Tensor:  # fmt: skip
    """The operation's result, with a gradient. Where there are ``codes``, the last of the weights belong to them."""
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (gates, *weights))
    graph = Graph(plan.start, plan.degree, plan.order, plan.profile, rows, root, codes)
    if torch.compiler.is_compiling() or type(gates) not in (Tensor, torch.nn.Parameter):
        out: Tensor = _forward(
            gates, weights, *graph[:-1], reading.form, reading.limit or 0, cell, workspace, fused, keep, codes
        )[0]  # fmt: skip
        return out
    refuse_tangents((gates, *weights))
    with torch.cuda.device_of(gates):  # kernels of Triton run on the current device, wherever their tensors lie
        operation = _operation(gates, weights, graph, reading, cell, workspace, fused, plan)
        if keep:
            return cast(Tensor, _Eager.apply(operation, gates, *weights))
        with without_autocast(gates):
            return operation.forward(keep=False)[0].to(gates.dtype)


def _operation(
    gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, cell: str, workspace: int, fused: bool,
    plan: Plan | None = None,
) -> Operation:  # fmt: skip
    if not fused:
        return Packed(gates, weights, graph, reading, cell, workspace, plan)
    from pggnn.ops.fused import Fused

    return Fused(gates, weights, graph, reading, cell, workspace, plan)


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """While it lasts, precision is what tensors have and code chooses, where ``x`` lies."""
    device = x.device.type
    # What PyTorch's compilers cannot look into would break their graph in two.
    autocasts = torch.compiler.is_compiling() or (
        torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    )
    return torch.autocast(device, enabled=False) if autocasts else nullcontext()


def refuse_tangents(tensors: Iterable[Tensor] | None = None) -> None:
    """Refuses forward-mode differentiation, whose tangents would be lost here: derivatives would be wrong, and nothing
    would say so. Where they cannot be seen, below autograd, all is refused for as long as there may be some."""
    if forward_ad._current_level < 0:  # what is asked of every call: before any tensor is looked at
        return
    if tensors is None or any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise RuntimeError(
            'forward-mode differentiation (dual numbers, torch.func.jvp) is not supported; use backend="reference", or '
            "gradients (torch.autograd.grad); what was compiled can only be called outside of it"
        )


Gradients = tuple[Tensor | None, ...]


def differentiable_once(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Has a second derivative refused. PyTorch's own decorator lets one through where what the gradient is made of is
    constant, as that of a sum, and one in forward mode: but gradients depend on what was saved, too."""
    refusing = once_differentiable(backward)

    def wrapped(ctx: Any, *gradients: Tensor) -> Gradients:
        refuse_tangents(gradients)
        if torch.is_grad_enabled():
            gradients = tuple(gradient.detach().requires_grad_() for gradient in gradients)
        return refusing(ctx, *gradients)

    return wrapped


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operation: Operation, gates: Tensor, *weights: Tensor) -> Tensor:
        with without_autocast(gates):
            out, kept = operation.forward(keep=True)
        ctx.operation = operation
        ctx.save_for_backward(kept, gates, *weights)
        return out.to(gates.dtype)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        kept, gates, *weights = ctx.saved_tensors  # refuses weights that were changed since
        with without_autocast(gates):
            d_gates, d_weights = ctx.operation.backward(d_out, kept)
        return None, d_gates.to(gates.dtype), *(d.to(w.dtype) for d, w in zip(d_weights, weights, strict=True))


@torch.library.custom_op("pggnn::recurrence", mutates_args=())
def _forward(
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int, fused: bool, keep: bool, codes: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The sums, and what the backward pass needs where it is to be kept and fits the workspace."""
    refuse_tangents()
    graph = Graph(start, degree, order, profile, rows, root, codes)
    reading = Reading(cast(Form, form), limit or None)
    with torch.cuda.device_of(gates):
        out, states = _operation(gates, weights, graph, reading, cell, workspace, fused).forward(keep)
    return out.to(gates.dtype), states


@_forward.register_fake
def _(
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int, fused: bool, keep: bool, codes: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    elements = torch.library.get_ctx().new_dynamic_size() if keep else 0
    half = fused and gates.dtype in (torch.bfloat16, torch.float16)
    states = gates.new_empty(elements, dtype=gates.dtype if half else state_dtype(gates, weights))
    return gates.new_empty(degree.size(0), weights[0].size(1)), states


@torch.library.custom_op("pggnn::recurrence_backward", mutates_args=())
def _backward(
    d_out: Tensor, states: Tensor,
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int, fused: bool, codes: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """Gradients of the gate rows and of each weight."""
    refuse_tangents()
    graph = Graph(start, degree, order, profile, rows, root, codes)
    reading = Reading(cast(Form, form), limit or None)
    with torch.cuda.device_of(gates):
        operation = _operation(gates, weights, graph, reading, cell, workspace, fused)
        d_gates, d_weights = operation.backward(d_out, states)
    return [d_gates.to(gates.dtype), *(d.to(w.dtype) for d, w in zip(d_weights, weights, strict=True))]


@_backward.register_fake
def _(
    d_out: Tensor, states: Tensor,
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int, fused: bool, codes: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    return [torch.empty_like(gates), *(torch.empty_like(weight) for weight in weights)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    gates, weights, start, degree, order, profile, rows, *ctx.constants, _, codes = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], gates, start, degree, order, profile, rows, codes, *weights)


def _gradient(ctx: Any, d_out: Tensor | None, _: Tensor) -> tuple[Any, ...]:
    states, gates, start, degree, order, profile, rows, codes, *weights = ctx.saved_tensors
    if d_out is None:
        return None, [None] * len(weights), *([None] * 13)
    d_gates, *d_weights = _backward(
        d_out, states, gates, weights, start, degree, order, profile, rows, *ctx.constants, codes
    )
    return d_gates, d_weights, *([None] * 13)


_forward.register_autograd(_gradient, setup_context=_setup_context)
