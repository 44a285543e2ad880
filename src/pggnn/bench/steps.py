"""Training steps, optimizer included, data on the GPU: small graphs, and those with the largest neighbourhoods."""

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GIN

from pggnn.bench.epochs import epoch_seconds, is_there, shipped
from pggnn.bench.timing import DEVICE, ON_GPU, Figures, autocast, milliseconds, peak_mebibytes, seconds, wait
from pggnn.data.batches import Batches
from pggnn.data.catalogue import load
from pggnn.data.counting import erdos_renyi
from pggnn.nn import PGGNN, Recorded
from pggnn.orderings import Reading
from pggnn.plan import Plan
from pggnn.train.config import DataConfig
from pggnn.train.models import Scorer, allot_workspace, build
from pggnn.train.run import first_training, load_graphs
from pggnn.train.task import Task


def counting(graphs: int = 5000, changing: int = 32) -> Figures:
    """A step of ER counting, batch 16, hidden 64, 4 aggregations: as PyTorch runs it, beside PyG's GIN of that size; in
    the same loop with the passes recorded, over batches that change; as a CUDA graph of one batch; and the training
    engine's, which plays a recording of all, over batches that change."""
    case = "ER, batch 16, hidden 64"
    batches = [Batch.from_data_list(erdos_renyi(16, seed=seed)).to(DEVICE) for seed in range(changing)]
    batch = batches[0]

    def training_step(
        model: torch.nn.Module, call: Callable[..., Tensor], taken: Sequence[tuple[Batch, Plan | Tensor]]
    ) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), fused=True, capturable=ON_GPU)
        following = cycle(taken)

        def step() -> None:
            batch, graph = next(following)
            optimizer.zero_grad()
            with autocast():
                out = call(batch.x, graph)
            torch.nn.functional.mse_loss(out.float().flatten(), batch.y.flatten()).backward()
            optimizer.step()

        return step

    planned = [(batch, Plan.build(batch.edge_index, batch.num_nodes)) for batch in batches]
    model, gin = PGGNN(10, 64, 1, level="node").to(DEVICE), GIN(10, 64, 4, 1).to(DEVICE)
    step = training_step(model, model, planned[:1])
    yield case, "eager, ms", milliseconds(step)
    yield case, "GIN, eager, ms", milliseconds(training_step(gin, gin, [(batch, batch.edge_index)]))
    played = training_step(model, Recorded(model), planned)
    for _ in range(changing):  # the largest of them makes room for all
        played()
    yield case, "by Recorded, over changing batches, ms", milliseconds(played)
    if ON_GPU:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()
        wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        yield case, "CUDA graph of one batch, ms", milliseconds(graph.replay)
    config = replace(shipped("er_triangles"), data=DataConfig("ER", options={"seed": 0, "graphs": graphs}))
    with tempfile.TemporaryDirectory() as folder:
        training = first_training(config, load_graphs(config), Path(folder))
        yield case, "recorded over changing batches, ms", 1e3 * epoch_seconds(training, 3) / len(training.batches)


def collab(count: int = 5) -> Figures:
    """Some batches of 32 COLLAB graphs with the whole group: 2 aggregations, hidden 64, as in the shipped config.

    Each batch is taken twice, and the second time counts; memory is all that lies on the GPU, the data set included.
    """
    if not is_there("COLLAB"):
        return
    config, dataset = shipped("collab"), load("COLLAB")
    hidden, layers, task = config.model.hidden, config.model.layers, Task(dataset.schema)
    batches = Batches(dataset, config.optim.batch_size, "shuffle", device=DEVICE)
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
        plan = batch.plan
        work.append(layers * Reading().steps(plan.profile))
        memory.append(peak_mebibytes(partial(step, batch)))
        times.append(seconds(partial(step, batch)))
        print(f"COLLAB: {work[-1] / 1e6:.1f} M steps, degree {plan.degree.max()}, {times[-1]:.3f} s", file=sys.stderr)
    rates = [72 * hidden**2 * steps / time / 1e12 for steps, time in zip(work, times, strict=True)]
    case = f"COLLAB, batch {config.optim.batch_size}, hidden {hidden}"
    yield case, "steps of sequences, millions", statistics.median(work) / 1e6
    yield case, "training step, ms", 1e3 * statistics.median(times)
    yield case, "training step, TFLOP/s", statistics.median(rates)
    yield case, "peak memory, GiB", max(memory) / 2**10
