"""One step of an LSTM but for its matrix products, compiled by Numba for float32 on a CPU."""

import numba
import numpy as np

from pggnn.ops.numba_threads import matrix
from pggnn.ops.packed.numba_rows import HALF, ONE, TWO, ZERO, by_gate, float32, flush_, jitted_step, own_rows, tanh_


@jitted_step
def forward(address):
    """Activates the gates, keeps what was read, and moves the state on."""
    step = numba.carray(address, 1)[0]
    rows, hidden, inputs_width = step.rows, step.hidden, step.inputs_width
    gates, c = by_gate(step.gates, rows, 4, hidden), matrix(step.c, rows, hidden)
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
    gates, c = by_gate(step.gates, rows, 4, hidden), matrix(step.c, rows, hidden)
    d_gates, d_above = by_gate(step.d_gates, rows, 4, hidden), matrix(step.d_above, rows, hidden)
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
