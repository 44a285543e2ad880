"""Which gate row a step of a sequence reads, and which steps read a slot, in closed form inside the kernels.

The arithmetic of :mod:`pggnn.groups` and :class:`pggnn.orderings.Reading`, which tests hold it against, in Triton;
nothing is tabulated.
"""

import triton
import triton.language as tl


@triton.jit
def order(n):
    """|𝔊|, see :func:`pggnn.groups.order`."""
    return tl.where(n < 2, 1, n - (n & 1))


@triton.jit
def slot(k, t, n):
    """σᵏ(t) on n neighbours, see :func:`pggnn.groups.slot`."""
    fixed = n & 1
    length = n - fixed
    half = (t - fixed) >> 1
    place = tl.where(((t - fixed) & 1) == 1, length - 1 - half, half) + k
    place = tl.where(place >= length, place - length, place)
    element = tl.minimum(2 * place, 2 * (length - place) - 1)
    return tl.where(t >= fixed, fixed + element, 0)


@triton.jit
def elements(n, LIMIT: tl.constexpr):
    """How many elements of 𝔊 are used; a ``LIMIT`` of 0 is the whole group."""
    size = order(n)
    if LIMIT > 0:
        size = tl.minimum(size, LIMIT)
    return size


@triton.jit
def element(i, n, LIMIT: tl.constexpr):
    """The power of σ that sequence ``i`` stands for."""
    if LIMIT > 0:
        return i * order(n) // elements(n, LIMIT)
    else:
        return i


@triton.jit
def length(n, FORM: tl.constexpr, LIMIT: tl.constexpr):
    """How many steps each sequence of a node with n neighbours has."""
    if FORM == "merged":
        return n + 2
    elif FORM == "ring":
        return n + 1
    elif FORM == "path":
        return n
    elif FORM == "chain":
        return (n + 1) * elements(n, LIMIT)
    elif FORM == "pair":
        return n * 0 + 2
    elif FORM == "trio":
        return tl.minimum(n, 3)
    else:
        return n * 0 + 3


@triton.jit
def sequences_of(
    rows, node_of, degree, total, first_sequence, B: tl.constexpr, FORM: tl.constexpr, LIMIT: tl.constexpr
):
    """The sequences in these rows of the program's tile: number, whether it exists, node, its degree, steps."""
    sequence = first_sequence + tl.program_id(0) * B + rows
    valid = sequence < tl.load(total)
    node = tl.load(node_of + sequence, mask=valid, other=0)
    n = tl.load(degree + node).to(tl.int32)
    return sequence, valid, node, n, tl.where(valid, length(n, FORM, LIMIT), 0)


@triton.jit
def blocks_of(offset, B: tl.constexpr):
    """The row of memory where the blocks of the program's tile begin, and how many steps they are for."""
    tile = tl.program_id(0)
    base, end = tl.load(offset + tile), tl.load(offset + tile + 1)
    return base - tl.load(offset), ((end - base) // B).to(tl.int32) - 1


@triton.jit
def trio(a, b, c, n):
    """The number of the trio of these neighbours, of which those that n has no room for do not matter."""
    b, c = tl.where(n < 2, 0, b - (b > a)), tl.where(n < 3, 0, c - (c > a) - (c > b))
    return (a * tl.maximum(n - 1, 1) + b) * tl.maximum(n - 2, 1) + c


@triton.jit
def slot_read(i, t, n, FORM: tl.constexpr, LIMIT: tl.constexpr):
    """The neighbour that sequence ``i`` reads at step ``t``, or −1 where it reads the centre node."""
    if FORM == "merged":
        inner = (t > 0) & (t <= n)
        return tl.where(inner, slot(element(i, n, LIMIT), tl.where(inner, t - 1, 0), n), -1)
    elif (FORM == "ring") | (FORM == "path"):
        return slot(element(i, n, LIMIT), tl.where(t < n, t, 0), n)
    elif FORM == "chain":
        turn = t // (n + 1)
        place = t - turn * (n + 1)
        return slot(element(turn, n, LIMIT), tl.where(place < n, place, 0), n)
    elif FORM == "trio":
        third = tl.maximum(n - 2, 1)
        a = i // (third * tl.maximum(n - 1, 1))
        b = i // third % tl.maximum(n - 1, 1)
        b = b + (b >= a)
        c = i % third
        c = c + (c >= tl.minimum(a, b))
        c = c + (c >= tl.maximum(a, b))
        return tl.where(t == 2, c, tl.where(t == 1, b, a))
    else:
        others = tl.maximum(n - 1, 1)
        first = i // others
        second = i - first * others
        second = second + (second >= first)
        return tl.where(t == 2, -1, tl.where(t == 1, second, first))


@triton.jit
def readings(j, n, FORM: tl.constexpr, LIMIT: tl.constexpr):
    """How many (sequence, step) pairs :func:`reading` runs through for slot ``j``; slot ``n`` is the centre node."""
    if FORM == "merged":
        return tl.where(j < n, elements(n, LIMIT), 2 * elements(n, LIMIT))
    elif FORM == "path":
        return tl.where(j < n, elements(n, LIMIT), 0)
    elif (FORM == "ring") | (FORM == "chain"):
        return tl.where(j < n, 2 * elements(n, LIMIT), 0)
    elif FORM == "trio":
        return tl.where(j < n, tl.minimum(n, 3) * tl.maximum(n - 1, 1) * tl.maximum(n - 2, 1), 0)
    else:
        center = (n * (n - 1)) if FORM == "triplet" else 0
        return tl.where(j < n, 2 * (n - 1), center)


@triton.jit
def reading(q, j, n, FORM: tl.constexpr, LIMIT: tl.constexpr):
    """The ``q``-th (sequence, step) that reads slot ``j`` of a node with n neighbours, and whether it does.

    σᵏ(t) = j at t = σ⁻ᵏ(j), so this is :func:`slot_read` turned round.
    """
    if FORM == "merged":
        k = element(q, n, LIMIT)
        at = slot(tl.where(k > 0, order(n) - k, 0), tl.minimum(j, tl.maximum(n - 1, 0)), n) + 1
        i = tl.where(j < n, q, q // 2)
        return i, tl.where(j < n, at, (q % 2) * (n + 1)), q >= 0
    elif FORM == "path":
        k = element(q, n, LIMIT)
        return q, slot(tl.where(k > 0, order(n) - k, 0), j, n), q >= 0
    elif (FORM == "ring") | (FORM == "chain"):
        turn = q // 2
        k = element(turn, n, LIMIT)
        closes = (q % 2) == 1
        at = tl.where(closes, n, slot(tl.where(k > 0, order(n) - k, 0), j, n))
        reads = (q % 2 == 0) | (slot(k, j * 0, n) == j)
        if FORM == "chain":
            return turn * 0, turn * (n + 1) + at, reads
        else:
            return turn, at, reads
    elif FORM == "trio":
        steps = tl.maximum(tl.minimum(n, 3), 1)
        third = tl.maximum(n - 2, 1)
        t = q % steps
        x = q // steps // third
        x = x + (x >= j)
        y = q // steps % third
        y = y + (y >= tl.minimum(j, x))
        y = y + (y >= tl.maximum(j, x))
        i = tl.where(t == 0, trio(j, x, y, n), tl.where(t == 1, trio(x, j, y, n), trio(x, y, j, n)))
        return i, t, q >= 0
    else:
        others = tl.maximum(n - 1, 1)
        other = q // 2
        other = other + (other >= j)
        leads = (q % 2) == 0
        i = tl.where(leads, j * others + other - (other > j), other * others + j - (j > other))
        return tl.where(j < n, i, q), tl.where(j < n, tl.where(leads, 0, 1), 2), q >= 0
