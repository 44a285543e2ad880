"""One step of a GRU but for its matrix products, compiled by Numba for float32 on a CPU."""

import numba

from pggnn.ops.numba_threads import matrix
from pggnn.ops.packed.numba_rows import HALF, ONE, ZERO, by_gate, flush_, jitted_step, own_rows, tanh_


@jitted_step
def forward(address):
    """Keeps what was read, activates the gates r, z and n, and moves the state on."""
    step = numba.carray(address, 1)[0]
    rows, hidden, inputs_width = step.rows, step.hidden, step.inputs_width
    gates, recurrent = by_gate(step.gates, rows, 3, hidden), by_gate(step.recurrent, rows, 3, hidden)
    state, h = matrix(step.state, rows, step.state_width), matrix(step.h, rows, step.state_width)
    inputs = matrix(step.inputs, rows, inputs_width)
    for row in own_rows(rows):
        for j in range(inputs_width):
            inputs[row, j] = state[row, j]
        for gate in range(2):
            for j in range(hidden):
                gates[row, gate, j] += recurrent[row, gate, j]
            tanh_(gates[row, gate], HALF, HALF)
        for j in range(hidden):
            gates[row, 2, j] += gates[row, 0, j] * recurrent[row, 2, j]
        tanh_(gates[row, 2], ONE, ZERO)
        for j in range(hidden):
            n = gates[row, 2, j]
            h[row, j] = n + gates[row, 1, j] * (h[row, j] - n)


@jitted_step
def backward(address):
    """Gradients of the gates' input and hidden part, and of the state before the step but for what the weights add."""
    step = numba.carray(address, 1)[0]
    rows, hidden, inputs_width = step.rows, step.hidden, step.inputs_width
    gates, recurrent = by_gate(step.gates, rows, 3, hidden), by_gate(step.recurrent, rows, 3, hidden)
    d_gates, d_recurrent = by_gate(step.d_gates, rows, 3, hidden), by_gate(step.d_recurrent, rows, 3, hidden)
    d_h, d_above = matrix(step.d_h, rows, hidden), matrix(step.d_above, rows, hidden)
    inputs, own = matrix(step.inputs, rows, inputs_width), inputs_width - hidden
    for row in own_rows(rows):
        if step.d_above:
            for j in range(hidden):
                d_h[row, j] += d_above[row, j]
        if step.flushes:
            flush_(d_h[row])
        for j in range(hidden):
            z, n = gates[row, 1, j], gates[row, 2, j]
            d_gates[row, 2, j] = d_h[row, j] * ((ONE - z) * (ONE - n * n))
        for j in range(hidden):
            z = gates[row, 1, j]
            d_gates[row, 1, j] = d_h[row, j] * (inputs[row, own + j] - gates[row, 2, j]) * (z * (ONE - z))
        for j in range(hidden):
            r = gates[row, 0, j]
            d_gates[row, 0, j] = d_gates[row, 2, j] * recurrent[row, 2, j] * (r * (ONE - r))
        for gate in range(2):
            for j in range(hidden):
                d_recurrent[row, gate, j] = d_gates[row, gate, j]
        for j in range(hidden):
            d_recurrent[row, 2, j] = d_gates[row, 2, j] * gates[row, 0, j]
        for j in range(hidden):
            d_h[row, j] *= gates[row, 1, j]
