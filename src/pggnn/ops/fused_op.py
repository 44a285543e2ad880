"""The fused kernels as an operator of PyTorch, with its gradient."""

from typing import Any, cast

import torch
from torch import Tensor

from pggnn.ops import eager
from pggnn.ops.fused import INTERPRETED, Fused, operand_dtype, operation, padded, shape
from pggnn.ops.tiles import Tiles
from pggnn.orderings import Form, Reading
from pggnn.plan import Plan


def refusal(gates: Tensor, weights: list[Tensor]) -> str | None:
    """Why the kernels cannot do this, if they cannot."""
    if not (gates.is_cuda or INTERPRETED):
        return "needs a GPU, or Triton's interpreter (TRITON_INTERPRET=1)"
    if gates.dtype == torch.double:
        return "has no float64"
    if padded(weights[0].size(1)) * operand_dtype(gates).itemsize > 256:
        return f"has no kernel for {weights[0].size(1)} hidden channels in {gates.dtype}"
    return None


def fused(
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
    tiles = Tiles.build(plan, reading, shape(gates, weights[0].size(1)).block)
    out: Tensor = _forward(
        gates, weights, plan.start, plan.degree, plan.profile, rows, list(tiles), root,
        reading.form, reading.limit or 0, cell, workspace, keep,
    )[0]  # fmt: skip
    return out


@torch.library.custom_op("pggnn::fused", mutates_args=())
def _forward(
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, profile: Tensor, rows: Tensor,
    tiles: list[Tensor], root: int, form: str, limit: int, cell: str, workspace: int, keep: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The sums, and the states for the backward pass where they are to be kept and fit the workspace."""
    reading = Reading(cast(Form, form), limit or None)
    fused = Fused(gates, weights, start, degree, profile, rows, Tiles(*tiles), root, reading, cell, workspace)
    return fused.forward(keep)


@_forward.register_fake
def _(
    gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, profile: Tensor, rows: Tensor,
    tiles: list[Tensor], root: int, form: str, limit: int, cell: str, workspace: int, keep: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    elements = torch.library.get_ctx().new_dynamic_size() if keep else 0
    return gates.new_empty(degree.size(0), weights[0].size(1)), gates.new_empty(elements, dtype=operand_dtype(gates))


@torch.library.custom_op("pggnn::fused_backward", mutates_args=())
def _backward(
    d_out: Tensor, states: Tensor, gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, profile: Tensor,
    rows: Tensor, tiles: list[Tensor], root: int, form: str, limit: int, cell: str, workspace: int,
) -> list[Tensor]:  # fmt: skip
    """Gradients of the gate rows and of each weight."""
    reading = Reading(cast(Form, form), limit or None)
    fused = Fused(gates, weights, start, degree, profile, rows, Tiles(*tiles), root, reading, cell, workspace)
    d_gates, d_weights = fused.backward(d_out, states)
    return [d_gates.to(gates.dtype), *(d.to(w.dtype) for d, w in zip(d_weights, weights, strict=True))]


@_backward.register_fake
def _(
    d_out: Tensor, states: Tensor, gates: Tensor, weights: list[Tensor], start: Tensor, degree: Tensor, profile: Tensor,
    rows: Tensor, tiles: list[Tensor], root: int, form: str, limit: int, cell: str, workspace: int,
) -> list[Tensor]:  # fmt: skip
    return [torch.empty_like(gates), *(torch.empty_like(weight) for weight in weights)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    gates, weights, start, degree, profile, rows, tiles, *ctx.constants, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.num_weights = len(weights)
    ctx.save_for_backward(output[1], gates, start, degree, profile, rows, *weights, *tiles)


def _autograd(ctx: Any, d_out: Tensor | None, *_: Tensor) -> tuple[Any, ...]:
    states, gates, start, degree, profile, rows, *rest = ctx.saved_tensors
    weights, tiles = rest[: ctx.num_weights], rest[ctx.num_weights :]
    nothing = (None, None, None, None, [None] * len(tiles), *([None] * 6))
    if d_out is None:
        return None, [None] * len(weights), *nothing
    d_gates, *d_weights = _backward(d_out, states, gates, weights, start, degree, profile, rows, tiles, *ctx.constants)
    return d_gates, d_weights, *nothing


_forward.register_autograd(_autograd, setup_context=_setup_context)
