"""Messages from neighbours, summed or as rows of the edges, through the kernels of :mod:`pggnn.ops.triton.messages`."""

from typing import Any

import torch
import triton
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.lists import ListPlan
from pggnn.ops.fused.sum import COLUMNS, ELEMENTS, RowSpread, RowSum, add_up, shared_readers
from pggnn.ops.operator import Gradients
from pggnn.ops.triton.messages import edge_rows, message_gradient, message_sum
from pggnn.plan import Plan


class MessageSum(torch.autograd.Function):
    """``x[v]`` and the sum of ``x[u]`` over the neighbours of v; with a row of each edge that of its ReLU(x[u] + edge).
    In a fixed order, so the same bit for bit each time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: OptTensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        ctx.save_for_backward(x, edges)
        x, edges = x.contiguous(), None if edges is None else edges.contiguous()
        out = torch.empty_like(x)
        with torch.cuda.device_of(x):
            grid, shape = _cut(x, plan)
            if out.numel() > 0:
                message_sum[grid](
                    x, x if edges is None else edges, plan.neighbor, plan.edge, plan.start, plan.degree, out, x.size(1),
                    **shape, EDGES=edges is not None,
                )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        plan, (x, edges) = ctx.plan, ctx.saved_tensors
        if torch.is_grad_enabled():  # higher derivatives
            inputs = [x] if edges is None else [x, edges]
            found = torch.autograd.grad(_in_parts(x, edges, plan), inputs, d_out, create_graph=True, allow_unused=True)
            return (*found, None) if edges is not None else (*found, None, None)
        d_out, x, edges = d_out.contiguous(), x.contiguous(), None if edges is None else edges.contiguous()
        d_x, d_edges = torch.empty_like(x), None if edges is None else torch.empty_like(edges)
        rows, begins = shared_readers(plan.neighbor, len(x), plan)
        with torch.cuda.device_of(x):
            grid, shape = _cut(x, plan)
            if d_x.numel() > 0:
                message_gradient[grid](
                    d_out, x, x if edges is None else edges, rows, begins, plan.center, plan.edge, d_x,
                    d_x if d_edges is None else d_edges, x.size(1), **shape, EDGES=edges is not None,
                )  # fmt: skip
        return d_x, d_edges, None


class EdgeRows(torch.autograd.Function):
    """``gates[number[k]] + features[k]`` for each edge k, and behind these rows those of ``gates``. ``number`` is a
    field of the plan."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, features: Tensor, number: Tensor, plan: Plan | ListPlan) -> Tensor:
        ctx.save_for_backward(number)
        ctx.rows, ctx.plan = len(gates), plan
        gates, features = gates.contiguous(), features.contiguous()
        (edges, width), total = features.shape, len(features) + len(gates)
        out, columns = gates.new_empty(total, width), min(COLUMNS, triton.next_power_of_2(max(1, width)))
        rows = ELEMENTS // columns
        if out.numel() > 0:
            with torch.cuda.device_of(gates):
                edge_rows[(-(-total // rows), -(-width // columns))](
                    gates, features, number, out, edges, total, width, COLUMNS=columns, ROWS=rows, num_warps=4
                )
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Gradients:
        (number,) = ctx.saved_tensors
        d_features, own = d_out.split([len(number), ctx.rows])
        if torch.is_grad_enabled():  # higher derivatives
            return own + RowSum.apply(d_features, number, ctx.rows, ctx.plan), d_features, None, None
        d_gates, d_out = own.new_empty(own.shape), d_out.contiguous()
        with torch.cuda.device_of(d_out):
            add_up(d_out, d_gates, *shared_readers(number, ctx.rows, ctx.plan), root=0, own=ctx.rows)
        return d_gates, d_features, None, None


def _in_parts(x: Tensor, edges: OptTensor, plan: Plan) -> Tensor:
    """The same in operations that can be differentiated any number of times."""
    message = RowSpread.apply(x, plan.neighbor, plan)
    if edges is not None:
        message = (message + edges.index_select(0, plan.edge)).relu()
    total: Tensor = RowSum.apply(message, plan.center, plan.num_nodes, plan)
    return x + total


def _cut(x: Tensor, plan: Plan) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid, and how much a program reads at a time: most nodes' neighbours at once."""
    nodes, width = x.shape
    columns = min(COLUMNS, triton.next_power_of_2(max(1, width)))
    read = min(32, ELEMENTS // columns, triton.next_power_of_2(max(1, -(-plan.num_edges // max(1, nodes)))))
    return (nodes, -(-width // columns)), {"COLUMNS": columns, "READ": read, "num_warps": 4 if columns > 64 else 2}
