"""Recording a CUDA graph: the calls before it, and the recording itself."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from pggnn.nn.blocks import Reads, SumConv
from pggnn.nn.conv import SequenceConv
from pggnn.ops import HAS_TRITON
from pggnn.ops.linear.arcs import takes_linear_time
from pggnn.orderings import Reading

Output = TypeVar("Output")
WARM_UP = 3
"""Calls before a recording: whatever is made once must exist by then."""


@contextmanager
def side_stream() -> Iterator[None]:
    """Where calls before a recording run, as PyTorch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def record(function: Callable[[], Output], pool: Any = None) -> tuple[torch.cuda.CUDAGraph, Output]:
    """The graph of one call, not yet played, and what the call returned: the memory that the graph writes to."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = function()
    return graph, result


def work_of(convs: Iterable[torch.nn.Module]) -> Reading:
    """The sequences whose steps say how long layers take: those of the whole group, or of a single ordering where all
    layers take no longer."""
    linear = all(
        isinstance(conv, SequenceConv) and takes_linear_time(conv.reading, conv.cell, conv.structure) for conv in convs
    )
    return Reading(limit=1) if linear else Reading()


def takes_padded_plans(conv: torch.nn.Module) -> bool:
    """Whether a layer on the GPU reads a :class:`~pggnn.plan.PaddedPlan`: if the fused kernels run it, without
    structural bits."""
    if isinstance(conv, Reads):
        return all(isinstance(one, SumConv) or takes_padded_plans(one) for one in conv.layers.values())
    if not isinstance(conv, SequenceConv) or conv.structure or not HAS_TRITON:
        return False
    from pggnn.ops.fused.shape import refusal

    return refusal(next(conv.parameters()), conv.out_channels, conv.cell) is None
