"""GraphSAGE with an LSTM or a maximum as aggregator, of Hamilton, Ying and Leskovec, 2017."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import Baseline
from pggnn.cells import Recurrence
from pggnn.nn.messages import Messages
from pggnn.ops import group_recurrence
from pggnn.orderings import Reading
from pggnn.plan import Plan

SAMPLE = 5
"""Most neighbours that a node reads in a layer."""


class SampledLSTM(torch.nn.Module):
    r"""An LSTM over at most ``sample`` neighbours, drawn in random order in every call, and the node itself:

    .. math::
        \mathbf{x}^{\prime}_v = \mathbf{W} \left[\mathbf{x}_v \,\Vert\,
        \mathrm{LSTM}(\mathbf{x}_{u_1}, \ldots, \mathbf{x}_{u_k})\right] + \mathbf{b}

    Each sequence ends with its own last neighbour, also where others in the batch are longer; without neighbours the
    LSTM's part is zero. With ``replace`` neighbours are drawn with replacement, exactly ``sample`` of them.
    """

    def __init__(self, in_channels: int, out_channels: int, sample: int, replace: bool = False) -> None:
        super().__init__()
        self.sample, self.replace = sample, replace
        self.lstm = Recurrence(in_channels, out_channels)
        self.linear = torch.nn.Linear(in_channels + out_channels, out_channels)

    def reset_parameters(self) -> None:
        """The LSTM starts as PG-GNN's do."""
        self.lstm.reset_parameters()
        self.linear.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Runs the layer; there are no edge features."""
        sample = plan.drawn(self.sample) if self.replace else plan.renumbered().truncated(self.sample)
        weights = self.lstm.recurrent_weights
        read = group_recurrence(self.lstm(x), weights, sample, reading=Reading("trivial", "open"), cell="lstm")
        return self.linear(torch.cat([x, read], dim=-1))


class SAGE(Baseline):
    """GraphSAGE-LSTM: five neighbours of each node in each of its layers, fresh in training and in evaluation.

    As in its paper (Algorithm 1), own vector and aggregated vector are concatenated before the linear map, neighbours
    are a uniform sample in random order, and two layers are its 2-hop neighbourhoods. Otherwise than there: a node of
    fewer than five neighbours reads each once, unless ``replace`` is set; a node that several others reach has one
    sample in a layer, not one for each of them; and the batch normalisation and scores of this comparison stand in for
    vectors of length 1.

    With ``aggregator="pool"`` it is that of benchmarking-gnns (Dwivedi et al., 2020), whose figures the paper's Table 4
    quotes: PyG's ``SAGEConv``, the maximum over a linear map and ReLU of all neighbours, vectors of length 1, and
    layers added to their input where they are as wide.

    Args:
        aggregator: ``"lstm"`` or ``"pool"``.
        replace: Whether neighbours are drawn with replacement, as by its authors: always five, so that a node does not
            see how many it has, and may miss some even if it has fewer.
        **kwargs: As in :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import SAGE
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = SAGE(2, 16, 1).eval()
        >>> squares, _ = coloured_pair()
        >>> one, again = (network(squares.x, squares.edge_index) for _ in range(2))
        >>> one.equal(again)  # neighbours are drawn in every call
        False
    """

    def __init__(self, *args: Any, aggregator: str = "lstm", replace: bool = False, **kwargs: Any) -> None:
        if aggregator not in ("lstm", "pool"):
            raise ValueError(f"aggregator must be 'lstm' or 'pool', got {aggregator!r}")
        if replace and aggregator == "pool":
            raise ValueError("aggregator 'pool' reads all neighbours and draws none: leave out replace")
        self.replace, self.skips = replace, aggregator == "pool"
        super().__init__(*args, **kwargs)

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One sample of neighbours for each node, or the maximum over all."""
        if self.skips:
            return Messages(SAGEConv(in_channels, out_channels, aggr="max", normalize=True, project=True))
        return SampledLSTM(in_channels, out_channels, SAMPLE, self.replace)
