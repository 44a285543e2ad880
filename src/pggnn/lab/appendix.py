"""What the paper's appendix says beside its theorems: the example of Appendix D, and its analysis of GraphSAGE."""

from math import comb

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from pggnn.baselines.sage import SAMPLE
from pggnn.data.features.motifs import triangles
from pggnn.data.sets.classic import adjacency_matrix, coloured_pair
from pggnn.data.sets.counting import erdos_renyi
from pggnn.lab.check import Check
from pggnn.lab.construction import CountingConv
from pggnn.lab.refinement.wl import k_wl
from pggnn.nn import PGConv
from pggnn.plan import Plan

FACTORS = (0.5, 2.0, 3.0)
"""The k of h ← k·h + x."""
GREEN, ORDERS = 2, ((0, 3, 4), (0, 1, 3))
"""A green node, and the paper's order of its neighbours in each graph."""
DEVIATIONS = 5
"""Standard errors that a mean over draws may be off."""


def reader(k: float, group: str = "trivial") -> PGConv:
    """h ← k·h + x as a layer, with the centre at both ends."""
    conv = PGConv(2, 2, cell="srn-identity", num_layers=1, group=group).double()
    conv.rnn.weight_ih_l0.data, conv.rnn.weight_hh_l0.data = torch.eye(2).double(), k * torch.eye(2).double()
    for name, bias in conv.rnn.named_parameters():
        if name.startswith("bias"):
            torch.nn.init.zeros_(bias)
    return conv


@torch.no_grad()
def appendix_d() -> Check:
    """Two graphs that sums do not tell apart, and h ← k·h + x."""
    graphs = coloured_pair()
    holds = not k_wl(*graphs, 2).apart
    x = [graph.x.double() for graph in graphs]
    for k in (1.0, *FACTORS):
        first, second = (read_in_order(k, one[GREEN], one[[*order]]) for one, order in zip(x, ORDERS, strict=True))
        formula = k**4 + 1, torch.tensor([k**3 + k, k**3 + k**2]), torch.tensor([k**2, k])  # of v, b, g
        for found, of_b, of_g in zip((first, second), *formula[1:], strict=True):
            holds &= torch.allclose(found, torch.stack([of_b, of_g + formula[0]]).double())
        holds &= bool((first - second).abs().max() > 1e-3) == (k != 1)
        by_colour = [_sorted(reader(k)(one, _edges_by_colour(graph))) for one, graph in zip(x, graphs, strict=True)]
        holds &= torch.allclose(by_colour[0], by_colour[1])
        every = [_sorted(reader(k, "all")(one, graph.edge_index)) for one, graph in zip(x, graphs, strict=True)]
        holds &= torch.allclose(every[0], every[1])
        pairs = torch.tensor([[1.0, 0], [0, 0]]).double(), torch.tensor([[0, 0], [k, 0]]).double()
        one, other = (read_in_order(k, torch.zeros(2).double(), pair) for pair in pairs)
        holds &= torch.allclose(one, other)
    counted = [CountingConv(6)(graph)[0].tolist() for graph in graphs]
    holds &= counted == [[0] * 6, [1] * 6]
    return Check(
        bool(holds),
        "The two graphs of Figure 3: 2-WL does not tell them apart, and PGConv with h ← k·h + x in the paper's order "
        "reads (k² + 1)b + kg at u₃ and (k² + k)b + g at v₃, which differ for k = "
        f"{', '.join(f'{k:g}' for k in FACTORS)} and agree for k = 1",
        "It is the order that tells them apart, not the triangles: the neighbours of u₃ and v₃ are two blue nodes and "
        "a green one. With neighbours ordered by colour, or in every order (group all), all nodes read the same in "
        "both graphs. Where features differ from node to node, constructed weights count 0 and 1 triangles at each. "
        "The reading is not one to one either: 1 → 0 and 0 → k have the same h.",
    )


def read_in_order(k: float, center: Tensor, neighbours: Tensor) -> Tensor:
    """What :func:`reader` makes of a node whose neighbours are read in this order."""
    n = len(neighbours)
    edges = torch.stack([torch.arange(1, n + 1), torch.zeros(n, dtype=torch.long)])
    found: Tensor = reader(k)(torch.cat([center.unsqueeze(0), neighbours]), edges)[0]
    return found


def graphsage(graphs: int = 6, draws: int = 4000) -> Check:
    """Clustering coefficients and triangles, and what a sample of the neighbours shows of them."""
    holds = True
    for number, graph in enumerate(erdos_renyi(graphs, 16, 0.6)):
        adjacency = adjacency_matrix(graph).double()
        degree = adjacency.sum(1)
        found = triangles(graph.edge_index, 16).double()
        clustering = torch.tensor([*nx.clustering(to_networkx(graph, to_undirected=True)).values()])
        holds &= torch.allclose(found, clustering.double() * degree * (degree - 1) / 2)
        torch.manual_seed(number)
        node = int(degree.argmax())
        links, pairs, read = _draw(graph, node, draws, adjacency)
        holds &= bool((read == SAMPLE).all())
        d, tau = int(degree[node]), float(found[node])
        share, side_by_side = tau * comb(SAMPLE, 2) / comb(d, 2), (SAMPLE - 1) / comb(d, 2)
        for values, expected in ((links, share), (pairs, side_by_side)):
            off = float((values.mean() - expected).abs() / (values.std() / draws**0.5).clamp(min=1e-12))
            holds &= off < DEVIATIONS
    return Check(
        bool(holds),
        f"{graphs} random graphs: τ = c·d(d − 1)/2 with the clustering coefficients c that GraphSAGE's theorem is "
        f"about. A node that samples S = {SAMPLE} of its d neighbours reads S of them whatever d is. It then sees "
        "S(S − 1)/(d(d − 1)) of its triangles, and each pair of neighbours side by side in (S − 1)/(d(d − 1)/2) of its "
        f"samples: means of {draws:,} draws are within {DEVIATIONS} standard errors",
        "The theorem is about weights that read all neighbours. With samples an answer varies from draw to draw, and "
        "most triangles have an end that was not drawn.",
    )


def _draw(graph: Data, node: int, draws: int, adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each draw of a node's neighbours, as GraphSAGE's layer takes them: edges among them, whether the node's first
    two neighbours stand side by side, and how many there are."""
    plan = Plan.build(graph.edge_index, len(adjacency))
    own = plan.neighbor[plan.center == node]
    star = torch.stack([own, torch.full_like(own, len(adjacency))]).repeat(1, draws)
    star[1] = torch.arange(draws).repeat_interleave(len(own))
    many = Plan.build(star, (len(adjacency), draws)).renumbered().truncated(SAMPLE)
    size = int(many.degree.max())
    drawn = many.neighbor[many.start.unsqueeze(1) + torch.arange(size)]
    inside = adjacency[drawn.unsqueeze(2), drawn.unsqueeze(1)].sum((1, 2)) / 2
    ends = torch.stack([drawn[:, :-1], drawn[:, 1:]]).sort(0).values
    first = own[:2].sort().values
    beside = (ends == first.view(2, 1, 1)).all(0).any(1).double()
    return inside, beside, many.degree


def _sorted(rows: Tensor) -> Tensor:
    """Rows as a multiset: in lexical order."""
    return torch.tensor(sorted(map(tuple, rows.tolist())))


def _edges_by_colour(graph: Data) -> Tensor:
    """The edges with each node's neighbours in the order of their colours."""
    source, target = graph.edge_index
    order = (2 * target + (graph.x[source, 1] > 0)).argsort(stable=True)
    return graph.edge_index[:, order]
