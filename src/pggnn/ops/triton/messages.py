"""Messages along edges. Their sums: a kernel forward, in which each node reads its neighbours, and one back, in which
each node is read by those that it is a neighbour of. And rows of edges, made of a node's and the edge's own."""

import triton
import triton.language as tl

from pggnn.ops.triton.launch import direct


@direct
@triton.jit
def message_sum(
    x, edges, neighbor, edge, start, degree, out, width,
    COLUMNS: tl.constexpr, READ: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """Some columns of a node: its own row, and its neighbours'; with ``EDGES`` those of max(x + edge, 0)."""
    node = tl.program_id(0)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    exists = col < width
    begin, count = tl.load(start + node), tl.load(degree + node)
    at = node.to(tl.int64) * width + col
    total = tl.load(x + at, mask=exists, other=0).to(tl.float32)
    for first in range(0, count, READ):
        place = first + tl.arange(0, READ)
        there = place < count
        mask = there[:, None] & exists[None, :]
        other = tl.load(neighbor + begin + place, mask=there, other=0)
        message = tl.load(x + other[:, None] * width + col[None, :], mask=mask, other=0).to(tl.float32)
        if EDGES:
            row = tl.load(edge + begin + place, mask=there, other=0)
            message += tl.load(edges + row[:, None] * width + col[None, :], mask=mask, other=0).to(tl.float32)
            message = tl.maximum(message, 0, propagate_nan=tl.PropagateNan.ALL)
        total += tl.sum(message, 0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=exists)


@direct
@triton.jit
def message_gradient(
    d_out, x, edges, rows, begins, center, edge, d_x, d_edges, width,
    COLUMNS: tl.constexpr, READ: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """Some columns of a node's gradient, and of those of the edges that lead from it: ``rows`` are their slots, those
    of the node begin at ``begins``."""
    node = tl.program_id(0)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    exists = col < width
    begin, end = tl.load(begins + node), tl.load(begins + node + 1)
    at = node.to(tl.int64) * width + col
    total = tl.load(d_out + at, mask=exists, other=0).to(tl.float32)
    own = tl.load(x + at, mask=exists & EDGES, other=0).to(tl.float32)
    for first in range(begin, end, READ):
        place = first + tl.arange(0, READ)
        there = place < end
        mask = there[:, None] & exists[None, :]
        slot = tl.load(rows + place, mask=there, other=0)
        reader = tl.load(center + slot, mask=there, other=0)
        gradient = tl.load(d_out + reader[:, None] * width + col[None, :], mask=mask, other=0).to(tl.float32)
        if EDGES:
            row = tl.load(edge + slot, mask=there, other=0)[:, None] * width + col[None, :]
            value = own[None, :] + tl.load(edges + row, mask=mask, other=0).to(tl.float32)
            gradient = tl.where(value > 0, gradient, 0)
            tl.store(d_edges + row, gradient.to(d_edges.dtype.element_ty), mask=mask)
        total += tl.sum(gradient, 0)
    tl.store(d_x + at, total.to(d_x.dtype.element_ty), mask=exists)


@direct
@triton.jit(do_not_specialize=["edges", "total"])
def edge_rows(gates, features, number, out, edges, total, width, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """Some columns of rows of the edges, ``gates[number] + features``, and behind them of all of ``gates``."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    of_edge = row < edges
    mask = (row < total)[:, None] & (col < width)[None, :]
    source = tl.where(of_edge, tl.load(number + row, mask=of_edge, other=0), row - edges)
    value = tl.load(gates + source[:, None] * width + col[None, :], mask=mask, other=0).to(tl.float32)
    at = row[:, None] * width + col[None, :]
    value += tl.load(features + at, mask=mask & of_edge[:, None], other=0).to(tl.float32)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=mask)
