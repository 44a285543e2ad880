"""The fused kernels: one recurrent layer forward, one backward, and the sums around them.

A *tile* is ``B`` sequences, sorted by falling length, that one program reads from beginning to end with the layer's
weights in shared memory and its state in registers. What the backward pass needs lies in blocks of ``B`` rows, one for
each step of a tile and one more: block b of ``hidden`` and ``cells`` is the state before step b, block b of ``acts``
is what the cell made of step b, which the backward pass overwrites with the gradients of the gates. Pads are zero.
"""

import triton
import triton.language as tl

from pggnn.ops.triton_cells import activation, activation_slope, sigmoid, tanh
from pggnn.ops.triton_index import length, reading, readings, slot_read


@triton.jit
def gate_weight(weight, GATE: tl.constexpr, HP: tl.constexpr, TRANSPOSED: tl.constexpr):
    """One gate's ``[HP, HP]`` matrix as torch.nn stores it, or transposed."""
    row, column = tl.arange(0, HP)[:, None], tl.arange(0, HP)[None, :]
    if TRANSPOSED:
        return tl.load(weight + GATE * HP * HP + column * HP + row)
    else:
        return tl.load(weight + GATE * HP * HP + row * HP + column)


@triton.jit
def row_read(table_rows, root, node, start, i, t, n, last, FORM: tl.constexpr, LIMIT: tl.constexpr):
    """The gate row that each sequence reads at step ``t``, and whether it still runs."""
    runs = t < last
    neighbor = slot_read(i, t, n, FORM, LIMIT)
    at_neighbor = runs & (neighbor >= 0)
    return tl.where(at_neighbor, tl.load(table_rows + start + neighbor, mask=at_neighbor, other=0), root + node)


@triton.jit
def forward_layer(
    gates, table_rows, below, weight_ih, weight_hh, bias, bias_hidden,
    node_of, first, degree, start, offset, acts, cells, hidden, last, carry_in, carry_out,
    num_sequences, first_sequence, t_begin, root,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, GATES: tl.constexpr, ACTS: tl.constexpr, CELL: tl.constexpr,
    FORM: tl.constexpr, LIMIT: tl.constexpr, SOURCE: tl.constexpr, KEEP: tl.constexpr, TOP: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Runs one layer over a tile. ``SOURCE`` of its input: rows of the table ``gates``, the hidden states ``below``
    still to be multiplied by ``weight_ih``, or the product of the two in ``below``."""
    tile = tl.program_id(0)
    r, col = tl.arange(0, B), tl.arange(0, HP)
    sequence = first_sequence + tile * B + r
    valid = sequence < num_sequences
    node = tl.load(node_of + sequence, mask=valid, other=0)
    n = tl.load(degree + node).to(tl.int32)
    slots = tl.load(start + node)
    i = sequence - tl.load(first + node)
    steps = tl.where(valid, length(n, FORM, LIMIT), 0)
    origin = tl.load(offset)
    base, end = tl.load(offset + tile) - origin, tl.load(offset + tile + 1) - origin
    blocks = ((end - base) // B).to(tl.int32) - 1
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    spread = r[:, None] * HP + col[None, :]
    act_spread = r[:, None] * (ACTS * HP) + col[None, :]
    kept = (tile * B + r)[:, None] * (2 * HP) + col[None, :]
    hidden += base * HP
    cells += base * HP
    acts += base * (ACTS * HP)
    below += (base + B) * HP if SOURCE == "below" else base * (GATES * HP)

    h = tl.zeros([B, HP], tl.float32)
    c = tl.zeros([B, HP], tl.float32)
    if RESUMES:
        h = tl.load(carry_in + kept)
        if CELL == "lstm":
            c = tl.load(carry_in + kept + HP)
    if KEEP:
        tl.store(hidden + spread, h.to(dtype))
        if CELL == "lstm":
            tl.store(cells + spread, c.to(dtype))

    w_0 = gate_weight(weight_hh, 0, HP, True)
    if GATES > 1:
        w_1 = gate_weight(weight_hh, 1, HP, True)
        w_2 = gate_weight(weight_hh, 2, HP, True)
    if GATES > 3:
        w_3 = gate_weight(weight_hh, 3, HP, True)
    if SOURCE == "below":
        v_0 = gate_weight(weight_ih, 0, HP, True)
        if GATES > 1:
            v_1 = gate_weight(weight_ih, 1, HP, True)
            v_2 = gate_weight(weight_ih, 2, HP, True)
        if GATES > 3:
            v_3 = gate_weight(weight_ih, 3, HP, True)
    b_0 = tl.load(bias + col)[None, :]
    if GATES > 1:
        b_1 = tl.load(bias + HP + col)[None, :]
        b_2 = tl.load(bias + 2 * HP + col)[None, :]
    if GATES > 3:
        b_3 = tl.load(bias + 3 * HP + col)[None, :]
    if CELL == "gru":
        b_n = tl.load(bias_hidden + col)[None, :]

    if SOURCE == "gates":
        row = row_read(table_rows, root, node, slots, i, t_begin, n, steps, FORM, LIMIT)
    for b in range(blocks):
        t = t_begin + b
        runs = t < steps
        operand = h.to(dtype)
        if SOURCE == "gates":
            here = gates + row.to(tl.int64)[:, None] * (GATES * H) + col[None, :]
            mask = runs[:, None] & (col < H)[None, :]
            x_0 = tl.load(here, mask=mask, other=0)
            if GATES > 1:
                x_1 = tl.load(here + H, mask=mask, other=0)
                x_2 = tl.load(here + 2 * H, mask=mask, other=0)
            if GATES > 3:
                x_3 = tl.load(here + 3 * H, mask=mask, other=0)
            row = row_read(table_rows, root, node, slots, i, t + 1, n, steps, FORM, LIMIT)
        elif SOURCE == "below":
            lower = tl.load(below + spread)
            below += B * HP
            x_0 = tl.dot(lower, v_0, input_precision=PRECISION)
            if GATES > 1:
                x_1 = tl.dot(lower, v_1, input_precision=PRECISION)
                x_2 = tl.dot(lower, v_2, input_precision=PRECISION)
            if GATES > 3:
                x_3 = tl.dot(lower, v_3, input_precision=PRECISION)
        else:
            product = below + r[:, None] * (GATES * HP) + col[None, :]
            below += B * GATES * HP
            x_0 = tl.load(product)
            if GATES > 1:
                x_1 = tl.load(product + HP)
                x_2 = tl.load(product + 2 * HP)
            if GATES > 3:
                x_3 = tl.load(product + 3 * HP)

        if CELL == "lstm":
            i_t = sigmoid(tl.dot(operand, w_0, acc=x_0.to(tl.float32), input_precision=PRECISION) + b_0, FAST)
            f_t = sigmoid(tl.dot(operand, w_1, acc=x_1.to(tl.float32), input_precision=PRECISION) + b_1, FAST)
            g_t = tanh(tl.dot(operand, w_2, acc=x_2.to(tl.float32), input_precision=PRECISION) + b_2, FAST)
            o_t = sigmoid(tl.dot(operand, w_3, acc=x_3.to(tl.float32), input_precision=PRECISION) + b_3, FAST)
            if KEEP:
                tl.store(acts + act_spread, i_t.to(dtype))
                tl.store(acts + act_spread + HP, f_t.to(dtype))
                tl.store(acts + act_spread + 2 * HP, g_t.to(dtype))
                tl.store(acts + act_spread + 3 * HP, o_t.to(dtype))
            c = tl.where(runs[:, None], f_t * c + i_t * g_t, c)
            new = o_t * tanh(c, FAST)
        elif CELL == "gru":
            r_t = sigmoid(tl.dot(operand, w_0, acc=x_0.to(tl.float32), input_precision=PRECISION) + b_0, FAST)
            z_t = sigmoid(tl.dot(operand, w_1, acc=x_1.to(tl.float32), input_precision=PRECISION) + b_1, FAST)
            q_t = tl.dot(operand, w_2, input_precision=PRECISION) + b_n
            n_t = tanh(x_2.to(tl.float32) + b_2 + r_t * q_t, FAST)
            if KEEP:
                tl.store(acts + act_spread, r_t.to(dtype))
                tl.store(acts + act_spread + HP, z_t.to(dtype))
                tl.store(acts + act_spread + 2 * HP, n_t.to(dtype))
                tl.store(acts + act_spread + 3 * HP, q_t.to(dtype))
            new = n_t + z_t * (h - n_t)
        else:
            new = activation(tl.dot(operand, w_0, acc=x_0.to(tl.float32), input_precision=PRECISION) + b_0, CELL, FAST)
        h = tl.where(runs[:, None], new, h)
        if KEEP or not TOP:
            hidden += B * HP
            tl.store(hidden + spread, h.to(dtype))
        if KEEP:
            acts += B * ACTS * HP
            if CELL == "lstm":
                cells += B * HP
                tl.store(cells + spread, c.to(dtype))
    if TOP:
        tl.store(last + sequence.to(tl.int64)[:, None] * HP + col[None, :], h, mask=valid[:, None])
    if PAUSES:
        tl.store(carry_out + kept, h)
        if CELL == "lstm":
            tl.store(carry_out + kept + HP, c)


@triton.jit
def backward_layer(
    d_out, d_hidden, d_below, weight_ih, weight_hh, node_of, degree, offset, acts, cells, hidden, carry,
    num_sequences, first_sequence, t_begin,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, GATES: tl.constexpr, ACTS: tl.constexpr, CELL: tl.constexpr,
    FORM: tl.constexpr, LIMIT: tl.constexpr, TOP: tl.constexpr, PROJECTS: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Runs one layer back over a tile: turns ``acts`` into gradients of the gates, and sends the gradient of the input
    to ``d_below`` if it ``PROJECTS``."""
    tile = tl.program_id(0)
    r, col = tl.arange(0, B), tl.arange(0, HP)
    sequence = first_sequence + tile * B + r
    valid = sequence < num_sequences
    node = tl.load(node_of + sequence, mask=valid, other=0)
    steps = tl.where(valid, length(tl.load(degree + node).to(tl.int32), FORM, LIMIT), 0)
    origin = tl.load(offset)
    base, end = tl.load(offset + tile) - origin, tl.load(offset + tile + 1) - origin
    blocks = ((end - base) // B).to(tl.int32) - 1
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    spread = r[:, None] * HP + col[None, :]
    act_spread = r[:, None] * (ACTS * HP) + col[None, :]
    kept = (tile * B + r)[:, None] * (2 * HP) + col[None, :]
    past = base + blocks * B
    hidden += past * HP
    cells += past * HP
    acts += past * (ACTS * HP)
    d_hidden += past * HP
    d_below += past * HP

    dh = tl.zeros([B, HP], tl.float32)
    dc = tl.zeros([B, HP], tl.float32)
    if RESUMES:
        dh = tl.load(carry + kept)
        if CELL == "lstm":
            dc = tl.load(carry + kept + HP)
    zero = tl.zeros([B, HP], dtype)
    for field in tl.static_range(ACTS):
        tl.store(acts + act_spread + field * HP, zero)

    w_0 = gate_weight(weight_hh, 0, HP, False)
    if GATES > 1:
        w_1 = gate_weight(weight_hh, 1, HP, False)
        w_2 = gate_weight(weight_hh, 2, HP, False)
    if GATES > 3:
        w_3 = gate_weight(weight_hh, 3, HP, False)
    if PROJECTS:
        v_0 = gate_weight(weight_ih, 0, HP, False)
        if GATES > 1:
            v_1 = gate_weight(weight_ih, 1, HP, False)
            v_2 = gate_weight(weight_ih, 2, HP, False)
        if GATES > 3:
            v_3 = gate_weight(weight_ih, 3, HP, False)
    if TOP:
        mask = valid[:, None] & (col < H)[None, :]
        d_last = tl.load(d_out + node[:, None] * H + col[None, :], mask=mask, other=0).to(tl.float32)

    for back in range(blocks):
        t = t_begin + blocks - 1 - back
        hidden -= B * HP
        cells -= B * HP
        acts -= B * ACTS * HP
        d_hidden -= B * HP
        d_below -= B * HP
        if TOP:
            dh += tl.where((t == steps - 1)[:, None], d_last, 0)
        else:
            dh += tl.load(d_hidden + spread).to(tl.float32)
        if CELL == "lstm":
            i_t = tl.load(acts + act_spread).to(tl.float32)
            f_t = tl.load(acts + act_spread + HP).to(tl.float32)
            g_t = tl.load(acts + act_spread + 2 * HP).to(tl.float32)
            o_t = tl.load(acts + act_spread + 3 * HP).to(tl.float32)
            before = tl.load(cells + spread).to(tl.float32)
            squashed = tanh(tl.load(cells + spread + B * HP).to(tl.float32), FAST)
            d_cell = dc + dh * o_t * (1 - squashed * squashed)
            d_0 = (d_cell * g_t * i_t * (1 - i_t)).to(dtype)
            d_1 = (d_cell * before * f_t * (1 - f_t)).to(dtype)
            d_2 = (d_cell * i_t * (1 - g_t * g_t)).to(dtype)
            d_3 = (dh * squashed * o_t * (1 - o_t)).to(dtype)
            dc = tl.where((t < steps)[:, None], d_cell * f_t, dc)
            tl.store(acts + act_spread, d_0)
            tl.store(acts + act_spread + HP, d_1)
            tl.store(acts + act_spread + 2 * HP, d_2)
            tl.store(acts + act_spread + 3 * HP, d_3)
            dh = tl.dot(d_0, w_0, input_precision=PRECISION)
            dh = tl.dot(d_1, w_1, acc=dh, input_precision=PRECISION)
            dh = tl.dot(d_2, w_2, acc=dh, input_precision=PRECISION)
            dh = tl.dot(d_3, w_3, acc=dh, input_precision=PRECISION)
            if PROJECTS:
                dx = tl.dot(d_0, v_0, input_precision=PRECISION)
                dx = tl.dot(d_1, v_1, acc=dx, input_precision=PRECISION)
                dx = tl.dot(d_2, v_2, acc=dx, input_precision=PRECISION)
                dx = tl.dot(d_3, v_3, acc=dx, input_precision=PRECISION)
        elif CELL == "gru":
            r_t = tl.load(acts + act_spread).to(tl.float32)
            z_t = tl.load(acts + act_spread + HP).to(tl.float32)
            n_t = tl.load(acts + act_spread + 2 * HP).to(tl.float32)
            q_t = tl.load(acts + act_spread + 3 * HP).to(tl.float32)
            before = tl.load(hidden + spread).to(tl.float32)
            d_n = dh * (1 - z_t) * (1 - n_t * n_t)
            d_0 = (d_n * q_t * r_t * (1 - r_t)).to(dtype)
            d_1 = (dh * (before - n_t) * z_t * (1 - z_t)).to(dtype)
            d_2 = d_n.to(dtype)
            d_3 = (d_n * r_t).to(dtype)
            tl.store(acts + act_spread, d_0)
            tl.store(acts + act_spread + HP, d_1)
            tl.store(acts + act_spread + 2 * HP, d_2)
            tl.store(acts + act_spread + 3 * HP, d_3)
            dh = dh * z_t
            dh = tl.dot(d_0, w_0, acc=dh, input_precision=PRECISION)
            dh = tl.dot(d_1, w_1, acc=dh, input_precision=PRECISION)
            dh = tl.dot(d_3, w_2, acc=dh, input_precision=PRECISION)
            if PROJECTS:
                dx = tl.dot(d_0, v_0, input_precision=PRECISION)
                dx = tl.dot(d_1, v_1, acc=dx, input_precision=PRECISION)
                dx = tl.dot(d_2, v_2, acc=dx, input_precision=PRECISION)
        else:
            after = tl.load(hidden + spread + B * HP).to(tl.float32)
            d_0 = (dh * activation_slope(after, CELL)).to(dtype)
            tl.store(acts + act_spread, d_0)
            dh = tl.dot(d_0, w_0, input_precision=PRECISION)
            if PROJECTS:
                dx = tl.dot(d_0, v_0, input_precision=PRECISION)
        if PROJECTS:
            tl.store(d_below + spread, dx.to(dtype))
    if PAUSES:
        tl.store(carry + kept, dh)
        if CELL == "lstm":
            tl.store(carry + kept + HP, dc)


@triton.jit
def weight_gradient(
    acts, hidden, below, d_weight, d_bias, num_rows,
    HP: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, B: tl.constexpr, ACTS: tl.constexpr,
    UPPER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds a share of the rows of ``actsᵀ hidden`` and, for an upper layer, of ``actsᵀ below`` one block further on.

    Program (field and tile of the matrix, share); ``d_weight`` is ``[share, 2, field, HP, HP]``.
    """
    share, shares = tl.program_id(1), tl.num_programs(1)
    across: tl.constexpr = HP // BK
    field = tl.program_id(0) // (across * (HP // BU))
    u = (tl.program_id(0) // across) % (HP // BU) * BU + tl.arange(0, BU)
    k = tl.program_id(0) % across * BK + tl.arange(0, BK)
    own = tl.zeros([BU, BK], tl.float32)
    lower = tl.zeros([BU, BK], tl.float32)
    total = tl.zeros([BU, 16], tl.float32)
    ones = tl.full([ROWS, 16], 1, acts.dtype.element_ty)
    for begin in range(share * ROWS, num_rows, shares * ROWS):
        row = (begin + tl.arange(0, ROWS)).to(tl.int64)
        mask = (row < num_rows)[:, None]
        d = tl.trans(tl.load(acts + row[:, None] * (ACTS * HP) + field * HP + u[None, :], mask=mask, other=0))
        h = tl.load(hidden + row[:, None] * HP + k[None, :], mask=mask, other=0)
        own = tl.dot(d, h, acc=own, input_precision=PRECISION)
        if UPPER:
            mask = (row + B < num_rows)[:, None]
            x = tl.load(below + (row + B)[:, None] * HP + k[None, :], mask=mask, other=0)
            lower = tl.dot(d, x, acc=lower, input_precision=PRECISION)
        total = tl.dot(d, ones, acc=total, input_precision=PRECISION)
    out = d_weight + ((share * 2 * ACTS + field) * HP + u[:, None]) * HP + k[None, :]
    tl.store(out, tl.load(out) + own)
    if UPPER:
        out += ACTS * HP * HP
        tl.store(out, tl.load(out) + lower)
    if tl.program_id(0) % across == 0:
        at = d_bias + (share * ACTS + field) * HP + u
        tl.store(at, tl.load(at) + tl.max(total, axis=1))


@triton.jit
def gate_gradient(
    acts, d_gates, table_rows, slot_node, slot_first, first, degree, start, offset,
    first_slot, first_sequence, end_sequence, t_begin, t_end, root,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, GATES: tl.constexpr, ACTS: tl.constexpr, COLS: tl.constexpr,
    QUEUE: tl.constexpr, FORM: tl.constexpr, LIMIT: tl.constexpr, SCATTERS: tl.constexpr,
):  # fmt: skip
    """Sums the gate gradients of all steps that read a slot, and adds them to the slot's row of ``d_gates`` or, to
    be repeatable bit for bit, to a row of the slot's own."""
    s = first_slot + tl.program_id(0)
    node = tl.load(slot_node + s)
    n = tl.load(degree + node).to(tl.int32)
    j = s - tl.load(slot_first + node)
    begins = tl.load(first + node)
    origin = tl.load(offset)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    total = tl.zeros([COLS], tl.float32)
    count = readings(j, n, FORM, LIMIT)
    for q_begin in range(0, count, QUEUE):
        q = q_begin + tl.arange(0, QUEUE)
        i, t, reads = reading(q, j, n, FORM, LIMIT)
        sequence = begins + i
        reads &= (q < count) & (sequence >= first_sequence) & (sequence < end_sequence) & (t >= t_begin) & (t < t_end)
        within = sequence - first_sequence
        tile = tl.where(reads, within // B, 0)
        row = tl.load(offset + tile) - origin + (t - t_begin) * B + within % B
        total += tl.sum(
            tl.load(acts + row[:, None] * (ACTS * HP) + col, mask=reads[:, None], other=0).to(tl.float32), 0
        )
    mask = col % HP < H
    at = col // HP * H + col % HP
    if SCATTERS:
        if j < n:
            row = tl.load(table_rows + tl.load(start + node) + j)
        else:
            row = (root + node).to(tl.int64)
        if count > 0:
            tl.atomic_add(d_gates + row * (GATES * H) + at, total, mask=mask, sem="relaxed")
    else:
        out = d_gates + s.to(tl.int64) * (GATES * H) + at
        tl.store(out, tl.load(out, mask=mask) + total, mask=mask)


@triton.jit
def sequence_sum(last, out, first, count, H: tl.constexpr, HP: tl.constexpr, ROWS: tl.constexpr):
    """Sums the last hidden states of each node's sequences."""
    node = tl.program_id(0)
    begin = tl.load(first + node).to(tl.int64)
    number = tl.load(count + node).to(tl.int32)
    col = tl.arange(0, HP)
    total = tl.zeros([HP], tl.float32)
    for row in range(0, number, ROWS):
        i = row + tl.arange(0, ROWS)
        total += tl.sum(tl.load(last + (begin + i)[:, None] * HP + col, mask=(i < number)[:, None], other=0), 0)
    tl.store(out + node.to(tl.int64) * H + col, total, mask=col < H)
