"""The packed operation as an operator of PyTorch, with its gradient."""

from typing import Any, cast

import torch
from torch import Tensor

from pggnn.ops import eager
from pggnn.ops.packed import Packed, operation, state_dtype
from pggnn.ops.schedule import Graph
from pggnn.orderings import Form, Reading
from pggnn.plan import Plan


def packed(
    gates: Tensor,
    weights: list[Tensor],
    plan: Plan,
    rows: Tensor,
    root: int,
    reading: Reading,
    cell: str,
    workspace: int,
) -> Tensor:
    """See :func:`pggnn.ops.group_recurrence`."""
    if eager.wanted(gates):
        return eager.run(operation(gates, weights, plan, rows, root, reading, cell, workspace), gates, weights)
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (gates, *weights))
    out: Tensor = _forward(
        gates, weights, plan.start, plan.degree, plan.order, plan.profile, rows, root,
        reading.form, reading.limit or 0, cell, workspace, keep,
    )[0]  # fmt: skip
    return out


@torch.library.custom_op("pggnn::packed", mutates_args=())
def _forward(
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The sums, and the states for the backward pass where they are to be kept and fit the workspace."""
    graph = Graph(start, degree, order, profile, rows, root)
    out, states, rows_read = Packed(
        gates, weights, graph, Reading(cast(Form, form), limit or None), cell, workspace
    ).forward(keep)
    return out.to(gates.dtype), states, rows_read


@_forward.register_fake
def _(
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    elements, saved_rows = (torch.library.get_ctx().new_dynamic_size() if keep else 0 for _ in range(2))
    states = gates.new_empty(elements, dtype=state_dtype(gates, weights))
    return gates.new_empty(degree.size(0), weights[0].size(1)), states, rows.new_empty(saved_rows)


@torch.library.custom_op("pggnn::packed_backward", mutates_args=())
def _backward(
    d_out: Tensor, states: Tensor, rows_read: Tensor,
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int,
) -> list[Tensor]:  # fmt: skip
    """Gradients of the gate rows and of each weight."""
    graph = Graph(start, degree, order, profile, rows, root)
    d_gates, d_weights = Packed(
        gates, weights, graph, Reading(cast(Form, form), limit or None), cell, workspace
    ).backward(d_out, states, rows_read)
    return [d_gates.to(gates.dtype), *(d.to(w.dtype) for d, w in zip(d_weights, weights, strict=True))]


@_backward.register_fake
def _(
    d_out: Tensor, states: Tensor, rows_read: Tensor,
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, form: str, limit: int, cell: str, workspace: int,
) -> list[Tensor]:  # fmt: skip
    return [torch.empty_like(gates), *(torch.empty_like(weight) for weight in weights)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    gates, weights, start, degree, order, profile, rows, *ctx.constants, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*output[1:], gates, start, degree, order, profile, rows, *weights)


def _autograd(ctx: Any, d_out: Tensor | None, *_: Tensor) -> tuple[Any, ...]:
    states, rows_read, gates, start, degree, order, profile, rows, *weights = ctx.saved_tensors
    if d_out is None:
        return None, [None] * len(weights), *([None] * 11)
    d_gates, *d_weights = _backward(
        d_out, states, rows_read, gates, weights, start, degree, order, profile, rows, *ctx.constants
    )
    return d_gates, d_weights, *([None] * 11)


_forward.register_autograd(_autograd, setup_context=_setup_context)
