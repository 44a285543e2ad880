"""Structural bits inside the kernels: what :mod:`pggnn.ops.structure` packed, read step by step, and the gradient of
their rows."""

import triton
import triton.language as tl

from pggnn.ops.triton.index import length
from pggnn.ops.triton.launch import direct
from pggnn.ops.triton.layout import field_at, halving, place_of


@direct
@triton.jit
def prepare_structure(
    rows, out,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr,
):  # fmt: skip
    """The rows of the bits, one per program, by (warp, field, unit), padded, in the operands' type."""
    W: tl.constexpr = FIELDS * HP
    lag, column = tl.program_id(0), tl.arange(0, W)
    field, unit = field_at(column, HP, FIELDS, WN)
    mask = (field < GATES) & (unit < H)
    x = tl.load(rows + lag * (GATES * H) + field * H + unit, mask=mask, other=0).to(tl.float32)
    tl.store(out + lag * W + column, (x * halving(field, CELL)).to(out.dtype.element_ty))


@triton.jit
def first_code(first_step, node, i, n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """The number of steps before those of each sequence."""
    return tl.load(first_step + node) + i.to(tl.int64) * length(n, GROUP, FRAME, LIMIT)


@triton.jit
def load_code(codes, step, runs, STRIDE: tl.constexpr):
    """The bits of each step, lowest first, those of other steps above them; 0 where the sequence has ended."""
    at = step * STRIDE
    return tl.load(codes + (at >> 5), mask=runs, other=0) >> (at & 31).to(tl.int32)


@direct
@triton.jit(do_not_specialize=["first_sequence", "t_begin", "tiles"])
def structure_gradient(
    acts, codes, first_step, node_of, first, degree, offset, d_rows, total, first_sequence, t_begin, tiles,
    W: tl.constexpr, B: tl.constexpr, BU: tl.constexpr, LAGS: tl.constexpr, STRIDE: tl.constexpr,
    GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr, ADDS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """For each bit, adds the gate gradients of the steps that have it set, over a share of the tiles.

    Program (columns, share); ``d_rows`` is ``[share, LAGS, W]``.
    """
    share, shares = tl.program_id(1), tl.num_programs(1)
    r, lag = tl.arange(0, B), tl.arange(0, LAGS)
    u = tl.program_id(0) * BU + tl.arange(0, BU)
    origin = tl.load(offset)
    sums = tl.zeros([BU, LAGS], tl.float32)
    num_sequences = tl.load(total)
    for tile in range(share, tiles, shares):
        sequence = first_sequence + tile * B + r
        valid = sequence < num_sequences
        node = tl.load(node_of + sequence, mask=valid, other=0)
        n = tl.load(degree + node).to(tl.int32)
        step = first_code(first_step, node, sequence - tl.load(first + node), n, GROUP, FRAME, LIMIT) + t_begin
        ends = tl.where(valid, length(n, GROUP, FRAME, LIMIT), 0)
        base, end = tl.load(offset + tile) - origin, tl.load(offset + tile + 1) - origin
        for b in range(((end - base) // B).to(tl.int32) - 1):
            word = load_code(codes, step + b, t_begin + b < ends, STRIDE)
            bits = ((word[:, None] >> lag[None, :]) & 1).to(acts.dtype.element_ty)
            row = base + b * B + r
            d = tl.trans(tl.load(acts + row[:, None] * W + u[None, :]))
            sums = tl.dot(d, bits, acc=sums, input_precision=PRECISION)
    out = d_rows + (share * LAGS + lag)[None, :] * W + u[:, None]
    if ADDS:
        sums += tl.load(out)
    tl.store(out, sums)


@direct
@triton.jit
def finish_structure(
    d_rows, out, shares,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    WIDTH: tl.constexpr, LAGS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Adds up the shares of :func:`structure_gradient` and puts them in the order of the rows."""
    W: tl.constexpr = FIELDS * HP
    column, lag = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, LAGS)
    gate, unit = column // H, column % H
    place = place_of(unit // (HP // WN) * (W // WN) + gate * (HP // WN) + unit % (HP // WN), W, WN, E)
    mask = (lag < WIDTH)[:, None] & (column < GATES * H)[None, :]
    total = tl.zeros([LAGS, COLUMNS], tl.float32)
    for share in range(shares):
        total += tl.load(d_rows + (share * LAGS + lag)[:, None] * W + place[None, :], mask=mask, other=0)
    tl.store(out + lag[:, None] * (GATES * H) + column[None, :], total, mask=mask)
