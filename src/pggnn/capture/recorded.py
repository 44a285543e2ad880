"""A network's passes in a training loop of your own, played from CUDA graphs: small batches no longer wait for Python.

A recording needs one shape, so batches are padded to a :class:`~pggnn.capture.capacity.Capacity`. A batch that does not
fit makes it grow, and the passes are recorded again.
"""

import warnings
from collections.abc import Hashable
from typing import Any, cast

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.parameter import is_lazy
from torch_geometric.typing import OptTensor

from pggnn.capture.capacity import Capacity
from pggnn.capture.graphs import WARM_UP, record, side_stream, takes_padded_plans, work_of
from pggnn.capture.linear_maps import LinearMaps
from pggnn.nn.conv import SequenceConv
from pggnn.nn.model import Network
from pggnn.nn.readout import check_batch, check_graphs
from pggnn.ops.operator import Gradients, differentiable_once
from pggnn.plan import PaddedPlan, Plan, as_plan

MOST_STEPS = 2**22
"""Steps of sequences, with the whole group, from which on a batch keeps the GPU busy anyway."""


class Inputs:
    """What a recorded pass reads: memory that stays where it is, and is filled with one batch after the other."""

    def __init__(self, capacity: Capacity, graphs: int, x: Tensor, edge_attr: OptTensor) -> None:
        self.capacity, self.graphs = capacity, graphs
        nodes, edges, device = capacity.nodes, capacity.edges, x.device
        self.x = x.new_zeros(nodes, x.size(1), requires_grad=x.requires_grad)
        self.edge_attr = None
        if edge_attr is not None:
            self.edge_attr = edge_attr.new_zeros(edges, edge_attr.size(1), requires_grad=edge_attr.requires_grad)
        node, edge = torch.arange(nodes, device=device), torch.arange(edges, device=device)
        # Padding edges are the last node's, lead everywhere and are not read. Padding nodes have none, and no graph.
        self._padding = [
            edge % nodes, torch.full_like(edge, nodes - 1), edge,
            torch.zeros_like(node), node, torch.full_like(node, graphs),
        ]  # fmt: skip
        self._numbers = torch.cat(self._padding)
        self._one_graph = torch.zeros_like(node)

    @torch.no_grad()
    def fill(self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor) -> None:
        """Copies a batch here. No host synchronisation."""
        nodes = plan.num_nodes
        member = self._one_graph[:nodes] if batch is None else batch
        pieces = []
        for values, padding in zip(
            (plan.neighbor, plan.center, plan.edge, plan.degree, plan.order, member), self._padding, strict=True
        ):
            pieces += [values, padding[values.size(0) :]]
        torch.cat(pieces, out=self._numbers)
        self.x[:nodes].copy_(x)
        if self.edge_attr is not None and edge_attr is not None:
            self.edge_attr[: edge_attr.size(0)].copy_(edge_attr)

    def arguments(self, flow: str) -> tuple[Tensor, Plan, Tensor, OptTensor, int, Tensor]:
        """Of :class:`~pggnn.nn.model.Network`; on the device, so that it can be recorded."""
        sizes = [self.capacity.edges] * 3 + [self.capacity.nodes] * 3
        neighbor, center, edge, degree, order, member = self._numbers.split(sizes)
        real = member < self.graphs
        x = torch.where(real.unsqueeze(-1), self.x, 0)  # rows of an earlier batch may be infinite
        plan = PaddedPlan.of_slots(neighbor, center, edge, degree, self.capacity.profile, order, flow=flow)
        return x, plan, member, self.edge_attr, self.graphs + 1, real


class Recording:
    """A forward and a backward pass over memory that stays where it is, played for one batch after the other."""

    def __init__(self, network: Network, inputs: Inputs) -> None:
        self.network, self.inputs, self._linear = network, inputs, LinearMaps(inputs.x.device)
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
        with side_stream():
            for _ in range(WARM_UP):
                output = self._forward()
                self._backward(output, torch.zeros_like(output))
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
        self.forward, output = record(self._forward)
        self.output, self.gradient = output.detach(), torch.zeros_like(output)
        self.backward, self.gradients = record(lambda: self._backward(output, self.gradient), self.forward.pool())

    def _forward(self) -> Tensor:
        # Weights in 16 bits that are kept for a while would be recorded as they are now.
        dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", dtype, enabled, cache_enabled=False), torch.enable_grad(), self._linear:
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
    """Calls a network; on a GPU its training steps are played from a recording.

    Answers, gradients, batch statistics and random numbers are those of the network, and so are its weights: give
    ``network.parameters()`` to the optimizer as ever. Small batches are then as fast as the GPU, not as Python.
    Batches may change from step to step; one that is larger than all before costs a new recording, once.
    On a CPU, in evaluation, without gradients and for batches that keep the GPU busy anyway the network itself is
    called. Call ``backward()`` once for each answer, and before the next forward pass.

    Args:
        network: A :class:`~pggnn.nn.model.PGGNN`, complete: what is changed in its layers later may not be seen.

    Example:
        >>> import torch
        >>> from pggnn import PGGNN
        >>> from pggnn.capture import Recorded
        >>> network = PGGNN(10, 64, 1, level="node")  # with .cuda(), and batches there, steps are recorded
        >>> recorded = Recorded(network)
        >>> x, edges = torch.randn(4, 10), torch.tensor([[1, 2, 3], [0, 0, 0]])
        >>> recorded(x, edges).mean().backward()
    """

    def __init__(self, network: Network) -> None:
        if not isinstance(network, Network):
            raise TypeError(f"only networks of pggnn, such as PGGNN, can be recorded, got {type(network).__name__}")
        self.network = network
        self._weights = [*network.parameters()]
        self._capacity: tuple[Capacity, int] | None = None
        """Nodes by degree, and graphs."""
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
        needed, graphs = Capacity.of_profile(plan.profile), 1 if batch_size is None else batch_size
        if not self._is_recorded(x, edge_attr) or needed.steps(work_of(network.convs)) > MOST_STEPS:
            return cast(Tensor, network(x, plan, batch, edge_attr, batch_size))
        cast(SequenceConv, network.convs[0]).check(plan, x, x, edge_attr)
        check_batch(batch, x)
        rows = plan.num_nodes if network.level == "node" else graphs
        with torch.cuda.device(x.device):
            capacity, most = self._capacity or (needed, 0)
            if self._recording is None or graphs > most or not capacity.holds(needed):
                self._recording = None  # before another takes memory
                self._capacity = capacity, most = capacity.grown(needed), max(most, graphs)
                inputs = Inputs(capacity, most, x, edge_attr)
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
            convs = self.network.convs
            self._able = all(isinstance(conv, SequenceConv) and takes_padded_plans(conv) for conv in convs)
            if not self._able:
                message = "layers that the fused kernels do not run, with structural bits or lists, are not recorded"
                warnings.warn(message, stacklevel=3)
        return self._able
