"""What the training engine costs beyond a bare PyTorch loop on the same batches, on a CPU."""

import tempfile
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.timing import Figures, in_turns
from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import Graphs
from pggnn.data.sets.counting import Counting
from pggnn.nn import PGGNN
from pggnn.train.config import Config, DataConfig, OptimConfig, RunConfig
from pggnn.train.engine.log import Log
from pggnn.train.engine.loop import Split, Training
from pggnn.train.runs.progress import Bars
from pggnn.train.runs.run import make_fabric


def engine(steps: int = 20, rounds: int = 7) -> Figures:
    """An epoch of ER counting with log, checkpoints and progress bar, and the same steps written by hand."""
    size, case = 16, "ER, batch 16, hidden 64"
    collater = Collater(Graphs.of(Counting("er", seed=0, graphs=steps * size)))
    config = Config(DataConfig("ER"), optim=OptimConfig(batch_size=size), run=RunConfig(device="cpu"))
    model = PGGNN(10, 64, 1, level="node")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batches = Batches(collater, size, "shuffle")

    def bare() -> None:
        model.train()
        for batch in batches:
            loss = torch.nn.functional.mse_loss(model(batch.x, batch.plan).squeeze(-1), batch.y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with tempfile.TemporaryDirectory() as folder, Bars(Console(stderr=True), "MAE") as bars:
        everything = torch.arange(steps * size)
        split = Split(everything, everything[:1], everything[:1])
        training = Training(config, collater, split, 0, Path(folder), make_fabric(config))
        log, bar = Log(Path(folder)), bars.add("overhead", 2 * rounds)

        def epoch() -> None:
            training.state["epoch"] += 1
            record = {"epoch": training.state["epoch"], "lr": 1e-3, "loss": training.train_epoch(bar), "seconds": 0.0}
            log.write(record)
            training.save(improved=True)
            bar.epoch(record)

        times = in_turns({"bare loop": bare, "engine": epoch}, rounds, runs=1)
        log.close()
    for name, value in times.items():
        yield case, f"{name}, ms a step", value / steps
    yield case, "engine / bare loop", times["engine"] / times["bare loop"]
