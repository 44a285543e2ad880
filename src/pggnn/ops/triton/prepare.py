"""Brings gate rows and weights into the order, width and type that the recurrent kernels read."""

import triton
import triton.language as tl

from pggnn.ops.triton.launch import direct
from pggnn.ops.triton.layout import column_at, field_at, halving, state_gate


@direct
@triton.jit(do_not_specialize=["num_rows", "tables"])
def prepare(
    gates, table, first_ih, first_hh, first_bias_ih, first_bias_hh, next_ih, next_hh, next_bias_ih, next_bias_hh,
    weights, biases, num_rows, tables,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, UPPER: tl.constexpr, ARRANGED: tl.constexpr, TABLE_ROWS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The weights of a layer, an ``UPPER`` one or the lowest, and of the next one if the grid has programs for it;
    the first ``tables`` programs have the gate rows as :func:`forward_layer` reads them."""
    W: tl.constexpr = FIELDS * HP
    block = tl.program_id(0) - tables
    if block < 0:
        prepare_table(gates, first_bias_hh, table, num_rows, H, HP, WN, E, FIELDS, GATES, CELL, TABLE_ROWS)
    elif block < W // ROWS:
        prepare_weights(
            first_ih, first_hh, first_bias_ih, first_bias_hh, weights, biases, block,
            H, HP, WN, E, FIELDS, GATES, CELL, UPPER, ARRANGED, ROWS,
        )  # fmt: skip
    else:
        prepare_weights(
            next_ih, next_hh, next_bias_ih, next_bias_hh, weights + 4 * W * HP, biases + W, block - W // ROWS,
            H, HP, WN, E, FIELDS, GATES, CELL, True, ARRANGED, ROWS,
        )  # fmt: skip


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
    weight_ih, weight_hh, bias_ih, bias_hh, weights, bias, block,
    H: tl.constexpr, HP: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr, GATES: tl.constexpr,
    CELL: tl.constexpr, UPPER: tl.constexpr, ARRANGED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """A block of a layer's weights by (warp, field, unit), padded, in the operands' type: ``[4, W, HP]``, of the input
    and of the state, for the forward and then for the backward pass. Those of the input are ``ARRANGED`` like the
    states in memory where they are multiplied by them outside the kernels."""
    W: tl.constexpr = FIELDS * HP
    place, at = block * ROWS + tl.arange(0, ROWS), tl.arange(0, HP)
    dtype = weights.dtype.element_ty
    forward, backward = weights, weights + 2 * W * HP
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
