"""The fused kernels for an LSTM of more than 64 channels, field by field: one layer forward, and one backward, which is
for more than 32 in 16 bits.

They do what those of :mod:`pggnn.ops.triton.recurrence` do, with the same arguments. There a step's gates fill the
registers; here those of one field do not, and what a step reads is loaded ahead, once registers are free for it.
What is multiplied at a step is carried over from the step before in the operands' type: Triton then lets the matrix
units read it from shared memory, instead of spreading it over registers first.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.cells import sigmoid, tanh
from pggnn.ops.triton.index import blocks_of, sequences_of
from pggnn.ops.triton.layout import assembled, fragment, held_rows, join_fields, taken_apart
from pggnn.ops.triton.recurrence import VARYING, row_read


@triton.jit
def fetch(pointer, size):
    """Prefetches ``size`` bytes into the cache, by one thread; needs compute capability 9."""
    tl.inline_asm_elementwise(
        """{
        .reg .pred first;
        mov.u32 $0, %tid.x;
        setp.eq.u32 first, $0, 0;
        @first cp.async.bulk.prefetch.L2.global [$1], $2;
        }""",
        "=r,l,r", [pointer.to(tl.int64), size], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def put(pointers, values, B: tl.constexpr, N: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    """Stores a tile that is not read again soon: it leaves the cache first, and the table of gate rows stays."""
    tl.store(pointers, taken_apart(values, B, N, WN, E), eviction_policy="evict_first")


@triton.jit(do_not_specialize=VARYING)
def forward_fields(
    table, table_rows, below, weight_ih, weight_hh, bias,
    node_of, first, degree, start, offset, acts, cells, hidden, last, carry_in, carry_out,
    codes, first_step, structure, total, first_sequence, t_begin, root,
    HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, CELL: tl.constexpr,
    GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    SOURCE: tl.constexpr, KEEP: tl.constexpr, TOP: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr, LAGS: tl.constexpr,
    STRIDE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Runs one layer over a tile, see :func:`~pggnn.ops.triton.recurrence.forward_layer`; ``SOURCE`` is never
    ``"below"``, and there are no ``LAGS``."""
    W: tl.constexpr = FIELDS * HP
    F: tl.constexpr = HP // WN
    rows = held_rows(B, WN)
    sequence, valid, node, n, steps = sequences_of(rows, node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT)
    base, blocks = blocks_of(offset, B)
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    k = tl.arange(0, HP)
    spread = fragment(HP, B, HP, WN, E)
    field_spread = fragment(W, B, HP, WN, E, FIELDS)
    in_order = fragment(0, B, HP, WN, 2)
    kept = (tl.program_id(0) * B + rows) * (2 * HP) + in_order
    hidden += base * HP
    cells += base * HP
    acts += base * W
    below += base * W

    h = tl.zeros([B, HP], dtype)
    c = tl.zeros([B, HP], tl.float32)
    if RESUMES:
        h = assembled(tl.load(carry_in + kept), B, HP, WN).to(dtype)
        c = assembled(tl.load(carry_in + kept + HP), B, HP, WN)
    if KEEP:
        put(hidden + spread, h, B, HP, WN, E)
        put(cells + spread, c.to(dtype), B, HP, WN, E)

    w = weight_hh + (k // F * (W // WN) + k % F)[None, :] * HP + k[:, None]
    read = (k < blocks * W)[None, :]  # a tile without sequences needs no weights
    w_i = tl.load(w, mask=read, other=0)
    w_f = tl.load(w + F * HP, mask=read, other=0)
    w_g = tl.load(w + 2 * F * HP, mask=read, other=0)
    w_o = tl.load(w + 3 * F * HP, mask=read, other=0)
    if SOURCE == "table":
        slots = tl.load(start + node)
        i = sequence - tl.load(first + node)
        columns = fragment(0, B, HP, WN, E, FIELDS)
        row = row_read(table_rows, root, node, slots, i, t_begin, n, steps, GROUP, FRAME, LIMIT)
        ahead = table + row.to(tl.int64) * W + columns
        row = row_read(table_rows, root, node, slots, i, t_begin + 1, n, steps, GROUP, FRAME, LIMIT).to(tl.int32)
    else:
        ahead = below + field_spread
    x_i = tl.load(ahead)
    x_g = tl.load(ahead + 2 * F)
    x_f = tl.load(ahead + F)
    x_o = tl.load(ahead + 3 * F)
    if TOP:
        first_end = tl.min(tl.where(valid, steps, 2147483647))

    for b in range(blocks):
        t = t_begin + b
        if SOURCE == "table":
            ahead = table + row.to(tl.int64) * W + columns
        else:
            below += tl.where(b + 1 < blocks, B * W, 0)
            ahead = below + field_spread
        gates = assembled(x_i, B, HP, WN).to(tl.float32)
        x_i = tl.load(ahead)
        i_t = sigmoid(tl.dot(h, w_i, acc=gates, input_precision=PRECISION), FAST)
        if KEEP:
            put(acts + field_spread, i_t.to(dtype), B, HP, WN, E)
        gates = assembled(x_g, B, HP, WN).to(tl.float32)
        x_g = tl.load(ahead + 2 * F)
        g_t = tanh(tl.dot(h, w_g, acc=gates, input_precision=PRECISION), FAST)
        if KEEP:
            put(acts + 2 * F + field_spread, g_t.to(dtype), B, HP, WN, E)
        gates = assembled(x_f, B, HP, WN).to(tl.float32)
        x_f = tl.load(ahead + F)
        f_t = sigmoid(tl.dot(h, w_f, acc=gates, input_precision=PRECISION), FAST)
        if KEEP:
            put(acts + F + field_spread, f_t.to(dtype), B, HP, WN, E)
        runs = assembled(tl.broadcast_to(t < steps, [4, 8, B // 16, WN, 2, F // 4 // E, E]), B, HP, WN)
        c = tl.where(runs, f_t * c + i_t * g_t, c)
        if KEEP:
            cells += B * HP
            put(cells + spread, c.to(dtype), B, HP, WN, E)
        gates = assembled(x_o, B, HP, WN).to(tl.float32)
        x_o = tl.load(ahead + 3 * F)
        if SOURCE == "table":
            row = row_read(table_rows, root, node, slots, i, t + 2, n, steps, GROUP, FRAME, LIMIT).to(tl.int32)
        o_t = sigmoid(tl.dot(h, w_o, acc=gates, input_precision=PRECISION), FAST)
        if KEEP:
            put(acts + 3 * F + field_spread, o_t.to(dtype), B, HP, WN, E)
            acts += B * W
        new = o_t * tanh(c, FAST)
        h = new.to(dtype)
        if KEEP or not TOP:
            hidden += B * HP
            put(hidden + spread, h, B, HP, WN, E)
        if TOP:
            out = last + sequence.to(tl.int64) * HP + in_order
            if t + 1 >= first_end:
                tl.store(out, taken_apart(new, B, HP, WN, 2), mask=t + 1 == steps)
    if PAUSES:
        tl.store(carry_out + kept, taken_apart(h.to(tl.float32), B, HP, WN, 2))
        tl.store(carry_out + kept + HP, taken_apart(c, B, HP, WN, 2))


@triton.jit(do_not_specialize=VARYING)
def backward_fields(
    d_out, d_hidden, d_below, weight_ih, weight_hh, node_of, degree, offset, acts, d_acts, cells, hidden, carry,
    total, first_sequence, t_begin,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    CELL: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    TOP: tl.constexpr, PROJECTS: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr, FETCHES: tl.constexpr,
):  # fmt: skip
    """Runs one layer back over a tile, see :func:`~pggnn.ops.triton.recurrence.backward_layer`. A step begins with
    the products that the step before ends with there, and ``FETCHES`` into the cache what the next one reads."""
    W: tl.constexpr = FIELDS * HP
    F: tl.constexpr = HP // WN
    rows = held_rows(B, WN)
    _, valid, node, _, steps = sequences_of(rows, node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT)
    base, blocks = blocks_of(offset, B)
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    k, col = tl.arange(0, HP), tl.arange(0, W)
    spread = fragment(HP, B, HP, WN, E)
    field_spread = fragment(W, B, HP, WN, E, FIELDS)
    in_order = fragment(0, B, HP, WN, 2)
    kept = (tl.program_id(0) * B + rows) * (2 * HP) + in_order
    past = base + blocks * B
    cells += past * HP
    acts += past * W
    d_acts += past * W
    d_hidden += past * HP
    d_below += past * HP

    d = tl.zeros([B, W], dtype)
    dc = tl.zeros([B, HP], tl.float32)
    if RESUMES:
        dc = assembled(tl.load(carry + kept + HP), B, HP, WN)
    put(d_acts + fragment(W, B, W, WN, E), d, B, W, WN, E)
    read = (col < blocks * W)[:, None]  # a tile without sequences needs no weights
    w = tl.load(weight_hh + col[:, None] * HP + k[None, :], mask=read, other=0)
    if PROJECTS:
        v = tl.load(weight_ih + col[:, None] * HP + k[None, :], mask=read, other=0)
    if TOP:
        first_end = tl.min(tl.where(valid, steps, 2147483647))
    after = tl.load(cells + spread)
    earlier = tl.where(blocks > 0, B, 0)
    cells -= earlier * HP
    acts -= earlier * W
    d_hidden -= earlier * HP
    if not TOP:
        upper = tl.load(d_hidden + spread)
    before = tl.load(cells + spread)

    for back in range(blocks):
        t = t_begin + blocks - 1 - back
        earlier = tl.where(t > t_begin, B, 0)
        if PROJECTS:
            put(d_below + spread, tl.dot(d, v, input_precision=PRECISION).to(dtype), B, HP, WN, E)
            d_below -= B * HP
        o = tl.load(acts + 3 * F + field_spread)
        i = tl.load(acts + field_spread)
        g = tl.load(acts + 2 * F + field_spread)
        f = tl.load(acts + F + field_spread)
        cells -= earlier * HP
        acts -= earlier * W
        d_hidden -= earlier * HP
        d_acts -= B * W
        if FETCHES:
            fetch(acts, W * B * 2)
        dh = tl.dot(d, w, input_precision=PRECISION)
        if RESUMES:
            carried = carry + kept
            if back == 0:
                dh += assembled(tl.load(carried), B, HP, WN)
        if TOP:
            if t + 1 >= first_end:
                here = d_out + node.to(tl.int64) * H + in_order
                ends = tl.load(here, mask=(t + 1 == steps) & (in_order < H), other=0)
                dh += assembled(ends, B, HP, WN).to(tl.float32)
        else:
            dh += assembled(upper, B, HP, WN).to(tl.float32)
            upper = tl.load(d_hidden + spread)
        o_t = assembled(o, B, HP, WN).to(tl.float32)
        squashed = tanh(assembled(after, B, HP, WN).to(tl.float32), FAST)
        d_o = (dh * squashed * (o_t - o_t * o_t)).to(dtype)
        put(d_acts + 3 * F + field_spread, d_o, B, HP, WN, E)
        d_cell = dc + dh * o_t * (1 - squashed * squashed)
        i_t = assembled(i, B, HP, WN).to(tl.float32)
        g_t = assembled(g, B, HP, WN).to(tl.float32)
        d_i = (d_cell * g_t * (i_t - i_t * i_t)).to(dtype)
        put(d_acts + field_spread, d_i, B, HP, WN, E)
        d_g = (d_cell * i_t * (1 - g_t * g_t)).to(dtype)
        put(d_acts + 2 * F + field_spread, d_g, B, HP, WN, E)
        f_t = assembled(f, B, HP, WN).to(tl.float32)
        after = before
        before = tl.load(cells + spread)
        d_f = (d_cell * assembled(after, B, HP, WN).to(tl.float32) * (f_t - f_t * f_t)).to(dtype)
        put(d_acts + F + field_spread, d_f, B, HP, WN, E)
        dc = d_cell * f_t
        d = join_fields(d_i, d_f, d_g, d_o, B, HP, WN)
    if PROJECTS:
        put(d_below + spread, tl.dot(d, v, input_precision=PRECISION).to(dtype), B, HP, WN, E)
    if PAUSES:
        tl.store(carry + kept, taken_apart(tl.dot(d, w, input_precision=PRECISION), B, HP, WN, 2))
        tl.store(carry + kept + HP, taken_apart(dc, B, HP, WN, 2))
