"""The operation as PyTorch knows it: an autograd function while values flow, a registered operator while a compiler or
an exporter looks on. The registry's bookkeeping costs more than a small graph's arithmetic."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, List, Protocol, cast  # noqa: UP035

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pggnn.cells import CELLS
from pggnn.ops import plain
from pggnn.ops.graph import Graph
from pggnn.ops.linear import arcs
from pggnn.ops.linear.operation import LinearOperation, has_kernel
from pggnn.ops.packed.operation import Packed, state_dtype
from pggnn.ops.packed.unroll import UNROLLED
from pggnn.orderings import Reading
from pggnn.plan import Plan

Again = Callable[[Tensor, list[Tensor]], Tensor]
"""The result from gate rows and weights, in operations that PyTorch differentiates itself."""


class Operation(Protocol):
    """What a backend makes of one call."""

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
    is_affine = CELLS[cell].affine is not None
    if cell not in UNROLLED and not is_affine:
        return _untraced(plain.recurrence, gates, weights, graph, reading, cell)
    if torch.compiler.is_compiling() or type(gates) not in (Tensor, torch.nn.Parameter):
        out: Tensor = _forward(
            gates, weights, *graph[:-1], reading.spec, cell, workspace, fused, keep, codes
        )[0]  # fmt: skip
        return out
    recurrence = arcs.recurrence if is_affine else plain.recurrence
    if is_affine and not (fused or has_kernel(gates, weights, graph, cell)):
        with without_autocast(gates):
            return arcs.recurrence(gates, weights, graph, reading, cell, plan)
    if torch._C._are_functorch_transforms_active() or has_tangents((gates, *weights)):
        return _untraced(recurrence, gates, weights, graph, reading, cell)
    with torch.cuda.device_of(gates):  # kernels of Triton run on the current device, wherever their tensors lie
        operation = _operation(gates, weights, graph, reading, cell, workspace, fused, plan)
        if keep:
            again = partial(recurrence, graph=graph, reading=reading, cell=cell)
            return cast(Tensor, _Eager.apply(operation, again, gates, *weights))
        with without_autocast(gates):
            return operation.forward(keep=False)[0].to(gates.dtype)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _untraced(
    recurrence: Callable[..., Tensor], gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, cell: str
) -> Tensor:
    """In plain PyTorch, whose loops over steps a compiler is not to unroll."""
    with without_autocast(gates):
        return recurrence(gates, weights, graph, reading, cell)


def _operation(
    gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, cell: str, workspace: int, fused: bool,
    plan: Plan | None = None,
) -> Operation:  # fmt: skip
    reading.check(graph.profile)
    is_affine = CELLS[cell].affine is not None
    if not fused and is_affine:
        return LinearOperation(gates, weights, graph, reading, cell, plan)
    if not fused:
        return Packed(gates, weights, graph, reading, cell, workspace, plan)
    if is_affine:
        from pggnn.ops.fused.linear import FusedLinear

        return FusedLinear(gates, weights, graph, reading, plan)
    from pggnn.ops.fused.operation import Fused

    return Fused(gates, weights, graph, reading, cell, workspace, plan)


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """While it lasts, precision is what tensors have and code chooses, where ``x`` lies."""
    device = x.device.type
    if torch.compiler.is_compiling():  # its compilers know their own context; to look for autocast they cannot
        return torch.autocast(device, enabled=False)
    autocasts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return _Paused(device) if autocasts else nullcontext()


class _Paused:
    """``torch.autocast(device, enabled=False)`` within another, without what that checks each time."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __enter__(self) -> None:
        torch.set_autocast_enabled(self.device, False)

    def __exit__(self, *_: object) -> None:
        torch.set_autocast_enabled(self.device, True)


def has_tangents(tensors: Iterable[Tensor]) -> bool:
    """Whether forward-mode differentiation (dual numbers) is under way through one of these."""
    if forward_ad._current_level < 0:  # what is asked of every call: before any tensor is looked at
        return False
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


def refuse_tangents(tensors: Iterable[Tensor] | None = None) -> None:
    """Refuses forward-mode differentiation where its tangents would be lost. Below autograd they cannot be seen: there
    all is refused for as long as there may be some."""
    if forward_ad._current_level >= 0 and (tensors is None or has_tangents(tensors)):
        raise RuntimeError(
            "forward-mode differentiation (dual numbers) does not reach through the gradients of this operation, nor "
            "through what was compiled; use torch.func.jvp or torch.func.hessian on the layer itself"
        )


Gradients = tuple[Tensor | None, ...]


def differentiable_once(what: str) -> Callable[[Callable[..., Gradients]], Callable[..., Gradients]]:
    """Has a second derivative refused, which PyTorch's own decorator lets through in some cases as zero."""

    def decorate(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
        def wrapped(ctx: Any, *gradients: Tensor) -> Gradients:
            refuse_tangents(gradients)
            if torch.is_grad_enabled():
                raise RuntimeError(f"{what} has no second derivative (create_graph=True); call the network itself")
            return backward(ctx, *gradients)

        return wrapped

    return decorate


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operation: Operation, again: Again, gates: Tensor, *weights: Tensor) -> Tensor:
        with without_autocast(gates):
            out, kept = operation.forward(keep=True)
        ctx.operation, ctx.again = operation, again
        ctx.save_for_backward(kept, gates, *weights)
        return out.to(gates.dtype)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        refuse_tangents((d_out,))
        kept, gates, *weights = ctx.saved_tensors  # refuses weights that were changed since
        if torch.is_grad_enabled():
            return None, None, *_Gradient.apply(ctx.operation, ctx.again, kept, d_out, gates, *weights)
        return None, None, *_gradients(ctx.operation, kept, d_out, gates, weights)


def _gradients(operation: Operation, kept: Tensor, d_out: Tensor, gates: Tensor, weights: list[Tensor]) -> Gradients:
    with without_autocast(gates):
        d_gates, d_weights = operation.backward(d_out, kept)
    pairs = zip((d_gates, *d_weights), (gates, *weights), strict=True)
    return tuple(d if d.dtype is one.dtype else d.to(one.dtype) for d, one in pairs)  # no call where nothing is to do


class _Gradient(torch.autograd.Function):
    """The gradients as a function of their own, which plain PyTorch differentiates any number of times."""

    @staticmethod
    def forward(
        ctx: Any, operation: Operation, again: Again, kept: Tensor, d_out: Tensor, gates: Tensor, *weights: Tensor
    ) -> Gradients:
        ctx.again = again
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(d_out, gates, *weights)
        return _gradients(operation, kept, d_out, gates, list(weights))

    @staticmethod
    def backward(ctx: Any, *directions: Tensor) -> Gradients:
        return None, None, None, *_second(ctx.again, ctx.saved_tensors, directions)


def _second(again: Again, saved: Sequence[Tensor], directions: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Derivatives of the gradients along ``directions`` by what they depend on: ``d_out``, gate rows and weights."""
    once = not torch.is_grad_enabled()
    with torch.enable_grad(), without_autocast(saved[0]):
        # Detached tensors end the graph here, unless further derivatives are to come.
        inputs = [t.detach().requires_grad_() if once or not t.requires_grad else t for t in saved]
        d_out, gates, *weights = inputs
        gradients = torch.autograd.grad(
            again(gates, weights), inputs[1:], d_out, create_graph=True, materialize_grads=True
        )
        pairs = [(g, d) for g, d in zip(gradients, directions, strict=True) if g.requires_grad and d is not None]
        wanted = [one for one, tensor in zip(inputs, saved, strict=True) if tensor.requires_grad]
        if not pairs:
            return [None] * len(inputs)
        outputs, along = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(outputs, wanted, along, create_graph=not once, allow_unused=True))
    return [next(found) if tensor.requires_grad else None for tensor in saved]


Tensors = List[Tensor]  # noqa: UP006
"""What operators are declared with: PyTorch before 2.7 does not know ``list[Tensor]`` there."""


@torch.library.custom_op("pggnn::recurrence", mutates_args=())
def _forward(
    gates: Tensor, weights: Tensors, start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, spec: str, cell: str, workspace: int, fused: bool, keep: bool, codes: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The sums, and what the backward pass needs where it is to be kept and fits the workspace."""
    refuse_tangents()
    graph = Graph(start, degree, order, profile, rows, root, codes)
    reading = Reading.parse(spec)
    with torch.cuda.device_of(gates):
        out, states = _operation(gates, weights, graph, reading, cell, workspace, fused).forward(keep)
    return out.to(gates.dtype).contiguous(), states  # rows of kernels may have gaps; compilers are told of none


@_forward.register_fake
def _(
    gates: Tensor, weights: Tensors, start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, spec: str, cell: str, workspace: int, fused: bool, keep: bool, codes: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    # A size that is not known ends a compiler's graph here. Cells h ← a ⊙ h + b keep nothing.
    elements = torch.library.get_ctx().new_dynamic_size() if keep and CELLS[cell].affine is None else 0
    half = fused and gates.dtype in (torch.bfloat16, torch.float16)
    states = gates.new_empty(elements, dtype=gates.dtype if half else state_dtype(gates, weights))
    return gates.new_empty(degree.size(0), weights[0].size(1)), states


@torch.library.custom_op("pggnn::recurrence_backward", mutates_args=())
def _backward(
    d_out: Tensor, states: Tensor,
    gates: Tensor, weights: Tensors, start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, spec: str, cell: str, workspace: int, fused: bool, codes: Tensor | None,
) -> Tensors:  # fmt: skip
    """Gradients of the gate rows and of each weight."""
    refuse_tangents()
    graph = Graph(start, degree, order, profile, rows, root, codes)
    reading = Reading.parse(spec)
    with torch.cuda.device_of(gates):
        operation = _operation(gates, weights, graph, reading, cell, workspace, fused)
        d_gates, d_weights = operation.backward(d_out, states)
    return [d_gates.to(gates.dtype), *(d.to(w.dtype) for d, w in zip(d_weights, weights, strict=True))]


@_backward.register_fake
def _(
    d_out: Tensor, states: Tensor,
    gates: Tensor, weights: Tensors, start: Tensor, degree: Tensor, order: Tensor, profile: Tensor, rows: Tensor,
    root: int, spec: str, cell: str, workspace: int, fused: bool, codes: Tensor | None,
) -> Tensors:  # fmt: skip
    return [torch.empty_like(gates), *(torch.empty_like(weight) for weight in weights)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    gates, weights, start, degree, order, profile, rows, *ctx.constants, _, codes = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], gates, start, degree, order, profile, rows, codes, *weights)


def _gradient(ctx: Any, d_out: Tensor | None, _: Tensor) -> tuple[Any, ...]:
    states, gates, start, degree, order, profile, rows, codes, *weights = ctx.saved_tensors
    if d_out is None:
        return None, [None] * len(weights), *([None] * 12)
    d_gates, *d_weights = _backward(
        d_out, states, gates, weights, start, degree, order, profile, rows, *ctx.constants, codes
    )
    return d_gates, d_weights, *([None] * 12)


_forward.register_autograd(_gradient, setup_context=_setup_context)


def _setup_second(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    d_out, _, gates, weights, start, degree, order, profile, rows, root, spec, cell, _, _, codes = inputs
    ctx.root, ctx.reading, ctx.cell = root, Reading.parse(spec), cell
    ctx.save_for_backward(start, degree, order, profile, rows, codes, d_out, gates, *weights)


def _second_gradient(ctx: Any, directions: list[Tensor | None]) -> tuple[Any, ...]:
    start, degree, order, profile, rows, codes, *saved = ctx.saved_tensors
    graph = Graph(start, degree, order, profile, rows, ctx.root, codes)
    recurrence = plain.recurrence if CELLS[ctx.cell].affine is None else arcs.recurrence
    again = partial(recurrence, graph=graph, reading=ctx.reading, cell=ctx.cell)
    d_d_out, d_gates, *d_weights = _second(again, saved, directions)
    return d_d_out, None, d_gates, d_weights, *([None] * 11)


_backward.register_autograd(_second_gradient, setup_context=_setup_second)
