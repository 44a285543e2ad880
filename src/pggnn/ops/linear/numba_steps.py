"""Cells h ← a ⊙ h + b, a = sigmoid and b = ReLU of the gate rows, compiled by Numba for float32 on a CPU.

Each thread has channels of its own, :data:`~pggnn.ops.numba_lanes.LANES` at a time, and goes through all lists: no two
threads write to the same place, and the result does not depend on their number. Gradients of gates are those of their
logarithms, a ∂/∂a: nothing is divided by a gate.
"""

import numba
import numpy as np

from pggnn.ops.numba_lanes import LANES, load, relu, sigmoid, splat, store, where_positive
from pggnn.ops.numba_threads import jitted_call, jitted_part, structure, thread_count, thread_number, vector

FIELDS = 5
"""What is kept of each step of a list."""
CENTER = -1
"""What a list has where it reads the centre."""
float32 = np.float32

Call = structure(
    "lists", "steps", "hidden", "slots", "longest", "slot", "first", "node", "rows", "root", "gates", "center",
    "ring", "merged", "closed", "scratch", "out", "d_gates", "d_center",
)  # fmt: skip
"""Sizes, addresses (0 for nothing), and what :func:`arcs_forward` says; ``hidden`` is a multiple of ``LANES``."""
jitted_lists = jitted_call(Call)


@jitted_part
def arguments(address):
    return numba.carray(address, 1)[0]


@jitted_part
def lists(call):
    """Their slots, where each begins, whose it is, and the gate row of each slot."""
    slot, first = vector(call.slot, call.steps), vector(call.first, call.lists + 1)
    return slot, first, vector(call.node, call.lists), vector(call.rows, call.slots)


@jitted_part
def own_channels(call):
    """The first ones of this thread's lanes."""
    part, parts, blocks = thread_number(), thread_count(), call.hidden // LANES
    return range(blocks * part // parts * LANES, blocks * (part + 1) // parts * LANES, LANES)


@jitted_part
def own_fields(call):
    """Addresses that are this thread's own."""
    size = 4 * LANES * (call.longest + 2)
    first = call.scratch + FIELDS * size * thread_number()
    return first, first + size, first + 2 * size, first + 3 * size, first + 4 * size


@jitted_part
def at(address, i):
    return load(address, LANES * i)


@jitted_part
def put(address, i, value):
    store(address, LANES * i, value)


@jitted_part
def read_row(call, row, channel):
    """Gate and input of a row, as they stand in the table."""
    first = 2 * call.hidden * row + channel
    return load(call.gates, first), load(call.gates, first + call.hidden)


@jitted_part
def read(call, slot, rows, v, channel):
    """Gate and input of a slot, or of the centre."""
    if slot == CENTER:
        x, y = read_row(call, call.root + v, channel)
        return sigmoid(x), relu(y)
    x, y = read_row(call, rows[slot], channel)
    if call.center != 0:
        first = 2 * call.hidden * v + channel
        x, y = x + load(call.center, first), y + load(call.center, first + call.hidden)
    return sigmoid(x), relu(y)


@jitted_part
def add_to(table, first, hidden, d_x, d_y):
    store(table, first, load(table, first) + d_x)
    store(table, first + hidden, load(table, first + hidden) + d_y)


@jitted_part
def write(call, slot, rows, v, channel, a, b, d_log, d_b):
    """Adds to the gradients of what :func:`read` has read, given those of log a and of b. Returns what it added."""
    row = call.root + v if slot == CENTER else rows[slot]
    d_x, d_y = d_log * (splat(float32(1)) - a), where_positive(d_b, b)
    add_to(call.d_gates, 2 * call.hidden * row + channel, call.hidden, d_x, d_y)
    return d_x, d_y


@jitted_part
def write_center(call, v, channel, d_x, d_y):
    if call.center != 0:
        add_to(call.d_center, 2 * call.hidden * v + channel, call.hidden, d_x, d_y)


@jitted_lists
def steps_forward(address):
    """Each list is a sequence: its last state is added to the result of its node."""
    call = arguments(address)
    slot, first, node, rows = lists(call)
    for channel in own_channels(call):
        for m in range(call.lists):
            v, h = node[m], splat(float32(0))
            for i in range(first[m], first[m + 1]):
                a, b = read(call, slot[i], rows, v, channel)
                h = a * h + b
            place = call.hidden * v + channel
            store(call.out, place, load(call.out, place) + h)


@jitted_lists
def steps_backward(address):
    """Adds to the gradients of gate rows and centres."""
    call = arguments(address)
    slot, first, node, rows = lists(call)
    gates, inputs, forgotten, _, _ = own_fields(call)
    for channel in own_channels(call):
        for m in range(call.lists):
            begin, size, v = first[m], first[m + 1] - first[m], node[m]
            h = splat(float32(0))
            for i in range(size):
                a, b = read(call, slot[begin + i], rows, v, channel)
                h = a * h
                put(gates, i, a)
                put(inputs, i, b)
                put(forgotten, i, h)
                h = h + b
            d_h = load(call.out, call.hidden * v + channel)
            sum_x = sum_y = splat(float32(0))
            for i in range(size - 1, -1, -1):
                one, a = slot[begin + i], at(gates, i)
                d_x, d_y = write(call, one, rows, v, channel, a, at(inputs, i), d_h * at(forgotten, i), d_h)
                if one != CENTER:
                    sum_x, sum_y = sum_x + d_x, sum_y + d_y
                d_h = d_h * a
            write_center(call, v, channel, sum_x, sum_y)
