"""What every backend reads: a plan's tensors, and the gate rows of its slots."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from pggnn.plan import Plan, outside_inference_mode

T = TypeVar("T")


class Graph(NamedTuple):
    """The tensors of a :class:`~pggnn.plan.Plan`, with the gate row of each slot and of the first centre node."""

    start: Tensor
    degree: Tensor
    order: Tensor
    profile: Tensor
    rows: Tensor
    root: int
    codes: Tensor | None = None
    """:func:`pggnn.ops.structure.step_codes`, where the last of the weights are the rows of the structural bits."""


class Known(NamedTuple):
    """What has been made of a graph's degrees."""

    others: tuple[TensorWeakRef, ...]
    versions: tuple[int, ...]
    found: dict[tuple[Callable[..., Any], tuple[Hashable, ...]], Any]


_KNOWN = WeakTensorKeyDictionary()
"""By the tensor of degrees, which nothing that is found may hold."""


def shared(graph: Graph, plan: Plan | None, build: Callable[..., T], *args: Hashable) -> T:
    """``build(graph, *args)``, which depends on degrees alone: layers on the same plan share it.

    An operator gets a plan's tensors without the plan. What it makes is remembered here, for as long as these tensors
    live and are not changed, so that the layers of a compiled network share it too. What a CUDA graph is to play it has
    to make itself: the tensors will have changed. Inference tensors do not tell whether they have changed.
    """
    if plan is not None:
        return plan.shape.derived(build, *args)
    degree, others = graph.degree, (graph.start, graph.order, graph.profile)
    captured = degree.is_cuda and torch.cuda.is_current_stream_capturing()
    unsure = torch._C._are_functorch_transforms_active() or any(one.is_inference() for one in (degree, *others))
    if captured or unsure:
        return build(graph, *args)
    versions = tuple(tensor._version for tensor in (degree, *others))
    known = _KNOWN.get(degree)
    same = known is not None and all(one() is other for one, other in zip(known.others, others, strict=True))
    if known is None or not same or known.versions != versions:
        known = _KNOWN[degree] = Known(tuple(map(TensorWeakRef, others)), versions, {})
    if (build, args) not in known.found:
        with outside_inference_mode():
            known.found[build, args] = build(graph, *args)
    found: T = known.found[build, args]
    return found
