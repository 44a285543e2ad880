"""The fused kernels: one recurrent layer forward, one backward, and the sums around them.

A *tile* is ``B`` sequences, sorted by falling length, that one program reads from beginning to end with the layer's
weights in shared memory and its state in registers. What the backward pass needs lies in blocks of ``B`` rows, one for
each step of a tile and one more: block b of ``hidden`` and ``cells`` is the state before step b, block b of ``acts``
is what the cell made of step b, block b of ``d_acts`` the gradient of its gates, the one more being zero.
"""

import triton
import triton.language as tl

from pggnn.ops.triton_cells import activation, activation_slope, sigmoid, tanh
from pggnn.ops.triton_index import length, reading, readings, slot_read


@triton.jit
def fragment(STRIDE: tl.constexpr, B: tl.constexpr, W: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    """Offsets of a ``[B, W]`` matrix's elements in the shape in which a GPU's matrix units spread it over the threads:
    ``[4, 8, B/16, WN, 2, parts, E]``, that is 4 · 8 lanes, (B/16) · WN warps, and the rest in registers.

    Columns lie in memory so that what a thread holds of a row comes in pieces of ``E``, and what the lanes of a row
    hold is contiguous (:func:`column_at`): matrices then move between memory and the matrix units
    in wide accesses, without passing through shared memory.
    """
    lane_column = tl.arange(0, 4)[:, None, None, None, None, None, None]
    warp_column = tl.arange(0, WN)[None, None, None, :, None, None, None]
    part = tl.arange(0, W // WN // 4 // E)[None, None, None, None, None, :, None]
    element = tl.arange(0, E)[None, None, None, None, None, None, :]
    return fragment_row(B) * STRIDE + warp_column * (W // WN) + part * (4 * E) + lane_column * E + element


@triton.jit
def fragment_row(B: tl.constexpr):
    """The rows of :func:`fragment`."""
    lane_row = tl.arange(0, 8)[None, :, None, None, None, None, None]
    warp_row = tl.arange(0, B // 16)[None, None, :, None, None, None, None]
    half = tl.arange(0, 2)[None, None, None, None, :, None, None]
    return warp_row * 16 + half * 8 + lane_row


@triton.jit
def column_at(place, W: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    """Which column lies at a place of a row in memory."""
    within = place % (W // WN)
    column = within // (4 * E) * (4 * E) + within % E // 2 * 8 + within % (4 * E) // E * 2 + within % 2
    return place // (W // WN) * (W // WN) + column


@triton.jit
def place_of(column, W: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    """Undoes :func:`column_at`."""
    within = column % (W // WN)
    place = within // (4 * E) * (4 * E) + within % 8 // 2 * E + within % (4 * E) // 8 * 2 + within % 2
    return column // (W // WN) * (W // WN) + place


@triton.jit
def field_at(column, HP: tl.constexpr, FIELDS: tl.constexpr, WN: tl.constexpr):
    """Field and unit of a column, in the order (warp, field, unit)."""
    within = column % (FIELDS * HP // WN)
    return within // (HP // WN), column // (FIELDS * HP // WN) * (HP // WN) + within % (HP // WN)


@triton.jit
def state_gate(field, CELL: tl.constexpr):
    """The gate whose state feeds a field, or −1: a GRU keeps input and state of its candidate apart."""
    if CELL == "gru":
        return tl.where(field == 3, 2, tl.where(field == 2, -1, field))
    else:
        return field


@triton.jit
def halving(field, CELL: tl.constexpr):
    """What enters a sigmoid is halved, for its computation through tanh."""
    if CELL == "lstm":
        return tl.where(field == 2, 1.0, 0.5)
    elif CELL == "gru":
        return tl.where(field < 2, 0.5, 1.0)
    else:
        return 1.0


@triton.jit
def prepare_table(
    gates, bias_hh, table, num_rows,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gate rows as :func:`forward_layer` reads them, the bias of the state added."""
    W: tl.constexpr = FIELDS * HP
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    place = tl.arange(0, W)
    field, unit = field_at(column_at(place, W, WN, E), HP, FIELDS, WN)
    gate = state_gate(field, CELL)
    bias = tl.load(bias_hh + gate * H + unit, mask=(gate >= 0) & (unit < H), other=0).to(tl.float32)
    mask = (row < num_rows)[:, None] & ((field < GATES) & (unit < H))[None, :]
    x = tl.load(gates + row[:, None] * (GATES * H) + (field * H + unit)[None, :], mask=mask, other=0).to(tl.float32)
    x = (x + bias[None, :]) * (halving(field, CELL) + tl.zeros([W], tl.float32))[None, :]
    tl.store(table + row[:, None] * W + place[None, :], x.to(table.dtype.element_ty), mask=(row < num_rows)[:, None])


@triton.jit
def prepare_weights(
    weight_ih, weight_hh, bias_ih, bias_hh, forward, backward, bias,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, UPPER: tl.constexpr, ARRANGED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """A layer's weights by (warp, field, unit), padded, in the operands' type: ``[2, W, HP]``, of the input and of the
    state, for the forward and for the backward pass. Those of the input are ``ARRANGED`` like the states in memory
    where they are multiplied by them outside the kernels."""
    W: tl.constexpr = FIELDS * HP
    place, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, HP)
    dtype = forward.dtype.element_ty
    out = place[:, None] * HP + at[None, :]
    field, unit = field_at(place, HP, FIELDS, WN)
    gate = state_gate(field, CELL)
    scale = halving(field, CELL) + tl.zeros([ROWS], tl.float32)
    mask = ((gate >= 0) & (unit < H))[:, None] & (at < H)[None, :]
    x = tl.load(weight_hh + (gate * H + unit)[:, None] * H + at[None, :], mask=mask, other=0).to(tl.float32)
    tl.store(backward + W * HP + out, x.to(dtype))
    tl.store(forward + W * HP + out, (x * scale[:, None]).to(dtype))
    if UPPER:
        column = at
        if ARRANGED:
            column = column_at(at, HP, WN, E)
            field, unit = field_at(column_at(place, W, WN, E), HP, FIELDS, WN)
            gate = state_gate(field, CELL)
            scale = halving(field, CELL) + tl.zeros([ROWS], tl.float32)
        mask = ((field < GATES) & (unit < H))[:, None] & (column < H)[None, :]
        x = tl.load(weight_ih + (field * H + unit)[:, None] * H + column[None, :], mask=mask, other=0).to(tl.float32)
        tl.store(backward + out, x.to(dtype))
        tl.store(forward + out, (x * scale[:, None]).to(dtype))
        total = tl.load(bias_hh + gate * H + unit, mask=(gate >= 0) & (unit < H), other=0).to(tl.float32)
        total += tl.load(bias_ih + field * H + unit, mask=(field < GATES) & (unit < H), other=0).to(tl.float32)
        tl.store(bias + place, (total * scale).to(bias.dtype.element_ty))


@triton.jit
def finish_weights(
    d_weight, d_bias, d_ih, d_hh, d_bias_ih, d_bias_hh, shares,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, UPPER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Adds up the shares of :func:`weight_gradient` and puts them in the order of the weights."""
    W: tl.constexpr = FIELDS * HP
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, HP)
    gate, unit = row // H, row % H
    column = place_of(k, HP, WN, E)
    exists = row < GATES * H
    inner = exists[:, None] & (k < H)[None, :]
    out = row[:, None] * H + k[None, :]
    for side in tl.static_range(2 if UPPER else 1):
        field = gate
        if side == 0 and CELL == "gru":
            field = tl.where(gate == 2, 3, gate)
        wide = unit // (HP // WN) * (W // WN) + field * (HP // WN) + unit % (HP // WN)
        place = place_of(wide, W, WN, E)
        matrix = tl.zeros([ROWS, HP], tl.float32)
        vector = tl.zeros([ROWS], tl.float32)
        for share in range(shares):
            at = ((share * 2 + side) * W + place)[:, None] * HP + column[None, :]
            matrix += tl.load(d_weight + at, mask=inner, other=0)
            vector += tl.load(d_bias + share * W + place, mask=exists, other=0)
        if side == 0:
            tl.store(d_hh + out, matrix, mask=inner)
            tl.store(d_bias_hh + row, vector, mask=exists)
        else:
            tl.store(d_ih + out, matrix, mask=inner)
            tl.store(d_bias_ih + row, vector, mask=exists)


@triton.jit
def assembled(x, B: tl.constexpr, W: tl.constexpr, WN: tl.constexpr):
    """A fragment as the ``[B, W]`` matrix that it is."""
    x = tl.reshape(x, [4, 8, B // 16, WN, 2, W // WN // 8, 2])
    return tl.reshape(tl.permute(x, [2, 4, 1, 3, 5, 0, 6]), [B, W])


@triton.jit
def taken_apart(x, B: tl.constexpr, W: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    """A ``[B, W]`` matrix as the fragment that it is."""
    x = tl.permute(tl.reshape(x, [B // 16, 2, 8, WN, W // WN // 8, 4, 2]), [5, 2, 0, 3, 1, 4, 6])
    return tl.reshape(x, [4, 8, B // 16, WN, 2, W // WN // 4 // E, E])


@triton.jit
def split_fields(x, B: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr):
    """The four ``[B, HP]`` fields of a matrix whose columns are ordered by (warp, field, unit)."""
    x = tl.permute(tl.reshape(x, [B, WN, 4, HP // WN]), [0, 1, 3, 2])
    even, odd = tl.split(tl.reshape(x, [B, HP, 2, 2]))
    x_0, x_2 = tl.split(even)
    x_1, x_3 = tl.split(odd)
    return x_0, x_1, x_2, x_3


@triton.jit
def join_fields(x_0, x_1, x_2, x_3, B: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr):
    """Undoes :func:`split_fields`."""
    x = tl.join(tl.join(x_0, x_2), tl.join(x_1, x_3))
    return tl.reshape(tl.permute(tl.reshape(x, [B, WN, HP // WN, 4]), [0, 1, 3, 2]), [B, 4 * HP])


@triton.jit
def row_read(table_rows, root, node, start, i, t, n, steps, FORM: tl.constexpr, LIMIT: tl.constexpr):
    """The gate row that each sequence reads at step ``t``."""
    neighbor = slot_read(i, t, n, FORM, LIMIT)
    at_neighbor = (t < steps) & (neighbor >= 0)
    return tl.where(at_neighbor, tl.load(table_rows + start + neighbor, mask=at_neighbor, other=0), root + node)


@triton.jit
def forward_layer(
    table, table_rows, below, weight_ih, weight_hh, bias,
    node_of, first, degree, start, offset, acts, cells, hidden, last, carry_in, carry_out,
    num_sequences, first_sequence, t_begin, root,
    HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, CELL: tl.constexpr,
    FORM: tl.constexpr, LIMIT: tl.constexpr, SOURCE: tl.constexpr, KEEP: tl.constexpr, TOP: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Runs one layer over a tile. ``SOURCE`` of its input: rows of ``table``, the hidden states ``below`` still to be
    multiplied by ``weight_ih``, or the product of the two in ``below``. What enters a sigmoid comes halved."""
    W: tl.constexpr = FIELDS * HP
    tile = tl.program_id(0)
    r, k, col = tl.arange(0, B), tl.arange(0, HP), tl.arange(0, W)
    sequence = first_sequence + tile * B + r
    valid = sequence < num_sequences
    nodes = tl.load(node_of + sequence, mask=valid, other=0)
    steps = tl.where(valid, length(tl.load(degree + nodes).to(tl.int32), FORM, LIMIT), 0)
    origin = tl.load(offset)
    base, end = tl.load(offset + tile) - origin, tl.load(offset + tile + 1) - origin
    blocks = ((end - base) // B).to(tl.int32) - 1
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    kept = (tile * B + r)[:, None] * (2 * HP) + k[None, :]
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

    w = tl.load(weight_hh + col[None, :] * HP + k[:, None])
    if SOURCE == "below":
        v = tl.load(weight_ih + col[None, :] * HP + k[:, None])
    if SOURCE == "table":
        fragment_sequence = first_sequence + tile * B + fragment_row(B)
        exists = fragment_sequence < num_sequences
        node = tl.load(node_of + fragment_sequence, mask=exists, other=0)
        n = tl.load(degree + node).to(tl.int32)
        slots = tl.load(start + node)
        i = fragment_sequence - tl.load(first + node)
        ends = tl.where(exists, length(n, FORM, LIMIT), 0)
        row = row_read(table_rows, root, node, slots, i, t_begin, n, ends, FORM, LIMIT)
        columns = fragment(0, B, W, WN, E)

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
                row = row_read(table_rows, root, node, slots, i, t + 1, n, ends, FORM, LIMIT)
            else:
                x = tl.load(below + wide_spread)
                below += B * W
            gates = tl.dot(h.to(dtype), w, input_precision=PRECISION)
            gates += assembled(x, B, W, WN).to(tl.float32)

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


@triton.jit
def backward_layer(
    d_out, d_hidden, d_below, weight_ih, weight_hh, node_of, degree, offset, acts, d_acts, cells, hidden, carry,
    num_sequences, first_sequence, t_begin,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    CELL: tl.constexpr, FORM: tl.constexpr, LIMIT: tl.constexpr, TOP: tl.constexpr, PROJECTS: tl.constexpr,
    RESUMES: tl.constexpr, PAUSES: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
    AHEAD: tl.constexpr,
):  # fmt: skip
    """Runs one layer back over a tile: the gradients of the gates go to ``d_acts``, which may be ``acts`` itself, and
    that of the input to ``d_below`` if it ``PROJECTS``."""
    W: tl.constexpr = FIELDS * HP
    tile = tl.program_id(0)
    r, k, col = tl.arange(0, B), tl.arange(0, HP), tl.arange(0, W)
    sequence = first_sequence + tile * B + r
    valid = sequence < num_sequences
    node = tl.load(node_of + sequence, mask=valid, other=0)
    steps = tl.where(valid, length(tl.load(degree + node).to(tl.int32), FORM, LIMIT), 0)
    origin = tl.load(offset)
    base, end = tl.load(offset + tile) - origin, tl.load(offset + tile + 1) - origin
    blocks = ((end - base) // B).to(tl.int32) - 1
    dtype: tl.constexpr = weight_hh.dtype.element_ty
    kept = (tile * B + r)[:, None] * (2 * HP) + k[None, :]
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

    w = tl.load(weight_hh + col[:, None] * HP + k[None, :])
    if PROJECTS:
        v = tl.load(weight_ih + col[:, None] * HP + k[None, :])
    if TOP:
        first_end = tl.min(tl.where(valid, steps, 2147483647))
    # What a step reads is asked for during the step before, once registers are free for it.
    if FIELDS > 1 and AHEAD:
        fields = tl.load(acts - B * W + wide_spread)
    if CELL == "lstm":
        after = tl.load(cells + spread)
        if AHEAD:
            before = tl.load(cells - B * HP + spread)

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
        if FIELDS > 1 and not AHEAD:
            fields = tl.load(acts + wide_spread)
            if CELL == "lstm":
                before = tl.load(cells + spread)
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
            if AHEAD:
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


@triton.jit
def weight_gradient(
    acts, hidden, below, d_weight, d_bias, num_rows,
    W: tl.constexpr, HP: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, B: tl.constexpr,
    UPPER: tl.constexpr, ADDS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds a share of the rows of ``actsᵀ hidden`` and, for an upper layer, of ``actsᵀ below`` one block further on.

    Program (tile of the matrix, share); ``d_weight`` is ``[share, 2, W, HP]``, ``d_bias`` is ``[share, W]``.
    """
    share, shares = tl.program_id(1), tl.num_programs(1)
    across: tl.constexpr = HP // BK
    u = tl.program_id(0) // across * BU + tl.arange(0, BU)
    k = tl.program_id(0) % across * BK + tl.arange(0, BK)
    own = tl.zeros([BU, BK], tl.float32)
    lower = tl.zeros([BU, BK], tl.float32)
    total = tl.zeros([BU, 16], tl.float32)
    ones = tl.full([ROWS, 16], 1, acts.dtype.element_ty)
    for begin in range(share * ROWS, num_rows, shares * ROWS):
        row = (begin + tl.arange(0, ROWS)).to(tl.int64)
        mask = (row < num_rows)[:, None]
        d = tl.trans(tl.load(acts + row[:, None] * W + u[None, :], mask=mask, other=0))
        h = tl.load(hidden + row[:, None] * HP + k[None, :], mask=mask, other=0)
        own = tl.dot(d, h, acc=own, input_precision=PRECISION)
        if UPPER:
            mask = (row + B < num_rows)[:, None]
            x = tl.load(below + (row + B)[:, None] * HP + k[None, :], mask=mask, other=0)
            lower = tl.dot(d, x, acc=lower, input_precision=PRECISION)
        total = tl.dot(d, ones, acc=total, input_precision=PRECISION)
    out = d_weight + (share * 2 * W + u[:, None]) * HP + k[None, :]
    at = d_bias + share * W + u
    sums = tl.max(total, axis=1)
    if ADDS:
        own += tl.load(out)
        sums += tl.load(at)
        if UPPER:
            lower += tl.load(out + W * HP)
    tl.store(out, own)
    if UPPER:
        tl.store(out + W * HP, lower)
    if tl.program_id(0) % across == 0:
        tl.store(at, sums)


@triton.jit
def gate_gradient(
    acts, d_gates, table_rows, slot_node, slot_first, first, degree, start, offset,
    first_slot, first_sequence, end_sequence, t_begin, t_end, root,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    GATES: tl.constexpr, QUEUE: tl.constexpr, FORM: tl.constexpr, LIMIT: tl.constexpr, SCATTERS: tl.constexpr,
):  # fmt: skip
    """Sums the gate gradients of all steps that read a slot, and adds them to the slot's row of ``d_gates`` or, to
    be repeatable bit for bit, to a row of the slot's own."""
    W: tl.constexpr = FIELDS * HP
    s = first_slot + tl.program_id(0)
    node = tl.load(slot_node + s)
    n = tl.load(degree + node).to(tl.int32)
    j = s - tl.load(slot_first + node)
    begins = tl.load(first + node)
    origin = tl.load(offset)
    col = tl.arange(0, W)
    total = tl.zeros([W], tl.float32)
    count = readings(j, n, FORM, LIMIT)
    for q_begin in range(0, count, QUEUE):
        q = q_begin + tl.arange(0, QUEUE)
        i, t, reads = reading(q, j, n, FORM, LIMIT)
        sequence = begins + i
        reads &= (q < count) & (sequence >= first_sequence) & (sequence < end_sequence) & (t >= t_begin) & (t < t_end)
        within = sequence - first_sequence
        tile = tl.where(reads, within // B, 0)
        row = tl.load(offset + tile) - origin + (t - t_begin) * B + within % B
        total += tl.sum(tl.load(acts + row[:, None] * W + col[None, :], mask=reads[:, None], other=0).to(tl.float32), 0)
    gate, unit = field_at(column_at(col, W, WN, E), HP, FIELDS, WN)
    mask = (gate < GATES) & (unit < H)
    at = gate * H + unit
    if SCATTERS:
        if count > 0:
            row = (root + node).to(tl.int64)
            if j < n:
                row = tl.load(table_rows + tl.load(start + node) + j)
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
