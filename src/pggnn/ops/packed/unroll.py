"""The recurrent cells over a packed block of sequences: forward in place, backward by hand.

A block holds sequences sorted by falling length: at step t the first ``sizes[t]`` of them are still running. With
``keep`` every step has memory of its own, one after the other, for the backward pass to find; without, all steps share
the memory of one. The hidden vectors of all layers stand side by side in ``state``, a row for each sequence, and are
overwritten step by step; a sequence that has ended keeps its last one.

The backward pass first turns what was kept into the factors by which the gates' gradients depend on the state's, for
all steps at once; only a handful of operations per step are left then.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from pggnn.ops.packed.memory import POOL

FLUSH_EVERY = 8
"""Steps of the backward pass between two calls of :func:`flush`."""
VANISHED = 1e-30
"""Gradients no larger than this have vanished."""


class Prepared(NamedTuple):
    """A layer's weights for the forward pass: matrices transposed and stacked, gates scaled."""

    weight: Tensor
    """``[W_ih | W_hh]ᵀ``; in the first layer ``W_hhᵀ``."""
    bias_ih: Tensor
    """``b_ih``, for additive cells ``b_ih + b_hh``; unused in the first layer."""
    bias_hh: Tensor


class Unrolled(ABC):
    """One recurrent layer over one block."""

    gate_scale: tuple[int, ...]
    """What each gate's inputs and weights are multiplied by before the forward pass."""
    own_fields: tuple[int, ...] = ()
    """Hidden vectors per row that the cell keeps beside its gates and what it has read."""
    states = 1
    additive = True
    """Whether input and hidden part are only ever added, so that one matrix product gives both."""

    @classmethod
    def fields(cls, index: int) -> tuple[int, ...]:
        """Hidden vectors per row in each field of the memory of layer ``index``."""
        return len(cls.gate_scale), *cls.own_fields, min(index + 1, 2)

    def __init__(
        self, index: int, memory: Tensor, sizes: tuple[int, ...], state: Tensor, hidden: int, keep: bool,
        carry: Tensor | None,
    ) -> None:  # fmt: skip
        rows = sum(sizes) if keep else sizes[0]
        self.index, self.sizes, self.hidden, self.keep, self.carry = index, sizes, hidden, keep, carry
        parts = memory.split([rows * hidden * field for field in self.fields(index)])
        self.gates, *self.own, self.inputs = (part.view(rows, -1) for part in parts)
        self.state = state

    @cached_property
    def gate_steps(self) -> Sequence[Tensor]:
        """The gates at each step."""
        return self.steps(self.gates)

    @cached_property
    def gate_columns(self) -> list[Sequence[Tensor]]:
        """Each gate at each step."""
        return [self.steps(gate) for gate in self.columns(self.gates)]

    @cached_property
    def read_steps(self) -> Sequence[Tensor]:
        """The part of the state that each step reads: the hidden vector below, if there is a layer, and its own."""
        first, last = max(self.index - 1, 0) * self.hidden, (self.index + 1) * self.hidden
        return first_rows(self.state[:, first:last], self.sizes)

    @cached_property
    def h_steps(self) -> Sequence[Tensor]:
        """The layer's own hidden vectors, before each step and after it."""
        return first_rows(self.last_hidden, self.sizes)

    @cached_property
    def input_steps(self) -> Sequence[Tensor]:
        """Where :attr:`read_steps` are kept."""
        return self.steps(self.inputs)

    @abstractmethod
    def forward(self, t: int, weights: Prepared, begins: bool) -> None:
        """Runs step t, the first of its sequences if ``begins``. The first layer's gates hold their input part."""

    @abstractmethod
    def backward(
        self, weight_hh: Tensor, d_state: list[Tensor], d_h: Tensor | None, begins: bool
    ) -> tuple[Tensor, Tensor]:
        """Runs all steps backwards, the first of them the first of its sequences if ``begins``.

        Args:
            weight_hh: ``W_hh``, unscaled.
            d_state: Gradient of the state after the block, a row for each sequence; becomes that before it.
            d_h: Gradient of each step's hidden vector from the layer above, if there is one.
            begins: Whether the state before the block is zero and needs no gradient.

        Returns:
            The gradients of the gates' input and hidden part, unscaled; one and the same tensor for additive cells.
        """

    @property
    def last_hidden(self) -> Tensor:
        """Each sequence's hidden vector after its last step."""
        return self.state[:, self.index * self.hidden : (self.index + 1) * self.hidden]

    def own_state(self, t: int) -> Tensor | None:
        """A copy of what the cell carries on from step t beside the hidden vector."""
        return None

    def steps(self, tensor: Tensor) -> Sequence[Tensor]:
        """A field, or some of its columns, at each step."""
        return torch.split_with_sizes(tensor, self.sizes) if self.keep else first_rows(tensor, self.sizes)

    def columns(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The columns of each gate."""
        return tensor.split(self.hidden, dim=1)

    def project(self, t: int, weights: Prepared, begins: bool) -> None:
        """The matrix products of step t; for an additive cell input and hidden part together."""
        gates = self.gate_steps[t]
        if self.index == 0:
            if not begins:
                gates.addmm_(self.h_steps[t], weights.weight)
        elif begins:
            below = self.read_steps[t][:, : self.hidden]
            torch.addmm(weights.bias_ih, below, weights.weight[: self.hidden], out=gates)
        else:
            torch.addmm(weights.bias_ih, self.read_steps[t], weights.weight, out=gates)

    def keep_inputs(self, t: int) -> None:
        """Keeps what step t reads for the backward pass, if there is one."""
        if self.keep:
            self.input_steps[t].copy_(self.read_steps[t])

    def scratch(self, hidden_vectors: int) -> Tensor:
        """Uninitialised memory for every step of the block."""
        rows = self.gates.size(0)
        return POOL.take(rows * hidden_vectors * self.hidden, self.gates).view(rows, -1)


def first_rows(tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """``tensor[:size]`` for each size; equal sizes share one view."""
    views = {size: tensor[:size] for size in set(sizes)}
    return [views[size] for size in sizes]


def rows_before(sizes: Sequence[int], device: torch.device) -> Tensor:
    """For each packed row of steps 1, 2, … that of the same sequence one step earlier, without a copy from the host."""
    starts = accumulate(sizes, initial=0)
    steps = [torch.arange(start, start + size, device=device) for start, size in zip(starts, sizes[1:], strict=False)]
    return torch.cat([torch.arange(0, device=device), *steps])


def is_flushed(t: int, begins: bool) -> bool:
    """Whether vanished gradients are set to zero at step t: every few steps, and on the way to an earlier slab, since
    slabs may be shorter than that."""
    return (t + 1) % FLUSH_EVERY == 0 or (t == 0 and not begins)


def flush(*gradients: Tensor) -> None:
    """Sets vanished gradients to zero: on long sequences they become denormal numbers, which are very slow."""
    for gradient in gradients:
        if gradient.dtype == torch.float:
            torch.nn.functional.hardshrink(gradient, VANISHED, out=gradient)


def sigmoid_slope(factor: Tensor, output: Tensor, out: Tensor) -> None:
    """factor · σ′, from σ's output."""
    torch.ops.aten.sigmoid_backward.grad_input(factor, output, grad_input=out)


def tanh_slope(factor: Tensor, output: Tensor, out: Tensor) -> None:
    """factor · tanh′, from tanh's output."""
    torch.ops.aten.tanh_backward.grad_input(factor, output, grad_input=out)


class UnrolledLSTM(Unrolled):
    """tanh(x) = 2σ(2x) − 1: with the input of gate g doubled, one sigmoid serves all four gates."""

    gate_scale = (1, 1, 2, 1)
    own_fields = (1,)
    states = 2

    @cached_property
    def c_steps(self) -> Sequence[Tensor]:
        """The cell state after each step."""
        return self.steps(self.own[0])

    @cached_property
    def c_before(self) -> list[Tensor]:
        """The cell state before each step; not to be read where the sequences begin."""
        before = [self.c_steps[0] if self.carry is None else self.carry, *self.c_steps]
        return [c[:size] for c, size in zip(before, self.sizes, strict=False)]

    @cached_property
    def minus_one(self) -> Tensor:
        return self.gates.new_full((), -1.0)

    def forward(self, t: int, weights: Prepared, begins: bool) -> None:
        self.project(t, weights, begins)
        self.keep_inputs(t)
        i, f, g, o = (gate[t] for gate in self.gate_columns)
        c, h = self.c_steps[t], self.h_steps[t]
        self.gate_steps[t].sigmoid_()
        torch.add(self.minus_one, g, alpha=2, out=g)
        if begins:
            torch.mul(i, g, out=c)
        else:
            torch.mul(f, self.c_before[t], out=c).addcmul_(i, g)
        torch.mul(o, torch.tanh(c, out=h), out=h)

    def backward(
        self, weight_hh: Tensor, d_state: list[Tensor], d_h: Tensor | None, begins: bool
    ) -> tuple[Tensor, Tensor]:
        i, f, g, o = self.columns(self.gates)
        d_gates, dc_by_dh = self.scratch(4), torch.tanh(self.own[0], out=self.scratch(1))
        d_i, d_f, d_g, d_o = self.columns(d_gates)
        sigmoid_slope(g, i, out=d_i)
        tanh_slope(i, g, out=d_g)
        sigmoid_slope(dc_by_dh, o, out=d_o)
        torch.addcmul(o, o, dc_by_dh.square_(), value=-1, out=dc_by_dh)
        first, before = self.sizes[0], self.scratch(1)
        torch.index_select(self.own[0], 0, rows_before(self.sizes, f.device), out=before[first:])
        if self.carry is None:
            before[:first].zero_()
        else:
            before[:first].copy_(self.carry[:first])
        sigmoid_slope(before, f, out=d_f)

        by_dc = self.steps(d_gates.view(-1, 4, self.hidden)[:, :3])
        d_gate_steps, by_dh, f_steps, c_by_h = (self.steps(part) for part in (d_gates, d_o, f, dc_by_dh))
        above = None if d_h is None else self.steps(d_h)
        dh_steps, dc_steps = (first_rows(d, self.sizes) for d in d_state)
        dc_column_steps = first_rows(d_state[1].unsqueeze(1), self.sizes)
        for t in reversed(range(len(self.sizes))):
            dh, dc = dh_steps[t], dc_steps[t]
            if above is not None:
                dh.add_(above[t])
            if is_flushed(t, begins):
                flush(dh, dc)
            dc.addcmul_(dh, c_by_h[t])
            by_dc[t].mul_(dc_column_steps[t])
            by_dh[t].mul_(dh)
            if t > 0 or not begins:
                dc.mul_(f_steps[t])
                torch.mm(d_gate_steps[t], weight_hh, out=dh)
        return d_gates, d_gates

    def own_state(self, t: int) -> Tensor | None:
        return self.c_steps[t].clone()


class UnrolledGRU(Unrolled):
    """The reset gate multiplies the hidden part of gate n alone, so the two parts are kept apart."""

    gate_scale = (1, 1, 1)
    own_fields = (3,)
    additive = False

    @cached_property
    def hidden_steps(self) -> Sequence[Tensor]:
        """The gates' hidden part at each step."""
        return self.steps(self.own[0])

    @cached_property
    def hidden_columns(self) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Gates r and z, and gate n, of the hidden part at each step."""
        return self.steps(self.own[0][:, : 2 * self.hidden]), self.steps(self.own[0][:, 2 * self.hidden :])

    @cached_property
    def r_z(self) -> Sequence[Tensor]:
        """Gates r and z together at each step."""
        return self.steps(self.gates[:, : 2 * self.hidden])

    def project(self, t: int, weights: Prepared, begins: bool) -> None:
        """The matrix products of step t, input and hidden part apart."""
        if self.index > 0:
            below, weight_ih = self.read_steps[t][:, : self.hidden], weights.weight[: self.hidden]
            torch.addmm(weights.bias_ih, below, weight_ih, out=self.gate_steps[t])
        if begins:
            self.hidden_steps[t].copy_(weights.bias_hh)
        else:
            torch.addmm(weights.bias_hh, self.h_steps[t], weights.weight[-self.hidden :], out=self.hidden_steps[t])

    def forward(self, t: int, weights: Prepared, begins: bool) -> None:
        self.project(t, weights, begins)
        self.keep_inputs(t)
        (r, z, n), h = (gate[t] for gate in self.gate_columns), self.h_steps[t]
        hidden_r_z, hidden_n = self.hidden_columns
        self.r_z[t].add_(hidden_r_z[t]).sigmoid_()
        n.addcmul_(r, hidden_n[t]).tanh_()
        torch.lerp(n, h, z, out=h)

    def backward(
        self, weight_hh: Tensor, d_state: list[Tensor], d_h: Tensor | None, begins: bool
    ) -> tuple[Tensor, Tensor]:
        r, z, n = self.columns(self.gates)
        d_hidden, d_n = self.scratch(3), self.scratch(1)
        d_r, d_z, d_hidden_n = self.columns(d_hidden)
        torch.sub(self.inputs[:, -self.hidden :], n, out=d_n)
        sigmoid_slope(d_n, z, out=d_z)
        torch.sub(z.new_full((), 1.0), z, out=d_n)
        tanh_slope(d_n, n, out=d_n)
        torch.mul(d_n, self.own[0][:, 2 * self.hidden :], out=d_hidden_n)
        sigmoid_slope(d_hidden_n, r, out=d_r)
        torch.mul(d_n, r, out=d_hidden_n)

        by_dh = self.steps(d_hidden.view(-1, 3, self.hidden))
        d_hidden_steps, d_n_steps, z_steps = (self.steps(part) for part in (d_hidden, d_n, z))
        above = None if d_h is None else self.steps(d_h)
        dh_steps, dh_column_steps = first_rows(d_state[0], self.sizes), first_rows(d_state[0].unsqueeze(1), self.sizes)
        for t in reversed(range(len(self.sizes))):
            dh = dh_steps[t]
            if above is not None:
                dh.add_(above[t])
            if is_flushed(t, begins):
                flush(dh)
            by_dh[t].mul_(dh_column_steps[t])
            d_n_steps[t].mul_(dh)
            if t > 0 or not begins:
                dh.mul_(z_steps[t]).addmm_(d_hidden_steps[t], weight_hh)
        d_input = d_hidden.clone()
        d_input[:, 2 * self.hidden :] = d_n
        return d_input, d_hidden


class UnrolledSRN(Unrolled):
    """The simple recurrent network with tanh."""

    gate_scale = (1,)

    def activate(self, x: Tensor) -> None:
        """Applies the activation in place."""
        x.tanh_()

    def slope(self, output: Tensor, out: Tensor) -> None:
        """The activation's derivative, from its output."""
        tanh_slope(torch.ones_like(output), output, out=out)

    def forward(self, t: int, weights: Prepared, begins: bool) -> None:
        self.project(t, weights, begins)
        self.keep_inputs(t)
        self.activate(self.gate_steps[t])
        self.h_steps[t].copy_(self.gate_steps[t])

    def backward(
        self, weight_hh: Tensor, d_state: list[Tensor], d_h: Tensor | None, begins: bool
    ) -> tuple[Tensor, Tensor]:
        d_gates = self.scratch(1)
        self.slope(self.gates, out=d_gates)
        d_gate_steps, dh_steps = self.steps(d_gates), first_rows(d_state[0], self.sizes)
        above = None if d_h is None else self.steps(d_h)
        for t in reversed(range(len(self.sizes))):
            if above is not None:
                dh_steps[t].add_(above[t])
            if is_flushed(t, begins):
                flush(dh_steps[t])
            d_gate_steps[t].mul_(dh_steps[t])
            if t > 0 or not begins:
                torch.mm(d_gate_steps[t], weight_hh, out=dh_steps[t])
        return d_gates, d_gates


class UnrolledReluSRN(UnrolledSRN):
    """The simple recurrent network with ReLU."""

    def activate(self, x: Tensor) -> None:
        x.relu_()

    def slope(self, output: Tensor, out: Tensor) -> None:
        torch.sign(output, out=out)


class UnrolledIdentitySRN(UnrolledSRN):
    """The simple recurrent network without an activation."""

    def activate(self, x: Tensor) -> None:
        pass

    def slope(self, output: Tensor, out: Tensor) -> None:
        out.fill_(1)


UNROLLED: dict[str, type[Unrolled]] = {
    "lstm": UnrolledLSTM,
    "gru": UnrolledGRU,
    "srn": UnrolledSRN,
    "srn-relu": UnrolledReluSRN,
    "srn-identity": UnrolledIdentitySRN,
}
