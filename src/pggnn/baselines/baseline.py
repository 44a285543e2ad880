"""What the baselines have in common: the frame, and one kind of layer in it."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch

from pggnn.nn.model import Block, Network, block_widths

USUAL: dict[str, Any] = {
    "level": "graph", "readout": "sum", "scores": "all", "norm": "batch", "block": "plain", "edge_dim": None,
}  # fmt: skip
"""Options of the frame, as they are by default."""


def refuse_options(name: str, given: Mapping[str, Any]) -> None:
    """Refuses options of the frame for a network that has a frame of its own."""
    for option, value in given.items():
        if option in USUAL and value != USUAL[option]:
            raise ValueError(
                f"{name} has a frame of its own, without a choice of {option}: leave out {option}={value!r}"
            )
        if option not in USUAL and option not in ("numbering", "numberings"):
            raise TypeError(f"{name} has no argument {option}")


def refuse_block(network: Network, frame: Mapping[str, Any]) -> None:
    """Refuses blocks for a network whose layers have no room for them."""
    if frame.get("block", "plain") != "plain":
        raise ValueError(f'{type(network).__name__} has no block but "plain", got {frame["block"]!r}')


class Baseline(Network):
    """A network of equal layers, :meth:`layer`, in the frame of :class:`~pggnn.PGGNN`.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, block: As in :class:`~pggnn.PGGNN`.
        edge_dim: Size of the edge features; None to leave them out, as most baselines must.
        **frame: ``level``, ``readout``, ``dropout``, ``flow``, ``scores``, ``norm``, ``numbering`` and ``numberings``
            as in :class:`~pggnn.PGGNN`. The order of neighbours does not matter here: numbering ``"random"`` is the
            same as ``"given"``, and ``"both"`` as ``"labels"``.

    Example:
        >>> from torch_geometric.nn import SAGEConv
        >>> from pggnn.baselines.baseline import Baseline
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> from pggnn.nn.messages import Messages
        >>> class Maximum(Baseline):
        ...     def layer(self, in_channels, out_channels, edge_dim):
        ...         return Messages(SAGEConv(in_channels, out_channels, aggr="max"))
        >>> squares, _ = coloured_pair()
        >>> Maximum(2, 16, 3)(squares.x, squares.edge_index).shape
        torch.Size([1, 3])
    """

    reads_edges = False
    """Whether its layers read edge features."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        edge_dim: int | None = None,
        block: Block = "plain",
        **frame: Any,
    ) -> None:
        if edge_dim is not None and not self.reads_edges:
            raise ValueError(
                f"{type(self).__name__} does not read edge features: leave model.edge_features out, "
                "or choose a model that does, such as pggnn, gin, gatedgcn, pna, cin or ppgn"
            )
        widths = block_widths(in_channels, hidden_channels, num_layers, block)
        convs = [self.layer(width, hidden_channels, edge_dim) for width in widths[:-1]]
        super().__init__(convs, widths, out_channels, block=block, in_channels=in_channels, **frame)

    @abstractmethod
    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One aggregation, which is called as ``layer(x, plan, edge_attr)``."""
