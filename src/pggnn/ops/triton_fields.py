"""The fused kernels for an LSTM of more than 64 channels, field by field: one layer forward, and one backward.

They do what those of :mod:`pggnn.ops.triton_recurrence` do, with the same arguments. There a step's gates fill the
registers; here those of one field do not, and what a step reads is asked for ahead, where registers are free for it.
What is multiplied at a step is carried over from the step before in the operands' type: Triton then lets the matrix
units read it from shared memory, instead of spreading it over registers first. A program goes through every so many
of the ``tiles``, so that it reads the weights once for all of them.
"""

import triton
import triton.language as tl

from pggnn.ops.triton_cells import sigmoid, tanh
from pggnn.ops.triton_index import blocks_of, sequences_of
from pggnn.ops.triton_layout import assembled, fragment, held_rows, join_fields, taken_apart
from pggnn.ops.triton_recurrence import VARYING, row_read


@triton.jit
def fetch(pointer, size):
    """Has so many bytes brought into the cache, for which one thread asks; needs compute capability 9."""
    tl.inline_asm_elementwise(
        """{
        .reg .pred first;
        mov.u32 $0, %tid.x;
        setp.eq.u32 first, $0, 0;
        @first cp.async.bulk.prefetch.L2.global [$1], $2;
        }""",
        "=r,l,r", [pointer.to(tl.int64), size], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=[*VARYING, "tiles"])
def forward_fields(
    table, table_rows, below, weight_ih, weight_hh, bias,
    node_of, first, degree, start, offset, acts, cells, hidden, last, carry_in, carry_out,
    codes, first_step, structure, total, first_sequence, t_begin, root, tiles,
    HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, CELL: tl.constexpr,
    FORM: tl.constexpr, LIMIT: tl.constexpr, SOURCE: tl.constexpr, KEEP: tl.constexpr, TOP: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr, LAGS: tl.constexpr,
    STRIDE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Runs one layer over tiles, see :func:`~pggnn.ops.triton_recurrence.forward_layer`; ``SOURCE`` is never
    ``"below"``, and there are no ``LAGS``."""
    W: tl.constexpr = FIELDS * HP
    F: tl.constexpr = HP // WN
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    rows, k = held_rows(B, WN), tl.arange(0, HP)
    spread = fragment(HP, B, HP, WN, E)
    field_spread = fragment(W, B, HP, WN, E, FIELDS)
    in_order = fragment(0, B, HP, WN, 2)
    columns = fragment(0, B, HP, WN, E, FIELDS)
    most = blocks_of(tl.program_id(0), offset, B)[1]
    w = weight_hh + (k // F * (W // WN) + k % F)[None, :] * HP + k[:, None]
    read = (k < most * W)[None, :]  # without sequences there is no need for weights
    w_i = tl.load(w, mask=read, other=0)
    w_f = tl.load(w + F * HP, mask=read, other=0)
    w_g = tl.load(w + 2 * F * HP, mask=read, other=0)
    w_o = tl.load(w + 3 * F * HP, mask=read, other=0)

    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        sequence, valid, node, n, steps = sequences_of(
            tile, rows, node_of, degree, total, first_sequence, B, FORM, LIMIT
        )
        base, blocks = blocks_of(tile, offset, B)
        kept = (tile * B + rows) * (2 * HP) + in_order
        hidden_at = hidden + base * HP
        cells_at = cells + base * HP
        acts_at = acts + base * W
        below_at = below + base * W

        h = tl.zeros([B, HP], dtype)
        c = tl.zeros([B, HP], tl.float32)
        if RESUMES:
            h = assembled(tl.load(carry_in + kept), B, HP, WN).to(dtype)
            c = assembled(tl.load(carry_in + kept + HP), B, HP, WN)
        if KEEP:
            tl.store(hidden_at + spread, taken_apart(h, B, HP, WN, E), eviction_policy="evict_first")
            tl.store(cells_at + spread, taken_apart(c.to(dtype), B, HP, WN, E), eviction_policy="evict_first")
        if SOURCE == "table":
            slots = tl.load(start + node)
            i = sequence - tl.load(first + node)
            row = row_read(table_rows, root, node, slots, i, t_begin, n, steps, FORM, LIMIT)
            ahead = table + row.to(tl.int64) * W + columns
            row = row_read(table_rows, root, node, slots, i, t_begin + 1, n, steps, FORM, LIMIT).to(tl.int32)
        else:
            ahead = below_at + field_spread
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
                below_at += tl.where(b + 1 < blocks, B * W, 0)
                ahead = below_at + field_spread
            gates = assembled(x_i, B, HP, WN).to(tl.float32)
            x_i = tl.load(ahead)
            i_t = sigmoid(tl.dot(h, w_i, acc=gates, input_precision=PRECISION), FAST)
            if KEEP:
                tl.store(
                    acts_at + field_spread, taken_apart(i_t.to(dtype), B, HP, WN, E), eviction_policy="evict_first"
                )
            gates = assembled(x_g, B, HP, WN).to(tl.float32)
            x_g = tl.load(ahead + 2 * F)
            g_t = tanh(tl.dot(h, w_g, acc=gates, input_precision=PRECISION), FAST)
            if KEEP:
                tl.store(
                    acts_at + 2 * F + field_spread,
                    taken_apart(g_t.to(dtype), B, HP, WN, E),
                    eviction_policy="evict_first",
                )
            gates = assembled(x_f, B, HP, WN).to(tl.float32)
            x_f = tl.load(ahead + F)
            f_t = sigmoid(tl.dot(h, w_f, acc=gates, input_precision=PRECISION), FAST)
            if KEEP:
                tl.store(
                    acts_at + F + field_spread, taken_apart(f_t.to(dtype), B, HP, WN, E), eviction_policy="evict_first"
                )
            runs = assembled(tl.broadcast_to(t < steps, [4, 8, B // 16, WN, 2, F // 4 // E, E]), B, HP, WN)
            c = tl.where(runs, f_t * c + i_t * g_t, c)
            if KEEP:
                cells_at += B * HP
                tl.store(cells_at + spread, taken_apart(c.to(dtype), B, HP, WN, E), eviction_policy="evict_first")
            gates = assembled(x_o, B, HP, WN).to(tl.float32)
            x_o = tl.load(ahead + 3 * F)
            if SOURCE == "table":
                row = row_read(table_rows, root, node, slots, i, t + 2, n, steps, FORM, LIMIT).to(tl.int32)
            o_t = sigmoid(tl.dot(h, w_o, acc=gates, input_precision=PRECISION), FAST)
            if KEEP:
                tl.store(
                    acts_at + 3 * F + field_spread,
                    taken_apart(o_t.to(dtype), B, HP, WN, E),
                    eviction_policy="evict_first",
                )
                acts_at += B * W
            new = o_t * tanh(c, FAST)
            h = new.to(dtype)
            if KEEP or not TOP:
                hidden_at += B * HP
                tl.store(hidden_at + spread, taken_apart(h, B, HP, WN, E), eviction_policy="evict_first")
            if TOP:
                out = last + sequence.to(tl.int64) * HP + in_order
                if t + 1 >= first_end:
                    tl.store(out, taken_apart(new, B, HP, WN, 2), mask=t + 1 == steps)
        if PAUSES:
            tl.store(carry_out + kept, taken_apart(h.to(tl.float32), B, HP, WN, 2))
            tl.store(carry_out + kept + HP, taken_apart(c, B, HP, WN, 2))


@triton.jit(do_not_specialize=[*VARYING, "tiles"])
def backward_fields(
    d_out, d_hidden, d_below, weight_ih, weight_hh, node_of, degree, offset, acts, d_acts, cells, hidden, carry,
    total, first_sequence, t_begin, tiles,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    CELL: tl.constexpr, FORM: tl.constexpr, LIMIT: tl.constexpr, TOP: tl.constexpr, PROJECTS: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr, FETCHES: tl.constexpr,
):  # fmt: skip
    """Runs one layer back over tiles, see :func:`~pggnn.ops.triton_recurrence.backward_layer`; it never
    ``PROJECTS``. A step begins with the product that the step before ends with there, and ``FETCHES`` into the cache
    what the next one reads."""
    W: tl.constexpr = FIELDS * HP
    F: tl.constexpr = HP // WN
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    rows, k, col = held_rows(B, WN), tl.arange(0, HP), tl.arange(0, W)
    spread = fragment(HP, B, HP, WN, E)
    field_spread = fragment(W, B, HP, WN, E, FIELDS)
    in_order = fragment(0, B, HP, WN, 2)
    most = blocks_of(tl.program_id(0), offset, B)[1]
    read = (col < most * W)[:, None]  # without sequences there is no need for weights
    w = tl.load(weight_hh + col[:, None] * HP + k[None, :], mask=read, other=0)

    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        _, valid, node, _, steps = sequences_of(tile, rows, node_of, degree, total, first_sequence, B, FORM, LIMIT)
        base, blocks = blocks_of(tile, offset, B)
        kept = (tile * B + rows) * (2 * HP) + in_order
        past = base + blocks * B
        cells_at = cells + past * HP
        acts_at = acts + past * W
        d_acts_at = d_acts + past * W
        d_hidden_at = d_hidden + past * HP

        d = tl.zeros([B, W], dtype)
        dc = tl.zeros([B, HP], tl.float32)
        if RESUMES:
            dc = assembled(tl.load(carry + kept + HP), B, HP, WN)
        tl.store(d_acts_at + fragment(W, B, W, WN, E), taken_apart(d, B, W, WN, E), eviction_policy="evict_first")
        if TOP:
            first_end = tl.min(tl.where(valid, steps, 2147483647))
        after = tl.load(cells_at + spread)
        earlier = tl.where(blocks > 0, B, 0)
        cells_at -= earlier * HP
        acts_at -= earlier * W
        d_hidden_at -= earlier * HP
        if not TOP:
            upper = tl.load(d_hidden_at + spread)
        before = tl.load(cells_at + spread)

        for back in range(blocks):
            t = t_begin + blocks - 1 - back
            earlier = tl.where(t > t_begin, B, 0)
            o = tl.load(acts_at + 3 * F + field_spread)
            i = tl.load(acts_at + field_spread)
            g = tl.load(acts_at + 2 * F + field_spread)
            f = tl.load(acts_at + F + field_spread)
            cells_at -= earlier * HP
            acts_at -= earlier * W
            d_hidden_at -= earlier * HP
            d_acts_at -= B * W
            if FETCHES:
                fetch(acts_at, W * B * 2)
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
                upper = tl.load(d_hidden_at + spread)
            o_t = assembled(o, B, HP, WN).to(tl.float32)
            squashed = tanh(assembled(after, B, HP, WN).to(tl.float32), FAST)
            d_o = (dh * squashed * (o_t - o_t * o_t)).to(dtype)
            tl.store(d_acts_at + 3 * F + field_spread, taken_apart(d_o, B, HP, WN, E), eviction_policy="evict_first")
            d_cell = dc + dh * o_t * (1 - squashed * squashed)
            i_t = assembled(i, B, HP, WN).to(tl.float32)
            g_t = assembled(g, B, HP, WN).to(tl.float32)
            d_i = (d_cell * g_t * (i_t - i_t * i_t)).to(dtype)
            tl.store(d_acts_at + field_spread, taken_apart(d_i, B, HP, WN, E), eviction_policy="evict_first")
            d_g = (d_cell * i_t * (1 - g_t * g_t)).to(dtype)
            tl.store(d_acts_at + 2 * F + field_spread, taken_apart(d_g, B, HP, WN, E), eviction_policy="evict_first")
            f_t = assembled(f, B, HP, WN).to(tl.float32)
            after = before
            before = tl.load(cells_at + spread)
            d_f = (d_cell * assembled(after, B, HP, WN).to(tl.float32) * (f_t - f_t * f_t)).to(dtype)
            tl.store(d_acts_at + F + field_spread, taken_apart(d_f, B, HP, WN, E), eviction_policy="evict_first")
            dc = d_cell * f_t
            d = join_fields(d_i, d_f, d_g, d_o, B, HP, WN)
        if PAUSES:
            tl.store(carry + kept, taken_apart(tl.dot(d, w, input_precision=PRECISION), B, HP, WN, 2))
            tl.store(carry + kept + HP, taken_apart(dc, B, HP, WN, 2))
