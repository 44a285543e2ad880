"""Cells h ← a ⊙ h + b: what :mod:`pggnn.ops.linear.numba_steps` does, in Triton.

A program has some channels of a node, and goes through its sequences P steps at a time. Such a tile ``[P, C]`` is one
scan over the maps h ← a h + b, and what it ends with is carried to the next. A tile reads its neighbours' rows again
where it needs values one step earlier or later: then no value moves between rows. Gradients of gate rows are written
slot by slot, and summed by row afterwards.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.index import elements, length, slot_read
from pggnn.ops.triton.launch import direct


@triton.jit
def own_node(by_degree, degree, start, begin, H: tl.constexpr, C: tl.constexpr):
    """The program's node, its degree and first slot, its channels ``[1, C]``, and which of them exist."""
    v = tl.load(by_degree + begin + tl.program_id(0))
    c = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    return v, tl.load(degree + v).to(tl.int32), tl.load(start + v), c, c < H


@triton.jit
def own_scratch(scratch, numbers):
    """Where the program's part of the memory between two loops begins, with so many numbers for each node."""
    return scratch + tl.program_id(0).to(tl.int64) * numbers


@triton.jit
def load_row(table, row, c, mask, H: tl.constexpr):
    """Gates and inputs of a row, or of rows ``[P, 1]``, as they stand there."""
    at = row.to(tl.int64) * (2 * H) + c
    return (
        tl.load(table + at, mask=mask, other=0).to(tl.float32),
        tl.load(table + at + H, mask=mask, other=0).to(tl.float32),
    )


@triton.jit
def read(gates, rows, first, member, there, v, root, seen_x, seen_y, c, exists, H: tl.constexpr):
    """Gate and input of members, or of the centre where it is −1; 1 and 0, which change nothing, if none is there."""
    own = member < 0
    row = tl.where(own, root + v, tl.load(rows + first + tl.maximum(member, 0), mask=there & (member >= 0), other=0))
    x, y = load_row(gates, row, c, exists & there, H)
    x += tl.where(own, 0.0, seen_x)
    y += tl.where(own, 0.0, seen_y)
    return tl.where(there, tl.sigmoid(x), 1.0), tl.where(there, tl.where(y < 0, 0.0, y), 0.0)


@triton.jit
def seen_by(center, v, c, exists, H: tl.constexpr, CENTER: tl.constexpr):
    """What the centre adds to its slots."""
    x = tl.zeros_like(c).to(tl.float32)
    y = x
    if CENTER:
        x, y = load_row(center, v, c, exists, H)
    return x, y


@triton.jit
def put(table, row, x, y, c, mask, H: tl.constexpr):
    at = row.to(tl.int64) * (2 * H) + c
    tl.store(table + at, x, mask=mask)
    tl.store(table + at + H, y, mask=mask)


@triton.jit
def row_gradients(d_log, d_b, a, b):
    """Gradients of a gate row, given those of log a and of b."""
    return d_log * (1 - a), tl.where(b <= 0, 0.0, d_b)


@triton.jit
def total(values, chosen):
    """``[1, C]`` the sum of the chosen rows."""
    return tl.sum(tl.where(chosen, values, 0.0), 0, keep_dims=True)


@triton.jit
def then(a, b, next_a, next_b):
    """First h ← a h + b, then the next."""
    return a * next_a, next_b + next_a * b


@triton.jit
def sequence_count(n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """How many sequences a node with n members has, see :meth:`pggnn.orderings.Reading.count`."""
    count = elements(n, GROUP, LIMIT)
    if FRAME != "merged":
        count = tl.where(n > 0, count, 0)
    return count


@triton.jit
def read_step(
    gates, rows, first, i, t, steps, n, v, root, seen_x, seen_y, c, exists,
    H: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr,
):  # fmt: skip
    """Gates and inputs of steps ``t`` of sequence ``i``, then the members that they read."""
    there = (t >= 0) & (t < steps)
    member = slot_read(i, tl.where(there, t, 0), n, GROUP, FRAME, LIMIT)
    a, b = read(gates, rows, first, member, there, v, root, seen_x, seen_y, c, exists, H)
    return a, b, member


@direct
@triton.jit(do_not_specialize=["root", "begin"])
def steps_forward(
    gates, center, rows, by_degree, degree, start, begin, root, out,
    H: tl.constexpr, C: tl.constexpr, P: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
    LIMIT: tl.constexpr,
):  # fmt: skip
    """The sum of the last states of a node's sequences."""
    v, n, first, c, exists = own_node(by_degree, degree, start, begin, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    row = tl.arange(0, P)[:, None]
    states = tl.zeros([1, C], tl.float32)
    steps = length(n, GROUP, FRAME, LIMIT)
    for i in range(sequence_count(n, GROUP, FRAME, LIMIT)):
        h = tl.zeros([1, C], tl.float32)
        for t in range(0, steps, P):
            a, b, _ = read_step(
                gates, rows, first, i, t + row, steps, n, v, root, seen_x, seen_y, c, exists, H, GROUP, FRAME, LIMIT
            )  # fmt: skip
            a, b = tl.associative_scan((a, b), 0, then)
            h = total(b + a * h, row == P - 1)
        states += h
    tl.store(out + v.to(tl.int64) * H + c, states, mask=exists)


@direct
@triton.jit(do_not_specialize=["root", "begin", "edges", "numbers"])
def steps_backward(
    gates, center, rows, by_degree, degree, start, begin, root, d_out, d_slots, d_center, scratch, edges, numbers,
    H: tl.constexpr, C: tl.constexpr, P: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
    LIMIT: tl.constexpr,
):  # fmt: skip
    """Adds to the gradients of a node's slots; writes those of its own row, behind the ``edges`` of all, and of what it
    adds to its slots. ``scratch`` has ``numbers`` for each node: H for each step of a sequence."""
    v, n, first, c, exists = own_node(by_degree, degree, start, begin, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    d_last = tl.load(d_out + v.to(tl.int64) * H + c, mask=exists, other=0).to(tl.float32)
    kept = own_scratch(scratch, numbers) + c
    row = tl.arange(0, P)[:, None]
    zero = tl.zeros([1, C], tl.float32)
    sum_x, sum_y, own_x, own_y = zero, zero, zero, zero
    steps = length(n, GROUP, FRAME, LIMIT)
    tiles = tl.cdiv(steps, P)
    for i in range(sequence_count(n, GROUP, FRAME, LIMIT)):
        h = zero
        for tile in range(tiles):
            t = tile * P + row
            earlier_a, earlier_b, _ = read_step(
                gates, rows, first, i, t - 1, steps, n, v, root, seen_x, seen_y, c, exists, H, GROUP, FRAME, LIMIT
            )  # fmt: skip
            a, _, _ = read_step(
                gates, rows, first, i, t, steps, n, v, root, seen_x, seen_y, c, exists, H, GROUP, FRAME, LIMIT
            )  # fmt: skip
            factor, added = tl.associative_scan((earlier_a, earlier_b), 0, then)
            before = added + factor * h
            tl.store(kept + t.to(tl.int64) * H, a * before, mask=exists & (t < steps))
            h = total(before, row == P - 1)
        tl.debug_barrier()  # other threads read what was kept
        d_h, closing_x, closing_y = d_last, zero, zero
        for turn in range(tiles):
            t = (tiles - turn) * P - 1 - row
            later_a, _, _ = read_step(
                gates, rows, first, i, t + 1, steps, n, v, root, seen_x, seen_y, c, exists, H, GROUP, FRAME, LIMIT
            )  # fmt: skip
            a, b, member = read_step(
                gates, rows, first, i, t, steps, n, v, root, seen_x, seen_y, c, exists, H, GROUP, FRAME, LIMIT
            )  # fmt: skip
            d = d_h * tl.cumprod(later_a, 0)
            d_x, d_y = row_gradients(
                d * tl.load(kept + t.to(tl.int64) * H, mask=exists & (t < steps), other=0), d, a, b
            )
            adds = (t < steps) & (member >= 0)
            if FRAME == "closed":  # the last step reads the first member again, which gets both gradients at once
                last = t == steps - 1
                closing_x += total(d_x, last)
                closing_y += total(d_y, last)
                d_x += tl.where(t == 0, closing_x, 0.0)
                d_y += tl.where(t == 0, closing_y, 0.0)
                adds = t < steps - 1
            else:
                own_x += total(d_x, (t < steps) & (member < 0))
                own_y += total(d_y, (t < steps) & (member < 0))
            slot = first + tl.maximum(member, 0)
            before_x, before_y = load_row(d_slots, slot, c, exists & adds, H)
            put(d_slots, slot, before_x + d_x, before_y + d_y, c, exists & adds, H)
            sum_x += total(d_x, adds)
            sum_y += total(d_y, adds)
            d_h = total(d, row == P - 1)
        tl.debug_barrier()  # the next sequence adds to the same slots, and keeps its states in the same memory
    if (FRAME == "merged") | (FRAME == "after"):
        put(d_slots, edges + v, own_x, own_y, c, exists, H)
    if CENTER:
        put(d_center, v, sum_x, sum_y, c, exists, H)
