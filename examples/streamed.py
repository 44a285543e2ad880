"""Graphs that do not fit into memory: written to shards as they come, then trained on from there.

    python examples/streamed.py shards                               # generates graphs if there are none
    torchrun --nproc-per-node 2 examples/streamed.py shards          # each process reads its own shards

``shards`` gets a folder ``train`` and a folder ``val``. To train on graphs of your own, write them there:
``save_shards`` takes a generator of PyG's ``Data``. The network learns to count the triangles at each node.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import l1_loss, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data

from pggnn import PGGNN
from pggnn.data.batching.stream import StreamedBatches
from pggnn.data.formats.shards import save_shards
from pggnn.data.schema import Schema
from pggnn.data.sets.counting import erdos_renyi


def generate(count: int, seed: int) -> Iterator[Data]:
    """Graphs one by one: a hundred of them are in memory."""
    for first in range(0, count, 100):
        yield from erdos_renyi(min(100, count - first), seed=1000 * seed + first)


def write(folder: Path, graphs: int, shard_size: int) -> None:
    """Shards to train and to validate on, where there are none."""
    schema = Schema("node", "regression", features=10)  # counts are no classes
    for seed, (part, count) in enumerate({"train": graphs, "val": graphs // 4}.items()):
        if not (folder / part).exists():
            save_shards(generate(count, seed), folder / part, shard_size, schema)


def run(folder: Path, epochs: int, hidden: int = 32, batch_size: int = 32, buffer: int = 4) -> float:
    """Trains, alone or as one of several processes; returns the mean absolute error on the validation graphs."""
    torch.manual_seed(0)
    several = dist.is_initialized()
    shard = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
    train = StreamedBatches(folder / "train", batch_size, "shuffle", buffer=buffer, shard=shard)
    val = StreamedBatches(folder / "val", 4 * batch_size, shard=shard)
    model: torch.nn.Module = PGGNN(train.schema.in_channels, hidden, 1, num_layers=3, level="node", cell="linear")
    if several:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    error = float("nan")
    for epoch in range(1, epochs + 1):
        model.train()
        for batch in train:
            loss = mse_loss(model(batch.x, batch.plan), batch.y.view(-1, 1).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        found = torch.zeros(2)
        with torch.no_grad():
            for batch in val:
                missed = l1_loss(model(batch.x, batch.plan).flatten(), batch.y.float(), reduction="sum")
                found += torch.tensor([float(missed), len(batch.y)])
        if several:
            dist.all_reduce(found)
        error = float(found[0] / found[1])
        if shard[0] == 0:
            print(f"epoch {epoch}: {len(train)} batches, validation MAE {error:.3f}")
    return error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the shards")
    parser.add_argument("--graphs", type=int, default=4000, help="graphs to generate (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over them (default: %(default)s)")
    args = parser.parse_args()
    several = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if several:
        dist.init_process_group("gloo")
    if not several or dist.get_rank() == 0:
        write(args.folder, args.graphs, shard_size=500)
    if several:
        dist.barrier()  # until the shards are there
    run(args.folder, args.epochs)
    if several:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
