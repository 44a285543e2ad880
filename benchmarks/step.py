"""A training step of small graphs, optimizer included, data on the GPU."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GIN

from benchmarks.epochs import epoch_seconds, shipped
from benchmarks.timing import DEVICE, ON_GPU, Figures, Task, autocast, milliseconds, wait
from pggnn.capture import Recorded
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import PGGNN
from pggnn.plan import Plan
from pggnn.train.config import DataConfig
from pggnn.train.runs.run import first_training, load_graphs

COMPILER = "inductor" if ON_GPU else "aot_eager"
"""The second needs no compiler of C++."""


def step(graphs: int = 5000, changing: int = 32) -> Figures:
    """ER counting, batch 16, hidden 64, 4 aggregations: eager, and PyG's GIN of that size; both compiled; with the
    passes recorded, over changing batches; as a CUDA graph of one batch; and in the training engine, over changing
    batches."""
    case = "ER, batch 16, hidden 64"
    batches = [Batch.from_data_list(erdos_renyi(16, seed=seed)).to(DEVICE) for seed in range(changing)]
    planned = [(batch, Plan.build(batch.edge_index, batch.num_nodes)) for batch in batches]
    model, gin = PGGNN(10, 64, 1, level="node").to(DEVICE), GIN(10, 64, 4, 1).to(DEVICE)
    linear = PGGNN(10, 64, 1, level="node", cell="linear").to(DEVICE)
    bare = [(batches[0], batches[0].edge_index)]
    ours = planned[:1]
    eager = training_step(model, model, ours)
    yield case, "eager, ms", milliseconds(eager)
    yield case, "eager, without a plan, ms", milliseconds(training_step(model, model, bare))
    yield case, "linear cell, eager, ms", milliseconds(training_step(linear, linear, ours))
    yield case, "GIN, eager, ms", milliseconds(training_step(gin, gin, bare))
    for name, network, taken in (("", model, ours), ("linear cell, ", linear, ours), ("GIN, ", gin, bare)):
        compiled = torch.compile(network, fullgraph=True, backend=COMPILER)
        yield case, f"{name}compiled, ms", milliseconds(training_step(network, compiled, taken))
    played = training_step(model, Recorded(model), planned)
    for _ in range(changing):  # the largest of them sets the size for all
        played()
    yield case, "by Recorded, over changing batches, ms", milliseconds(played)
    if ON_GPU:
        with torch.cuda.stream(torch.cuda.Stream()):
            eager()
        wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eager()
        yield case, "CUDA graph of one batch, ms", milliseconds(graph.replay)
    config = replace(shipped("er_triangles"), data=DataConfig("ER", options={"seed": 0, "graphs": graphs}))
    with tempfile.TemporaryDirectory() as folder:
        training = first_training(config, load_graphs(config), Path(folder))
        yield case, "recorded over changing batches, ms", 1e3 * epoch_seconds(training, 3) / len(training.batches)


def training_step(
    model: torch.nn.Module, call: Callable[..., Tensor], taken: Sequence[tuple[Batch, Plan | Tensor]]
) -> Task:
    """A step on the next of some batches."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True, capturable=ON_GPU)
    following = cycle(taken)

    def run() -> None:
        batch, graph = next(following)
        optimizer.zero_grad()
        with autocast():
            out = call(batch.x, graph)
        torch.nn.functional.mse_loss(out.float().flatten(), batch.y.flatten()).backward()
        optimizer.step()

    return run
