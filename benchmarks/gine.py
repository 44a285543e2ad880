"""A control for ``benchmarks/molecules.py``: a plain GINE, in PyG's own layers, on the atoms and bonds that we read.

    python benchmarks/gine.py all.csv test.csv answers.csv --targets expt --seed 0

Four residual blocks of width 96 with batch normalisation, the sum and the mean over the atoms, standardised targets,
60 epochs of a one-cycle schedule. It answers with its weights of the epoch that is best in validation.
"""

import argparse
import copy
import csv
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool, global_mean_pool
from torch_geometric.seed import seed_everything

from pggnn.data.loading import load


class GINE(torch.nn.Module):
    """The network."""

    def __init__(self, atoms: int, bonds: int, targets: int, width: int = 96, blocks: int = 4) -> None:
        super().__init__()
        self.encoder = Linear(atoms, width)
        self.convs = torch.nn.ModuleList(
            GINEConv(Sequential(Linear(width, width), BatchNorm1d(width), ReLU(), Linear(width, width)), edge_dim=bonds)
            for _ in range(blocks)
        )
        self.norms = torch.nn.ModuleList(BatchNorm1d(width) for _ in range(blocks))
        self.head = Sequential(Linear(2 * width, width), ReLU(), Linear(width, targets))

    def forward(self, data: Batch) -> Tensor:
        """An answer for each molecule and target."""
        x = self.encoder(data.x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, data.edge_index, data.edge_attr)).relu()
        pooled = [pool(x, data.batch, data.num_graphs) for pool in (global_add_pool, global_mean_pool)]
        out: Tensor = self.head(torch.cat(pooled, dim=1))
        return out


def train(path: str, targets: Sequence[str], seed: int, epochs: int = 60, lr: float = 2e-3) -> tuple[GINE, Tensor]:
    """The network of the best epoch, and mean and deviation of the targets, of which only a regression's are used."""
    seed_everything(seed)
    dataset = load(path, target=tuple(targets))
    graphs, regression = [*dataset], dataset.schema.task == "regression"
    for graph in graphs:
        y = graph.y.float().view(1, -1)
        graph.y = y if regression else y.where(y >= 0, torch.nan)
    parts = [[graphs[i] for i in dataset.splits[name]] for name in ("train", "val")]
    y = torch.cat([graph.y for graph in parts[0]])
    unit = torch.stack([y.nanmean(0), (y - y.nanmean(0)).square().nanmean(0).sqrt()]) if regression else torch.ones(0)
    batches = DataLoader(parts[0], 32, shuffle=True, drop_last=len(parts[0]) % 32 == 1), DataLoader(parts[1], 256)
    model = GINE(dataset.schema.features, dataset.schema.edge_features, y.size(1))
    optimizer = torch.optim.Adam(model.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, epochs * len(batches[0]))
    best, kept = float("inf"), model.state_dict()

    def loss(data: Batch) -> Tensor:
        out, known = model(data), ~data.y.isnan()
        if regression:
            return (out - (data.y - unit[0]) / unit[1])[known].square()
        return torch.nn.functional.binary_cross_entropy_with_logits(out[known], data.y[known], reduction="none")

    for _ in range(epochs):
        model.train()
        for data in batches[0]:
            optimizer.zero_grad()
            loss(data).mean().backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            found = float(torch.cat([loss(data) for data in batches[1]]).mean())
        if found < best:
            best, kept = found, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return model.eval(), unit


def answer(model: GINE, unit: Tensor, path: str) -> Tensor:
    """An answer for each row of a file and each target: a value, or a probability."""
    with torch.no_grad():
        out = torch.cat([model(data) for data in DataLoader([*load(path)], 256)])
    return out * unit[1] + unit[0] if len(unit) else out.sigmoid()


def main() -> None:
    """Trains, and writes an answer for each test row and target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=3, metavar="CSV", help="all rows; the test rows; answers")
    parser.add_argument("--targets", nargs="+", required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model, unit = train(args.files[0], args.targets, args.seed)
    answers = answer(model, unit, args.files[1])
    with open(args.files[2], "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([args.targets, *answers.tolist()])


if __name__ == "__main__":
    main()
