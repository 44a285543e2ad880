"""Where the numbers of a tile lie: in memory, in the registers of a GPU's matrix units, and by field of a cell."""

import triton
import triton.language as tl


@triton.jit
def fragment(
    STRIDE: tl.constexpr, B: tl.constexpr, W: tl.constexpr, WN: tl.constexpr, E: tl.constexpr, FIELDS: tl.constexpr = 1
):
    """Offsets of a ``[B, W]`` matrix's elements in the shape in which a GPU's matrix units spread it over the threads:
    ``[4, 8, B/16, WN, 2, parts, E]``, that is 4 · 8 lanes, (B/16) · WN warps, and the rest in registers.

    Columns lie in memory so that what a thread holds of a row comes in pieces of ``E``, and what the lanes of a row
    hold is contiguous (:func:`column_at`): matrices then move between memory and the matrix units
    in wide accesses, without passing through shared memory. Where the matrix is the first of ``FIELDS`` parts of a
    larger one, the others follow it at distances of ``W / WN``.
    """
    lane_column = tl.arange(0, 4)[:, None, None, None, None, None, None]
    warp_column = tl.arange(0, WN)[None, None, None, :, None, None, None]
    part = tl.arange(0, W // WN // 4 // E)[None, None, None, None, None, :, None]
    element = tl.arange(0, E)[None, None, None, None, None, None, :]
    return fragment_row(B) * STRIDE + warp_column * (FIELDS * W // WN) + part * (4 * E) + lane_column * E + element


@triton.jit
def fragment_row(B: tl.constexpr):
    """The rows of :func:`fragment`."""
    lane_row = tl.arange(0, 8)[None, :, None, None, None, None, None]
    warp_row = tl.arange(0, B // 16)[None, None, :, None, None, None, None]
    half = tl.arange(0, 2)[None, None, None, None, :, None, None]
    return warp_row * 16 + half * 8 + lane_row


@triton.jit
def held_rows(B: tl.constexpr, WN: tl.constexpr):
    """:func:`fragment_row` once for each thread, so that each finds out itself about the rows that it holds."""
    return tl.broadcast_to(fragment_row(B), [4, 8, B // 16, WN, 2, 1, 1])


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
def by_field(x, HP: tl.constexpr, FIELDS: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    """A row as it lies in memory, with its columns in the order (field, unit)."""
    x = tl.permute(tl.reshape(x, [WN, FIELDS * HP // WN // 4 // E, 4, E // 2, 2]), [0, 1, 3, 2, 4])
    x = tl.permute(tl.reshape(x, [WN, FIELDS, HP // WN]), [1, 0, 2])
    return tl.reshape(x, [FIELDS * HP])


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
