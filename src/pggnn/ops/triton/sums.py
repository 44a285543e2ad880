"""The sums around the recurrent kernels: of last states by node, and of gradients by weight and by gate row."""

import triton
import triton.language as tl

from pggnn.ops.triton.index import reading, readings
from pggnn.ops.triton.launch import direct
from pggnn.ops.triton.layout import by_field, column_at, place_of


@direct
@triton.jit
def finish_weights(
    d_weight, d_bias, first_ih, first_hh, first_bias_ih, first_bias_hh, next_ih, next_hh, next_bias_ih, next_bias_hh,
    shares,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, UPPER: tl.constexpr, ROWS: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """The gradients of a layer, an ``UPPER`` one or the lowest, and of the next one if the grid has programs for it."""
    if tl.program_id(1) == 0:
        finish_layer(
            d_weight, d_bias, first_ih, first_hh, first_bias_ih, first_bias_hh, shares,
            H, HP, WN, E, FIELDS, GATES, CELL, UPPER, ROWS, SHARES,
        )  # fmt: skip
    else:
        finish_layer(
            d_weight + shares * 2 * FIELDS * HP * HP, d_bias + shares * FIELDS * HP,
            next_ih, next_hh, next_bias_ih, next_bias_hh, shares,
            H, HP, WN, E, FIELDS, GATES, CELL, True, ROWS, SHARES,
        )  # fmt: skip


@triton.jit
def finish_layer(
    d_weight, d_bias, d_ih, d_hh, d_bias_ih, d_bias_hh, shares,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, UPPER: tl.constexpr, ROWS: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """Adds up the shares of :func:`weight_gradient` and puts them in the order of the weights;
    ``SHARES`` are read at once."""
    W: tl.constexpr = FIELDS * HP
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, HP)
    k = column_at(column, HP, WN, E)
    gate, unit = row // H, row % H
    exists = row < GATES * H
    inner = exists[:, None] & (k < H)[None, :]
    out = row[:, None] * H + k[None, :]
    for side in tl.static_range(2 if UPPER else 1):
        field = gate
        if side == 0 and CELL == "gru":
            field = tl.where(gate == 2, 3, gate)
        wide = unit // (HP // WN) * (W // WN) + field * (HP // WN) + unit % (HP // WN)
        place = place_of(wide, W, WN, E)
        matrices = tl.zeros([SHARES, ROWS, HP], tl.float32)
        vectors = tl.zeros([SHARES, ROWS], tl.float32)
        for begin in range(0, shares, SHARES):
            share = begin + tl.arange(0, SHARES)
            at = (share * 2 + side)[:, None] * W + place[None, :]
            mask = (share < shares)[:, None] & exists[None, :]
            there = (share < shares)[:, None, None] & inner[None, :, :]
            matrices += tl.load(d_weight + at[:, :, None] * HP + column[None, None, :], mask=there, other=0)
            vectors += tl.load(d_bias + share[:, None] * W + place[None, :], mask=mask, other=0)
        matrix, vector = tl.sum(matrices, 0), tl.sum(vectors, 0)
        if side == 0:
            tl.store(d_hh + out, matrix, mask=inner)
            tl.store(d_bias_hh + row, vector, mask=exists)
        else:
            tl.store(d_ih + out, matrix, mask=inner)
            tl.store(d_bias_ih + row, vector, mask=exists)


@triton.jit
def turned_by_pieces(x, ROWS: tl.constexpr, BU: tl.constexpr):
    """A ``[ROWS, BU]`` matrix transposed, its columns in another order, :func:`piece_of`: what a thread of two warps
    needs of it as the first operand of a product in TF32 are then pieces of rows. They are read from shared memory as
    they came from the cache, while TF32 units have numbers transposed there one by one."""
    HALVES: tl.constexpr = min(BU // 16, 2)
    x = tl.reshape(x, [ROWS // 4, 4, 2, 8, BU // 16 // HALVES, HALVES])
    return tl.reshape(tl.permute(x, [4, 2, 5, 3, 0, 1]), [BU, ROWS])


@triton.jit
def piece_of(line, BU: tl.constexpr):
    """Which column of the matrix is a line of :func:`turned_by_pieces`."""
    HALVES: tl.constexpr = min(BU // 16, 2)
    thread = line // (8 * HALVES) % 2 * 8 + line % 8
    return thread * (BU // 16) + line // (16 * HALVES) * HALVES + line // 8 % HALVES


@direct
@triton.jit(do_not_specialize=["tiles"])
def weight_gradient(
    acts, hidden, below, d_weight, d_bias, offset, tiles,
    W: tl.constexpr, HP: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, B: tl.constexpr,
    UPPER: tl.constexpr, ADDS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds a share of the rows of ``actsᵀ hidden`` and, for an upper layer, of ``actsᵀ below`` one block further on.

    Program (tile of the matrix, share); ``d_weight`` is ``[share, 2, W, HP]``, ``d_bias`` is ``[share, W]``.
    """
    share, shares = tl.program_id(1), tl.num_programs(1)
    num_rows = tl.load(offset + tiles) - tl.load(offset)
    across: tl.constexpr = HP // BK
    pieces: tl.constexpr = (acts.dtype.element_ty == tl.float32) & (PRECISION == "tf32")
    first = tl.program_id(0) // across * BU
    u = first + tl.arange(0, BU)
    k = tl.program_id(0) % across * BK + tl.arange(0, BK)
    own = tl.zeros([BU, BK], tl.float32)
    lower = tl.zeros([BU, BK], tl.float32)
    total = tl.zeros([BU, 16], tl.float32)
    ones = tl.full([ROWS, 16], 1, acts.dtype.element_ty)
    for begin in range(share * ROWS, num_rows, shares * ROWS):
        row = (begin + tl.arange(0, ROWS)).to(tl.int64)
        mask = (row < num_rows)[:, None]
        d = tl.load(acts + row[:, None] * W + u[None, :], mask=mask, other=0)
        d = turned_by_pieces(d, ROWS, BU) if pieces else tl.trans(d)
        h = tl.load(hidden + row[:, None] * HP + k[None, :], mask=mask, other=0)
        own = tl.dot(d, h, acc=own, input_precision=PRECISION)
        if UPPER:
            mask = (row + B < num_rows)[:, None]
            x = tl.load(below + (row + B)[:, None] * HP + k[None, :], mask=mask, other=0)
            lower = tl.dot(d, x, acc=lower, input_precision=PRECISION)
        total = tl.dot(d, ones, acc=total, input_precision=PRECISION)
    if pieces:
        u = first + piece_of(tl.arange(0, BU), BU)
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


@direct
@triton.jit(do_not_specialize=["first_slot", "first_sequence", "end_sequence", "t_begin", "t_end", "root"])
def gate_gradient(
    acts, d_gates, table_rows, slot_node, slot_first, first, degree, start, offset,
    first_slot, first_sequence, end_sequence, t_begin, t_end, root,
    H: tl.constexpr, HP: tl.constexpr, B: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr,
    GATES: tl.constexpr, QUEUE: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
    SCATTERS: tl.constexpr,
):  # fmt: skip
    """Sums the gate gradients of all steps that read a slot, and adds them to the row of ``d_gates`` that the slot
    reads or, to be repeatable bit for bit, to one of the slot's own; those of the centres begin at row ``root``."""
    W: tl.constexpr = FIELDS * HP
    s = first_slot + tl.program_id(0)
    node = tl.load(slot_node + s)
    n = tl.load(degree + node).to(tl.int32)
    j = s - tl.load(slot_first + node)
    begins = tl.load(first + node)
    origin = tl.load(offset)
    col = tl.arange(0, W)
    total = tl.zeros([W], tl.float32)
    count = tl.where(j <= n, readings(j, n, GROUP, FRAME, LIMIT), 0)
    for q_begin in range(0, count, QUEUE):
        q = q_begin + tl.arange(0, QUEUE)
        i, t, reads = reading(q, j, n, GROUP, FRAME, LIMIT)
        sequence = begins + i
        reads &= (q < count) & (sequence >= first_sequence) & (sequence < end_sequence) & (t >= t_begin) & (t < t_end)
        within = sequence - first_sequence
        tile = tl.where(reads, within // B, 0)
        row = tl.load(offset + tile) - origin + (t - t_begin) * B + within % B
        total += tl.sum(tl.load(acts + row[:, None] * W + col[None, :], mask=reads[:, None], other=0).to(tl.float32), 0)
    total = by_field(total, HP, FIELDS, WN, E)
    mask = (col // HP < GATES) & (col % HP < H)
    at = col // HP * H + col % HP
    if count > 0:
        row = (root + node).to(tl.int64)
        if j < n:
            row = tl.load(start + node) + j
            if SCATTERS:
                row = tl.load(table_rows + row)
        out = d_gates + row * (GATES * H) + at
        if SCATTERS:
            tl.atomic_add(out, total, mask=mask, sem="relaxed")
        else:
            tl.store(out, tl.load(out, mask=mask) + total, mask=mask)


@direct
@triton.jit
def sum_steps(
    acts, d_gates, steps, begins,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    READERS: tl.constexpr,
):  # fmt: skip
    """Sums the gate gradients of the ``steps`` that read a gate row, those from ``begins`` on; −1 stands for none."""
    W: tl.constexpr = FIELDS * HP
    number = tl.program_id(0)
    begin, end = tl.load(begins + number), tl.load(begins + number + 1)
    col = tl.arange(0, W)
    total = tl.zeros([W], tl.float32)
    for first in range(begin, end, READERS):
        place = first + tl.arange(0, READERS)
        row = tl.load(steps + place, mask=place < end, other=-1).to(tl.int64)
        there = (row >= 0)[:, None]
        total += tl.sum(tl.load(acts + row[:, None] * W + col[None, :], mask=there, other=0).to(tl.float32), 0)
    total = by_field(total, HP, FIELDS, WN, E)
    mask = (col // HP < GATES) & (col % HP < H)
    out = d_gates + number.to(tl.int64) * (GATES * H) + col // HP * H + col % HP
    tl.store(out, total.to(d_gates.dtype.element_ty), mask=mask)


@direct
@triton.jit(do_not_specialize=["read", "root", "own"])
def sum_rows(
    values, out, rows, begins, read, root, own, width,
    COLUMNS: tl.constexpr, USUAL: tl.constexpr, READERS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Sums ``rows`` of ``values``, some columns of those that begin at ``begins``, or one of ``PARTS`` of them; see
    :func:`pggnn.ops.fused.sum`. ``out`` is ``[PARTS, rows, width]``. ``USUAL`` rows are read at once, then ``READERS``
    at a time."""
    number, part = tl.program_id(0), tl.program_id(2)
    begin, end = tl.load(begins + number), tl.load(begins + number + 1)
    share = tl.cdiv(end - begin, PARTS)
    begin += part * share
    end = tl.minimum(begin + share, end)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    exists = col < width
    centre = number - root
    total = sum_of(values, rows, begin, end, col, exists, width, USUAL)
    if (part == 0) & (centre >= 0) & (centre < own):
        total += tl.load(values + (read + centre).to(tl.int64) * width + col, mask=exists, other=0).to(tl.float32)
    for first in range(begin + USUAL, end, READERS):
        total += sum_of(values, rows, first, end, col, exists, width, READERS)
    at = (part * tl.num_programs(0) + number).to(tl.int64) * width + col
    tl.store(out + at, total.to(out.dtype.element_ty), mask=exists)


@triton.jit
def sum_of(values, rows, first, end, col, exists, width, NUMBER: tl.constexpr):
    """The sum of ``NUMBER`` rows, or of those before ``end``."""
    place = first + tl.arange(0, NUMBER)
    row = tl.load(rows + place, mask=place < end, other=0)
    mask = (place < end)[:, None] & exists[None, :]
    return tl.sum(tl.load(values + row[:, None] * width + col[None, :], mask=mask, other=0).to(tl.float32), 0)


@direct
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
