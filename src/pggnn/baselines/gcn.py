"""GCN, the graph convolutional network of Kipf and Welling, 2017."""

from torch_geometric.nn import GCNConv

from pggnn.baselines.messages import Messages
from pggnn.nn.model import Level, Network, Readout


class GCN(Network):
    """PyG's ``GCNConv``: neighbours and the node itself, weighted by the roots of their degrees.

    The layer is the original; batch normalisation and the scores from every layer are the frame of this comparison,
    which its paper does not have.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, level, readout, dropout, flow: As in
            :class:`~pggnn.PGGNN`.
        edge_dim: Must be None: GCN does not read edge features.
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
        if edge_dim is not None:
            raise ValueError("GCN does not read edge features: leave model.edge_features out, or choose pggnn or gin")
        widths = [in_channels, *[hidden_channels] * num_layers]
        convs = [Messages(GCNConv(width, hidden_channels)) for width in widths[:-1]]
        super().__init__(convs, widths, out_channels, level, readout, dropout, flow)
