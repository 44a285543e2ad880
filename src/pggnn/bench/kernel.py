"""The fused kernels on a GPU: against cuDNN, the reference, matrix products, and other people's epochs."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, l1_loss, mse_loss
from torch_geometric.data import Batch
from torch_geometric.nn import GIN, global_add_pool

from pggnn.data.batches import Batches
from pggnn.data.catalogue import CATALOGUE, load
from pggnn.data.counting import erdos_renyi
from pggnn.data.store import data_root
from pggnn.nn import PGGNN, PGConv
from pggnn.plan import Plan

NODES, DEGREE = 32_768, 8
STEPS = NODES * DEGREE * (DEGREE + 2)
GOALS = {64: (1.4, 7.5), 128: (4.5, 19.0)}
Figures = Iterator[tuple[str, float]]


def kernel() -> Figures:
    """262,144 sequences of degree 8 in bfloat16, then whole training steps and epochs."""
    if not torch.cuda.is_available():
        raise ValueError("pggnn bench kernel measures the GPU kernels, and PyTorch sees no GPU here")
    for hidden in GOALS:
        yield from layer(hidden)
    yield from counting_step()
    for name, hidden, batch_size, most in (("ZINC", 128, 64, None), ("MNIST", 128, 64, 100)):
        if (data_root() / CATALOGUE[name].file).exists():
            yield from epoch(name, hidden, batch_size, most)


def layer(hidden: int) -> Figures:
    """One aggregation, forward and training, beside cuDNN on the gathered sequences."""
    centers = torch.arange(NODES).repeat_interleave(DEGREE)
    plan = Plan.build(torch.stack([torch.randint(NODES, centers.shape), centers]), NODES).to("cuda")
    conv, lstm = PGConv(hidden, hidden).cuda(), torch.nn.LSTM(hidden, hidden, 2).cuda()
    x = torch.randn(NODES, hidden, device="cuda", requires_grad=True)
    forward_goal, training_goal = GOALS[hidden]
    prefix = f"hidden {hidden}:"

    def ours() -> Tensor:
        return conv(x, plan)

    def cudnn() -> Tensor:
        gathered = x.repeat(DEGREE * (DEGREE + 2), 1).view(DEGREE + 2, -1, hidden)
        last: Tensor = lstm(gathered)[1][0][-1]
        return last

    times = {}
    for name, run, wanted in (("ours", ours, True), ("cuDNN", cudnn, False)):
        with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
            forward = gpu_time(run)
        training = gpu_time(partial(train, run))
        memory = gpu_memory(partial(train, run))
        yield f"{prefix} {name} forward, ms" + f" (goal: {forward_goal} or less)" * wanted, forward
        yield f"{prefix} {name} training, ms" + f" (goal: {training_goal} or less)" * wanted, training
        yield f"{prefix} {name} forward, TFLOP/s", 24 * hidden**2 * STEPS / forward / 1e9
        yield f"{prefix} {name} training, TFLOP/s", 72 * hidden**2 * STEPS / training / 1e9
        yield f"{prefix} {name} extra memory, MiB" + " (goal: 1024 or less)" * wanted, memory / 2**20
        times[name] = forward, training
    yield f"{prefix} cuDNN / ours, forward", times["cuDNN"][0] / times["ours"][0]
    yield f"{prefix} cuDNN / ours, training", times["cuDNN"][1] / times["ours"][1]
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    ratio = gpu_time(partial(train, ours)) / times["ours"][1]
    torch.use_deterministic_algorithms(False)
    yield f"{prefix} ours, deterministic / default (goal: 1.5 or less)", ratio
    a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((2**20, hidden), (hidden, 4 * hidden)))
    product = 8 * hidden**2 * 2**20 / gpu_time(lambda: a @ b) / 1e9
    yield f"{prefix} matrix product 1M×{hidden}·{hidden}×{4 * hidden}, TFLOP/s", product
    small = Plan.build(torch.stack([torch.arange(DEGREE), torch.zeros(DEGREE, dtype=torch.long)]), DEGREE).to("cuda")
    reference = PGConv(hidden, hidden, backend="reference").cuda()
    loop = gpu_time(lambda: reference(x[:DEGREE].detach(), small), rounds=3)
    yield f"{prefix} reference loop / ours, forward (scaled from {DEGREE} sequences)", loop * NODES / times["ours"][0]


def train(run: Callable[[], Tensor]) -> None:
    """Forward and backward in bfloat16, without an optimizer."""
    with torch.autocast("cuda", torch.bfloat16):
        out = run()
    out.float().sum().backward()


def gpu_time(task: Callable[[], Any], rounds: int = 20) -> float:
    """Milliseconds that ``task`` takes on the GPU, the median over some rounds."""
    for _ in range(3):
        task()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
    for begin, end in events:
        begin.record()
        task()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)


def gpu_memory(task: Callable[[], Any]) -> int:
    """Bytes that ``task`` takes beyond what is there before and after."""
    task()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    task()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def counting_step() -> Figures:
    """A training step of ER counting, optimizer included, data on the GPU: as PyTorch runs it, and as a CUDA graph."""
    batch = Batch.from_data_list(erdos_renyi(16)).to("cuda")
    plan = Plan.build(batch.edge_index, batch.num_nodes)
    model = PGGNN(10, 64, 1, level="node").cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True, capturable=True)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = model(batch.x, plan)
        mse_loss(out.float().flatten(), batch.y.flatten()).backward()
        optimizer.step()

    yield "ER training step, ms (goal: 2.5 or less)", gpu_time(step)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    yield "ER training step as a CUDA graph, ms (goal: 1.2 or less)", gpu_time(graph.replay)


def epoch(name: str, hidden: int, batch_size: int, most_steps: int | None) -> Figures:
    """A training epoch with the whole group in bfloat16, beside PyG's GIN on the same batches."""
    dataset = load(name, split="train")
    schema = dataset.schema
    batches = Batches(dataset, batch_size, sampling="shuffle", device="cuda")
    classifies = schema.task == "classification"
    steps = min(len(batches), most_steps or len(batches))
    ours = PGGNN(schema.in_channels, hidden, schema.out_channels, flow=schema.flow).cuda()
    gin = torch.nn.ModuleList(
        [GIN(schema.in_channels, hidden, 4), torch.nn.Linear(hidden, schema.out_channels)]
    ).cuda()  # fmt: skip

    def run_ours(batch: Any) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return ours(batch.x, batch.plan, batch=batch.batch, batch_size=batch.num_graphs)

    def run_gin(batch: Any) -> Tensor:
        return gin[1](global_add_pool(gin[0](batch.x, batch.edge_index), batch.batch, batch.num_graphs))

    times = {}
    for model_name, model, run in (("ours", ours, run_ours), ("GIN", gin, run_gin)):
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        for warm in (True, False):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for index, batch in enumerate(batches):
                if index == (5 if warm else steps):
                    break
                optimizer.zero_grad()
                out = run(batch).float()
                (cross_entropy(out, batch.y) if classifies else l1_loss(out.flatten(), batch.y)).backward()
                optimizer.step()
            torch.cuda.synchronize()
            times[model_name] = time.perf_counter() - begin
    scaled = "" if steps == len(batches) else f" (from its first {steps} steps)"
    for model_name, seconds in times.items():
        yield f"{name} epoch, batch {batch_size}, {model_name}, s{scaled}", seconds * len(batches) / steps
