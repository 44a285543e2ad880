"""What the training engine costs beyond a bare PyTorch loop on the same batches."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console

from pggnn.data.batches import Batches
from pggnn.data.counting import Counting
from pggnn.data.graphs import Graphs
from pggnn.data.storage import Storage
from pggnn.nn import PGGNN
from pggnn.train.config import Config, DataConfig, OptimConfig, RunConfig
from pggnn.train.log import Log
from pggnn.train.loop import Parts, Training
from pggnn.train.progress import Bars
from pggnn.train.run import make_fabric

STEPS, BATCH, ROUNDS = 20, 16, 7


def overhead() -> Iterator[tuple[str, float]]:
    """An epoch of ER counting with log, checkpoints and progress bar, and the same steps written by hand."""
    storage = Storage(Graphs.of(Counting("er", seed=0, graphs=STEPS * BATCH)))
    everything = torch.arange(STEPS * BATCH)
    config = Config(DataConfig("ER"), optim=OptimConfig(batch_size=BATCH), run=RunConfig(device="cpu"))
    model = PGGNN(10, 64, 1, level="node")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batches = Batches(storage, BATCH, "shuffle")

    def bare() -> None:
        model.train()
        for batch in batches:
            loss = torch.nn.functional.mse_loss(model(batch.x, batch.plan).squeeze(-1), batch.y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with tempfile.TemporaryDirectory() as folder, Bars(Console(stderr=True), "MAE") as bars:
        parts = Parts(everything, everything[:1], everything[:1])
        training = Training(config, storage, parts, 0, Path(folder), make_fabric(config))
        log, bar = Log(Path(folder)), bars.add("overhead", ROUNDS)

        def engine() -> None:
            training.state["epoch"] += 1
            record = {"epoch": training.state["epoch"], "lr": 1e-3, "loss": training.train_epoch(bar)}
            log.write(record)
            training.save(improved=True)
            bar.epoch(record)

        times: dict[str, list[float]] = {"bare": [], "engine": []}
        bare()
        for _ in range(ROUNDS):
            for name, task in (("bare", bare), ("engine", engine)):
                begin = time.perf_counter()
                task()
                times[name].append(time.perf_counter() - begin)
        log.close()
    step = {name: statistics.median(values) / STEPS for name, values in times.items()}
    yield "bare loop, ms a step", 1e3 * step["bare"]
    yield "engine with log, checkpoints and progress, ms a step", 1e3 * step["engine"]
    yield "engine / bare (goal: under 1.1)", step["engine"] / step["bare"]
