"""The recurrent cells over a packed block of sequences: forward in place, backward by hand, step by step.

A block holds sequences sorted by falling length: at step t the first ``sizes[t]`` of them are still running. With
``keep`` every step has memory of its own, for the backward pass to find; without, all steps share the same memory, and
after the last step each sequence's final state is left there.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Carry = tuple[Tensor, ...]
"""The state a block takes over from the steps before it, hidden vector first; empty where its sequences begin."""


def first_rows(tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """``tensor[:size]`` for each size; equal sizes in a row share one view."""
    views: list[Tensor] = []
    for size in sizes:
        views.append(views[-1] if views and views[-1].size(0) == size else tensor[:size])
    return views


class Unrolled(ABC):
    """One recurrent layer over one block.

    For each step in turn, fill ``gates[t]`` with the gates' input part, each gate multiplied by its :attr:`gate_scale`,
    then call :meth:`forward`; ``h[t]`` is the hidden state afterwards.
    """

    fields: tuple[int, ...]
    """Hidden vectors per row in each field of the buffer: the gates come first, the hidden state last."""
    gate_scale: tuple[int, ...]
    """What the gates' inputs and weights are multiplied by before the forward pass."""
    states = 1
    additive = True
    """Whether input and hidden part are only ever added, so that ``b_hh`` may be folded into the input part."""

    def __init__(self, buffer: Tensor, sizes: list[int], hidden: int, keep: bool, carry: Carry = ()) -> None:
        rows = sum(sizes) if keep else sizes[0]
        self.sizes, self.hidden, self.keep, self.carry = sizes, hidden, keep, carry
        self.parts = [part.view(rows, -1) for part in buffer.split([rows * hidden * field for field in self.fields])]
        self.gates, self.h = self.steps(self.parts[0]), self.steps(self.parts[-1])
        self.h_before = self.before(self.h, state=0)
        self.views: list[tuple[Any, ...]] = list(zip(*self.cut(), strict=True))

    @abstractmethod
    def cut(self) -> list[Sequence[Any]]:
        """The views of each step that :meth:`forward` and :meth:`backward` want."""

    @abstractmethod
    def forward(self, t: int, weight: Tensor, bias: Tensor) -> None:
        """Runs step t, given ``W_hhᵀ`` (scaled) and ``b_hh`` (which additive cells ignore)."""

    @abstractmethod
    def backward(self, t: int, weight: Tensor, d_state: list[Tensor], d_gates: Tensor) -> Tensor:
        """Runs step t backwards.

        Args:
            t: The step.
            weight: ``W_hh``, unscaled.
            d_state: Gradient of the state after the step, a row for each running sequence; becomes that before it.
            d_gates: Filled with the gradient of the gates' (unscaled) input part.

        Returns:
            The gradient of the gates' hidden part, which is ``d_gates`` itself for additive cells.
        """

    def end(self, t: int) -> Carry:
        """The state after step t, for a block that goes on from there."""
        return (self.h[t],)

    def steps(self, tensor: Tensor, first: int = 0, last: int | None = None) -> Sequence[Tensor]:
        """A field, or only its hidden vectors ``first`` … ``last − 1``, at each step."""
        columns = tensor if last is None else tensor[:, first * self.hidden : last * self.hidden]
        return columns.split(self.sizes) if self.keep else first_rows(columns, self.sizes)

    def before(self, steps: Sequence[Tensor], state: int) -> list[Tensor | None]:
        """What the sequences running at each step had in a field one step earlier; ``None`` for zero."""
        first = self.carry[state][: self.sizes[0]] if self.carry else None
        return [first, *(rows[:size] for rows, size in zip(steps, self.sizes[1:], strict=False))]


def _sigmoid_backward(gradient: Tensor, output: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(gradient, output, grad_input=gradient)


def _tanh_backward(gradient: Tensor, output: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(gradient, output, grad_input=gradient)


class UnrolledLSTM(Unrolled):
    """tanh(x) = 2σ(2x) − 1: with the input of gate g doubled, one sigmoid serves all four gates."""

    fields = (4, 1, 1, 1)
    gate_scale = (1, 1, 2, 1)
    states = 2

    def cut(self) -> list[Sequence[Any]]:
        gates, c, tanh_c, _ = self.parts
        each = [self.steps(gates, k, k + 1) for k in range(4)]
        self.c = self.steps(c)
        self.minus_one = gates.new_tensor(-1.0)
        return [self.gates, *each, self.steps(gates, 0, 2), self.c, self.steps(tanh_c), self.before(self.c, state=1)]

    def forward(self, t: int, weight: Tensor, bias: Tensor) -> None:
        gates, i, f, g, o, _, c, tanh_c, c_before = self.views[t]
        if c_before is not None:
            gates.addmm_(self.h_before[t], weight)
        gates.sigmoid_()
        torch.add(self.minus_one, g, alpha=2, out=g)
        if c_before is None:
            torch.mul(i, g, out=c)
        else:
            torch.mul(f, c_before, out=c).addcmul_(i, g)
        torch.tanh(c, out=tanh_c)
        torch.mul(o, tanh_c, out=self.h[t])

    def backward(self, t: int, weight: Tensor, d_state: list[Tensor], d_gates: Tensor) -> Tensor:
        _, i, f, g, o, i_f, _, tanh_c, c_before = self.views[t]
        dh, dc = d_state
        d_i, d_f, d_g, d_o = d_gates.split(self.hidden, dim=1)
        torch.mul(dh, o, out=d_g)
        _tanh_backward(d_g, tanh_c)
        dc.add_(d_g)
        torch.mul(dh, tanh_c, out=d_o)
        torch.mul(dc, g, out=d_i)
        torch.mul(dc, i, out=d_g)
        if c_before is None:
            d_f.zero_()
        else:
            torch.mul(dc, c_before, out=d_f)
        _sigmoid_backward(d_gates[:, : 2 * self.hidden], i_f)
        _tanh_backward(d_g, g)
        _sigmoid_backward(d_o, o)
        if c_before is not None:
            dc.mul_(f)
            torch.mm(d_gates, weight, out=dh)
        return d_gates

    def end(self, t: int) -> Carry:
        return self.h[t], self.c[t]


class UnrolledGRU(Unrolled):
    """The reset gate multiplies the hidden part of gate n alone, so the two parts are kept apart."""

    fields = (3, 3, 1)
    gate_scale = (1, 1, 1)
    additive = False

    def cut(self) -> list[Sequence[Any]]:
        gates, hidden, _ = self.parts
        each = [self.steps(gates, k, k + 1) for k in range(3)]
        parts = [self.steps(hidden), self.steps(hidden, 0, 2), self.steps(hidden, 2, 3)]
        return [*each, self.steps(gates, 0, 2), *parts]

    def forward(self, t: int, weight: Tensor, bias: Tensor) -> None:
        r, z, n, r_z, hidden, hidden_rz, hidden_n = self.views[t]
        h_before = self.h_before[t]
        if h_before is None:
            hidden.copy_(bias)
        else:
            torch.addmm(bias, h_before, weight, out=hidden)
        r_z.add_(hidden_rz).sigmoid_()
        n.addcmul_(r, hidden_n).tanh_()
        if h_before is None:
            torch.addcmul(n, z, n, value=-1, out=self.h[t])
        else:
            torch.lerp(n, h_before, z, out=self.h[t])

    def backward(self, t: int, weight: Tensor, d_state: list[Tensor], d_gates: Tensor) -> Tensor:
        r, z, n, r_z, _, _, hidden_n = self.views[t]
        (dh,), h_before = d_state, self.h_before[t]
        d_r, d_z, d_n = d_gates.split(self.hidden, dim=1)
        if h_before is None:
            torch.mul(dh, n, out=d_z).neg_()
        else:
            torch.sub(h_before, n, out=d_z).mul_(dh)
        torch.addcmul(dh, dh, z, value=-1, out=d_n)
        _tanh_backward(d_n, n)
        torch.mul(d_n, hidden_n, out=d_r)
        _sigmoid_backward(d_gates[:, : 2 * self.hidden], r_z)
        d_hidden = d_gates.clone()
        d_hidden[:, 2 * self.hidden :].mul_(r)
        if h_before is not None:
            dh.mul_(z).addmm_(d_hidden, weight)
        return d_hidden


class UnrolledSRN(Unrolled):
    """The simple recurrent network with tanh."""

    fields = (1, 1)
    gate_scale = (1,)

    def cut(self) -> list[Sequence[Any]]:
        return []

    def activate(self, x: Tensor, out: Tensor) -> None:
        torch.tanh(x, out=out)

    def deactivate(self, gradient: Tensor, output: Tensor) -> None:
        _tanh_backward(gradient, output)

    def forward(self, t: int, weight: Tensor, bias: Tensor) -> None:
        h_before = self.h_before[t]
        if h_before is not None:
            self.gates[t].addmm_(h_before, weight)
        self.activate(self.gates[t], out=self.h[t])

    def backward(self, t: int, weight: Tensor, d_state: list[Tensor], d_gates: Tensor) -> Tensor:
        (dh,) = d_state
        d_gates.copy_(dh)
        self.deactivate(d_gates, self.h[t])
        if self.h_before[t] is not None:
            torch.mm(d_gates, weight, out=dh)
        return d_gates


class UnrolledReluSRN(UnrolledSRN):
    def activate(self, x: Tensor, out: Tensor) -> None:
        torch.clamp(x, min=0, out=out)

    def deactivate(self, gradient: Tensor, output: Tensor) -> None:
        torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)


class UnrolledIdentitySRN(UnrolledSRN):
    def activate(self, x: Tensor, out: Tensor) -> None:
        out.copy_(x)

    def deactivate(self, gradient: Tensor, output: Tensor) -> None:
        pass


UNROLLED: dict[str, type[Unrolled]] = {
    "lstm": UnrolledLSTM,
    "gru": UnrolledGRU,
    "srn": UnrolledSRN,
    "srn-relu": UnrolledReluSRN,
    "srn-identity": UnrolledIdentitySRN,
}
