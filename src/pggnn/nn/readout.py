"""Readouts: one vector for each graph from those of its nodes, or for each node from those of its neighbours."""

import torch
from torch import Tensor
from torch_geometric.nn import global_add_pool, global_mean_pool
from torch_geometric.typing import OptTensor

from pggnn.lists import ListPlan
from pggnn.ops import HAS_TRITON
from pggnn.ops.operator import has_tangents
from pggnn.plan import Plan

READOUTS = ("sum", "mean", "both", "log")
SIDE_BY_SIDE = ("both", "log")
"""Those that have a sum and a mean of each column."""
MOST_EMPTY = 2**20
"""Graphs without a node that a batch vector may imply by a large number."""


def read_out(
    x: Tensor, batch: OptTensor, size: int | None, readout: str, plan: Plan | ListPlan | None = None
) -> Tensor:
    """One row for each graph: PyG's sum and mean over its nodes, but on a GPU with sums that are repeatable at no cost,
    where PyTorch's own add the nodes of a graph one by one.

    Args:
        x: ``[N, C]``.
        batch: ``[N]`` graph of each node; one graph by default.
        size: Number of graphs, where it is known.
        readout: One of :data:`READOUTS`; ``"both"`` has twice the columns, the sums and then the means, and ``"log"``
            the sums on a scale that is logarithmic but near 0 (asinh), and then the means.
        plan: Of which ``batch`` is a field, if it is: layers on it share what the sums need.
    """
    if batch is None or size is None or not _has_kernel(x):
        mean_pool = global_mean_pool if x.size(0) > 0 else global_add_pool  # without nodes zero, alone as in a batch
        pools = [pool for pool, other in ((global_add_pool, "mean"), (mean_pool, "sum")) if readout != other]
        pooled = [pool(x, batch, size) for pool in pools]
    else:
        from pggnn.ops.fused.sum import RowSum

        if readout == "sum":
            return RowSum.apply(x, batch, size, plan)
        counted = torch.cat([x, x.new_ones(x.size(0), 1, dtype=torch.float)], dim=1)
        total, nodes = RowSum.apply(counted, batch, size, plan).split([x.size(1), 1], dim=1)
        mean = total / nodes.clamp(min=1)
        pooled = [total, mean] if readout in SIDE_BY_SIDE else [mean]
    if readout == "log":
        pooled[0] = pooled[0].asinh()
    return torch.cat(pooled, dim=1).to(x.dtype)


def unpool(pooled: Tensor, batch: OptTensor, plan: Plan | ListPlan | None = None) -> Tensor:
    """The row of each node's graph; gradients are repeatable on a GPU at no cost as well. Arguments as above."""
    if batch is None:
        return pooled
    if not _has_kernel(pooled):
        return pooled.index_select(0, batch)
    from pggnn.ops.fused.sum import RowSpread

    out: Tensor = RowSpread.apply(pooled, batch, plan)
    return out


def sum_messages(x: Tensor, edges: OptTensor, plan: Plan) -> Tensor:
    r"""A node's row and the sum of its neighbours': :math:`\mathbf{x}_v + \sum_u \mathbf{x}_u`, or, with a row of each
    edge, :math:`\mathbf{x}_v + \sum_u \mathrm{ReLU}(\mathbf{x}_u + \mathbf{e}_{uv})`.

    Args:
        x: ``[N, C]``.
        edges: ``[E, C]``, in the order of the edges that the plan was built from.
        plan: The edges, each of which it has once.
    """
    if _has_kernel(x) and (edges is None or (edges.dtype == x.dtype and len(edges) == plan.num_edges)):
        from pggnn.ops.fused.messages import MessageSum

        out: Tensor = MessageSum.apply(x, edges, plan)
        return out
    message = unpool(x, plan.neighbor, plan)
    if edges is not None:
        message = (message + edges.index_select(0, plan.edge)).relu()
    return x + read_out(message, plan.center, plan.num_nodes, "sum", plan)


def edge_rows(gates: Tensor, features: Tensor, number: Tensor, plan: Plan | ListPlan) -> Tensor:
    """A row of each edge, that of the node with its ``number`` and its own added up, and behind them all rows of nodes.

    Args:
        gates: ``[N, C]`` rows of nodes.
        features: ``[E, C]`` those of edges.
        number: ``[E]``, a field of the plan.
        plan: Layers on it share what the gradients need.
    """
    if _has_kernel(gates) and features.dtype == gates.dtype:
        from pggnn.ops.fused.messages import EdgeRows

        out: Tensor = EdgeRows.apply(gates, features, number, plan)
        return out
    return torch.cat([unpool(gates, number, plan) + features, gates])


def check_batch(batch: OptTensor, x: Tensor) -> None:
    """Refuses a batch vector that is not one of these nodes. :func:`check_graphs` looks at what is in it."""
    if batch is not None and batch.shape != x.shape[:1]:
        raise ValueError(f"batch must have the shape {list(x.shape[:1])} of the nodes, got {list(batch.shape)}")
    if batch is not None and batch.dtype != torch.long:
        raise TypeError(f"batch must be the numbers of graphs as torch.int64, got {batch.dtype}; use .long()")


def check_graphs(batch: OptTensor, size: int | None) -> None:
    """Refuses numbers of graphs that are negative, or not below ``size``.

    On a GPU only where ``size`` is None: the device is then asked for the number of graphs anyway. Not inside
    ``torch.compile``, whose graph would break.
    """
    if batch is None or len(batch) == 0 or torch.compiler.is_compiling():
        return
    if batch.device.type != "cpu" and (size is not None or batch.is_meta):
        return
    low, high = torch.stack(batch.aminmax()).tolist()
    if low < 0:
        raise ValueError(f"batch must number the graphs from 0, got {low}")
    if size is not None and high >= size:
        raise ValueError(f"batch has a node of graph {high}, but batch_size={size}: expected 0 to {size - 1}")
    if size is None and high >= len(batch) + MOST_EMPTY:
        raise ValueError(
            f"batch has a node of graph {high}, but there are only {len(batch)} nodes; "
            "give batch_size if the graphs in between have none"
        )


def _has_kernel(x: Tensor) -> bool:
    if not HAS_TRITON or not x.is_cuda or x.dtype == torch.double or torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active() and not has_tangents((x,))
