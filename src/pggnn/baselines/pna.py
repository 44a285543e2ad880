"""PNA, principal neighbourhood aggregation of Corso et al., 2020."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import PNAConv
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import Baseline
from pggnn.nn.messages import Messages
from pggnn.plan import Plan

AGGREGATORS, SCALERS = ["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"]


class PNA(Baseline):
    r"""PyG's ``PNAConv``: four aggregations of the messages, each as it is, and scaled up and down with the degree.

    .. math::
        \mathbf{h}'_v = U\left(\mathbf{h}_v,
        \left[1, \tfrac{\log(d_v + 1)}{\delta}, \tfrac{\delta}{\log(d_v + 1)}\right]
        \otimes [\mu, \max, \min, \sigma]_{u} \, M(\mathbf{h}_v, \mathbf{h}_u, \mathbf{e}_{uv})\right)

    :math:`\delta` is the mean of :math:`\log(d + 1)` over nodes. Its paper takes all training graphs; here it is
    measured on the first training batch, stays as it is, and is kept in the checkpoint with the weights. A layer's
    output is added to its input where they are as wide, as in benchmarking-gnns (Dwivedi et al., 2020).

    Args:
        towers: Parts of the channels that have maps of their own; ``hidden_channels`` must be divisible by it.
        **kwargs: As in :class:`~pggnn.baselines.baseline.Baseline`.

    Example:
        >>> from pggnn.baselines import PNA
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> network = PNA(2, 16, 1, towers=4).eval()
        >>> one, other = (network(graph.x, graph.edge_index) for graph in coloured_pair())
        >>> one.allclose(other, atol=1e-4)  # squares or triangles: no aggregation sees it
        True
    """

    reads_edges, recordable, skips = True, False, True

    def __init__(self, in_channels: int, hidden_channels: int, *args: Any, towers: int = 1, **kwargs: Any) -> None:
        if towers < 1 or hidden_channels % towers:
            raise ValueError(f"PNA's towers must divide its {hidden_channels} hidden channels, got {towers}")
        self.towers = towers
        super().__init__(in_channels, hidden_channels, *args, **kwargs)

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One aggregation."""
        return PNALayer(in_channels, out_channels, edge_dim, self.towers)


class PNALayer(Messages):
    """``PNAConv`` that measures degrees on the first batch it is trained on."""

    measured: Tensor
    """Whether it has."""

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int | None, towers: int) -> None:
        one = torch.tensor([0, 1], device="cpu")  # the mean before it is measured: all nodes have one neighbour
        super().__init__(
            PNAConv(
                in_channels, out_channels, AGGREGATORS, SCALERS, one, edge_dim, towers,
                divide_input=in_channels % towers == 0,
            )
        )  # fmt: skip
        self.register_buffer("measured", torch.zeros(()))

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Messages from each neighbour to its centre."""
        if self.training:
            with torch.no_grad():
                mean = self.conv.aggr_module.avg_deg_log
                here = plan.derived(_mean_log_degree).to(mean.dtype)
                mean.copy_(torch.where((self.measured > 0) | (here == 0), mean, here))
                self.measured.fill_(1)
        return super().forward(x, plan, edge_attr)


def _mean_log_degree(plan: Plan) -> Tensor:
    return plan.degree.double().log1p().mean().nan_to_num()
