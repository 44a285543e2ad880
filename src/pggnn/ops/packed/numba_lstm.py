"""One step of an LSTM but for its matrix products, compiled by Numba for float32 on a CPU.

Threads share a step's rows. Loops write one array each, so that LLVM vectorises them.
"""

import numba
import numpy as np
import torch

from pggnn.ops.numba_threads import (
    floats,
    jitted,
    jitted_call,
    matrix,
    run,
    structure,
    thread_count,
    thread_number,
)
from pggnn.ops.packed.unroll import VANISHED

FEWEST_CELLS = 4096
"""Rows times hidden channels from which on a second thread is worth its start."""
float32 = np.float32
ZERO, HALF, ONE, TWO, SATURATED, LEAST = map(float32, (0, 0.5, 1, 2, 9, VANISHED))
P0, P1, P2, P3, P4 = map(float32, (0.99999998, 0.13380981, 3.4955345e-3, 2.0608184e-5, 1.3353412e-8))
Q1, Q2, Q3, Q4 = map(float32, (0.46714297, 2.587678e-2, 3.2855462e-4, 7.7760467e-7))

Step = structure(
    "rows", "hidden", "gates", "c", "c_before",
    "state", "state_width", "h", "inputs", "inputs_width",
    "d_gates", "d_h", "d_c", "d_above", "flushes",
)  # fmt: skip
"""Where the rows of one step begin, as addresses; 0 where there are none."""
jitted_step = jitted_call(Step)


def run_step(function, step):
    """Runs a step's rows, on several threads if there are many."""
    run(function, step, torch.get_num_threads() if step.rows * step.hidden >= FEWEST_CELLS else 1)


@jitted
def by_gate(address, rows, hidden):
    return numba.carray(floats(address), (rows, 4, hidden))


@jitted
def own_rows(rows):
    """Those of this thread."""
    part, parts = thread_number(), thread_count()
    return range(rows * part // parts, rows * (part + 1) // parts)


@jitted
def clamp(x, most):
    x = most if x > most else x
    return -most if x < -most else x


@jitted
def tanh_(x, scale, offset):
    """offset + scale · tanh(scale · x) in place; tanh within 4e-7 as y P(y²) / Q(y²), arithmetic alone."""
    for j in range(len(x)):
        y = clamp(scale * x[j], SATURATED)
        s = y * y
        p = (((P4 * s + P3) * s + P2) * s + P1) * s + P0
        q = (((Q4 * s + Q3) * s + Q2) * s + Q1) * s + ONE
        x[j] = offset + scale * clamp(y * p / q, ONE)


@jitted
def flush_(x):
    """See :func:`pggnn.ops.packed.unroll.flush`."""
    for j in range(len(x)):
        x[j] = ZERO if abs(x[j]) <= LEAST else x[j]


@jitted_step
def forward(address):
    """Activates the gates, keeps what was read, and moves the state on."""
    step = numba.carray(address, 1)[0]
    rows, hidden, inputs_width = step.rows, step.hidden, step.inputs_width
    gates, c = by_gate(step.gates, rows, hidden), matrix(step.c, rows, hidden)
    state, h = matrix(step.state, rows, step.state_width), matrix(step.h, rows, step.state_width)
    inputs, c_before = matrix(step.inputs, rows, inputs_width), matrix(step.c_before, rows, hidden)
    next_c = np.empty(hidden, float32)
    for row in own_rows(rows):
        for j in range(inputs_width):
            inputs[row, j] = state[row, j]
        for gate in range(4):
            tanh_(gates[row, gate], HALF, HALF)
        for j in range(hidden):
            gates[row, 2, j] = TWO * gates[row, 2, j] - ONE
        for j in range(hidden):
            next_c[j] = gates[row, 0, j] * gates[row, 2, j]
        if step.c_before:
            for j in range(hidden):
                next_c[j] += gates[row, 1, j] * c_before[row, j]
        for j in range(hidden):
            c[row, j] = next_c[j]
        tanh_(next_c, ONE, ZERO)
        for j in range(hidden):
            h[row, j] = gates[row, 3, j] * next_c[j]


@jitted_step
def backward(address):
    """Gradients of the gates, and of the cell state before the step in place of that after it."""
    step = numba.carray(address, 1)[0]
    rows, hidden = step.rows, step.hidden
    gates, c = by_gate(step.gates, rows, hidden), matrix(step.c, rows, hidden)
    d_gates, d_above = by_gate(step.d_gates, rows, hidden), matrix(step.d_above, rows, hidden)
    d_h, d_c = matrix(step.d_h, rows, hidden), matrix(step.d_c, rows, hidden)
    c_before, tanh_c = matrix(step.c_before, rows, hidden), np.empty(hidden, float32)
    for row in own_rows(rows):
        if step.d_above:
            for j in range(hidden):
                d_h[row, j] += d_above[row, j]
        if step.flushes:
            flush_(d_h[row])
            flush_(d_c[row])
        for j in range(hidden):
            tanh_c[j] = c[row, j]
        tanh_(tanh_c, ONE, ZERO)
        for j in range(hidden):
            o = gates[row, 3, j]
            d_gates[row, 3, j] = d_h[row, j] * tanh_c[j] * (o * (ONE - o))
        for j in range(hidden):
            d_c[row, j] += d_h[row, j] * gates[row, 3, j] * (ONE - tanh_c[j] * tanh_c[j])
        for j in range(hidden):
            i = gates[row, 0, j]
            d_gates[row, 0, j] = d_c[row, j] * gates[row, 2, j] * (i * (ONE - i))
        for j in range(hidden):
            g = gates[row, 2, j]
            d_gates[row, 2, j] = d_c[row, j] * gates[row, 0, j] * (ONE - g * g)
        if step.c_before:
            for j in range(hidden):
                f = gates[row, 1, j]
                d_gates[row, 1, j] = d_c[row, j] * c_before[row, j] * (f * (ONE - f))
            for j in range(hidden):
                d_c[row, j] *= gates[row, 1, j]
        else:
            for j in range(hidden):
                d_gates[row, 1, j] = ZERO
