"""A training step of graphs with large neighbourhoods, optimizer included, data on the GPU."""

import statistics
import sys
from functools import partial

import torch
from torch_geometric.data import Batch

from benchmarks.data import is_there
from benchmarks.epochs import shipped
from benchmarks.timing import DEVICE, Figures, autocast, gpu_peak, seconds
from pggnn.data.batching.batches import Batches
from pggnn.data.loading import load
from pggnn.orderings import Reading
from pggnn.train.engine.models import Scorer, allot_workspace, build
from pggnn.train.engine.task import Task


def collab(count: int = 5) -> Figures:
    """Some batches of 32 COLLAB graphs with the whole group: 2 aggregations, hidden 64, as in the shipped config.

    Each batch is taken twice, and the second time counts; memory is all that lies on the GPU, the data set included.
    """
    if not is_there("COLLAB"):
        return
    config, dataset = shipped("collab"), load("COLLAB")
    hidden, size, task = config.model.hidden, config.optim.batch_size, Task(dataset.schema)
    batches = Batches(dataset, size, "shuffle", device=DEVICE)
    scorer = Scorer(build(config.model, dataset.schema)).to(DEVICE)
    allot_workspace(scorer.network, torch.device(DEVICE))
    optimizer = torch.optim.Adam(scorer.parameters(), fused=True)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        with autocast():
            scores = scorer(batch)
        (task.loss(scores, task.targets(batch.y)) / batch.num_graphs).backward()
        optimizer.step()

    work, times, memory = [], [], []
    for number in range(count):
        batch = batches[number]
        work.append(config.model.layers * Reading().steps(batch.plan.profile) / 1e6)
        memory.append(gpu_peak(partial(step, batch), extra=False))
        times.append(seconds(partial(step, batch)))
        print(f"COLLAB: {work[-1]:.1f} M steps, degree {batch.plan.degree.max()}, {times[-1]:.3f} s", file=sys.stderr)
    rates = [72 * hidden**2 * steps / time / 1e6 for steps, time in zip(work, times, strict=True)]
    case = f"COLLAB, batch {size}, hidden {hidden}"
    yield case, "steps of sequences, millions", statistics.median(work)
    yield case, "training step, ms", 1e3 * statistics.median(times)
    yield case, "training step, TFLOP/s", statistics.median(rates)
    yield case, "peak memory, GiB", max(memory) / 2**10
