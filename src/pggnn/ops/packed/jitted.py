"""The LSTM on a CPU in float32: beside its matrix product, each step is one compiled call each way."""

import torch
from torch import Tensor

from pggnn.ops.packed import numba_lstm
from pggnn.ops.packed.unroll import Prepared, UnrolledLSTM, first_rows, is_flushed


class JittedLSTM(UnrolledLSTM):
    """Keeps what its base keeps."""

    def step(self, t: int, begins: bool) -> numba_lstm.Step:
        """What both passes tell of step t, the first of its sequences if ``begins``."""
        c_before = 0 if begins else self.c_before[t].data_ptr()
        gates, c = self.gate_steps[t].data_ptr(), self.c_steps[t].data_ptr()
        return numba_lstm.Step(self.sizes[t], self.hidden, gates, c, c_before)

    def forward(self, t: int, weights: Prepared, begins: bool) -> None:
        self.project(t, weights, begins)
        step = self.step(t, begins)
        step.state, step.state_width = self.read_steps[t].data_ptr(), self.state.size(1)
        step.h = self.h_steps[t].data_ptr()
        if self.keep:
            step.inputs, step.inputs_width = self.input_steps[t].data_ptr(), self.inputs.size(1)
        numba_lstm.run_step(numba_lstm.forward, step)

    def backward(
        self, weight_hh: Tensor, d_state: list[Tensor], d_h: Tensor | None, begins: bool
    ) -> tuple[Tensor, Tensor]:
        d_gates = self.scratch(4)
        d_gate_steps, dh_steps = self.steps(d_gates), first_rows(d_state[0], self.sizes)
        above = None if d_h is None else self.steps(d_h)
        for t in reversed(range(len(self.sizes))):
            first = begins and t == 0
            step = self.step(t, first)
            step.d_gates, step.d_h, step.d_c = (d.data_ptr() for d in (d_gate_steps[t], *d_state))
            if above is not None:
                step.d_above = above[t].data_ptr()
            step.flushes = is_flushed(t, begins)
            numba_lstm.run_step(numba_lstm.backward, step)
            if not first:
                torch.mm(d_gate_steps[t], weight_hh, out=dh_steps[t])
        return d_gates, d_gates
