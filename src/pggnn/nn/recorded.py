"""A network's passes in a training loop of your own, played from CUDA graphs: small batches wait for Python no more.

Recording needs one shape, so a batch is filled up with nodes that count for nothing, to the size of a larger one, for
:class:`~pggnn.plan.RoomyPlan`. A batch that has no room makes more of it, and a new recording.
"""

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.parameter import is_lazy
from torch_geometric.typing import OptTensor

from pggnn.nn.conv import SequenceConv
from pggnn.nn.model import Network
from pggnn.nn.readout import check_batch, check_graphs
from pggnn.ops import HAS_TRITON
from pggnn.ops.operator import Gradients, differentiable_once
from pggnn.orderings import Reading
from pggnn.plan import Plan, RoomyPlan, as_plan, profile_of

SPARE = 1.25
"""Times what a batch needs that room is made for: a larger one may come yet."""
MOST_STEPS = 2**22
"""Steps of sequences, with the whole group, from which on a batch keeps the GPU busy anyway."""
WARM_UP = 3
"""Passes before a recording, so that everything that is made once is there."""


def takes_room(conv: torch.nn.Module) -> bool:
    """Whether a layer on the GPU reads roomy plans: if the fused kernels run it, and no structural bits."""
    if not isinstance(conv, SequenceConv) or conv.structure or not HAS_TRITON:
        return False
    from pggnn.ops.fused.shape import refusal

    return refusal(next(conv.parameters()), conv.out_channels, conv.cell) is None


@dataclass(frozen=True)
class Room:
    """The size that batches are filled up to."""

    at_least: np.ndarray
    """``[D]`` nodes of degree 0 or more, of 1 or more …"""
    graphs: int

    @classmethod
    def of(cls, plan: Plan, graphs: int) -> "Room":
        """What a batch needs, with a node more: edges that fill up are that one's."""
        degrees, nodes = plan.profile.numpy().T
        histogram = np.zeros(degrees.max(initial=0) + 1, np.int64)
        histogram[degrees] = nodes
        histogram[0] += 1
        return cls(histogram[::-1].cumsum()[::-1], graphs)

    def holds(self, other: "Room") -> bool:
        """Whether there is room for such a batch."""
        size = len(other.at_least)
        return (
            self.graphs >= other.graphs
            and len(self.at_least) >= size
            and bool((self.at_least[:size] >= other.at_least).all())
        )

    def grown(self, other: "Room") -> "Room":
        """Room for both, and some more of the other."""
        at_least = np.zeros(max(len(self.at_least), len(other.at_least)), np.int64)
        at_least[: len(self.at_least)] = self.at_least
        size = len(other.at_least)
        at_least[:size] = np.maximum(at_least[:size], np.ceil(SPARE * other.at_least).astype(np.int64))
        return Room(at_least, max(self.graphs, other.graphs))

    @property
    def nodes(self) -> int:
        return int(self.at_least[0])

    @property
    def edges(self) -> int:
        return int(self.at_least[1:].sum())

    @property
    def exactly(self) -> np.ndarray:
        """``[D]`` nodes of degree 0, of 1 …"""
        return self.at_least - np.append(self.at_least[1:], 0)

    @property
    def steps(self) -> int:
        """Steps of the sequences of the whole group."""
        return int(Reading().work(np.arange(len(self.at_least))) @ self.exactly)

    @property
    def profile(self) -> Tensor:
        """:attr:`pggnn.plan.Plan.profile` of every batch."""
        return profile_of(np.arange(len(self.at_least)), self.exactly)


class Inputs:
    """What a recorded pass reads: memory that stays where it is, and is filled with one batch after the other."""

    def __init__(self, room: Room, x: Tensor, edge_attr: OptTensor) -> None:
        self.room = room
        nodes, edges, device = room.nodes, room.edges, x.device
        self.x = x.new_zeros(nodes, x.size(1), requires_grad=x.requires_grad)
        self.edge_attr = None
        if edge_attr is not None:
            self.edge_attr = edge_attr.new_zeros(edges, edge_attr.size(1), requires_grad=edge_attr.requires_grad)
        node, edge = torch.arange(nodes, device=device), torch.arange(edges, device=device)
        # Edges that fill up are the last node's, lead everywhere and are not read; nodes have none, and are no graph's.
        self._filling = [
            edge % nodes, torch.full_like(edge, nodes - 1), edge,
            torch.zeros_like(node), node, torch.full_like(node, room.graphs),
        ]  # fmt: skip
        self._numbers = torch.cat(self._filling)
        self._one_graph = torch.zeros_like(node)

    @torch.no_grad()
    def fill(self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor) -> None:
        """Takes a batch in. No host synchronisation."""
        nodes = plan.num_nodes
        member = self._one_graph[:nodes] if batch is None else batch
        pieces = []
        for values, filling in zip(
            (plan.neighbor, plan.center, plan.edge, plan.degree, plan.order, member), self._filling, strict=True
        ):
            pieces += [values, filling[values.size(0) :]]
        torch.cat(pieces, out=self._numbers)
        self.x[:nodes].copy_(x)
        if self.edge_attr is not None and edge_attr is not None:
            self.edge_attr[: edge_attr.size(0)].copy_(edge_attr)

    def arguments(self, flow: str) -> tuple[Tensor, Plan, Tensor, OptTensor, int, Tensor]:
        """Of :class:`~pggnn.nn.model.Network`; on the device, so that it can be recorded."""
        room = self.room
        neighbor, center, edge, degree, order, member = self._numbers.split([room.edges] * 3 + [room.nodes] * 3)
        real = member < room.graphs
        x = torch.where(real.unsqueeze(-1), self.x, 0)  # what an earlier batch has left there may be infinite
        plan = RoomyPlan.of_slots(neighbor, center, edge, degree, room.profile, order, flow=flow)
        return x, plan, member, self.edge_attr, room.graphs + 1, real


class Recording:
    """A forward and a backward pass over memory that stays where it is, played for one batch after the other."""

    def __init__(self, network: Network, inputs: Inputs) -> None:
        self.network, self.inputs = network, inputs
        named = dict(network.named_parameters())
        self.weights = [weight for weight in named.values() if weight.requires_grad]
        # The weights by other names, which no autograd graph of somebody else's knows and waits for.
        self._aliases = {name: weight.detach().requires_grad_(weight.requires_grad) for name, weight in named.items()}
        read = (inputs.x, inputs.edge_attr, *self._aliases.values())
        self._wanted = [tensor for tensor in read if tensor is not None and tensor.requires_grad]
        self.number = 0
        """Of the pass that was played last."""
        buffers = [*network.buffers()]
        before = [buffer.clone() for buffer in buffers]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                output = self._forward()
                self._backward(output, torch.zeros_like(output))
        torch.cuda.current_stream().wait_stream(stream)
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
        torch.cuda.synchronize()
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward):
            output = self._forward()
        self.output, self.gradient = output.detach(), torch.zeros_like(output)
        with torch.cuda.graph(self.backward, pool=self.forward.pool()):
            self.gradients = self._backward(output, self.gradient)

    def _forward(self) -> Tensor:
        # Weights in 16 bits that are kept for a while would be recorded as they are now.
        dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", dtype, enabled, cache_enabled=False), torch.enable_grad():
            return cast(Tensor, functional_call(self.network, self._aliases, self.inputs.arguments(self.network.flow)))

    def _backward(self, output: Tensor, gradient: Tensor) -> list[OptTensor]:
        with torch.autocast("cuda", enabled=False):
            return list(torch.autograd.grad(output, self._wanted, gradient, allow_unused=True))

    def play(self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, rows: int) -> Tensor:
        """The network's output for a batch, its first ``rows`` rows."""
        return cast(Tensor, _Played.apply(self, plan, batch, rows, x, edge_attr, *self.weights))


class _Played(torch.autograd.Function):
    """One pass. What leaves it is a copy: the recording's own memory is the next pass's."""

    @staticmethod
    def forward(
        ctx: Any, recording: Recording, plan: Plan, batch: OptTensor, rows: int, x: Tensor, edge_attr: OptTensor,
        *weights: Tensor,
    ) -> Tensor:  # fmt: skip
        recording.inputs.fill(x, plan, batch, edge_attr)
        recording.forward.replay()
        recording.number += 1
        ctx.recording, ctx.number, ctx.rows, ctx.sizes = recording, recording.number, rows, (x.size(0), plan.num_edges)
        return recording.output[:rows].clone()

    @staticmethod
    @differentiable_once("a recorded pass")
    def backward(ctx: Any, gradient: Tensor) -> Gradients:
        recording = ctx.recording
        if recording.number != ctx.number:
            raise RuntimeError(
                "another recorded pass has taken the place of this one: call backward() once, and before the next "
                "forward pass, or call the network itself"
            )
        recording.number += 1
        recording.gradient.zero_()
        recording.gradient[: ctx.rows].copy_(gradient)
        recording.backward.replay()
        there = [found for found in recording.gradients if found is not None]
        copies = iter(torch._foreach_mul(there, 1.0) if there else [])
        found = [None if one is None else next(copies) for one in recording.gradients]
        given: list[OptTensor] = []
        for tensor, size in zip((recording.inputs.x, recording.inputs.edge_attr), ctx.sizes, strict=True):
            gradient_of = found.pop(0) if tensor is not None and tensor.requires_grad else None
            given.append(None if gradient_of is None else gradient_of[:size])
        return None, None, None, None, *given, *found


class Recorded:
    """Calls a network; its training steps on a GPU are played from a recording.

    Answers, gradients, batch statistics and random numbers are those of the network, and so are its weights: give
    ``network.parameters()`` to the optimizer as ever. Small batches are then as fast as the GPU, not as Python.
    Batches may change from step to step; one that is larger than all before costs a new recording, once.
    On a CPU, in evaluation, without gradients and for batches that keep the GPU busy anyway the network itself is
    called. Call ``backward()`` once for each answer, and before the next forward pass.

    Args:
        network: A :class:`~pggnn.nn.model.PGGNN`, complete: what is changed in its layers later may not be seen.

    Example:
        >>> network = PGGNN(10, 64, 1, level="node").cuda()
        >>> recorded = Recorded(network)
        >>> for batch in loader:
        ...     loss = mse_loss(recorded(batch.x, batch.edge_index), batch.y)
    """

    def __init__(self, network: Network) -> None:
        if not isinstance(network, Network):
            raise TypeError(f"only networks of pggnn, such as PGGNN, can be recorded, got {type(network).__name__}")
        self.network = network
        self._weights = [*network.parameters()]
        self._room: Room | None = None
        self._recording: Recording | None = None
        self._circumstances: Hashable = None
        self._able = True

    def __call__(
        self,
        x: Tensor,
        edge_index: Tensor | Plan,
        batch: OptTensor = None,
        edge_attr: OptTensor = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Scores each graph or node; arguments as in :class:`~pggnn.nn.model.Network`."""
        network = self.network
        plan = as_plan(edge_index, x.size(0), network.flow)
        check_graphs(batch, batch_size)
        if batch is not None and batch_size is None:
            batch_size = int(batch.max()) + 1 if len(batch) else 0
        needed = Room.of(plan, 1 if batch_size is None else batch_size)
        if not self._is_recorded(x, edge_attr) or needed.steps > MOST_STEPS:
            return cast(Tensor, network(x, plan, batch, edge_attr, batch_size))
        cast(SequenceConv, network.convs[0]).check(plan, x, x, edge_attr)
        check_batch(batch, x)
        rows = plan.num_nodes if network.level == "node" else needed.graphs
        with torch.cuda.device(x.device):
            if self._recording is None or not self._recording.inputs.room.holds(needed):
                self._recording = None  # before another takes memory
                self._room = (self._room or needed).grown(needed)
                inputs = Inputs(self._room, x, edge_attr)
                inputs.fill(x, plan, batch, edge_attr)
                self._recording = Recording(network, inputs)
            return self._recording.play(x, plan, batch, edge_attr, rows)

    def _is_recorded(self, x: Tensor, edge_attr: OptTensor) -> bool:
        """Forgets a recording that does not hold any more."""
        training = self.network.training and torch.is_grad_enabled()
        if not (x.is_cuda and training and x.size(0) > 0) or any(map(is_lazy, self._weights)):
            return False
        given = [(one.dtype, one.shape[1:], one.requires_grad) for one in (x, edge_attr) if one is not None]
        circumstances = (
            *((weight.data_ptr(), weight.requires_grad) for weight in self._weights), *given,
            torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda"),
            torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled(),
        )  # fmt: skip
        if circumstances != self._circumstances:
            self._circumstances, self._recording = circumstances, None
            self._able = all(takes_room(conv) for conv in self.network.convs)
            if not self._able:
                message = "layers that the fused kernels do not run, or with structural bits, are not recorded"
                warnings.warn(message, stacklevel=3)
        return self._able
