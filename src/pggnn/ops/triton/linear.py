"""Cells h ← a ⊙ h + b: what :mod:`pggnn.ops.linear.numba_steps` and :mod:`~pggnn.ops.linear.numba_arcs` do, in Triton.

A program has some channels of a node, and goes through its sequences or around its cycle. Gradients of gate rows are
written slot by slot, and summed by row afterwards.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.index import elements, length, order, slot_read

PART = tl.constexpr(256)
"""Steps that are added up before they are added to the rest, so that a long sum stays precise."""


@triton.jit
def own_node(by_degree, degree, start, H: tl.constexpr, C: tl.constexpr):
    """The program's node, its degree and first slot, its channels, and which of them exist."""
    v = tl.load(by_degree + tl.program_id(0))
    c = tl.program_id(1) * C + tl.arange(0, C)
    return v, tl.load(degree + v).to(tl.int32), tl.load(start + v), c, c < H


@triton.jit
def load_row(table, row, c, exists, H: tl.constexpr):
    """Gates and inputs of a row, as they stand there."""
    at = row.to(tl.int64) * (2 * H) + c
    return (
        tl.load(table + at, mask=exists, other=0).to(tl.float32),
        tl.load(table + at + H, mask=exists, other=0).to(tl.float32),
    )


@triton.jit
def read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H: tl.constexpr):
    """Gate and input of a member, or of the centre where it is −1."""
    own = member < 0
    row = tl.where(own, root + v, tl.load(rows + first + tl.maximum(member, 0), mask=member >= 0, other=0))
    x, y = load_row(gates, row, c, exists, H)
    x += tl.where(own, 0.0, seen_x)
    y += tl.where(own, 0.0, seen_y)
    return tl.sigmoid(x), tl.where(y < 0, 0.0, y)


@triton.jit
def seen_by(center, v, c, exists, H: tl.constexpr, CENTER: tl.constexpr):
    """What the centre adds to its slots."""
    x = tl.zeros_like(c).to(tl.float32)
    y = x
    if CENTER:
        x, y = load_row(center, v, c, exists, H)
    return x, y


@triton.jit
def put(table, row, x, y, c, exists, H: tl.constexpr):
    at = row.to(tl.int64) * (2 * H) + c
    tl.store(table + at, x, mask=exists)
    tl.store(table + at + H, y, mask=exists)


@triton.jit
def add_to(table, row, x, y, c, exists, H: tl.constexpr):
    before_x, before_y = load_row(table, row, c, exists, H)
    put(table, row, before_x + x, before_y + y, c, exists, H)


@triton.jit
def row_gradients(d_log, d_b, a, b):
    """Gradients of a gate row, given those of log a and of b."""
    return d_log * (1 - a), tl.where(b <= 0, 0.0, d_b)


@triton.jit
def sequence_count(n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """How many sequences a node with n members has, see :meth:`pggnn.orderings.Reading.count`."""
    count = elements(n, GROUP, LIMIT)
    if FRAME != "merged":
        count = tl.where(n > 0, count, 0)
    return count


@triton.jit(do_not_specialize=["root"])
def steps_forward(
    gates, center, rows, by_degree, degree, start, out, root,
    H: tl.constexpr, C: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
    LIMIT: tl.constexpr,
):  # fmt: skip
    """The sum of the last states of a node's sequences."""
    v, n, first, c, exists = own_node(by_degree, degree, start, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    total = tl.zeros([C], tl.float32)
    steps = length(n, GROUP, FRAME, LIMIT)
    for i in range(sequence_count(n, GROUP, FRAME, LIMIT)):
        h = tl.zeros([C], tl.float32)
        for t in range(steps):
            member = slot_read(i, t, n, GROUP, FRAME, LIMIT)
            a, b = read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H)
            h = a * h + b
        total += h
    tl.store(out + v.to(tl.int64) * H + c, total, mask=exists)


@triton.jit(do_not_specialize=["root", "edges"])
def steps_backward(
    gates, center, rows, by_degree, degree, start, d_out, d_slots, d_center, scratch, root, edges,
    H: tl.constexpr, C: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
    LIMIT: tl.constexpr,
):  # fmt: skip
    """Adds to the gradients of a node's slots and, behind the ``edges`` of all, of its own row; writes what it adds to
    its slots. ``scratch`` has two rows more than slots for each node."""
    v, n, first, c, exists = own_node(by_degree, degree, start, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    d_last = tl.load(d_out + v.to(tl.int64) * H + c, mask=exists, other=0).to(tl.float32)
    kept = scratch + (first + 2 * v).to(tl.int64) * H + c
    steps = length(n, GROUP, FRAME, LIMIT)
    sum_x = tl.zeros([C], tl.float32)
    sum_y = tl.zeros([C], tl.float32)
    for i in range(sequence_count(n, GROUP, FRAME, LIMIT)):
        h = tl.zeros([C], tl.float32)
        for t in range(steps):
            member = slot_read(i, t, n, GROUP, FRAME, LIMIT)
            a, b = read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H)
            h = a * h
            tl.store(kept + t * H, h, mask=exists)
            h += b
        d_h = d_last
        for back in range(steps):
            t = steps - 1 - back
            member = slot_read(i, t, n, GROUP, FRAME, LIMIT)
            a, b = read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H)
            d_x, d_y = row_gradients(d_h * tl.load(kept + t * H, mask=exists, other=0), d_h, a, b)
            add_to(d_slots, tl.where(member < 0, edges + v, first + member), d_x, d_y, c, exists, H)
            sum_x += tl.where(member < 0, 0.0, d_x)
            sum_y += tl.where(member < 0, 0.0, d_y)
            d_h *= a
    if CENTER:
        put(d_center, v, sum_x, sum_y, c, exists, H)


@triton.jit
def group_of(n, GROUP: tl.constexpr):
    """How many orders there are; 1 if they go both ways, else 0; and how many members stand before the cycle."""
    orders = order(n, GROUP).to(tl.float32)
    if GROUP == "dihedral":
        return orders, tl.where(n > 2, 1.0, 0.0), n * 0
    else:
        return orders, n * 0 + 1.0, n & 1


@triton.jit
def member_at(s, n, fixed, RING: tl.constexpr):
    """The member at a place of the cycle, see :func:`pggnn.groups.cycle`."""
    if RING:
        return s
    else:
        return fixed + tl.minimum(2 * s, 2 * (n - fixed - s) - 1)


@triton.jit
def sweep(
    gates, rows, first, n, fixed, v, root, seen_x, seen_y, back, kept, field, c, exists,
    H: tl.constexpr, C: tl.constexpr, RING: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """From the last place of the cycle to the first, see :func:`pggnn.ops.linear.numba_arcs.pairs_sweep`; keeps
    ``after``, ``before`` and ``suffix``. Returns the sums, those of odd places zero for a ring, what suffixes go on
    with, the product of all gates, the sum of all inputs, the first gate and the last input."""
    zero = tl.zeros([C], tl.float32)
    inside, ends_0, ends_1, starts_0, starts_1, inputs = zero, zero, zero, zero, zero, zero
    some, some_0, some_1, alone_0, alone_1, some_b = zero, zero, zero, zero, zero, zero
    after_0, after_1, before_0, before_1, a_next, product = zero, zero, zero, zero, zero, zero + 1
    size = n - fixed
    member = member_at(tl.maximum(size - 1, 0), n, fixed, RING)
    a, b = zero, zero
    if size > 0:
        a, b = read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H)
    last_b = b
    for turn in range(size):
        s = size - 1 - turn
        earlier_a, earlier_b = zero, last_b
        if s > 0:
            member = member_at(s - 1, n, fixed, RING)
            earlier_a, earlier_b = read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H)
        product *= a
        if RING:
            after_0 = 1 + a * after_0
            before_0 = b + a * before_0
            after_s, before_s = after_0, before_0
            some_0 += product * earlier_b
            alone_0 += product
        else:
            even = s % 2 == 0
            after_s = a + a * a_next * tl.where(even, after_0, after_1)
            before_s = b + a * a_next * tl.where(even, before_0, before_1)
            after_0 = tl.where(even, after_s, after_0)
            after_1 = tl.where(even, after_1, after_s)
            before_0 = tl.where(even, before_s, before_0)
            before_1 = tl.where(even, before_1, before_s)
            some_0 += tl.where(even, product * earlier_b, 0.0)
            some_1 += tl.where(even, 0.0, product * earlier_b)
            alone_0 += tl.where(even, product, 0.0)
            alone_1 += tl.where(even, 0.0, product)
        some += earlier_b * after_s + back * before_s
        some_b += b
        if KEEP:
            tl.store(kept + s * H, after_s, mask=exists)
            tl.store(kept + field + s * H, before_s, mask=exists)
            tl.store(kept + 2 * field + s * H, product, mask=exists)
        if s % PART == 0:
            inside, inputs = inside + some, inputs + some_b
            ends_0, ends_1, starts_0, starts_1 = (
                ends_0 + some_0,
                ends_1 + some_1,
                starts_0 + alone_0,
                starts_1 + alone_1,
            )
            some, some_0, some_1, alone_0, alone_1, some_b = zero, zero, zero, zero, zero, zero
        a_next = a
        if s > 0:
            a, b = earlier_a, earlier_b
    head_0, tail_0 = after_0, before_0
    head_1, tail_1 = zero, zero
    if not RING:
        head_1, tail_1 = a * after_1, a * before_1
    return inside, ends_0, ends_1, starts_0, starts_1, head_0, head_1, tail_0, tail_1, product, inputs, a, last_b


@triton.jit(do_not_specialize=["root"])
def arcs_forward(
    gates, center, rows, by_degree, degree, start, out, root,
    H: tl.constexpr, C: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
):  # fmt: skip
    """The sum over the whole group, ``"pairs"`` or ``"dihedral"``."""
    RING: tl.constexpr = GROUP == "dihedral"
    v, n, first, c, exists = own_node(by_degree, degree, start, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    orders, back, fixed = group_of(n, GROUP)
    (
        inside, ends_0, ends_1, starts_0, starts_1, head_0, head_1, tail_0, tail_1, product, inputs, _, _,
    ) = sweep(
        gates, rows, first, n, fixed, v, root, seen_x, seen_y, back, out, 0, c, exists, H, C, RING, False
    )  # fmt: skip
    total = (1 - product) * inside + ends_0 * head_0 + ends_1 * head_1 + back * (starts_0 * tail_0 + starts_1 * tail_1)
    if FRAME == "closed":
        total += (1 + back) * product * inputs
    h = tl.zeros([C], tl.float32)
    center_a, center_b = h, h
    if FRAME == "merged":
        center_a, center_b = read(gates, rows, first, -1, v, root, seen_x, seen_y, c, exists, H)
        h = center_b
    if fixed > 0:
        a, b = read(gates, rows, first, 0, v, root, seen_x, seen_y, c, exists, H)
        h = a * h + b
    total += orders * product * h
    if FRAME == "merged":
        total = center_a * total + orders * center_b
    tl.store(out + v.to(tl.int64) * H + c, total, mask=exists)


@triton.jit(do_not_specialize=["root", "edges", "field"])
def arcs_backward(
    gates, center, rows, by_degree, degree, start, d_out, d_slots, d_center, scratch, root, edges, field,
    H: tl.constexpr, C: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of a node's slots, behind the ``edges`` of all that of its own row, and what it adds to its
    slots. ``scratch`` has three fields of so many numbers, with two rows more than slots for each node."""
    RING: tl.constexpr = GROUP == "dihedral"
    STRIDE: tl.constexpr = 1 if RING else 2
    v, n, first, c, exists = own_node(by_degree, degree, start, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    orders, back, fixed = group_of(n, GROUP)
    kept = scratch + (first + 2 * v).to(tl.int64) * H + c
    (
        inside, ends_0, ends_1, starts_0, starts_1, head_0, head_1, tail_0, tail_1, product, inputs, a, earlier_b,
    ) = sweep(
        gates, rows, first, n, fixed, v, root, seen_x, seen_y, back, kept, field, c, exists, H, C, RING, True
    )  # fmt: skip
    d_total = tl.load(d_out + v.to(tl.int64) * H + c, mask=exists, other=0).to(tl.float32)
    zero = tl.zeros([C], tl.float32)
    begin, h, center_a, center_b, fixed_a, fixed_b = zero, zero, zero, zero, zero, zero
    if FRAME == "merged":
        center_a, center_b = read(gates, rows, first, -1, v, root, seen_x, seen_y, c, exists, H)
        begin, h = center_b, center_b
    if fixed > 0:
        fixed_a, fixed_b = read(gates, rows, first, 0, v, root, seen_x, seen_y, c, exists, H)
        h = fixed_a * begin + fixed_b
    d_center_log, d_center_b = zero, zero
    if FRAME == "merged":
        total = (1 - product) * inside + ends_0 * head_0 + ends_1 * head_1
        total += back * (starts_0 * tail_0 + starts_1 * tail_1) + orders * product * h
        d_center_log, d_center_b = d_total * center_a * total, orders * d_total
        d_total *= center_a
    d_h = orders * d_total * product
    sum_x, sum_y = zero, zero
    if fixed > 0:
        sum_x, sum_y = row_gradients(d_h * fixed_a * begin, d_h, fixed_a, fixed_b)
        put(d_slots, first, sum_x, sum_y, c, exists, H)
        d_h *= fixed_a
    if FRAME == "merged":
        d_x, d_y = row_gradients(d_center_log, d_center_b + d_h, center_a, center_b)
        put(d_slots, edges + v, d_x, d_y, c, exists, H)
    d_product, d_input = orders * h - inside, zero
    if FRAME == "closed":
        d_product += (1 + back) * inputs
        d_input = (1 + back) * d_total * product
    d_all, d_inside = d_product * d_total * product, d_total * (1 - product)
    d_after_0, d_before_0 = d_total * ends_0, back * d_total * starts_0
    d_after_1, d_before_1, crossing = zero, zero, zero
    if not RING:
        d_after_1, d_before_1 = d_total * a * ends_1, d_total * a * starts_1
        crossing = d_total * (ends_1 * head_1 + starts_1 * tail_1)
    around, earlier_a, a_before, earlier_x, earlier_d, d_first = zero, zero, zero, zero, zero, zero
    size = n - fixed
    next_a, next_b = zero, zero
    if size > 0:
        next_a, next_b = read(
            gates, rows, first, member_at(0, n, fixed, RING), v, root, seen_x, seen_y, c, exists, H
        )  # fmt: skip
    for s in range(size):
        a, b = next_a, next_b
        next_a, next_b = zero, zero
        if s + 1 < size:
            member = member_at(s + 1, n, fixed, RING)
            next_a, next_b = read(gates, rows, first, member, v, root, seen_x, seen_y, c, exists, H)
        further = exists & (tl.zeros_like(c) + s + STRIDE < size)
        after_s = tl.load(kept + s * H, mask=exists, other=0)
        suffix_s = tl.load(kept + 2 * field + s * H, mask=exists, other=0)
        after_next = tl.load(kept + (s + STRIDE) * H, mask=further, other=0)
        before_next = tl.load(kept + field + (s + STRIDE) * H, mask=further, other=0)
        even = RING or s % 2 == 0
        head, tail = tl.where(even, head_0, head_1), tl.where(even, tail_0, tail_1)
        d_after, d_before = tl.where(even, d_after_0, d_after_1), tl.where(even, d_before_0, d_before_1)
        d_b = d_input + d_inside * after_s + d_total * suffix_s * head
        if s == 0:
            d_first = d_b
        else:
            d_x, d_y = row_gradients(earlier_x, earlier_d + d_b, earlier_a, earlier_b)
            put(d_slots, first + member_at(s - 1, n, fixed, RING), d_x, d_y, c, exists, H)
            sum_x += d_x
            sum_y += d_y
        if s >= STRIDE:
            both = earlier_a
            if not RING:
                both *= a_before
            d_after *= both
            d_before *= both
        d_after += d_inside * earlier_b
        d_before += back * d_inside
        d_after_0, d_before_0 = tl.where(even, d_after, d_after_0), tl.where(even, d_before, d_before_0)
        d_after_1, d_before_1 = tl.where(even, d_after_1, d_after), tl.where(even, d_before_1, d_before)
        around += suffix_s * d_total * (earlier_b * head + back * tail)
        through = a * (d_after * after_next + d_before * before_next)
        earlier_d = d_before
        if RING:
            earlier_x = around + d_all + through
        else:
            through *= next_a
            earlier_x = around + d_all + crossing + through + a * d_after
            crossing = through
        a_before, earlier_a, earlier_b = earlier_a, a, b
    if size > 0:
        d_x, d_y = row_gradients(earlier_x, earlier_d + d_first, earlier_a, earlier_b)
        put(d_slots, first + member_at(size - 1, n, fixed, RING), d_x, d_y, c, exists, H)
        sum_x += d_x
        sum_y += d_y
    if CENTER:
        put(d_center, v, sum_x, sum_y, c, exists, H)
