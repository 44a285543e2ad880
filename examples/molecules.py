"""Molecules and their rings in a training loop of one's own, in plain PyTorch and PyG.

    python examples/molecules.py                        # generated molecules, stars and rings
    python examples/molecules.py --reads star           # neighbours alone, to compare
    python examples/molecules.py --zinc --epochs 20     # ZINC, from the folder that PGGNN_DATA names

The generated ones have rings of five and six atoms of two kinds, C and N. How many pairs of N lie opposite each other
in a ring of six? What :class:`pggnn.AddRings` writes to a graph, PyG's ``DataLoader`` batches.
"""

import argparse
import random
import time

import torch
from torch import Tensor
from torch.nn.functional import l1_loss, one_hot
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import to_undirected

from pggnn import PGGNN, AddRings
from pggnn.data.loading import load
from pggnn.lists import read_lists


def generate(count: int, seed: int = 0) -> list[Data]:
    """Molecules of two or three rings, joined by chains of one to three bonds."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        bonds: list[tuple[int, int]] = []
        atoms: list[int] = []
        pairs = size = 0
        for number in range(draw.randint(2, 3)):
            if number:  # a chain from an atom of the ring before
                chain = [
                    draw.randrange(len(atoms) - size, len(atoms)),
                    *range(len(atoms), len(atoms) + draw.randint(0, 2)),
                ]
                atoms += [0] * (len(chain) - 1)
                bonds += [*zip(chain, [*chain[1:], len(atoms)], strict=True)]
            size, first = draw.choice((5, 6, 6)), len(atoms)
            ring = [int(draw.random() < 0.4) for _ in range(size)]
            atoms += ring
            bonds += [(first + i, first + (i + 1) % size) for i in range(size)]
            pairs += sum(ring[i] and ring[i + 3] for i in range(3)) if size == 6 else 0
        x, edge_index = one_hot(torch.tensor(atoms), 2).float(), to_undirected(torch.tensor(bonds).t())
        found.append(Data(x=x, edge_index=edge_index, y=torch.tensor([float(pairs)])))
    return found


def scores(model: PGGNN, batch: Data) -> Tensor:
    """The network's answers for a batch, given the rings that it reads."""
    lists = {name: read_lists(name, batch) for name in model.reads if name not in ("star", "sum")}
    out: Tensor = model(batch.x, batch.edge_index, batch.batch, batch_size=len(batch.y), lists=lists)
    return out.flatten()


def run(
    train: list[Data], test: list[Data], epochs: int, hidden: int = 32, reads: tuple[str, ...] = ("star", "rings"),
    seed: int = 0,
) -> float:  # fmt: skip
    """Trains; returns the mean absolute error on the test graphs, and prints it on the way."""
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PGGNN(train[0].num_features, hidden, 1, num_layers=1, rnn_layers=1, reads=reads).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    error = float("nan")
    for epoch in range(1, epochs + 1):
        model.train()
        begin = time.perf_counter()
        for batch in DataLoader(train, batch_size=32, shuffle=True):
            batch = batch.to(device)
            loss = l1_loss(scores(model, batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            errors = [
                (scores(model, batch) - batch.y).abs()
                for batch in (held.to(device) for held in DataLoader(test, batch_size=256))
            ]
        error = float(torch.cat(errors).mean())
        print(f"epoch {epoch}: loss {loss:.3f}, test MAE {error:.3f}, {time.perf_counter() - begin:.1f} s")
    return error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zinc", action="store_true", help="ZINC's 10,000 training and 1,000 test molecules")
    parser.add_argument("--reads", nargs="+", default=["star", "rings"], help="what each layer reads")
    parser.add_argument("--graphs", type=int, default=1000, help="molecules to generate (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over them (default: %(default)s)")
    args = parser.parse_args()
    if args.zinc:
        zinc = load("ZINC")
        train, test = ([zinc[i] for i in zinc.splits[name].tolist()] for name in ("train", "test"))
    else:
        train, test = generate(args.graphs), generate(500, seed=1)
    begin, add = time.perf_counter(), AddRings()
    train, test = [add(graph) for graph in train], [add(graph) for graph in test]
    rings = sum(len(graph.ring_size) for graph in train)
    print(f"{len(train)} molecules with {rings} rings, found in {time.perf_counter() - begin:.1f} s")
    run(train, test, args.epochs, reads=tuple(args.reads))


if __name__ == "__main__":
    main()
