"""The sum over a whole group in linear time: what :mod:`pggnn.ops.linear.numba_arcs` does, in Triton.

A program has some channels of a node, and goes around its cycle P rows at a time. A row i is a place of a ring, or the
places 2i and 2i + 1 of 𝔊's cycle, with gates a₀ and a₁ and inputs b₀ and b₁. These sums over arcs are all maps
x ← A x + B from a row to the one before it, with the same factor A, so that a tile is one scan:

* ``after``: products of the gates of arcs from the row on; of odd length for 𝔊, of any length for a ring,
* ``before``: the same (even length for 𝔊), each times the input behind its arc,
* ``after_2`` and ``before_2`` (0 for a ring): those of the row's second place, times a₀,
* ``suffix``: the product of all gates from the row on.

A row needs these of the *next* row alone: the scan is over the maps of the next rows.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.index import order
from pggnn.ops.triton.launch import direct
from pggnn.ops.triton.linear import own_node, own_scratch, put, read, row_gradients, seen_by, total


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
def rows_of(n, RING: tl.constexpr):
    return n if RING else n >> 1


@triton.jit
def read_row(
    gates, rows, first, i, n, fixed, v, root, seen_x, seen_y, c, exists, H: tl.constexpr, RING: tl.constexpr
):  # fmt: skip
    """Gates and inputs of a row's first and second place; a ring has no second, and its row ends with b₀."""
    there = (i >= 0) & (i < rows_of(n, RING))
    s = i if RING else 2 * i
    member = member_at(s, n, fixed, RING)
    a_0, b_0 = read(gates, rows, first, member, there, v, root, seen_x, seen_y, c, exists, H)
    a_1, b_1 = tl.full(a_0.shape, 1, tl.float32), b_0
    if not RING:
        member = member_at(s + 1, n, fixed, RING)
        a_1, b_1 = read(gates, rows, first, member, there, v, root, seen_x, seen_y, c, exists, H)
    return a_0, b_0, a_1, b_1, there


@triton.jit
def maps(a_0, b_0, a_1, b_1, there, RING: tl.constexpr):
    """The factor of a row, and what it adds to ``after``, ``before``, ``after_2`` and ``before_2``."""
    factor, none = a_0 * a_1, tl.zeros_like(a_0)
    if RING:
        return factor, tl.where(there, none + 1, 0.0), b_0, none, none
    else:
        return factor, tl.where(there, a_0, 0.0), b_0, tl.where(there, factor, 0.0), a_0 * b_1


@triton.jit
def then(f, x_0, x_1, x_2, x_3, next_f, y_0, y_1, y_2, y_3):
    """First x ← f x + x₀ …, then the next."""
    return f * next_f, y_0 + next_f * x_0, y_1 + next_f * x_1, y_2 + next_f * x_2, y_3 + next_f * x_3


@triton.jit
def sweep(
    gates, rows, first, n, fixed, v, root, seen_x, seen_y, back, kept, c, exists,
    H: tl.constexpr, C: tl.constexpr, P: tl.constexpr, RING: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """From the last row of the cycle to the first; keeps the five values of each row's next one.

    Returns the sum over arcs that end before the last place, the sums of suffixes (times the input before them, for
    first and second places, then alone), what these go on with at the cycle's beginning (``after``, ``after_2``,
    ``before``, ``before_2``), the product of all gates, the sum of all inputs, and the last input."""
    FIELDS: tl.constexpr = 3 if RING else 5
    zero = tl.zeros([1, C], tl.float32)
    inside, ends_0, ends_1, starts_0, starts_1, inputs = zero, zero, zero, zero, zero, zero
    after, before, after_2, before_2, suffix = zero, zero, zero, zero, zero + 1
    row = tl.arange(0, P)[:, None]
    count = rows_of(n, RING)
    tiles = tl.cdiv(count, P)
    for turn in range(tiles):
        i = (tiles - turn) * P - 1 - row  # falling, so that all scans go the same way
        a_0, b_0, a_1, b_1, further = read_row(
            gates, rows, first, i + 1, n, fixed, v, root, seen_x, seen_y, c, exists, H, RING
        )  # fmt: skip
        factor, x_0, x_1, x_2, x_3 = maps(a_0, b_0, a_1, b_1, further, RING)
        factor, x_0, x_1, x_2, x_3 = tl.associative_scan((factor, x_0, x_1, x_2, x_3), 0, then)
        x_0 += factor * after
        x_1 += factor * before
        x_2 += factor * after_2
        x_3 += factor * before_2
        factor *= suffix
        if KEEP:
            at, mask = kept + i.to(tl.int64) * (FIELDS * H), exists & (i < count)
            tl.store(at, x_0, mask=mask)
            tl.store(at + H, x_1, mask=mask)
            tl.store(at + 2 * H, factor, mask=mask)
            if not RING:
                tl.store(at + 3 * H, x_2, mask=mask)
                tl.store(at + 4 * H, x_3, mask=mask)
        a_0, b_0, a_1, b_1, there = read_row(
            gates, rows, first, i, n, fixed, v, root, seen_x, seen_y, c, exists, H, RING
        )  # fmt: skip
        some = b_1 * x_0 + back * (b_0 + a_0 * a_1 * x_1)
        ends_0 += total(b_1 * factor, further)
        starts_0 += total(a_0 * a_1 * factor, there)
        if RING:
            inputs += total(b_0, there)
        else:
            some += b_0 * a_1 * (1 + x_2) + b_1 + a_1 * x_3
            ends_1 += total(b_0 * a_1 * factor, there)
            starts_1 += total(a_1 * factor, there)
        inside += total(some, there)
        after = total(x_0, row == P - 1)
        before = total(x_1, row == P - 1)
        suffix = total(factor, row == P - 1)
        if not RING:
            after_2 = total(x_2, row == P - 1)
            before_2 = total(x_3, row == P - 1)
    alone = tl.zeros([1, 1], tl.int32)
    a_0, b_0, a_1, b_1, there = read_row(
        gates, rows, first, alone, n, fixed, v, root, seen_x, seen_y, c, exists, H, RING
    )
    factor, x_0, x_1, x_2, x_3 = maps(a_0, b_0, a_1, b_1, there, RING)
    head_0, head_1 = x_0 + factor * after, x_2 + factor * after_2
    tail_0, tail_1 = x_1 + factor * before, x_3 + factor * before_2
    product = factor * suffix
    _, _, _, last_b, _ = read_row(
        gates, rows, first, alone + count - 1, n, fixed, v, root, seen_x, seen_y, c, exists, H, RING
    )  # fmt: skip
    inside += last_b * head_0  # the last input stands before the first place
    ends_0 += last_b * product
    return inside, ends_0, ends_1, starts_0, starts_1, head_0, head_1, tail_0, tail_1, product, inputs, last_b


@direct
@triton.jit(do_not_specialize=["root", "begin"])
def arcs_forward(
    gates, center, rows, by_degree, degree, start, begin, root, out,
    H: tl.constexpr, C: tl.constexpr, P: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
):  # fmt: skip
    """The sum over the whole group, ``"pairs"`` or ``"dihedral"``."""
    RING: tl.constexpr = GROUP == "dihedral"
    v, n, first, c, exists = own_node(by_degree, degree, start, begin, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    orders, back, fixed = group_of(n, GROUP)
    (
        inside, ends_0, ends_1, starts_0, starts_1, head_0, head_1, tail_0, tail_1, product, inputs, _,
    ) = sweep(
        gates, rows, first, n, fixed, v, root, seen_x, seen_y, back, out, c, exists, H, C, P, RING, False
    )  # fmt: skip
    result = (1 - product) * inside + ends_0 * head_0 + ends_1 * head_1 + back * (starts_0 * tail_0 + starts_1 * tail_1)
    if FRAME == "closed":
        result += (1 + back) * product * inputs
    alone, h = tl.zeros([1, 1], tl.int32), tl.zeros([1, C], tl.float32)
    center_a, center_b = h, h
    if FRAME == "merged":
        center_a, center_b = read(gates, rows, first, alone - 1, alone - 1 < n, v, root, seen_x, seen_y, c, exists, H)
        h = center_b
    a, b = read(gates, rows, first, alone, alone < fixed, v, root, seen_x, seen_y, c, exists, H)
    h = a * h + b
    result += orders * product * h
    if FRAME == "merged":
        result = center_a * result + orders * center_b
    tl.store(out + v.to(tl.int64) * H + c, result, mask=exists)


@direct
@triton.jit(do_not_specialize=["root", "begin", "edges", "numbers"])
def arcs_backward(
    gates, center, rows, by_degree, degree, start, begin, root, d_out, d_slots, d_center, scratch, edges, numbers,
    H: tl.constexpr, C: tl.constexpr, P: tl.constexpr, CENTER: tl.constexpr, GROUP: tl.constexpr, FRAME: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of a node's slots, behind the ``edges`` of all that of its own row, and of what it adds to
    its slots. ``scratch`` has ``numbers`` for each node: 5 H for each row, or 3 H in a ring."""
    RING: tl.constexpr = GROUP == "dihedral"
    FIELDS: tl.constexpr = 3 if RING else 5
    v, n, first, c, exists = own_node(by_degree, degree, start, begin, H, C)
    seen_x, seen_y = seen_by(center, v, c, exists, H, CENTER)
    orders, back, fixed = group_of(n, GROUP)
    kept = own_scratch(scratch, numbers) + c
    (
        inside, ends_0, ends_1, starts_0, starts_1, head_0, head_1, tail_0, tail_1, product, inputs, last_b,
    ) = sweep(
        gates, rows, first, n, fixed, v, root, seen_x, seen_y, back, kept, c, exists, H, C, P, RING, True
    )  # fmt: skip
    # From the ends inwards: the centre, and the state h before the cycle.
    d_total = tl.load(d_out + v.to(tl.int64) * H + c, mask=exists, other=0).to(tl.float32)
    alone, zero = tl.zeros([1, 1], tl.int32), tl.zeros([1, C], tl.float32)
    initial, center_a, center_b, d_center_log, d_center_b = zero, zero, zero, zero, zero
    if FRAME == "merged":
        center_a, center_b = read(gates, rows, first, alone - 1, alone - 1 < n, v, root, seen_x, seen_y, c, exists, H)
        initial = center_b
    fixed_a, fixed_b = read(gates, rows, first, alone, alone < fixed, v, root, seen_x, seen_y, c, exists, H)
    h = fixed_a * initial + fixed_b
    if FRAME == "merged":
        result = (1 - product) * inside + ends_0 * head_0 + ends_1 * head_1
        result += back * (starts_0 * tail_0 + starts_1 * tail_1) + orders * product * h
        d_center_log, d_center_b = d_total * center_a * result, orders * d_total
        d_total *= center_a
    d_h = orders * d_total * product
    sum_x, sum_y = zero, zero
    if fixed > 0:
        sum_x, sum_y = row_gradients(d_h * fixed_a * initial, d_h, fixed_a, fixed_b)
        put(d_slots, first, sum_x, sum_y, c, exists, H)
    if FRAME == "merged":
        own_x, own_y = row_gradients(d_center_log, d_center_b + d_h * fixed_a, center_a, center_b)
        put(d_slots, edges + v, own_x, own_y, c, exists, H)
    d_product, d_input = orders * h - inside, zero
    if FRAME == "closed":
        d_product += (1 + back) * inputs
        d_input = (1 + back) * d_total * product
    d_all, d_inside = d_product * d_total * product, d_total * (1 - product)
    # Around the cycle, from the first row to the last: gradients of what the sweep has summed, those of the second
    # places before their factor a₀. Suffixes add theirs to all gates from their row on.
    d_after, d_before = d_total * ends_0 + d_inside * last_b, back * (d_total * starts_0 + d_inside)
    d_after_2, d_before_2 = d_total * ends_1, d_total * starts_1
    around = d_all + product * d_total * (last_b * head_0 + back * tail_0)
    row = tl.arange(0, P)[:, None]
    count = rows_of(n, RING)
    tl.debug_barrier()  # other threads read what the sweep has kept
    for tile in range(tl.cdiv(count, P)):
        i = tile * P + row
        earlier_a, b_0, a_1, b_1, earlier = read_row(
            gates, rows, first, i - 1, n, fixed, v, root, seen_x, seen_y, c, exists, H, RING
        )  # fmt: skip
        factor, x_0, x_1 = earlier_a * a_1, d_inside * b_1, tl.where(earlier, back * d_inside, 0.0)
        x_2, x_3 = tl.zeros_like(x_0), tl.zeros_like(x_0)
        d_suffix = b_1 * head_0 + back * tail_0
        if not RING:
            x_2, x_3 = d_inside * b_0 * a_1, tl.where(earlier, d_inside * a_1, 0.0)
            d_suffix += a_1 * (b_0 * head_1 + tail_1)
        factor, x_0, x_1, x_2, x_3 = tl.associative_scan((factor, x_0, x_1, x_2, x_3), 0, then)
        x_0 += factor * d_after
        x_1 += factor * d_before
        x_2 += factor * d_after_2
        x_3 += factor * d_before_2
        a_0, b_0, a_1, b_1, there = read_row(
            gates, rows, first, i, n, fixed, v, root, seen_x, seen_y, c, exists, H, RING
        )  # fmt: skip
        at, mask = kept + i.to(tl.int64) * (FIELDS * H), exists & there
        after, before = tl.load(at, mask=mask, other=0), tl.load(at + H, mask=mask, other=0)
        suffix = tl.load(at + 2 * H, mask=mask, other=0)
        both = a_0 * a_1
        sums = around + tl.cumsum(tl.where(earlier, both * suffix * d_total * d_suffix, 0.0), 0)
        further = i + 1 < count
        d_b = d_input + d_inside * tl.where(further, after, head_0)
        d_b += d_total * tl.where(further, suffix, product) * head_0
        through = both * (x_0 * after + x_1 * before)
        if RING:
            d_x, d_y = row_gradients(sums + through, x_1 + d_b, a_0, b_0)
        else:
            after_2 = tl.load(at + 3 * H, mask=mask, other=0)
            before_2 = tl.load(at + 4 * H, mask=mask, other=0)
            after_1, suffix_1, d_after_1, d_before_1 = (
                a_1 * (1 + after_2), a_1 * suffix, a_0 * x_2 + d_inside * b_0, a_0 * x_3 + d_inside,
            )  # fmt: skip
            across = a_0 * (x_2 * after_1 + x_3 * (b_1 + a_1 * before_2))
            d_x, d_y = row_gradients(
                sums + through + across + a_0 * x_0, x_1 + d_inside * after_1 + d_total * suffix_1 * head_1, a_0, b_0
            )
            d_log = sums + suffix_1 * d_total * (b_0 * head_1 + tail_1) + through
            d_log += a_1 * (d_after_1 * (1 + after_2) + d_before_1 * before_2)
            d_x_1, d_y_1 = row_gradients(d_log, d_before_1 + d_b, a_1, b_1)
            put(d_slots, first + member_at(2 * i + 1, n, fixed, RING), d_x_1, d_y_1, c, mask, H)
            sum_x += total(d_x_1, there)
            sum_y += total(d_y_1, there)
            d_after_2 = total(x_2, row == P - 1)
            d_before_2 = total(x_3, row == P - 1)
        put(d_slots, first + member_at(i if RING else 2 * i, n, fixed, RING), d_x, d_y, c, mask, H)
        sum_x += total(d_x, there)
        sum_y += total(d_y, there)
        d_after = total(x_0, row == P - 1)
        d_before = total(x_1, row == P - 1)
        around = total(sums, row == P - 1)
    if CENTER:
        put(d_center, v, sum_x, sum_y, c, exists, H)
