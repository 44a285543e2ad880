"""Link prediction: which pairs of nodes are joined, in PyG's usual loop with :class:`pggnn.PGGNN` as the encoder.

    python examples/link_prediction.py                                # a generated graph with 2,000 nodes
    python examples/link_prediction.py --graph large/email-Enron.npz  # n and edges of your own

A network sees only edges whose pairs it is not asked about: ``RandomLinkSplit`` hides those of validation and test,
and half of the training edges are hidden in turn.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling, to_undirected

from pggnn import PGGNN


def planted(nodes: int, classes: int = 10, seed: int = 0) -> Data:
    """Communities: a pair in the same one is far more often joined. Features hint at a node's own community."""
    generator = np.random.default_rng(seed)
    a = generator.integers(nodes, size=8 * nodes)
    b = np.where(generator.random(len(a)) < 0.8, a + classes * generator.integers(nodes, size=len(a)), a + 1) % nodes
    hint = np.eye(classes, dtype=np.float32)[np.arange(nodes) % classes]
    return _data(np.stack([a, b], 1), nodes, torch.from_numpy(hint))


def read(path: Path) -> Data:
    """A graph of one's own."""
    arrays = np.load(path)
    return _data(arrays["edges"].astype(np.int64), int(arrays["n"]), torch.zeros(1, 16))


def _data(edges: np.ndarray, nodes: int, known: Tensor) -> Data:
    edges = edges[edges[:, 0] != edges[:, 1]]
    noise = torch.randn(nodes, known.size(1), generator=torch.Generator().manual_seed(0))  # tells nodes apart
    x = known + noise
    return Data(x=x, edge_index=to_undirected(torch.from_numpy(edges).t(), num_nodes=nodes), num_nodes=nodes)


def score(model: PGGNN, seen: Tensor, x: Tensor, pairs: Tensor) -> Tensor:
    """How likely each pair of nodes is joined, given the edges that are seen."""
    z = model(x, seen)
    return (z[pairs[0]] * z[pairs[1]]).sum(-1) / z.size(-1) ** 0.5


def run(data: Data, hidden: int, epochs: int, seed: int = 0) -> float:
    """Trains on 85 % of the pairs, takes the epoch that is best on 5 %, and returns the area under the ROC curve on the
    other 10 %, as many pairs that are not joined among them."""
    seed_everything(seed)  # PyG draws pairs that are not joined by Python's generator too
    train, val, test = RandomLinkSplit(0.05, 0.1, is_undirected=True, add_negative_train_samples=False)(data)
    model = PGGNN(data.num_features, hidden, hidden, 2, level="node", cell="linear", scores="last")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    best = chosen = 0.0
    for epoch in range(1, epochs + 1):
        model.train()
        once = train.edge_label_index[:, train.edge_label_index[0] < train.edge_label_index[1]]
        asked, seen = once[:, torch.randperm(once.size(1))].chunk(2, dim=1)
        others = negative_sampling(train.edge_index, data.num_nodes, asked.size(1))
        scores = score(model, to_undirected(seen, num_nodes=data.num_nodes), data.x, torch.cat([asked, others], 1))
        joined = (torch.arange(len(scores)) < asked.size(1)).float()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, joined)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            found = [
                roc_auc_score(part.edge_label, score(model, part.edge_index, data.x, part.edge_label_index))
                for part in (val, test)
            ]
        if found[0] > best:
            best, chosen = found
        print(f"epoch {epoch}: loss {loss:.3f}, validation AUROC {found[0]:.3f}")
    print(f"test AUROC {chosen:.3f}")
    return float(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path, help=".npz with n and edges [E, 2]; by default one is generated")
    parser.add_argument("--nodes", type=int, default=2000, help="nodes to generate (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=32, help="width (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=60, help="steps on the whole graph (default: %(default)s)")
    args = parser.parse_args()
    run(read(args.graph) if args.graph is not None else planted(args.nodes), args.hidden, args.epochs)


if __name__ == "__main__":
    main()
