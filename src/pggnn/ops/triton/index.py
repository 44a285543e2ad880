"""Which gate row a step of a sequence reads, and which steps read a slot, in closed form inside the kernels.

The arithmetic of :mod:`pggnn.groups` and :class:`pggnn.orderings.Reading`, which tests hold it against, in Triton;
nothing is tabulated. ``GROUP`` is a name, or the number of members where an order chooses some of them.
"""

import triton
import triton.language as tl


@triton.jit
def left(n, taken):
    """Members left to choose from when some are taken, at least 1."""
    return tl.maximum(n - taken, 1)


@triton.jit
def order(n, GROUP: tl.constexpr):
    """How many orders there are, see :attr:`pggnn.groups.Group.order`; a number k stands for all choices of k."""
    if GROUP == "pairs":
        return tl.where(n < 2, 1, n - (n & 1))
    elif GROUP == "dihedral":
        return tl.where(n > 2, 2 * n, tl.maximum(n, 1))
    elif GROUP == "trivial":
        return n * 0 + 1
    else:
        size = tl.maximum(n, 1)
        for taken in tl.static_range(1, GROUP):
            size *= left(n, taken)
        if GROUP == 2:  # one member is no pair
            size = tl.where(n == 1, 0, size)
        return size


@triton.jit
def members(n, GROUP: tl.constexpr):
    """How many members each order reads."""
    if (GROUP == "pairs") | (GROUP == "dihedral") | (GROUP == "trivial"):
        return n
    else:
        return tl.minimum(n, GROUP)


@triton.jit
def cycle_place(t, n):
    """Where a member stands in the cycle σ."""
    fixed = n & 1
    half = (t - fixed) >> 1
    return tl.where(((t - fixed) & 1) == 1, n - fixed - 1 - half, half)


@triton.jit
def turned(k, t, n):
    """σᵏ(t) on n members, see :func:`pggnn.groups.slot`."""
    fixed = n & 1
    length = n - fixed
    place = cycle_place(t, n) + k
    place = tl.where(place >= length, place - length, place)
    element = tl.minimum(2 * place, 2 * (length - place) - 1)
    return tl.where(t >= fixed, fixed + element, 0)


@triton.jit
def digit(k, n, STEP: tl.constexpr, SIZE: tl.constexpr, BASE: tl.constexpr):
    """Digit ``STEP`` of choice ``k`` of ``SIZE`` out of n members, ``BASE`` being taken before."""
    for taken in tl.static_range(0, SIZE - 1 - STEP):
        k = k // left(n, BASE + SIZE - 1 - taken)
    if STEP + BASE > 0:
        k = k % left(n, BASE + STEP)
    return k


@triton.jit
def chosen(k, n, STEP: tl.constexpr, SIZE: tl.constexpr, BASE: tl.constexpr):
    """The member that choice ``k`` has at ``STEP``, counted among those that are not taken before."""
    found = digit(k, n, STEP, SIZE, BASE)
    for back in tl.static_range(0, STEP):
        found += found >= digit(k, n, STEP - 1 - back, SIZE, BASE)
    return found


@triton.jit
def slot(k, t, n, GROUP: tl.constexpr):
    """The member that order ``k`` reads at step ``t``, see :attr:`pggnn.groups.Group.slot`."""
    if GROUP == "pairs":
        return turned(k, t, n)
    elif GROUP == "dihedral":
        first = tl.where(k >= n, k - n, k)
        place = tl.where(k >= n, first - t, first + t)
        return tl.where(place >= n, place - n, tl.where(place < 0, place + n, place))
    elif GROUP == "trivial":
        return t + 0 * k
    else:
        found = t * 0 + k * 0
        for step in tl.static_range(0, GROUP):
            found = tl.where(t == step, chosen(k, n, step, GROUP, 0), found)
        return found


@triton.jit
def place(k, j, n, GROUP: tl.constexpr):
    """The step at which order ``k`` reads member ``j``, see :attr:`pggnn.groups.Group.place`."""
    if GROUP == "pairs":
        return turned(tl.where(k > 0, order(n, GROUP) - k, 0), j, n)
    elif GROUP == "dihedral":
        first = tl.where(k >= n, k - n, k)
        step = tl.where(k >= n, first - j, j - first)
        return tl.where(step < 0, step + n, step)
    else:
        return j + 0 * k


@triton.jit
def elements(n, GROUP: tl.constexpr, LIMIT: tl.constexpr):
    """How many orders are used; a ``LIMIT`` of 0 is the whole group."""
    size = order(n, GROUP)
    if LIMIT > 0:
        size = tl.minimum(size, LIMIT)
    return size


@triton.jit
def element(i, n, GROUP: tl.constexpr, LIMIT: tl.constexpr):
    """The order that sequence ``i`` stands for."""
    if LIMIT > 0:
        return i * order(n, GROUP) // elements(n, GROUP, LIMIT)
    else:
        return i


@triton.jit
def length(n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """How many steps each sequence of a node with n members has."""
    if FRAME == "merged":
        return members(n, GROUP) + 2
    elif FRAME == "open":
        return members(n, GROUP)
    elif FRAME == "chain":
        return (n + 1) * elements(n, GROUP, LIMIT)
    else:
        return members(n, GROUP) + 1


@triton.jit
def sequences_of(
    rows,
    node_of,
    degree,
    total,
    first_sequence,
    B: tl.constexpr,
    GROUP: tl.constexpr,
    FRAME: tl.constexpr,
    LIMIT: tl.constexpr,
):
    """The sequences in these rows of the program's tile: number, whether it exists, node, its degree, steps."""
    sequence = first_sequence + tl.program_id(0) * B + rows
    valid = sequence < tl.load(total)
    node = tl.load(node_of + sequence, mask=valid, other=0)
    n = tl.load(degree + node).to(tl.int32)
    return sequence, valid, node, n, tl.where(valid, length(n, GROUP, FRAME, LIMIT), 0)


@triton.jit
def blocks_of(offset, B: tl.constexpr):
    """The row of memory where the blocks of the program's tile begin, and how many steps they are for."""
    tile = tl.program_id(0)
    base, end = tl.load(offset + tile), tl.load(offset + tile + 1)
    return base - tl.load(offset), ((end - base) // B).to(tl.int32) - 1


@triton.jit
def slot_read(i, t, n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """The member that sequence ``i`` reads at step ``t``, or −1 where it reads the centre node."""
    if FRAME == "merged":
        inner = (t > 0) & (t <= members(n, GROUP))
        return tl.where(inner, slot(element(i, n, GROUP, LIMIT), tl.where(inner, t - 1, 0), n, GROUP), -1)
    elif FRAME == "after":
        inner = t < members(n, GROUP)
        return tl.where(inner, slot(element(i, n, GROUP, LIMIT), tl.where(inner, t, 0), n, GROUP), -1)
    elif FRAME == "chain":
        turn = t // (n + 1)
        at = t - turn * (n + 1)
        return slot(element(turn, n, GROUP, LIMIT), tl.where(at < n, at, 0), n, GROUP)
    else:
        return slot(element(i, n, GROUP, LIMIT), tl.where(t < members(n, GROUP), t, 0), n, GROUP)


@triton.jit
def reads_of_member(n, GROUP: tl.constexpr, LIMIT: tl.constexpr):
    """How many orders read a member: all, or those choices that it is among."""
    if (GROUP == "pairs") | (GROUP == "dihedral") | (GROUP == "trivial"):
        return elements(n, GROUP, LIMIT)
    else:
        times = members(n, GROUP)
        for taken in tl.static_range(1, GROUP):
            times *= left(n, taken)
        if GROUP == 2:
            times = tl.where(n < 2, 0, times)
        return times


@triton.jit
def read_of_member(q, j, n, GROUP: tl.constexpr, LIMIT: tl.constexpr):
    """The ``q``-th (sequence, place among the members) that reads member ``j``."""
    if (GROUP == "pairs") | (GROUP == "dihedral") | (GROUP == "trivial"):
        return q, place(element(q, n, GROUP, LIMIT), tl.minimum(j, tl.maximum(n - 1, 0)), n, GROUP)
    else:  # the others are a choice of one less out of the others, and j stands between them at step t
        steps = tl.maximum(members(n, GROUP), 1)
        t, others = q % steps, q // steps
        k = q * 0
        for step in tl.static_range(0, GROUP):
            before, after = q * 0, q * 0  # the members at this step if j stands later, or earlier
            if step < GROUP - 1:
                before = chosen(others, n, step, GROUP - 1, 1)
                before += before >= j
            if step > 0:
                after = chosen(others, n, step - 1, GROUP - 1, 1)
                after += after >= j
            at = tl.where(t == step, j, tl.where(t > step, before, after))
            smaller = tl.where((t < step) & (j < at), 1, 0)
            for earlier in tl.static_range(0, GROUP - 1):
                other = chosen(others, n, earlier, GROUP - 1, 1)
                other += other >= j
                stands = tl.where(t <= earlier, earlier + 1, earlier)
                smaller += tl.where((stands < step) & (other < at), 1, 0)
            k = k * left(n, step) + tl.where(n > step, at - smaller, 0)
        return k, t


@triton.jit
def readings(j, n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """How many (sequence, step) pairs :func:`reading` runs through for slot ``j``; slot ``n`` is the centre node."""
    if FRAME == "merged":
        return tl.where(j < n, reads_of_member(n, GROUP, LIMIT), 2 * elements(n, GROUP, LIMIT))
    elif FRAME == "after":
        center = tl.where(n > 0, elements(n, GROUP, LIMIT), 0)
        return tl.where(j < n, reads_of_member(n, GROUP, LIMIT), center)
    elif FRAME == "open":
        return tl.where(j < n, reads_of_member(n, GROUP, LIMIT), 0)
    else:
        return tl.where(j < n, 2 * elements(n, GROUP, LIMIT), 0)


@triton.jit
def reading(q, j, n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """The ``q``-th (sequence, step) that reads slot ``j`` of a node with n members, and whether it does:
    :func:`slot_read` turned round."""
    if FRAME == "merged":
        i, at = read_of_member(q, j, n, GROUP, LIMIT)
        last = (q % 2) * (members(n, GROUP) + 1)
        return tl.where(j < n, i, q // 2), tl.where(j < n, at + 1, last), q >= 0
    elif FRAME == "after":
        i, at = read_of_member(q, j, n, GROUP, LIMIT)
        return tl.where(j < n, i, q), tl.where(j < n, at, members(n, GROUP)), q >= 0
    elif FRAME == "open":
        i, at = read_of_member(q, j, n, GROUP, LIMIT)
        return i, at, q >= 0
    else:
        turn = q // 2
        k = element(turn, n, GROUP, LIMIT)
        closes = (q % 2) == 1
        at = tl.where(closes, n, place(k, j, n, GROUP))
        reads = (q % 2 == 0) | (slot(k, j * 0, n, GROUP) == j)
        if FRAME == "chain":
            return turn * 0, turn * (n + 1) + at, reads
        else:
            return turn, at, reads


@triton.jit
def readings_between(j, n, t_begin, t_end, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """The first and the end of the numbers ``q`` for which :func:`reading_between` finds all that read slot ``j`` at
    steps from ``t_begin`` on and before ``t_end``; it may find others too. In the whole group of pairs there is one
    sequence for each step, so those numbers are the steps; only a member that stays in its place, the first of an odd
    number, and the centre are read by many at one step."""
    first, end = j * 0, readings(j, n, GROUP, FRAME, LIMIT)
    if (GROUP == "pairs") & (LIMIT == 0) & (FRAME != "closed") & (FRAME != "chain"):
        ahead = 1 if FRAME == "merged" else 0
        at = tl.where(j < n, ahead, n + ahead)
        some = (t_begin <= at) & (at < t_end)
        if FRAME == "merged":
            some |= (j == n) & (t_begin == 0)
        moves = (j < n) & (j >= (n & 1))
        first = tl.where(moves, tl.maximum(t_begin - ahead, n & 1), 0)
        end = tl.where(moves, tl.minimum(t_end - ahead, n), tl.where(some, end, 0))
    return first, end


@triton.jit
def reading_between(q, j, n, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr):
    """The (sequence, step) of number ``q`` that reads slot ``j``, and whether it does; see :func:`readings_between`."""
    i, t, reads = reading(q, j, n, GROUP, FRAME, LIMIT)
    if (GROUP == "pairs") & (LIMIT == 0) & (FRAME != "closed") & (FRAME != "chain"):
        k = cycle_place(j, n) - cycle_place(q, n)
        moves = (j < n) & (j >= (n & 1))
        i = tl.where(moves, tl.where(k < 0, k + n - (n & 1), k), i)
        t = tl.where(moves, q + (1 if FRAME == "merged" else 0), t)
    return i, t, reads
