"""GIN, the graph isomorphism network of Xu et al., 2019."""

import torch
from torch_geometric.nn import GINConv, GINEConv, MessagePassing

from pggnn.baselines.messages import Messages
from pggnn.nn.model import Level, Network, Readout


class GIN(Network):
    """GIN-0: sums of neighbours through an MLP of two layers, batch-normalised inside and outside, ε fixed at 0.

    As in its authors' code, down to the scores from every layer. With ``edge_dim`` the messages are those of GINE
    (Hu et al., 2020), which the paper does not run.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, level, readout, dropout, flow: As in
            :class:`~pggnn.PGGNN`.
        edge_dim: Size of the edge features; None to leave them out.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        level: Level = "graph",
        readout: Readout = "sum",
        dropout: float = 0.0,
        flow: str = "source_to_target",
        edge_dim: int | None = None,
    ) -> None:
        widths = [in_channels, *[hidden_channels] * num_layers]
        convs = [Messages(_layer(width, hidden_channels, edge_dim)) for width in widths[:-1]]
        super().__init__(convs, widths, out_channels, level, readout, dropout, flow)


def _layer(in_channels: int, hidden_channels: int, edge_dim: int | None) -> MessagePassing:
    mlp = torch.nn.Sequential(
        torch.nn.Linear(in_channels, hidden_channels),
        torch.nn.BatchNorm1d(hidden_channels),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden_channels, hidden_channels),
    )
    return GINConv(mlp) if edge_dim is None else GINEConv(mlp, edge_dim=edge_dim)
