"""An epoch of ZINC that reads rings beside neighbours, against neighbours alone and CIN; on a GPU if there is one."""

import statistics
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import is_there
from benchmarks.timing import ON_GPU, Figures, seconds
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig
from pggnn.train.engine.loop import Callback
from pggnn.train.runs.run import first_training

READS = (["star"], ["star", "rings"], *((["sum"], ["sum", "rings"]) if ON_GPU else ()))
BLOCKS: dict[str, Any] = {"cell": "gru", "rnn_layers": 1, "block": "residual", "scores": "last"}
CASES = {" and ".join(reads): BLOCKS | {"reads": reads} for reads in READS} | {"CIN": {"name": "cin"}}
STEPS = None if ON_GPU else 2
"""Batches that are timed; all on a GPU."""


def rings() -> Figures:
    """8 blocks of 64, GRU, batch 128: steps recorded in TF32 on a GPU, in float32 on a CPU. A first epoch, in which
    kernels are compiled and steps recorded, does not count. Cases take turns."""
    if not is_there("ZINC"):
        return
    graphs = Graphs.of(load("ZINC"))
    with tempfile.TemporaryDirectory() as folder:
        trainings = {
            name: first_training(config(options), graphs, Path(folder) / name.replace(" ", "-"))
            for name, options in CASES.items()
        }
        times: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(4 if ON_GPU else 3):
            for name, training in trainings.items():
                training.state["epoch"] += 1
                times[name].append(seconds(partial(training.train_epoch, Callback())))
    found = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, value in found.items():
        yield "ZINC, 8 blocks of 64", f"{name}, {'epoch' if ON_GPU else f'{STEPS} batches'}, s", value
    for other in ("star", "CIN"):
        yield "ZINC, 8 blocks of 64", f"star and rings / {other}", found["star and rings"] / found[other]


def config(options: dict[str, Any]) -> Config:
    """The network and its training."""
    model = ModelConfig(hidden=64, layers=8, edge_features=True, **options)
    optim = OptimConfig(batch_size=128, sampling="draws" if STEPS else "shuffle", steps=STEPS, loss="mae", clip=1.0)
    run = RunConfig(precision="tf32" if ON_GPU else "32", tensorboard=False)
    return replace(Config(DataConfig("ZINC")), model=model, optim=optim, run=run)
