"""rGIN, GIN with random features, of Sato, Yamada and Kashima, 2021."""

from typing import Any

import torch
from torch import Tensor

from pggnn.baselines.gin import GIN

VALUES = 100
"""The random number is one of 0, 0.01, …, 0.99, as in the experiments of the paper on PG-GNN."""


class RGIN(GIN):
    """GIN whose nodes each have one more feature: a random number, fresh in every forward pass.

    As in its paper, numbers are drawn in evaluation as in training, uniformly from 0, 0.01, …, 0.99, here by torch's
    generator on the device of ``x``. What follows is the GIN of this comparison (:class:`~pggnn.baselines.GIN`), so
    that nothing but the random numbers tells the two apart.

    Args:
        in_channels: Size of each node's own features.
        **kwargs: As in :class:`~pggnn.baselines.GIN`.

    Example:
        >>> from pggnn.baselines import RGIN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = RGIN(2, 16, 1).eval()
        >>> squares, _ = coloured_pair()
        >>> one, again = (network(squares.x, squares.edge_index) for _ in range(2))
        >>> one.equal(again)  # numbers are drawn in every call
        False
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(in_channels + 1, hidden_channels, out_channels, *args, **kwargs)

    def score(self, x: Tensor, *args: Any) -> Tensor:
        """The scores with new random numbers."""
        drawn = torch.randint(VALUES, (x.size(0), 1), device=x.device).to(x.dtype) / VALUES
        return super().score(torch.cat([x, drawn], dim=-1), *args)
