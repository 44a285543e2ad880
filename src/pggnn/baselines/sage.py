"""GraphSAGE with an LSTM aggregator, of Hamilton, Ying and Leskovec, 2017."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch_geometric.typing import OptTensor

from pggnn.baselines.rival import Rival
from pggnn.cells import Recurrence
from pggnn.plan import Plan

SAMPLE = 5
"""Most neighbours that a node reads in a layer."""


class SampledLSTM(torch.nn.Module):
    r"""An LSTM over at most ``sample`` neighbours, drawn and ordered afresh in every call, beside the node itself:

    .. math::
        \mathbf{x}^{\prime}_v = \mathbf{W} \left[\mathbf{x}_v \,\Vert\,
        \mathrm{LSTM}(\mathbf{x}_{u_1}, \ldots, \mathbf{x}_{u_k})\right] + \mathbf{b}

    Each sequence ends with its own last neighbour, whatever the degrees of others in the batch; without neighbours the
    LSTM's part is zero.
    """

    def __init__(self, in_channels: int, out_channels: int, sample: int) -> None:
        super().__init__()
        self.sample = sample
        self.lstm = torch.nn.LSTM(in_channels, out_channels, batch_first=True)
        self.linear = torch.nn.Linear(in_channels + out_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The LSTM starts as PG-GNN's do."""
        self.lstm.load_state_dict(Recurrence(self.lstm.input_size, self.lstm.hidden_size).state_dict())
        self.linear.reset_parameters()

    def forward(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> Tensor:
        """Runs the layer; there are no edge features."""
        return self.linear(torch.cat([x, self._read(x, plan.renumbered().truncated(self.sample))], dim=-1))

    def _read(self, x: Tensor, plan: Plan) -> Tensor:
        """The LSTM's last state at each node; lengths are known on the host, so nothing waits for the GPU."""
        lengths = torch.repeat_interleave(*plan.profile.unbind(1))
        lengths = lengths[lengths > 0]
        if len(lengths) == 0:
            return x.new_zeros(x.size(0), self.lstm.hidden_size)
        nodes = plan.order[: len(lengths)]
        slots = plan.start[nodes].unsqueeze(-1) + torch.arange(int(lengths[0]), device=x.device)
        neighbors = plan.neighbor[slots.clamp(max=plan.num_edges - 1)]
        steps = x.index_select(0, neighbors.flatten()).unflatten(0, neighbors.shape)
        _, (state, _) = self.lstm(pack_padded_sequence(steps, lengths, batch_first=True))
        return state.new_zeros(x.size(0), state.size(-1)).index_copy(0, nodes, state[0])


class SAGE(Rival):
    """GraphSAGE-LSTM: five neighbours of each node in each of its layers, fresh in training and in evaluation.

    As in its paper (Algorithm 1), own vector and aggregated vector are concatenated before the linear map, neighbours
    are a uniform sample in random order, and two layers are its 2-hop neighbourhoods. Otherwise than there: a node of
    fewer than five neighbours reads each once, where its authors draw with replacement, which hides the degree; a node
    that several others reach has one sample in a layer, not one for each of them; and the batch normalisation and
    scores of this comparison stand in for vectors of length 1.

    Args: see :class:`~pggnn.baselines.rival.Rival`.
    """

    def layer(self, in_channels: int, out_channels: int, edge_dim: int | None) -> torch.nn.Module:
        """One sample of neighbours for each node."""
        return SampledLSTM(in_channels, out_channels, SAMPLE)
