"""Other sequences of neighbours, on the base of ``PGConv``: the paper's (its appendix on model variants), and trios."""

from typing import Any

from pggnn.nn.conv import SequenceConv
from pggnn.orderings import Reading


class PairConv(SequenceConv):
    r"""Each ordered pair of neighbours as a sequence of its own (eq:twin):

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{i \neq j} \mathrm{RNN}(\mathbf{x}_{u_i}, \mathbf{x}_{u_j})
        + \mathbf{W}_{\mathrm{root}} \mathbf{x}_v

    Invariant to the neighbours' numbering, but blind to dependencies of more than two. Arguments as in
    :class:`~pggnn.nn.PGConv`, without ``orderings``, ``root`` and ``reduce``.

    Example:
        >>> import torch
        >>> from pggnn.nn import PairConv
        >>> edges = torch.tensor([[1, 2, 3], [0, 0, 0]])  # node 0 reads nodes 1, 2 and 3
        >>> PairConv(8, 16)(torch.randn(4, 8), edges).shape
        torch.Size([4, 16])
    """

    def __init__(self, in_channels: int | tuple[int, int], out_channels: int, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, Reading("twos", "open"), **kwargs)


class TripletConv(SequenceConv):
    r"""Each ordered pair of neighbours with the centre after it (eq:triplet):

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{i \neq j} \mathrm{RNN}(\mathbf{x}_{u_i}, \mathbf{x}_{u_j}, \mathbf{x}_v)

    Invariant to the neighbours' numbering; a node with fewer than two neighbours gets zeros. Arguments as in
    :class:`~pggnn.nn.PGConv`, without ``orderings``, ``root`` and ``reduce``.

    Example:
        >>> import torch
        >>> from pggnn.nn import TripletConv
        >>> edges = torch.tensor([[1, 2, 3], [0, 0, 0]])  # node 0 reads nodes 1, 2 and 3
        >>> TripletConv(8, 16)(torch.randn(4, 8), edges).shape
        torch.Size([4, 16])
    """

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, Reading("twos", "after"), **kwargs)


class TrioConv(SequenceConv):
    r"""Each ordered choice of three neighbours as a sequence of its own, which is beyond the paper:

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{i \neq j \neq k \neq i}
        \mathrm{RNN}(\mathbf{x}_{u_i}, \mathbf{x}_{u_j}, \mathbf{x}_{u_k}) + \mathbf{W}_{\mathrm{root}} \mathbf{x}_v

    Invariant to the neighbours' numbering. With ``structure=2`` it sees of every three neighbours who are adjacent, and
    so all 4-cliques, where :class:`~pggnn.nn.PGConv` sees of some, which depend on the numbering: n³ sequences instead
    of n. A node with one or two neighbours reads all orders of these. Arguments as in :class:`~pggnn.nn.PGConv`,
    without ``orderings``, ``root`` and ``reduce``.

    Example:
        >>> import torch
        >>> from pggnn.nn import TrioConv
        >>> edges = torch.tensor([[1, 2, 3], [0, 0, 0]])  # node 0 reads nodes 1, 2 and 3
        >>> TrioConv(8, 16)(torch.randn(4, 8), edges).shape
        torch.Size([4, 16])
    """

    def __init__(self, in_channels: int | tuple[int, int], out_channels: int, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, Reading("threes", "open"), **kwargs)


class ChainConv(SequenceConv):
    r"""All arrangements of the group, one after the other, as one long sequence (eq:seq):

    .. math::
        \mathbf{x}^{\prime}_v = \mathrm{RNN}\left(\Vert_{g \in \mathfrak{G}}
        (\mathbf{x}_{g u_1}, \ldots, \mathbf{x}_{g u_n}, \mathbf{x}_{g u_1})\right)
        + \mathbf{W}_{\mathrm{root}} \mathbf{x}_v

    Its steps cannot run side by side, which is why the paper sums arrangements instead. Arguments as in
    :class:`~pggnn.nn.PGConv`, without ``orderings``, ``root`` and ``reduce``.

    Example:
        >>> import torch
        >>> from pggnn.nn import ChainConv
        >>> edges = torch.tensor([[1, 2, 3], [0, 0, 0]])  # node 0 reads nodes 1, 2 and 3
        >>> ChainConv(8, 16)(torch.randn(4, 8), edges).shape
        torch.Size([4, 16])
    """

    def __init__(self, in_channels: int | tuple[int, int], out_channels: int, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, Reading("pairs", "chain"), **kwargs)
