"""PyG's message-passing layers where :class:`~pggnn.nn.model.Network` expects a layer that reads a plan."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import OptTensor

from pggnn.plan import Plan

Weigh = Callable[[Plan, torch.dtype], tuple[Tensor, Tensor]]


class Messages(torch.nn.Module):
    """A layer of PyG on the edges of a plan, for either flow; with ``weigh`` on edges that have weights, which all
    layers on a plan share."""

    def __init__(self, conv: MessagePassing, weigh: Weigh | None = None) -> None:
        super().__init__()
        self.conv, self.weigh = conv, weigh

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Messages from each neighbour to its centre."""
        if self.weigh is not None:
            return self.conv(x, *plan.derived(self.weigh, x.dtype))
        edge_index = plan.derived(edges)
        if edge_attr is None:
            return self.conv(x, edge_index)
        return self.conv(x, edge_index, edge_attr.index_select(0, plan.edge))


def edges(plan: Plan) -> Tensor:
    """``[2, E]`` edges from neighbours to centres."""
    return torch.stack([plan.neighbor, plan.center])
