"""What every backend reads: a plan's tensors, and the gate rows of its slots."""

from typing import NamedTuple

from torch import Tensor


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
