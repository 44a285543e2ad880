"""The recurrent cells over a packed block of sequences: forward in place, backward by hand.

A block holds sequences sorted by falling length, step after step: step t is the next ``sizes[t]`` rows, one for each
sequence still running, so the state carried into step t is the first ``sizes[t]`` rows of step t − 1. Everything the
backward pass needs is kept in one buffer of ``sum(fields)`` hidden vectors per row.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor

Carry = tuple[Tensor, ...]
"""The state a block takes over from the steps before it, hidden vector first; empty where its sequences begin."""


class Unrolled(ABC):
    """One recurrent layer over one block.

    Fill :attr:`gates` with the gates' input part, each gate multiplied by its :attr:`gate_scale`, then call
    :meth:`forward`; :attr:`h` holds the hidden states afterwards.
    """

    fields: tuple[int, ...]
    """Hidden vectors per row in each field of the buffer: the gates come first, the hidden state last."""
    gate_scale: tuple[int, ...]
    """What the gates' inputs and weights are to be multiplied by before the forward pass."""
    additive = True
    """Whether input and hidden parts are only ever added, so that ``b_hh`` may be folded into the input part."""
    states = 1

    def __init__(self, buffer: Tensor, sizes: list[int], hidden: int, carry: Carry = ()) -> None:
        rows = sum(sizes)
        self.sizes, self.hidden, self.carry = sizes, hidden, carry
        self.parts = [part.view(rows, -1) for part in buffer.split([rows * hidden * field for field in self.fields])]
        self.gates, self.h = self.parts[0], self.parts[-1]

    def steps(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """A field, or some of its columns, cut into steps."""
        return tensor.split(self.sizes)

    def gate(self, tensor: Tensor, first: int, last: int | None = None) -> tuple[Tensor, ...]:
        """The columns of gates ``first`` to ``last`` of a field, cut into steps."""
        stop = first + 1 if last is None else last + 1
        return self.steps(tensor[:, first * self.hidden : stop * self.hidden])

    def before(self, field: Tensor, state: int = 0) -> list[Tensor | None]:
        """For each step, the rows of ``field`` one step earlier that are still running."""
        first = self.carry[state][: self.sizes[0]] if self.carry else None
        earlier = self.steps(field)[:-1]
        return [first, *(rows[:size] for rows, size in zip(earlier, self.sizes[1:], strict=True))]

    @abstractmethod
    def forward(self, weight: Tensor, bias: Tensor) -> None:
        """Runs the steps, given ``W_hhᵀ`` (scaled) and ``b_hh`` (ignored by additive cells)."""

    @abstractmethod
    def end(self) -> Carry:
        """The state after the last step."""

    @abstractmethod
    def backward(self, weight: Tensor, d_gates: Tensor, d_state: list[Tensor], d_h: Tensor | None) -> Tensor:
        """Runs the steps backwards.

        Args:
            weight: ``W_hh``, unscaled.
            d_gates: Filled with the gradient of the gates' (unscaled) input part.
            d_state: Gradient of the state after the block, a row for each sequence; updated to that before the block.
            d_h: Gradient of :attr:`h` from the layer above, if there is one.

        Returns:
            The gradient of the gates' hidden part; for additive cells this is ``d_gates`` itself.
        """

    def add_weight_gradient(self, d_weight: Tensor, d_hidden: Tensor) -> None:
        """Adds Σₜ d_hiddenₜᵀ hₜ₋₁ to ``d_weight``, in as few matrix products as the packing allows."""
        if self.carry:
            size = self.sizes[0]
            d_weight.addmm_(d_hidden[:size].t(), self.carry[0][:size])
        for rows, earlier in stretches(self.sizes):
            d_weight.addmm_(d_hidden[rows].t(), self.h[earlier])


def stretches(sizes: list[int]) -> Iterator[tuple[slice, slice]]:
    """The packed rows of steps 1, 2, … with the rows one step earlier, in the longest stretches contiguous in both."""
    offsets = [0, *accumulate(sizes)]
    step = 1
    while step < len(sizes):
        stop = step + 1
        while sizes[step] == sizes[step - 1] and stop < len(sizes) and sizes[stop] == sizes[step]:
            stop += 1
        rows = offsets[stop] - offsets[step]
        yield slice(offsets[step], offsets[stop]), slice(offsets[step - 1], offsets[step - 1] + rows)
        step = stop


def _sigmoid_backward(gradient: Tensor, output: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(gradient, output, grad_input=gradient)


def _tanh_backward(gradient: Tensor, output: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(gradient, output, grad_input=gradient)


class UnrolledLSTM(Unrolled):
    """tanh(x) = 2σ(2x) − 1, so with the input of gate g doubled one sigmoid serves all four gates."""

    fields = (4, 1, 1, 1)
    gate_scale = (1, 1, 2, 1)
    states = 2

    def forward(self, weight: Tensor, bias: Tensor) -> None:
        _, c, tanh_c, h = self.parts
        minus_one = weight.new_tensor(-1.0)
        for gates, i, f, g, o, c_now, tanh_now, h_now, c_old, h_old in zip(
            self.steps(self.gates),
            *(self.gate(self.gates, k) for k in range(4)),
            self.steps(c), self.steps(tanh_c), self.steps(h), self.before(c, 1), self.before(h), strict=True,
        ):  # fmt: skip
            if h_old is not None:
                gates.addmm_(h_old, weight)
            gates.sigmoid_()
            torch.add(minus_one, g, alpha=2, out=g)
            if c_old is None:
                torch.mul(i, g, out=c_now)
            else:
                torch.mul(f, c_old, out=c_now).addcmul_(i, g)
            torch.tanh(c_now, out=tanh_now)
            torch.mul(o, tanh_now, out=h_now)

    def end(self) -> Carry:
        return self.steps(self.h)[-1], self.steps(self.parts[1])[-1]

    def backward(self, weight: Tensor, d_gates: Tensor, d_state: list[Tensor], d_h: Tensor | None) -> Tensor:
        _, c, tanh_c, _ = self.parts
        scratch = torch.empty_like(d_state[0])
        steps = zip(
            self.steps(d_gates),
            *(self.gate(d_gates, k) for k in range(4)), self.gate(d_gates, 0, 1),
            *(self.gate(self.gates, k) for k in range(4)), self.gate(self.gates, 0, 1),
            self.steps(tanh_c), self.before(c, 1), [None] * len(self.sizes) if d_h is None else self.steps(d_h),
            self.sizes, strict=True,
        )  # fmt: skip
        for d_all, d_i, d_f, d_g, d_o, d_if, i, f, g, o, i_f, tanh_now, c_old, d_above, size in reversed(list(steps)):
            dh, dc, d_tanh = d_state[0][:size], d_state[1][:size], scratch[:size]
            if d_above is not None:
                dh.add_(d_above)
            torch.mul(dh, tanh_now, out=d_o)
            torch.mul(dh, o, out=d_tanh)
            _tanh_backward(d_tanh, tanh_now)
            dc.add_(d_tanh)
            torch.mul(dc, g, out=d_i)
            torch.mul(dc, i, out=d_g)
            if c_old is None:
                d_f.zero_()
            else:
                torch.mul(dc, c_old, out=d_f)
            dc.mul_(f)
            _sigmoid_backward(d_if, i_f)
            _tanh_backward(d_g, g)
            _sigmoid_backward(d_o, o)
            if c_old is not None:
                torch.mm(d_all, weight, out=dh)
        return d_gates


class UnrolledGRU(Unrolled):
    """The reset gate multiplies the hidden part of gate n alone, so the two parts are kept apart."""

    fields = (3, 3, 1)
    gate_scale = (1, 1, 1)
    additive = False

    def forward(self, weight: Tensor, bias: Tensor) -> None:
        _, hidden, h = self.parts
        for r, r_z, z, n, part, part_rz, part_n, h_now, h_old in zip(
            self.gate(self.gates, 0), self.gate(self.gates, 0, 1), self.gate(self.gates, 1), self.gate(self.gates, 2),
            self.steps(hidden), self.gate(hidden, 0, 1), self.gate(hidden, 2),
            self.steps(h), self.before(h), strict=True,
        ):  # fmt: skip
            if h_old is None:
                part.copy_(bias)
            else:
                torch.addmm(bias, h_old, weight, out=part)
            r_z.add_(part_rz).sigmoid_()
            n.addcmul_(r, part_n).tanh_()
            if h_old is None:
                torch.addcmul(n, z, n, value=-1, out=h_now)
            else:
                torch.lerp(n, h_old, z, out=h_now)

    def end(self) -> Carry:
        return (self.steps(self.h)[-1],)

    def backward(self, weight: Tensor, d_gates: Tensor, d_state: list[Tensor], d_h: Tensor | None) -> Tensor:
        _, hidden, h = self.parts
        d_hidden = torch.empty_like(d_gates)
        steps = zip(
            self.gate(d_gates, 0), self.gate(d_gates, 1), self.gate(d_gates, 0, 1), self.gate(d_gates, 2),
            self.gate(self.gates, 0), self.gate(self.gates, 1), self.gate(self.gates, 0, 1), self.gate(self.gates, 2),
            self.steps(d_hidden), self.gate(d_hidden, 0, 1), self.gate(d_hidden, 2), self.gate(hidden, 2),
            self.before(h), [None] * len(self.sizes) if d_h is None else self.steps(d_h), self.sizes, strict=True,
        )  # fmt: skip
        for d_r, d_z, d_rz, d_n, r, z, r_z, n, d_part, d_part_rz, d_part_n, part_n, h_old, d_above, size in reversed(
            list(steps)
        ):
            dh = d_state[0][:size]
            if d_above is not None:
                dh.add_(d_above)
            if h_old is None:
                torch.mul(dh, n, out=d_z).neg_()
            else:
                torch.sub(h_old, n, out=d_z).mul_(dh)
            torch.addcmul(dh, dh, z, value=-1, out=d_n)
            _tanh_backward(d_n, n)
            torch.mul(d_n, part_n, out=d_r)
            _sigmoid_backward(d_rz, r_z)
            d_part_rz.copy_(d_rz)
            torch.mul(d_n, r, out=d_part_n)
            if h_old is not None:
                dh.mul_(z).addmm_(d_part, weight)
        return d_hidden


class UnrolledSRN(Unrolled):
    """The simple recurrent network; gates and hidden state share their memory."""

    fields = (1,)
    gate_scale = (1,)

    def activate(self, x: Tensor) -> None:
        x.tanh_()

    def deactivate(self, gradient: Tensor, output: Tensor) -> None:
        _tanh_backward(gradient, output)

    def forward(self, weight: Tensor, bias: Tensor) -> None:
        for h_now, h_old in zip(self.steps(self.h), self.before(self.h), strict=True):
            if h_old is not None:
                h_now.addmm_(h_old, weight)
            self.activate(h_now)

    def end(self) -> Carry:
        return (self.steps(self.h)[-1],)

    def backward(self, weight: Tensor, d_gates: Tensor, d_state: list[Tensor], d_h: Tensor | None) -> Tensor:
        above = [None] * len(self.sizes) if d_h is None else self.steps(d_h)
        steps = zip(self.steps(d_gates), self.steps(self.h), self.before(self.h), above, self.sizes, strict=True)
        for d_all, h_now, h_old, d_above, size in reversed(list(steps)):
            dh = d_state[0][:size]
            if d_above is not None:
                dh.add_(d_above)
            d_all.copy_(dh)
            self.deactivate(d_all, h_now)
            if h_old is not None:
                torch.mm(d_all, weight, out=dh)
        return d_gates


class UnrolledReluSRN(UnrolledSRN):
    def activate(self, x: Tensor) -> None:
        x.relu_()

    def deactivate(self, gradient: Tensor, output: Tensor) -> None:
        torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)


class UnrolledIdentitySRN(UnrolledSRN):
    def activate(self, x: Tensor) -> None:
        pass

    def deactivate(self, gradient: Tensor, output: Tensor) -> None:
        pass


UNROLLED: dict[str, type[Unrolled]] = {
    "lstm": UnrolledLSTM,
    "gru": UnrolledGRU,
    "srn": UnrolledSRN,
    "srn-relu": UnrolledReluSRN,
    "srn-identity": UnrolledIdentitySRN,
}
