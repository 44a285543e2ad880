"""One step of a simple recurrent network with tanh, but for its matrix products, compiled by Numba for float32 on a
CPU."""

import numba

from pggnn.ops.numba_threads import matrix
from pggnn.ops.packed.numba_rows import ONE, ZERO, flush_, jitted_step, own_rows, tanh_


@jitted_step
def forward(address):
    """Keeps what was read, and activates the state."""
    step = numba.carray(address, 1)[0]
    rows, hidden, inputs_width = step.rows, step.hidden, step.inputs_width
    gates, inputs = matrix(step.gates, rows, hidden), matrix(step.inputs, rows, inputs_width)
    state, h = matrix(step.state, rows, step.state_width), matrix(step.h, rows, step.state_width)
    for row in own_rows(rows):
        for j in range(inputs_width):
            inputs[row, j] = state[row, j]
        tanh_(gates[row], ONE, ZERO)
        for j in range(hidden):
            h[row, j] = gates[row, j]


@jitted_step
def backward(address):
    """Gradients of what was activated."""
    step = numba.carray(address, 1)[0]
    rows, hidden = step.rows, step.hidden
    gates, d_gates = matrix(step.gates, rows, hidden), matrix(step.d_gates, rows, hidden)
    d_h, d_above = matrix(step.d_h, rows, hidden), matrix(step.d_above, rows, hidden)
    for row in own_rows(rows):
        if step.d_above:
            for j in range(hidden):
                d_h[row, j] += d_above[row, j]
        if step.flushes:
            flush_(d_h[row])
        for j in range(hidden):
            d_gates[row, j] = d_h[row, j] * (ONE - gates[row, j] * gates[row, j])
