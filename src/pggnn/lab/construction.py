"""Weights that make one ``PGConv`` count, written down instead of learnt: constructive proofs for the theorems.

The nodes must be distinguishable, as the paper's theorems ask: each brings its number, one-hot, and its adjacency row.
The cell is an SRN with ReLU, where relu(a + b − 1) is "a and b" of bits.
"""

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_dense_adj

from pggnn.lab.walks import EgoNet
from pggnn.nn import PGConv
from pggnn.orderings import Orderings


def _places(sizes: dict[str, int]) -> dict[str, slice]:
    """Named parts of the hidden state, side by side."""
    ends = np.cumsum([*sizes.values()]).tolist()
    return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}


@torch.no_grad()
def _blank(conv: PGConv) -> tuple[Tensor, Tensor, Tensor]:
    """``weight_ih``, ``weight_hh`` and a bias of a layer whose weights are now all zero."""
    for parameter in conv.parameters():
        parameter.zero_()
    weight_ih, weight_hh, bias, _ = conv.rnn.layer(0)
    return weight_ih, weight_hh, bias


class CountingConv(torch.nn.Module):
    """Counts the triangles and the 4-cliques at each node exactly, in every numbering of its neighbours.

    While it reads v, u₁, …, uₙ, v the hidden state keeps the nodes seen so far and the edges between them. A new node
    closes an edge with each node it is adjacent to, and a triangle with each edge whose ends it is adjacent to; both
    are added up one step later. v is read twice, so n neighbours give τ + 2n edges and κ + 2τ triangles: a linear map
    of the numbers of steps, edges and triangles gives τ, and κ, the triangles among the neighbours: v's 4-cliques.

    Args:
        nodes: Number of nodes N of the graphs; there are 3N² + 2N + 3 hidden channels.
        orderings: What the layer reads, ``"group"`` or ``"single"``: any one ordering is enough to count.

    Example:
        >>> from pggnn.data.sets.classic import complete
        >>> from pggnn.lab.construction import CountingConv
        >>> CountingConv(4)(complete(4))  # of each node
        (tensor([3., 3., 3., 3.], grad_fn=<SubBackward0>), tensor([1., 1., 1., 1.], grad_fn=<SubBackward0>))
    """

    def __init__(self, nodes: int, orderings: Orderings = "group") -> None:
        super().__init__()
        self.nodes = nodes
        sizes = {"seen": nodes, "near": nodes, "join": nodes**2, "edge": nodes**2, "close": nodes**2}
        sizes |= {"edges": 1, "triangles": 1, "steps": 1}
        self.at = _places(sizes)
        self.conv = PGConv(2 * nodes, sum(sizes.values()), "srn-relu", num_layers=1, orderings=orderings)
        self._write_weights()

    @torch.no_grad()
    def _write_weights(self) -> None:
        weight_ih, weight_hh, bias = _blank(self.conv)
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
        x, degrees = _numbers_and_rows(graph, self.nodes)
        assert graph.edge_index is not None
        state = self.conv(x, graph.edge_index) / self.conv.reading.count(degrees)[:, None]
        count = {name: state[:, part].sum(1) for name, part in self.at.items()}
        triangles = count["edges"] + count["near"] - 2 * (count["steps"] - 2)
        return triangles, count["triangles"] + count["close"] - 2 * triangles


class NextCountingConv(torch.nn.Module):
    """Counts the triangles at each node with a memory of one node, which takes the whole group.

    Each step compares the node it reads with the one just before. Only pairs of neighbours that some arrangement brings
    side by side are seen. The group brings each ordered pair side by side exactly once: for even n in open sequences
    (``root="merged"``, where v adds two edges each), for odd n in rings (``root="linear"``). So there are two layers
    with the same weights, one for each parity.

    Args:
        nodes: Number of nodes N of the graphs; there are 2N + 1 hidden channels.
        orderings: What the layers read: ``"group"``, or K elements whose count stands for the whole group.
    """

    def __init__(self, nodes: int, orderings: Orderings = "group") -> None:
        super().__init__()
        sizes = {"last": nodes, "near": nodes, "edges": 1}
        self.nodes, at = nodes, _places(sizes)
        self.at = at
        self.open, self.ring = (
            PGConv(2 * nodes, sum(sizes.values()), "srn-relu", num_layers=1, orderings=orderings, root=root)
            for root in ("merged", "linear")
        )
        with torch.no_grad():
            for conv in (self.open, self.ring):
                weight_ih, weight_hh, bias = _blank(conv)
                eye = torch.eye(nodes)
                weight_ih[at["last"], :nodes] = eye
                weight_ih[at["near"], nodes:] = weight_hh[at["near"], at["last"]] = eye
                bias[at["near"]] = -1  # adjacent, and read just before
                weight_hh[at["edges"], at["near"]] = weight_hh[at["edges"], at["edges"]] = 1

    def forward(self, graph: Data) -> Tensor:
        """``[N]`` triangles at each node."""
        x, degrees = _numbers_and_rows(graph, self.nodes)
        assert graph.edge_index is not None
        seen = [conv(x, graph.edge_index) for conv in (self.open, self.ring)]
        in_open, in_ring = (state[:, self.at["edges"]].sum(1) + state[:, self.at["near"]].sum(1) for state in seen)
        reading = self.open.reading
        with_root = 2 * reading.count(degrees) * reading.scale(degrees) * (degrees > 0)
        return torch.where(degrees % 2 == 0, in_open - with_root, in_ring) / 2


class WalkingConv(torch.nn.Module):
    """The random-walk estimator of Theorem 4 as an RNN: reads the nodes of a walk, gives both sums of the estimator.

    One setting of the weights serves every ego net of up to N nodes. A step brings the node's number and adjacency row
    in the ego net, its degree d there, and 1 / d. With x, y, z the last three nodes, the state keeps y and x, says
    whether x and z are adjacent and v₀ is among the three, adds up the degree of y where it is so, and adds up 1 / d.

    The walk is what a ``PGConv`` with a single ordering reads as the neighbours of a node with features zero: the node
    may be read at both ends without effect.

    Args:
        nodes: Largest number of nodes N of an ego net; there are 3N + 5 hidden channels.
    """

    def __init__(self, nodes: int) -> None:
        super().__init__()
        sizes = {"last": nodes, "before": nodes, "near": nodes}
        sizes |= {"degree": 1, "middle": 1, "closed": 1, "sum": 1, "inverse": 1}
        self.nodes, at = nodes, _places(sizes)
        self.at = at
        self.conv = PGConv(2 * nodes + 2, sum(sizes.values()), "srn-relu", num_layers=1, orderings="single").double()
        with torch.no_grad():
            weight_ih, weight_hh, bias = _blank(self.conv)
            eye, others = torch.eye(nodes), slice(at["near"].start + 1, at["near"].stop)
            weight_ih[at["last"], :nodes] = weight_hh[at["before"], at["last"]] = eye
            weight_ih[at["near"], nodes : 2 * nodes] = weight_hh[at["near"], at["before"]] = eye
            weight_ih[others, 0] = weight_hh[others, at["last"].start] = 1
            bias[at["near"].start], bias[others] = -1, -2  # x = v₀ adjacent to z; or x adjacent to z, and v₀ is y or z
            weight_ih[at["degree"], -2] = weight_ih[at["inverse"], -1] = 1
            weight_hh[at["middle"], at["degree"]] = weight_hh[at["closed"], at["middle"]] = 1
            weight_hh[at["closed"], at["near"]], bias[at["closed"]] = nodes, -nodes  # no degree is larger
            for name in ("sum", "inverse"):
                weight_hh[at[name], at[name]] = 1
            weight_hh[at["sum"], at["closed"]] = 1

    @torch.no_grad()
    def forward(self, net: EgoNet, path: np.ndarray) -> np.ndarray:
        """``[walks]`` estimates from walks ``[samples, walks]``. The RNN gives two sums; their ratio is taken here."""
        samples, walks = path.shape
        size, degrees = len(net.adjacency), torch.from_numpy(net.adjacency.sum(1)).double()
        x = torch.zeros(size, 2 * self.nodes + 2, dtype=torch.double)
        x[:, :size], x[:, self.nodes : self.nodes + size] = torch.eye(size), torch.from_numpy(net.adjacency)
        x[:, -2], x[:, -1] = degrees, 1 / degrees
        read = torch.stack([torch.from_numpy(path.T).flatten(), torch.arange(walks).repeat_interleave(samples)])
        state = self.conv((x, x.new_zeros(walks, x.size(1))), read)
        closed, inverse = (state[:, self.at["sum"]] + state[:, self.at["closed"]]), state[:, self.at["inverse"]]
        ratio = (closed / (samples - 2) / (inverse / samples)).squeeze(1)
        return (size / 6 * ratio - net.degree * net.artificial).numpy()


def _numbers_and_rows(graph: Data, nodes: int) -> tuple[Tensor, Tensor]:
    """Each node's number and adjacency row, and the degrees."""
    assert graph.edge_index is not None
    rows = to_dense_adj(graph.edge_index, max_num_nodes=nodes)[0]
    return torch.cat([torch.eye(nodes), rows], dim=1), degree(graph.edge_index[1], nodes, torch.long)
