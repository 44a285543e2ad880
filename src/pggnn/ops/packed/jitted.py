"""The cells on a CPU in float32: beside its matrix products, each step is one compiled call each way."""

from collections.abc import Sequence
from types import ModuleType

from torch import Tensor

from pggnn.ops.packed import numba_gru, numba_lstm, numba_srn
from pggnn.ops.packed.numba_rows import Step, run_step
from pggnn.ops.packed.unroll import Prepared, Unrolled, UnrolledGRU, UnrolledLSTM, UnrolledSRN, first_rows, is_flushed


class Jitted(Unrolled):
    """Keeps what the class beside it keeps."""

    compiled: ModuleType
    """The steps of the cell."""

    def step(self, t: int, begins: bool) -> Step:
        """What both passes tell of step t, the first of its sequences if ``begins``."""
        return Step(self.sizes[t], self.hidden, self.gate_steps[t].data_ptr())

    def forward(self, t: int, weights: Prepared, begins: bool) -> None:
        self.project(t, weights, begins)
        step = self.step(t, begins)
        step.state, step.state_width = self.read_steps[t].data_ptr(), self.state.size(1)
        step.h = self.h_steps[t].data_ptr()
        if self.keep:
            step.inputs, step.inputs_width = self.input_steps[t].data_ptr(), self.inputs.size(1)
        run_step(self.compiled.forward, step)

    def backward(
        self, weight_hh: Tensor, d_state: list[Tensor], d_h: Tensor | None, begins: bool
    ) -> tuple[Tensor, Tensor]:
        d_gates = self.scratch(len(self.gate_scale))
        d_recurrent = d_gates if self.additive else self.scratch(len(self.gate_scale))
        d_gate_steps, d_recurrent_steps = self.steps(d_gates), self.steps(d_recurrent)
        dh_steps: Sequence[Tensor] = first_rows(d_state[0], self.sizes)
        above = None if d_h is None else self.steps(d_h)
        for t in reversed(range(len(self.sizes))):
            first = begins and t == 0
            step = self.step(t, first)
            step.inputs, step.inputs_width = self.input_steps[t].data_ptr(), self.inputs.size(1)
            step.d_gates, step.d_recurrent = d_gate_steps[t].data_ptr(), d_recurrent_steps[t].data_ptr()
            step.d_h, step.d_c = d_state[0].data_ptr(), d_state[-1].data_ptr()
            if above is not None:
                step.d_above = above[t].data_ptr()
            step.flushes = is_flushed(t, begins)
            run_step(self.compiled.backward, step)
            if not first:  # an additive cell's state reaches the next one through its weights alone
                dh_steps[t].addmm_(d_recurrent_steps[t], weight_hh, beta=0 if self.additive else 1)
        return d_gates, d_recurrent


class JittedLSTM(Jitted, UnrolledLSTM):
    compiled = numba_lstm

    def step(self, t: int, begins: bool) -> Step:
        step = super().step(t, begins)
        step.c, step.c_before = self.c_steps[t].data_ptr(), 0 if begins else self.c_before[t].data_ptr()
        return step


class JittedGRU(Jitted, UnrolledGRU):
    compiled = numba_gru

    def step(self, t: int, begins: bool) -> Step:
        step = super().step(t, begins)
        step.recurrent = self.hidden_steps[t].data_ptr()
        return step


class JittedSRN(Jitted, UnrolledSRN):
    compiled = numba_srn


JITTED: dict[str, type[Unrolled]] = {"lstm": JittedLSTM, "gru": JittedGRU, "srn": JittedSRN}
