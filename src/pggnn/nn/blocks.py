"""What a network's layer is made of: the neighbourhoods that it reads, and what follows."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import UninitializedParameter
from torch.nn.modules.lazy import LazyModuleMixin
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.typing import OptTensor

from pggnn.lists import LISTS, ListPlan
from pggnn.nn.lists import HopConv, ListConv, OneWayRingConv, PathConv, RingConv, RingSetConv
from pggnn.nn.norm import RowNorm, norm_layer
from pggnn.nn.readout import sum_messages
from pggnn.plan import Plan

ListPlans = Mapping[str, ListPlan]


class Reads(torch.nn.Module):
    """Layers that read several neighbourhoods, by name; what they read is added up."""

    def __init__(self, layers: Mapping[str, torch.nn.Module]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict(layers)

    def reset_parameters(self) -> None:
        for layer in self.layers.values():
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None, lists: ListPlans | None = None) -> Tensor:
        """Reads all of them.

        Args:
            x: Node features.
            plan: The edges.
            edge_attr: Edge features.
            lists: What else is read, by name.
        """
        found = []
        for name, layer in self.layers.items():
            if name not in LISTS:
                found.append(layer(x, plan, edge_attr))
            elif lists is None or name not in lists:
                raise ValueError(f"the network reads {name}, which are missing: give lists={{{name!r}: …}}")
            else:
                features = None if name == "hops" else edge_attr
                found.append(layer(x, lists[name], features, plan if layer.structure else None))
        total: Tensor = found[0]
        for other in found[1:]:
            total = total + other
        return total


class LazyWidth(LazyModuleMixin, torch.nn.Linear):
    """A linear map whose ``out_features`` are set before it is first called."""

    cls_to_become = torch.nn.Linear
    weight: UninitializedParameter
    bias: UninitializedParameter  # type: ignore[assignment]

    def __init__(self, in_features: int) -> None:
        super().__init__(in_features, 0, bias=False)
        self.weight, self.bias = UninitializedParameter(), UninitializedParameter()

    def reset_parameters(self) -> None:
        if self.out_features > 0 and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, x: Tensor) -> None:
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.weight.materialize((self.out_features, self.in_features))
                self.bias.materialize((self.out_features,))
                self.reset_parameters()


class SumConv(torch.nn.Module):
    """A node and the sum over its neighbours through a small network: PyG's ``GINConv``, or ``GINEConv`` where there
    are edge features, with sums that are repeatable on a GPU at no cost."""

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int | None = None) -> None:
        super().__init__()
        lazy = in_channels == -1  # until the first input
        self.lin_edge: torch.nn.Linear | None = None
        if edge_dim is not None:
            self.lin_edge = LazyWidth(edge_dim) if lazy else torch.nn.Linear(edge_dim, in_channels)
        self.nn = torch.nn.Sequential(
            torch.nn.LazyLinear(out_channels) if lazy else torch.nn.Linear(in_channels, out_channels),
            RowNorm(out_channels),
            torch.nn.ReLU(),
            torch.nn.Linear(out_channels, out_channels),
        )

    def reset_parameters(self) -> None:
        reset(self.nn)
        reset(self.lin_edge)

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Runs the layer; arguments as in :class:`Reads`."""
        if isinstance(self.lin_edge, LazyWidth):
            self.lin_edge.out_features = x.size(1)
        edges = None if self.lin_edge is None or edge_attr is None else self.lin_edge(edge_attr)
        out: Tensor = self.nn(sum_messages(x, edges, plan))
        return out


LIST_LAYERS: dict[str, type[ListConv]] = {
    layer.kind: layer for layer in (RingConv, PathConv, HopConv, ListConv, OneWayRingConv, RingSetConv)
}


def list_layer(name: str, width: int, hidden: int, edge_dim: int | None, options: Mapping[str, Any]) -> ListConv:
    """The layer that reads these lists."""
    features: dict[str, Any] = {} if name == "hops" else {"edge_dim": edge_dim}
    return LIST_LAYERS[name](width, hidden, **features, **options)


def check_reads(reads: Sequence[str]) -> tuple[str, ...]:
    """The names of neighbourhoods, or an error."""
    known = ("star", "sum", *LIST_LAYERS)
    if isinstance(reads, str) or not reads or len({*reads}) < len(reads) or not set(reads) <= set(known):
        raise ValueError(f"reads must be some of {', '.join(map(repr, known))}, each once, got {reads!r}")
    return tuple(reads)


class Scale(torch.nn.Module):
    """Divides columns by their size, where it is known: sums over large graphs are large."""

    size: OptTensor
    """``[C]``; None for 1."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("size", None)

    def forward(self, x: Tensor) -> Tensor:
        """Divides the columns of ``x``."""
        return x if self.size is None else x / self.size


def glorot_linear(width: int, out_channels: int) -> Linear:
    """A linear map with Glorot's weights; ``-1`` takes the width from the first input."""
    return Linear(width, out_channels, weight_initializer="glorot", bias_initializer="zeros")


def two_layers(width: int, hidden: int, out_channels: int, dropout: float) -> torch.nn.Sequential:
    """Two linear maps with a ReLU and dropout between them."""
    between = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(dropout))
    return torch.nn.Sequential(glorot_linear(width, hidden), between, glorot_linear(hidden, out_channels))


class FeedForward(torch.nn.Module):
    """What a residual block ends with: what its layer has read is added to the state, and so is the output of a network
    of two layers, of twice the width; then it is normalised."""

    def __init__(self, width: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.layers, self.norm = two_layers(width, 2 * width, width, dropout), norm_layer(norm, width)
        self.dropout = torch.nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        reset(self.layers)
        reset(self.norm)

    def forward(self, x: Tensor, read: Tensor, *graphs: Any) -> Tensor:
        """The state after the block; ``graphs`` are what the normalisation takes."""
        x = x + self.dropout(read)
        out: Tensor = self.norm(x + self.dropout(self.layers(x)), *graphs)
        return out
