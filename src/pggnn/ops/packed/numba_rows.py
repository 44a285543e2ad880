"""What the compiled steps of all cells have in common: their arguments, their threads, and tanh.

Threads share a step's rows. Loops write one array each, so that LLVM vectorises them.
"""

import numba
import numpy as np
import torch

from pggnn.ops.numba_threads import (
    floats,
    jitted,
    jitted_call,
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
    "state", "state_width", "h", "inputs", "inputs_width", "recurrent",
    "d_gates", "d_recurrent", "d_h", "d_c", "d_above", "flushes",
)  # fmt: skip
"""Where the rows of one step begin, as addresses; 0 where there are none."""
jitted_step = jitted_call(Step)


def run_step(function, step):
    """Runs a step's rows, on several threads if there are many."""
    run(function, step, torch.get_num_threads() if step.rows * step.hidden >= FEWEST_CELLS else 1)


@jitted
def by_gate(address, rows, gates, hidden):
    return numba.carray(floats(address), (rows, gates, hidden))


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
