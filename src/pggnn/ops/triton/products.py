"""The gradients of a linear map's weight and bias, in one launch: sums over all rows, in a fixed order."""

import triton
import triton.language as tl

from pggnn.ops.triton.launch import direct


@direct
@triton.jit(do_not_specialize=["rows"])
def linear_gradient(
    d_out, x, parts, arrived, d_weight, d_bias, rows, outs, ins,
    BO: tl.constexpr, BI: tl.constexpr, ROWS: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``d_weight`` is ``d_outᵀ x`` and ``d_bias`` the sum of ``d_out``.

    Program (tile of the weight, share of the rows). Each leaves its part in ``parts``, ``[tiles, shares, BI + 1, BO]``,
    and the last of a tile to arrive adds them up, share by share. ``arrived`` counts them: zeros before and after.
    """
    tile, share, shares = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    across = tl.cdiv(ins, BI)
    o, i = tile // across * BO + tl.arange(0, BO), tile % across * BI + tl.arange(0, BI)
    total, bias = tl.zeros([BI, BO], tl.float32), tl.zeros([BO], tl.float32)
    for begin in range(share * ROWS, rows, shares * ROWS):
        row = (begin + tl.arange(0, ROWS)).to(tl.int64)
        there = row < rows
        d = tl.load(d_out + row[:, None] * outs + o[None, :], mask=there[:, None] & (o < outs)[None, :], other=0)
        h = tl.load(x + row[:, None] * ins + i[None, :], mask=there[:, None] & (i < ins)[None, :], other=0)
        total = tl.dot(tl.trans(h), d, acc=total, input_precision=PRECISION)
        if BIAS:
            bias += tl.sum(d, 0)
    size: tl.constexpr = (BI + 1) * BO
    first = parts + tile * shares * size
    column, at = tl.arange(0, BO), tl.arange(0, BI)[:, None] * BO + tl.arange(0, BO)[None, :]
    tl.store(first + share * size + at, total)
    if BIAS:
        tl.store(first + share * size + BI * BO + column, bias)
    tl.debug_barrier()  # all of this program's part is written before it counts
    if tl.atomic_add(arrived + tile, 1, sem="acq_rel") == shares - 1:
        tl.debug_barrier()
        total, bias = tl.zeros([BI, BO], tl.float32), tl.zeros([BO], tl.float32)
        for other in tl.range(shares, loop_unroll_factor=8):
            total += tl.load(first + other * size + at, cache_modifier=".cg")
            if BIAS:
                bias += tl.load(first + other * size + BI * BO + column, cache_modifier=".cg")
        tl.store(d_weight + o[None, :] * ins + i[:, None], total, mask=(o < outs)[None, :] & (i < ins)[:, None])
        if BIAS and tile % across == 0:
            tl.store(d_bias + o, bias, mask=o < outs)
        tl.store(arrived + tile, 0)
