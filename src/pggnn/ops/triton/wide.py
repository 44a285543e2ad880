"""The fused kernels for layers whose weights have no room in shared memory: one recurrent layer forward, one backward.

They do what those of :mod:`pggnn.ops.triton.recurrence` do, with the same arguments, block of units by block of units:
at every step a program reads the weights of one block after the other from the cache, and the state of its tile, which
has no room in registers either, from memory. Rows lie in memory by (block, field, unit), ``WN`` being the number of
blocks. The state that a step adds to, in float32, is what a pause would carry over: it lies in ``carry_out`` and
``carry``, a pause or not.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.cells import activation, activation_slope, sigmoid, tanh
from pggnn.ops.triton.index import blocks_of, sequences_of
from pggnn.ops.triton.launch import direct
from pggnn.ops.triton.layout import join_fields, split_fields
from pggnn.ops.triton.recurrence import VARYING, row_read
from pggnn.ops.triton.structure import first_code, load_code


@direct
@triton.jit(do_not_specialize=VARYING)
def forward_wide(
    table, table_rows, below, weight_ih, weight_hh, bias,
    node_of, first, degree, start, offset, acts, cells, hidden, last, carry_in, carry_out,
    codes, first_step, structure, total, first_sequence, t_begin, root,
    HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, CELL: tl.constexpr,
    GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    SOURCE: tl.constexpr, KEEP: tl.constexpr, TOP: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr, LAGS: tl.constexpr,
    STRIDE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Runs one layer over a tile, see :func:`~pggnn.ops.triton.recurrence.forward_layer`; ``hidden`` is always
    written, and ``SOURCE`` is never ``"below"``."""
    W: tl.constexpr = FIELDS * HP
    U: tl.constexpr = HP // WN
    G: tl.constexpr = FIELDS * U
    tile = tl.program_id(0)
    r, k, u, col = tl.arange(0, B), tl.arange(0, HP), tl.arange(0, U), tl.arange(0, G)
    part = tl.arange(0, 64)
    sequence, _, node, n, steps = sequences_of(r, node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT)
    base, blocks = blocks_of(offset, B)
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    narrow = r[:, None] * HP + u[None, :]
    wide = r[:, None] * W + col[None, :]
    carried = tile.to(tl.int64) * (B * 2 * HP) + r[:, None] * (2 * HP) + u[None, :]
    state = carry_out + carried
    hidden += base * HP
    cells += base * HP
    acts += base * W
    below += base * W
    last += sequence.to(tl.int64)[:, None] * HP + u[None, :]
    if SOURCE == "table":
        i = sequence - tl.load(first + node)
        slots = tl.load(start + node)
        if LAGS > 0:
            code_at = first_code(first_step, node, i, n, GROUP, FRAME, LIMIT)

    for j in range(WN):
        h = tl.zeros([B, U], tl.float32)
        c = tl.zeros([B, U], tl.float32)
        if RESUMES:
            h = tl.load(carry_in + carried + j * U)
            if CELL == "lstm":
                c = tl.load(carry_in + carried + HP + j * U)
        tl.store(hidden + narrow + j * U, h.to(dtype))
        if CELL == "gru":
            tl.store(state + j * U, h)
        if CELL == "lstm":
            tl.store(state + HP + j * U, c)
            if KEEP:
                tl.store(cells + narrow + j * U, c.to(dtype))

    for b in range(blocks):
        t = t_begin + b
        tl.debug_barrier()
        if PRECISION != "tf32x3":
            before = tl.load(hidden + r[:, None] * HP + k[None, :])
        runs = (t < steps)[:, None]
        ends = (t + 1 == steps)[:, None]
        if SOURCE == "table":
            row = row_read(table_rows, root, node, slots, i, t, n, steps, GROUP, FRAME, LIMIT).to(tl.int64)
            if LAGS > 0:
                word = load_code(codes, code_at + t, t < steps, STRIDE)
        for j in range(WN):
            if SOURCE == "table":
                x = tl.load(table + row[:, None] * W + j * G + col[None, :])
            else:
                x = tl.load(below + wide + j * G)
            h = tl.load((state if CELL == "gru" else hidden + narrow) + j * U).to(tl.float32)
            if CELL == "lstm":
                c = tl.load(state + HP + j * U)
            if PRECISION == "tf32x3":
                # The two parts of a whole row have no room in registers.
                gates = x
                for at in range(0, HP, 64):
                    w = tl.load(weight_hh + (j * G + col)[None, :] * HP + at + part[:, None])
                    before = tl.load(hidden + r[:, None] * HP + at + part[None, :])
                    gates = tl.dot(before, w, acc=gates, input_precision=PRECISION)
            else:
                w = tl.load(weight_hh + (j * G + col)[None, :] * HP + k[:, None])
                gates = tl.dot(before, w, input_precision=PRECISION) + x.to(tl.float32)
            if LAGS > 0:
                for bit in tl.static_range(WIDTH):
                    added = tl.load(structure + bit * W + j * G + col).to(tl.float32)
                    gates += ((word >> bit) & 1).to(tl.float32)[:, None] * added[None, :]
            if CELL == "lstm":
                i_t, f_t, g_t, o_t = split_fields(gates, B, U, 1)
                i_t, f_t, g_t, o_t = sigmoid(i_t, FAST), sigmoid(f_t, FAST), tanh(g_t, FAST), sigmoid(o_t, FAST)
                kept = join_fields(i_t.to(dtype), f_t.to(dtype), g_t.to(dtype), o_t.to(dtype), B, U, 1)
                c = tl.where(runs, f_t * c + i_t * g_t, c)
                new = o_t * tanh(c, FAST)
                tl.store(state + HP + j * U, c)
                if KEEP:
                    tl.store(cells + B * HP + narrow + j * U, c.to(dtype))
            elif CELL == "gru":
                r_t, z_t, x_t, q_t = split_fields(gates, B, U, 1)
                r_t, z_t = sigmoid(r_t, FAST), sigmoid(z_t, FAST)
                n_t = tanh(x_t + r_t * q_t, FAST)
                kept = join_fields(r_t.to(dtype), z_t.to(dtype), n_t.to(dtype), q_t.to(dtype), B, U, 1)
                new = n_t + z_t * (h - n_t)
            else:
                new = activation(gates, CELL, FAST)
                kept = new.to(dtype)
            h = tl.where(runs, new, h)
            tl.store(hidden + B * HP + narrow + j * U, h.to(dtype))
            if CELL == "gru":
                tl.store(state + j * U, h)
            if KEEP:
                tl.store(acts + wide + j * G, kept)
            if TOP:
                tl.store(last + j * U, h, mask=ends)
        hidden += B * HP
        cells += B * HP
        acts += B * W
        below += B * W
    if PAUSES and CELL != "gru":
        tl.debug_barrier()
        for j in range(WN):
            tl.store(state + j * U, tl.load(hidden + narrow + j * U).to(tl.float32))


@direct
@triton.jit(do_not_specialize=VARYING)
def backward_wide(
    d_out, d_hidden, d_below, weight_ih, weight_hh, node_of, degree, offset, acts, d_acts, cells, hidden, carry,
    total, first_sequence, t_begin,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    CELL: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    TOP: tl.constexpr, PROJECTS: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Runs one layer back over a tile, see :func:`~pggnn.ops.triton.recurrence.backward_layer`; it never
    ``PROJECTS``. ``carry`` holds the state's gradient through the gates, and past them: through c, or a GRU's z."""
    W: tl.constexpr = FIELDS * HP
    U: tl.constexpr = HP // WN
    G: tl.constexpr = FIELDS * U
    tile = tl.program_id(0)
    r, k, u, col = tl.arange(0, B), tl.arange(0, HP), tl.arange(0, U), tl.arange(0, G)
    _, _, node, _, steps = sequences_of(r, node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT)
    base, blocks = blocks_of(offset, B)
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    narrow = r[:, None] * HP + u[None, :]
    wide = r[:, None] * W + col[None, :]
    state = carry + tile.to(tl.int64) * (B * 2 * HP) + r[:, None] * (2 * HP)
    past = base + blocks * B
    hidden += past * HP
    cells += past * HP
    acts += past * W
    d_acts += past * W
    d_hidden += past * HP
    d_out += node.to(tl.int64)[:, None] * H + u[None, :]

    for j in range(WN):
        tl.store(d_acts + wide + j * G, tl.zeros([B, G], dtype))
        if not RESUMES:
            tl.store(state + u[None, :] + j * U, tl.zeros([B, U], tl.float32))
            tl.store(state + u[None, :] + HP + j * U, tl.zeros([B, U], tl.float32))

    for back in range(blocks):
        t = t_begin + blocks - 1 - back
        hidden -= B * HP
        cells -= B * HP
        acts -= B * W
        d_acts -= B * W
        d_hidden -= B * HP
        ends = (t + 1 == steps)[:, None]
        d_state = tl.zeros([B, HP], tl.float32)
        tl.debug_barrier()
        for j in range(WN):
            w = tl.load(weight_hh + (j * G + col)[:, None] + k[None, :] * W)
            dh = tl.load(state + u[None, :] + j * U)
            if TOP:
                dh += tl.load(d_out + j * U, mask=ends & (u + j * U < H)[None, :], other=0).to(tl.float32)
            else:
                dh += tl.load(d_hidden + narrow + j * U).to(tl.float32)
            if FIELDS > 1:
                d_past = tl.load(state + u[None, :] + HP + j * U)
                fields = tl.load(acts + wide + j * G).to(tl.float32)
            if CELL == "lstm":
                i_t, f_t, g_t, o_t = split_fields(fields, B, U, 1)
                squashed = tanh(tl.load(cells + B * HP + narrow + j * U).to(tl.float32), FAST)
                before = tl.load(cells + narrow + j * U).to(tl.float32)
                d_cell = d_past + dh * o_t * (1 - squashed * squashed)
                d_i = d_cell * g_t * i_t * (1 - i_t)
                d_f = d_cell * before * f_t * (1 - f_t)
                d_g = d_cell * i_t * (1 - g_t * g_t)
                d_o = dh * squashed * o_t * (1 - o_t)
                d_past = d_cell * f_t
                d = join_fields(d_i.to(dtype), d_f.to(dtype), d_g.to(dtype), d_o.to(dtype), B, U, 1)
            elif CELL == "gru":
                r_t, z_t, n_t, q_t = split_fields(fields, B, U, 1)
                before = tl.load(hidden + narrow + j * U).to(tl.float32)
                dh += d_past
                d_n = dh * (1 - z_t) * (1 - n_t * n_t)
                d_q = d_n * r_t
                d_r = d_q * q_t * (1 - r_t)
                d_z = dh * (before - n_t) * z_t * (1 - z_t)
                d_past = dh * z_t
                d = join_fields(d_r.to(dtype), d_z.to(dtype), d_n.to(dtype), d_q.to(dtype), B, U, 1)
            else:
                after = tl.load(hidden + B * HP + narrow + j * U).to(tl.float32)
                d = (dh * activation_slope(after, CELL)).to(dtype)
            if FIELDS > 1:
                tl.store(state + u[None, :] + HP + j * U, d_past)
            tl.store(d_acts + wide + j * G, d)
            d_state = tl.dot(d, w, acc=d_state, input_precision=PRECISION)
        tl.debug_barrier()
        tl.store(state + k[None, :], d_state)
