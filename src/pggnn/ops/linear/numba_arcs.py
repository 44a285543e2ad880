"""The sum over a whole group in one pass over its cycle, and its gradients in a second: what
:mod:`~pggnn.ops.linear.numba_steps` does for sequences.

``docs/linear.md`` has the formulas. For the places s = 0, …, L − 1 of a cycle,

* ``after[s]`` is the sum of the products of gates over the arcs that begin at s and end before place L,
* ``before[s]`` is the same, each product times the input behind its arc,
* ``suffix[s]`` is the product of the gates of s, …, L − 1.

An arc that goes on beyond place L − 1 is a suffix, times an arc from the beginning on. The longest of them would be L
gates and more: ``1 − suffix[0]`` takes those off.
"""

import torch

from pggnn.ops.linear.numba_steps import (
    CENTER,
    FIELDS,
    Call,
    arguments,
    at,
    float32,
    jitted_lists,
    lists,
    own_channels,
    own_fields,
    put,
    read,
    steps_backward,
    steps_forward,
    write,
    write_center,
)
from pggnn.ops.numba_lanes import LANES, load, splat, store
from pggnn.ops.numba_threads import jitted_part, run

FEWEST_CELLS = 4096
"""Steps times hidden channels from which on a second thread is worth its start."""
PART = 256
"""Steps that are added up before they are added to the rest, so that a sum of millions stays precise."""


@jitted_part
def group_of(n, ring):
    """How many orders there are; 1 if they go both ways, else 0; and how many members stand before the cycle."""
    if ring:
        return splat(float32(2 * n if n > 2 else max(n, 1))), splat(float32(n > 2)), 0
    return splat(float32(n - n % 2 + (n < 2))), splat(float32(1)), n % 2


@jitted_part
def ring_sweep(gates, inputs, size, back, after, before, suffix):
    """From the last place of a ring to the first. Returns the sum over the arcs that end before L, and the sums of
    suffixes, times the input before them and alone."""
    zero, one = splat(float32(0)), splat(float32(1))
    inside = ends = starts = inside_part = ends_part = starts_part = zero
    product, after_s, before_s = one, zero, zero
    put(after, size, zero)
    put(before, size, zero)
    put(suffix, size, one)
    for s in range(size - 1, -1, -1):
        a, b, earlier = at(gates, s), at(inputs, s), at(inputs, s - 1 if s > 0 else size - 1)
        product, after_s, before_s = a * product, one + a * after_s, b + a * before_s
        put(after, s, after_s)
        put(before, s, before_s)
        put(suffix, s, product)
        inside_part = inside_part + earlier * after_s + back * before_s
        ends_part = ends_part + product * earlier
        starts_part = starts_part + product
        if s % PART == 0:
            inside, ends, starts = inside + inside_part, ends + ends_part, starts + starts_part
            inside_part = ends_part = starts_part = zero
    return inside, ends, zero, starts, zero


@jitted_part
def pairs_sweep(gates, inputs, size, after, before, suffix):
    """The same for 𝔊's cycle, two places at a time: the sums of suffixes for even places, then for odd ones."""
    zero, one = splat(float32(0)), splat(float32(1))
    inside = ends_0 = ends_1 = starts_0 = starts_1 = zero
    inside_part = ends_0_part = ends_1_part = starts_0_part = starts_1_part = zero
    product, a_2, after_0, after_1, before_0, before_1 = one, zero, zero, zero, zero, zero
    for s in range(size, size + 2):
        put(after, s, zero)
        put(before, s, zero)
    put(suffix, size, one)
    for s in range(size - 2, -1, -2):
        a_0, a_1, b_0, earlier = at(gates, s), at(gates, s + 1), at(inputs, s), at(inputs, s - 1 if s > 0 else size - 1)
        both = a_1 * a_2
        after_1, before_1 = a_1 + both * after_1, at(inputs, s + 1) + both * before_1
        both = a_0 * a_1
        after_0, before_0 = a_0 + both * after_0, b_0 + both * before_0
        a_2 = a_0
        put(after, s, after_0)
        put(after, s + 1, after_1)
        put(before, s, before_0)
        put(before, s + 1, before_1)
        inside_part = inside_part + ((b_0 * after_1 + before_1) + (earlier * after_0 + before_0))
        product = product * a_1
        put(suffix, s + 1, product)
        ends_1_part, starts_1_part = ends_1_part + product * b_0, starts_1_part + product
        product = product * a_0
        put(suffix, s, product)
        ends_0_part, starts_0_part = ends_0_part + product * earlier, starts_0_part + product
        if s % PART == 0:
            inside, ends_0, ends_1 = inside + inside_part, ends_0 + ends_0_part, ends_1 + ends_1_part
            starts_0, starts_1 = starts_0 + starts_0_part, starts_1 + starts_1_part
            inside_part = ends_0_part = ends_1_part = starts_0_part = starts_1_part = zero
    return inside, ends_0, ends_1, starts_0, starts_1


@jitted_part
def sweep(gates, inputs, size, ring, back, after, before, suffix):
    if ring:
        return ring_sweep(gates, inputs, size, back, after, before, suffix)
    return pairs_sweep(gates, inputs, size, after, before, suffix)


@jitted_part
def heads(gates, size, ring, after, before):
    """What a suffix goes on with: the arcs from the beginning, for even places and for odd ones; then those of
    ``before``."""
    if ring or size == 0:
        zero = splat(float32(0))
        return at(after, 0), zero, at(before, 0), zero
    a = at(gates, 0)
    return at(after, 0), a * at(after, 1), at(before, 0), a * at(before, 1)


@jitted_part
def read_cycle(call, slot, rows, begin, size, v, channel, gates, inputs):
    for i in range(size):
        a, b = read(call, slot[begin + i], rows, v, channel)
        put(gates, i, a)
        put(inputs, i, b)


@jitted_part
def total_of(inputs, size):
    total = part = splat(float32(0))
    for s in range(size - 1, -1, -1):
        part = part + at(inputs, s)
        if s % PART == 0:
            total, part = total + part, splat(float32(0))
    return total


@jitted_lists
def arcs_forward(address):
    """Each list is a cycle: the sum over the whole group is the result of its node.

    With ``ring`` the group is all rotations, back and forth; else it is 𝔊, the fixed point of an odd n before its
    cycle. ``merged`` has the centre at both ends, ``closed`` the first member of a ring once more.
    """
    call = arguments(address)
    slot, first, node, rows = lists(call)
    gates, inputs, after, before, suffix = own_fields(call)
    one = splat(float32(1))
    for channel in own_channels(call):
        for m in range(call.lists):
            begin, n, v = first[m], first[m + 1] - first[m], node[m]
            order, back, fixed = group_of(n, call.ring)
            size = n - fixed
            read_cycle(call, slot, rows, begin + fixed, size, v, channel, gates, inputs)
            inside, ends_0, ends_1, starts_0, starts_1 = sweep(
                gates, inputs, size, call.ring, back, after, before, suffix
            )
            head_0, head_1, tail_0, tail_1 = heads(gates, size, call.ring, after, before)
            product, h = at(suffix, 0), splat(float32(0))
            out = (one - product) * inside + ends_0 * head_0 + ends_1 * head_1
            out = out + back * (starts_0 * tail_0 + starts_1 * tail_1)
            if call.closed:
                out = out + (one + back) * product * total_of(inputs, size)
            if call.merged:
                center_a, center_b = read(call, CENTER, rows, v, channel)
                h = center_b
            if fixed:
                a, b = read(call, slot[begin], rows, v, channel)
                h = a * h + b
            out = out + order * product * h
            if call.merged:
                out = center_a * out + order * center_b
            store(call.out, call.hidden * v + channel, out)


@jitted_lists
def arcs_backward(address):
    """Adds to the gradients of gate rows and centres."""
    call = arguments(address)
    slot, first, node, rows = lists(call)
    gates, inputs, after, before, suffix = own_fields(call)
    zero, one = splat(float32(0)), splat(float32(1))
    for channel in own_channels(call):
        for m in range(call.lists):
            begin, n, v = first[m], first[m + 1] - first[m], node[m]
            order, back, fixed = group_of(n, call.ring)
            size = n - fixed
            read_cycle(call, slot, rows, begin + fixed, size, v, channel, gates, inputs)
            inside, ends_0, ends_1, starts_0, starts_1 = sweep(
                gates, inputs, size, call.ring, back, after, before, suffix
            )
            head_0, head_1, tail_0, tail_1 = heads(gates, size, call.ring, after, before)
            product, d_out = at(suffix, 0), load(call.out, call.hidden * v + channel)
            # From the ends inwards: the centre, and the state h before the cycle.
            start = h = sum_x = sum_y = zero
            if call.merged:
                center_a, center_b = read(call, CENTER, rows, v, channel)
                start = h = center_b
            if fixed:
                fixed_a, fixed_b = read(call, slot[begin], rows, v, channel)
                h = fixed_a * start + fixed_b
            if call.merged:
                out = (one - product) * inside + ends_0 * head_0 + ends_1 * head_1
                out = out + back * (starts_0 * tail_0 + starts_1 * tail_1) + order * product * h
                d_center_log, d_center_b = d_out * center_a * out, order * d_out
                d_out = d_out * center_a
            d_h = order * d_out * product
            if fixed:
                sum_x, sum_y = write(
                    call, slot[begin], rows, v, channel, fixed_a, fixed_b, d_h * fixed_a * start, d_h
                )  # fmt: skip
                d_h = d_h * fixed_a
            if call.merged:
                write(call, CENTER, rows, v, channel, center_a, center_b, d_center_log, d_center_b + d_h)
            d_product, d_input = order * h - inside, zero
            if call.closed:
                d_product = d_product + (one + back) * total_of(inputs, size)
                d_input = (one + back) * d_out * product
            # Around the cycle, from the first place to the last. The gradient of an input is known a place later.
            d_all, d_inside, d_first = d_product * d_out * product, d_out * (one - product), zero
            around = crossing = earlier_d = zero
            d_after_0, d_after_1, d_before_0, d_before_1 = d_out * ends_0, zero, back * d_out * starts_0, zero
            if not call.ring and size > 0:
                a = at(gates, 0)
                d_after_1, d_before_1 = d_out * a * ends_1, d_out * a * starts_1
                crossing = d_out * (ends_1 * head_1 + starts_1 * tail_1)
            stride = 1 if call.ring else 2
            earlier_a = a_2 = earlier_x = zero
            earlier_b = at(inputs, size - 1) if size > 0 else zero
            for s in range(size):
                a, b, product_s = at(gates, s), at(inputs, s), at(suffix, s)
                d_b = d_input + d_inside * at(after, s) + d_out * product_s * head_0
                if s == 0:
                    d_first = d_b
                else:
                    d_x, d_y = write(
                        call, slot[begin + fixed + s - 1], rows, v, channel, earlier_a, earlier_b, earlier_x,
                        earlier_d + d_b,
                    )  # fmt: skip
                    sum_x, sum_y = sum_x + d_x, sum_y + d_y
                if s >= stride:
                    both = earlier_a if call.ring else a_2 * earlier_a
                    d_after_0, d_before_0 = d_after_0 * both, d_before_0 * both
                d_after_0, d_before_0 = d_after_0 + d_inside * earlier_b, d_before_0 + back * d_inside
                around = around + product_s * d_out * (earlier_b * head_0 + back * tail_0)
                through = a * (d_after_0 * at(after, s + stride) + d_before_0 * at(before, s + stride))
                if call.ring:
                    earlier_x = around + d_all + through
                else:
                    if s + 1 < size:
                        through = through * at(gates, s + 1)
                    earlier_x = around + d_all + crossing + through + a * d_after_0
                    crossing = through
                    head_0, head_1, tail_0, tail_1 = head_1, head_0, tail_1, tail_0
                a_2, earlier_a, earlier_b, earlier_d = earlier_a, a, b, d_before_0
                if not call.ring:
                    d_after_0, d_after_1, d_before_0, d_before_1 = d_after_1, d_after_0, d_before_1, d_before_0
            if size > 0:
                d_x, d_y = write(
                    call, slot[begin + fixed + size - 1], rows, v, channel, earlier_a, earlier_b, earlier_x,
                    earlier_d + d_first,
                )  # fmt: skip
                sum_x, sum_y = sum_x + d_x, sum_y + d_y
            write_center(call, v, channel, sum_x, sum_y)


def run_lists(way, arcs, **fields):
    """Runs a call, ``"forward"`` or ``"backward"``, over cycles or over sequences step by step."""
    functions = {"forward": (steps_forward, arcs_forward), "backward": (steps_backward, arcs_backward)}
    call = Call(**fields)
    most = call.hidden // LANES if call.steps * call.hidden >= FEWEST_CELLS else 1
    threads = min(torch.get_num_threads(), most)
    scratch = torch.empty(threads * FIELDS * (call.longest + 2) * LANES)
    call.scratch = scratch.data_ptr()
    run(functions[way][arcs], call, threads)
