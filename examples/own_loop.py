"""A training loop of one's own, in plain PyTorch and PyG: a ``PGGNN`` learns to count triangles.

    python examples/own_loop.py            # on a GPU if there is one, its passes played from a recording
    python examples/own_loop.py --plain    # without the recording, to see what it is worth

What :class:`pggnn.nn.Recorded` changes is one line, the call of the network.
"""

import argparse
import time

import torch
from torch.nn.functional import l1_loss, mse_loss
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from pggnn.capture import Recorded
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import PGGNN


def run(
    train: list[Data], test: list[Data], epochs: int, hidden: int = 64, plain: bool = False, seed: int = 0
) -> float:
    """Trains; returns the mean absolute error on the test graphs, and prints it on the way."""
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PGGNN(train[0].num_features, hidden, 1, num_layers=3, level="node").to(device)
    call = model if plain else Recorded(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=True)
    batches, held = DataLoader(train, batch_size=16, shuffle=True), DataLoader(test, batch_size=256)
    error = float("nan")
    for epoch in range(1, epochs + 1):
        model.train()
        begin = time.perf_counter()
        for batch in batches:
            batch = batch.to(device)
            loss = mse_loss(call(batch.x, batch.edge_index), batch.y.view(-1, 1).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss.item()  # waits for the device
        step = 1e3 * (time.perf_counter() - begin) / len(batches)
        model.eval()
        with torch.no_grad():
            errors = [
                l1_loss(model(batch.x, batch.edge_index).flatten(), batch.y.flatten().float(), reduction="none")
                for batch in (held_batch.to(device) for held_batch in held)
            ]
        error = float(torch.cat(errors).mean())
        print(f"epoch {epoch}: loss of the last batch {loss:.3f}, test MAE {error:.3f}, {step:.1f} ms a step")
    return error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="call the network itself")
    parser.add_argument("--graphs", type=int, default=1000, help="training graphs (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over them (default: %(default)s)")
    args = parser.parse_args()
    if min(args.graphs, args.epochs) < 1:
        parser.error(f"--graphs and --epochs must be at least 1, got {args.graphs} and {args.epochs}")
    run(erdos_renyi(args.graphs, seed=0), erdos_renyi(500, seed=1), args.epochs, plain=args.plain)


if __name__ == "__main__":
    main()
