"""Node classification on one large graph: PyG's ``NeighborLoader``, and ``PGConv`` on the blocks that it samples.

    python examples/neighbor_loader.py                                # a generated graph with 20,000 nodes
    python examples/neighbor_loader.py --graph large/email-Enron.npz  # n and edges of your own

PyG's own sampler needs ``pyg-lib``. ``PlanSampler`` does the same in plain PyTorch, with the neighbourhoods of a
:class:`pggnn.Plan`; ``NeighborLoader`` takes either.
"""

import argparse
import time
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn.norm import BatchNorm
from torch_geometric.utils import coalesce, to_undirected

from pggnn import PGConv, Plan
from pggnn.data.batching.nodes import PlanSampler
from pggnn.data.features.motifs import triangles


class Net(torch.nn.Module):
    """Aggregations with :class:`PGConv`, each on the block of nodes that the next one needs."""

    def __init__(self, in_channels: int, hidden: int, out_channels: int, layers: int) -> None:
        super().__init__()
        widths = [in_channels] + [hidden] * layers
        self.convs = torch.nn.ModuleList(PGConv(width, hidden, num_layers=1) for width in widths[:-1])
        self.norms = torch.nn.ModuleList(BatchNorm(hidden) for _ in range(layers))
        self.out = torch.nn.Linear(in_channels + hidden, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, nodes: list[int], edges: list[int]) -> Tensor:
        """Scores of the first nodes.

        Args:
            x, edge_index: A sampled neighbourhood, nodes and edges in order of distance.
            nodes, edges: How many of them there are at each distance, ``batch.num_sampled_nodes`` and ``_edges``.
        """
        reach, last = list(accumulate(nodes)), list(accumulate(edges))
        first = x[: reach[0]]
        for depth, conv, norm in zip(reversed(range(len(self.convs))), self.convs, self.norms, strict=True):
            size = reach[depth]  # of the block's targets; its sources are one step further away
            x = norm(conv((x, x[:size]), edge_index[:, : last[depth]])).relu()
        return self.out(torch.cat([first, x], dim=-1))


def planted(nodes: int, classes: int = 5, seed: int = 0) -> Data:
    """Communities joined by triangles, with random edges between them; features hint at a node's own community."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    lists = [torch.randint(nodes // classes, (nodes // classes, 3), generator=generator) for _ in range(classes)]
    a, b, c = torch.cat([triples * classes + label for label, triples in enumerate(lists)]).unbind(1)
    random = torch.randint(nodes, (2, nodes), generator=generator)
    edges = torch.cat([torch.stack([a, b]), torch.stack([b, c]), torch.stack([c, a]), random], dim=1)
    x = torch.randn(nodes, classes, generator=generator) + torch.nn.functional.one_hot(y, classes)
    return _data(edges, nodes, x, y)


def clustered(path: Path, seed: int = 0) -> Data:
    """A graph of one's own: are a node's neighbours connected more often than those of half the nodes?"""
    arrays = np.load(path)
    nodes, edges = int(arrays["n"]), torch.from_numpy(arrays["edges"].astype(np.int64)).t()
    data = _data(edges, nodes, torch.empty(nodes, 0), torch.empty(0))
    degree = torch.bincount(data.edge_index[1], minlength=nodes).float()
    share = triangles(data.edge_index, nodes) / (degree * (degree - 1) / 2).clamp(min=1)
    data.y = (share > share.median()).long()
    noise = torch.randn(nodes, 8, generator=torch.Generator().manual_seed(seed))  # tells neighbours apart
    data.x = torch.cat([degree.log1p().view(-1, 1), noise], dim=1)
    return data


def _data(edges: Tensor, nodes: int, x: Tensor, y: Tensor) -> Data:
    edges = edges[:, edges[0] != edges[1]]
    return Data(x=x, edge_index=coalesce(to_undirected(edges, num_nodes=nodes)), y=y)


def run(data: Data, fan: list[int], batch_size: int, hidden: int, epochs: int, seed: int = 0) -> float:
    """Trains on 60 % of the nodes; returns the accuracy on the other 40 %, and prints it on the way."""
    torch.manual_seed(seed)
    train, test = torch.randperm(data.num_nodes).split([int(0.6 * data.num_nodes), -(-4 * data.num_nodes // 10)])
    sampler = PlanSampler(Plan.build(data.edge_index, data.num_nodes), fan)

    def loader(nodes: Tensor, shuffle: bool) -> NeighborLoader:
        return NeighborLoader(
            data, fan, nodes, neighbor_sampler=sampler, batch_size=batch_size, shuffle=shuffle, num_workers=0
        )

    model = Net(data.num_features, hidden, int(data.y.max()) + 1, len(fan))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        begin, right = time.perf_counter(), 0
        model.train()
        for batch in loader(train, True):
            scores = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            loss = torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for batch in loader(test, False):
                scores = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
                right += int((scores.argmax(-1) == batch.y[: batch.batch_size]).sum())
        accuracy = right / len(test)
        seconds = time.perf_counter() - begin
        print(f"epoch {epoch}: loss of the last batch {loss:.3f}, test accuracy {accuracy:.1%}, {seconds:.1f} s")
    return accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path, help=".npz with n and edges [E, 2]; by default one is generated")
    parser.add_argument("--nodes", type=int, default=20000, help="nodes to generate (default: %(default)s)")
    parser.add_argument("--fan", type=int, nargs="+", default=[8, 4], help="neighbours sampled at each distance")
    parser.add_argument("--batch-size", type=int, default=256, help="nodes in a batch (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=32, help="width (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the nodes (default: %(default)s)")
    args = parser.parse_args()
    data = clustered(args.graph) if args.graph is not None else planted(args.nodes)
    print(data)
    if args.graph is None:
        own = (data.x.argmax(-1) == data.y).float().mean()
        print(f"the largest of a node's own features is right for {own:.1%}")
    run(data, args.fan, args.batch_size, args.hidden, args.epochs)


if __name__ == "__main__":
    main()
