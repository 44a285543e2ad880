"""Weights that make one ``PGConv`` count, written down instead of learnt: a constructive proof of Proposition 5.

The nodes must be distinguishable, as the paper's theorems ask: each brings its number, one-hot, and its adjacency row.
The cell is an SRN with ReLU, where relu(a + b − 1) is "a and b" of bits.
"""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_dense_adj

from pggnn.groups import order
from pggnn.nn import PGConv


class CountingConv(torch.nn.Module):
    """Counts the triangles and the 4-cliques at each node exactly, whatever the numbering of its neighbours.

    While it reads v, u₁, …, uₙ, v the hidden state keeps the nodes seen so far and the edges between them. A new node
    closes an edge with each node it is adjacent to, and a triangle with each edge whose ends it is adjacent to; both
    are added up one step later. v is read twice, so n neighbours give τ + 2n edges and κ + 2τ triangles: a linear map
    of the numbers of steps, edges and triangles gives τ, and κ, the triangles among the neighbours: v's 4-cliques.

    Args:
        nodes: Number of nodes N of the graphs; there are 3N² + 2N + 3 hidden channels.
    """

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.nodes = nodes
        sizes = {"seen": nodes, "near": nodes, "join": nodes**2, "edge": nodes**2, "close": nodes**2}
        sizes |= {"edges": 1, "triangles": 1, "steps": 1}
        starts = torch.tensor([0, *sizes.values()]).cumsum(0).tolist()
        self.at = {name: slice(first, last) for name, first, last in zip(sizes, starts, starts[1:], strict=False)}
        self.conv = PGConv(2 * nodes, starts[-1], cell="srn-relu", num_layers=1)
        self._write_weights()

    @torch.no_grad()
    def _write_weights(self) -> None:
        for parameter in self.conv.parameters():
            parameter.zero_()
        weight_ih, weight_hh, bias, _ = self.conv.rnn.layer(0)
        eye, ones = torch.eye(self.nodes), torch.ones(self.nodes, 1)
        number, row = slice(0, self.nodes), slice(self.nodes, None)
        first, second = torch.kron(eye, ones), torch.kron(ones, eye)  # of the ordered pair (a, b): bit a, bit b
        at = self.at
        weight_ih[at["seen"], number] = weight_hh[at["seen"], at["seen"]] = eye
        weight_ih[at["near"], row] = weight_hh[at["near"], at["seen"]] = eye
        bias[at["near"]] = -1  # b is adjacent, and seen
        weight_ih[at["join"], number], weight_ih[at["join"], row] = first, second
        weight_hh[at["join"], at["seen"]] = second
        bias[at["join"]] = -2  # this is a, b is adjacent, and seen
        kept = torch.eye(self.nodes**2)
        for name in ("edge", "close"):
            weight_hh[at[name], at["edge"]] = weight_hh[at[name], at["join"]] = kept
        weight_ih[at["close"], row] = first + second
        bias[at["close"]] = -2  # a and b are joined, and both adjacent
        for name, part in (("edges", "near"), ("triangles", "close")):
            weight_hh[at[name], at[name]] = 1
            weight_hh[at[name], at[part]] = 1
        weight_hh[at["steps"], at["steps"]] = 1
        bias[at["steps"]] = 1

    def forward(self, graph: Data) -> tuple[Tensor, Tensor]:
        """``[N]`` triangles and ``[N]`` 4-cliques at each node."""
        assert graph.edge_index is not None
        rows = to_dense_adj(graph.edge_index, max_num_nodes=self.nodes)[0]
        state = self.conv(torch.cat([torch.eye(self.nodes), rows], dim=1), graph.edge_index)
        sequences = order(degree(graph.edge_index[1], self.nodes, torch.long))
        state = state / sequences[:, None]
        count = {name: state[:, part].sum(1) for name, part in self.at.items()}
        triangles = count["edges"] + count["near"] - 2 * (count["steps"] - 2)
        return triangles, count["triangles"] + count["close"] - 2 * triangles
