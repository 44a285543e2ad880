"""The fused kernels: one recurrent layer forward, and one backward.

A *tile* is ``B`` sequences, sorted by falling length, that one program reads from beginning to end with the layer's
weights in shared memory and its state in registers. What the backward pass needs lies in blocks of ``B`` rows, one for
each step of a tile and one more: block b of ``hidden`` and ``cells`` is the state before step b, block b of ``acts``
is what the cell made of step b, block b of ``d_acts`` the gradient of its gates, the one more being zero.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.cells import activation, activation_slope, sigmoid, tanh
from pggnn.ops.triton.index import blocks_of, sequences_of, slot_read
from pggnn.ops.triton.launch import direct
from pggnn.ops.triton.layout import (
    assembled,
    fragment,
    held_rows,
    join_fields,
    split_fields,
    taken_apart,
)
from pggnn.ops.triton.structure import first_code, load_code

VARYING = ["first_sequence", "t_begin", "root"]
"""Numbers that differ from launch to launch: Triton is not to compile a kernel for each kind of them."""


@triton.jit
def row_read(
    table_rows, root, node, start, i, t, n, steps, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr
):
    """The gate row that each sequence reads at step ``t``; after its end, an arbitrary valid one."""
    neighbor = slot_read(i, t, n, GROUP, FRAME, LIMIT)
    at_neighbor = (t < steps) & (neighbor >= 0)
    row = tl.load(table_rows + start + neighbor, mask=at_neighbor, other=0)
    if (FRAME == "merged") | (FRAME == "after"):  # other frames need no rows of the centres
        row = tl.where(at_neighbor, row, root + node)
    return row


@direct
@triton.jit(do_not_specialize=VARYING)
def forward_layer(
    table, table_rows, below, weight_ih, weight_hh, bias,
    node_of, first, degree, start, offset, acts, cells, hidden, last, carry_in, carry_out,
    codes, first_step, structure, total, first_sequence, t_begin, root,
    HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, CELL: tl.constexpr,
    GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    SOURCE: tl.constexpr, KEEP: tl.constexpr, TOP: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr, LAGS: tl.constexpr,
    STRIDE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Runs one layer over a tile. ``SOURCE`` of its input: rows of ``table``, the hidden states ``below`` still to be
    multiplied by ``weight_ih``, or the product of the two in ``below``. What enters a sigmoid comes halved. Where there
    are ``LAGS``, each structural bit that is set adds its row of ``structure`` to one of ``table``."""
    W: tl.constexpr = FIELDS * HP
    r, k, col = tl.arange(0, B), tl.arange(0, HP), tl.arange(0, W)
    sequence, valid, nodes, degrees, steps = sequences_of(
        r, node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT
    )
    base, blocks = blocks_of(offset, B)
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    kept = (tl.program_id(0) * B + r)[:, None] * (2 * HP) + k[None, :]
    spread = fragment(HP, B, HP, WN, E)
    wide_spread = fragment(W, B, W, WN, E)
    hidden += base * HP
    cells += base * HP
    acts += base * W
    below += (base + B) * HP if SOURCE == "below" else base * W

    h = tl.zeros([B, HP], tl.float32)
    c = tl.zeros([B, HP], tl.float32)
    if RESUMES:
        h = tl.load(carry_in + kept)
        if CELL == "lstm":
            c = tl.load(carry_in + kept + HP)
    if KEEP:
        tl.store(hidden + spread, taken_apart(h.to(dtype), B, HP, WN, E))
        if CELL == "lstm":
            tl.store(cells + spread, taken_apart(c.to(dtype), B, HP, WN, E))

    read = col < blocks * W  # a tile without sequences needs no weights
    w = tl.load(weight_hh + col[None, :] * HP + k[:, None], mask=read[None, :], other=0)
    if SOURCE == "below":
        v = tl.load(weight_ih + col[None, :] * HP + k[:, None], mask=read[None, :], other=0)
    if SOURCE == "table":
        reader, _, node, n, ends = sequences_of(
            held_rows(B, WN), node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT
        )
        slots = tl.load(start + node)
        i = reader - tl.load(first + node)
        row = row_read(table_rows, root, node, slots, i, t_begin, n, ends, GROUP, FRAME, LIMIT)
        columns = fragment(0, B, W, WN, E)
        if LAGS > 0:
            number = sequence - tl.load(first + nodes)
            step = first_code(first_step, nodes, number, degrees, GROUP, FRAME, LIMIT)
            lag = tl.arange(0, LAGS)
            if WN == 1:
                s = tl.load(structure + lag[:, None] * W + col[None, :])

    for b in range(blocks):
        t = t_begin + b
        if SOURCE == "below":
            lower = assembled(tl.load(below + spread), B, HP, WN)
            below += B * HP
            gates = tl.dot(h.to(dtype), w, input_precision=PRECISION)
            gates = tl.dot(lower, v, acc=gates, input_precision=PRECISION)
            # Kept out of registers between the steps.
            gates += tl.load(bias + col, volatile=True)[None, :]
        else:
            if SOURCE == "table":
                x = tl.load(table + row.to(tl.int64) * W + columns)
                row = row_read(table_rows, root, node, slots, i, t + 1, n, ends, GROUP, FRAME, LIMIT)
            else:
                x = tl.load(below + wide_spread)
                below += B * W
            gates = tl.dot(h.to(dtype), w, input_precision=PRECISION)
            gates += assembled(x, B, W, WN).to(tl.float32)
            if LAGS > 0:
                word = load_code(codes, step + t, t < steps, STRIDE)
                if WN == 1:
                    bits = ((word[:, None] >> lag[None, :]) & 1).to(dtype)
                    gates = tl.dot(bits, s, acc=gates, input_precision=PRECISION)
                else:
                    # Two matrix products in a loop make Triton give all warps to the rows: too many for a tile.
                    for bit in tl.static_range(WIDTH):
                        added = tl.load(structure + bit * W + col, volatile=True).to(tl.float32)
                        gates += ((word >> bit) & 1).to(tl.float32)[:, None] * added[None, :]

        runs = (t < steps)[:, None]
        if CELL == "lstm":
            i_t, f_t, g_t, o_t = split_fields(gates, B, HP, WN)
            i_t, f_t, g_t, o_t = sigmoid(i_t, FAST), sigmoid(f_t, FAST), tanh(g_t, FAST), sigmoid(o_t, FAST)
            kept_fields = join_fields(i_t.to(dtype), f_t.to(dtype), g_t.to(dtype), o_t.to(dtype), B, HP, WN)
            c = tl.where(runs, f_t * c + i_t * g_t, c)
            new = o_t * tanh(c, FAST)
        elif CELL == "gru":
            r_t, z_t, x_t, q_t = split_fields(gates, B, HP, WN)
            r_t, z_t = sigmoid(r_t, FAST), sigmoid(z_t, FAST)
            n_t = tanh(x_t + r_t * q_t, FAST)
            kept_fields = join_fields(r_t.to(dtype), z_t.to(dtype), n_t.to(dtype), q_t.to(dtype), B, HP, WN)
            new = n_t + z_t * (h - n_t)
        else:
            new = activation(gates, CELL, FAST)
            kept_fields = new.to(dtype)
        h = tl.where(runs, new, h)
        if KEEP or not TOP:
            hidden += B * HP
            tl.store(hidden + spread, taken_apart(h.to(dtype), B, HP, WN, E))
        if KEEP:
            tl.store(acts + wide_spread, taken_apart(kept_fields, B, W, WN, E))
            acts += B * W
            if CELL == "lstm":
                cells += B * HP
                tl.store(cells + spread, taken_apart(c.to(dtype), B, HP, WN, E))
    if TOP:
        tl.store(last + sequence.to(tl.int64)[:, None] * HP + k[None, :], h, mask=valid[:, None])
    if PAUSES:
        tl.store(carry_out + kept, h)
        if CELL == "lstm":
            tl.store(carry_out + kept + HP, c)


@direct
@triton.jit(do_not_specialize=VARYING)
def backward_layer(
    d_out, d_hidden, d_below, weight_ih, weight_hh, node_of, degree, offset, acts, d_acts, cells, hidden, carry,
    total, first_sequence, t_begin,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    CELL: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    TOP: tl.constexpr, PROJECTS: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Runs one layer back over a tile: the gradients of the gates go to ``d_acts``, which may be ``acts`` itself, and
    that of the input to ``d_below`` if it ``PROJECTS``. A tile of more than 64 channels leaves no registers free for
    what is read ``AHEAD``."""
    W: tl.constexpr = FIELDS * HP
    AHEAD: tl.constexpr = HP <= 64
    r, k, col = tl.arange(0, B), tl.arange(0, HP), tl.arange(0, W)
    _, valid, node, _, steps = sequences_of(r, node_of, degree, total, first_sequence, B, GROUP, FRAME, LIMIT)
    base, blocks = blocks_of(offset, B)
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    kept = (tl.program_id(0) * B + r)[:, None] * (2 * HP) + k[None, :]
    spread = fragment(HP, B, HP, WN, E)
    wide_spread = fragment(W, B, W, WN, E)
    past = base + blocks * B
    hidden += past * HP
    cells += past * HP
    acts += past * W
    d_acts += past * W
    d_hidden += past * HP
    d_below += past * HP

    dh = tl.zeros([B, HP], tl.float32)
    dc = tl.zeros([B, HP], tl.float32)
    if RESUMES:
        dh = tl.load(carry + kept)
        if CELL == "lstm":
            dc = tl.load(carry + kept + HP)
    tl.store(d_acts + wide_spread, tl.zeros([4, 8, B // 16, WN, 2, W // WN // 4 // E, E], dtype))

    read = col < blocks * W  # a tile without sequences needs no weights
    some = tl.where(blocks > 0, 1, 0)
    w = tl.load(weight_hh + col[:, None] * HP + k[None, :], mask=read[:, None], other=0)
    if PROJECTS:
        v = tl.load(weight_ih + col[:, None] * HP + k[None, :], mask=read[:, None], other=0)
    if TOP:
        first_end = tl.min(tl.where(valid, steps, 2147483647))
    # What a step reads is loaded during the step before, once registers are free for it.
    if FIELDS > 1 and AHEAD:
        fields = tl.load(acts - some * B * W + wide_spread)
    if CELL == "lstm":
        after = tl.load(cells + spread)
        before = tl.load(cells - some * B * HP + spread)

    for back in range(blocks):
        t = t_begin + blocks - 1 - back
        hidden -= B * HP
        cells -= B * HP
        acts -= B * W
        d_acts -= B * W
        if TOP:
            if t + 1 >= first_end:
                mask = (t + 1 == steps)[:, None] & (k < H)[None, :]
                here = d_out + node.to(tl.int64)[:, None] * H + k[None, :]
                dh += tl.load(here, mask=mask, other=0).to(tl.float32)
        else:
            d_hidden -= B * HP
            dh += assembled(tl.load(d_hidden + spread), B, HP, WN).to(tl.float32)
        if CELL == "gru" and not AHEAD:
            fields = tl.load(acts + wide_spread)
        if CELL == "lstm":
            i_t, f_t, g_t, o_t = split_fields(assembled(fields, B, W, WN), B, HP, WN)
            i_t, f_t, g_t, o_t = i_t.to(tl.float32), f_t.to(tl.float32), g_t.to(tl.float32), o_t.to(tl.float32)
            squashed = tanh(assembled(after, B, HP, WN).to(tl.float32), FAST)
            d_cell = dc + dh * o_t * (1 - squashed * squashed)
            d_i = d_cell * g_t * i_t * (1 - i_t)
            d_f = d_cell * assembled(before, B, HP, WN).to(tl.float32) * f_t * (1 - f_t)
            d_g = d_cell * i_t * (1 - g_t * g_t)
            d_o = dh * squashed * o_t * (1 - o_t)
            dc = d_cell * f_t
            d = join_fields(d_i.to(dtype), d_f.to(dtype), d_g.to(dtype), d_o.to(dtype), B, HP, WN)
            after = before
            fields = tl.load(acts - tl.where(t > t_begin, B * W, 0) + wide_spread)
            before = tl.load(cells - tl.where(t > t_begin, B * HP, 0) + spread)
            dh = tl.dot(d, w, input_precision=PRECISION)
        elif CELL == "gru":
            before = assembled(tl.load(hidden + spread), B, HP, WN).to(tl.float32)
            r_t, z_t, n_t, q_t = split_fields(assembled(fields, B, W, WN), B, HP, WN)
            r_t, z_t, n_t, q_t = r_t.to(tl.float32), z_t.to(tl.float32), n_t.to(tl.float32), q_t.to(tl.float32)
            d_n = dh * (1 - z_t) * (1 - n_t * n_t)
            d_q = d_n * r_t
            d_r = d_q * q_t * (1 - r_t)
            d_z = dh * (before - n_t) * z_t * (1 - z_t)
            d = join_fields(d_r.to(dtype), d_z.to(dtype), d_n.to(dtype), d_q.to(dtype), B, HP, WN)
            if AHEAD:
                fields = tl.load(acts - tl.where(t > t_begin, B * W, 0) + wide_spread)
            dh = dh * z_t + tl.dot(d, w, input_precision=PRECISION)
        else:
            after = assembled(tl.load(hidden + B * HP + spread), B, HP, WN).to(tl.float32)
            d = (dh * activation_slope(after, CELL)).to(dtype)
            dh = tl.dot(d, w, input_precision=PRECISION)
        tl.store(d_acts + wide_spread, taken_apart(d, B, W, WN, E))
        if PROJECTS:
            dx = tl.dot(d, v, input_precision=PRECISION)
            d_below -= B * HP
            tl.store(d_below + spread, taken_apart(dx.to(dtype), B, HP, WN, E))
    if PAUSES:
        tl.store(carry + kept, dh)
        if CELL == "lstm":
            tl.store(carry + kept + HP, dc)
