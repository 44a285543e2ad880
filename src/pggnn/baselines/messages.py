"""PyG's message-passing layers where :class:`~pggnn.nn.model.Network` expects a layer that reads a plan."""

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import OptTensor

from pggnn.plan import Plan


class Messages(torch.nn.Module):
    """A layer of PyG on the edges of a plan, for either flow."""

    def __init__(self, conv: MessagePassing) -> None:
        super().__init__()
        self.conv = conv

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Messages from each neighbour to its centre."""
        edge_index = plan.derived(edges)
        if edge_attr is None:
            return self.conv(x, edge_index)
        return self.conv(x, edge_index, edge_attr.index_select(0, plan.edge))


def edges(plan: Plan) -> Tensor:
    """``[2, E]`` edges from neighbours to centres."""
    return torch.stack([plan.neighbor, plan.center])
