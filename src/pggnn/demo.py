"""``pggnn demo``: a PG-GNN and a GIN learn to count the triangles at each node of random graphs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn.models import GIN

from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import PGGNN

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LAYERS = 2


@dataclass(frozen=True)
class DemoResult:
    """What one model made of the test graphs."""

    name: str
    error: float
    parameters: int
    seconds: float
    predictions: Tensor


def train(
    model: torch.nn.Module, graphs: list[Data], epochs: int, report: Callable[[float], None], batch_size: int = 16
) -> None:
    """Fits the counts by mean squared error, Adam under a one-cycle schedule; reports each epoch's training error."""
    loader = DataLoader(graphs, batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * len(loader))
    model.train()
    for _ in range(epochs):
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            predicted = model(batch.x, batch.edge_index).squeeze(-1)
            torch.nn.functional.mse_loss(predicted, batch.y).backward()
            optimizer.step()
            schedule.step()
            total += float((predicted.detach() - batch.y).abs().sum())
        report(total / sum(graph.num_nodes or 0 for graph in graphs))


@torch.no_grad()
def predict(model: torch.nn.Module, graphs: list[Data]) -> Tensor:
    """The predicted count of every node."""
    batch = Batch.from_data_list(graphs)
    return model.eval()(batch.x, batch.edge_index).squeeze(-1)


def _advance(progress: "Progress", task: "TaskID", error: float) -> None:
    progress.update(task, advance=1, error=error)


def run(out: Path, epochs: int = 100, graphs: int = 1000, seed: int = 0) -> list[DemoResult]:
    """Trains both models, prints the table, and writes ``triangles.png`` to ``out``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from pggnn.report.figures import draw_counts

    if epochs < 1 or graphs < 16:
        raise ValueError(f"the demo needs at least 1 epoch and 16 graphs, got {epochs} and {graphs}")
    console = Console()
    console.print(
        f"Counting the triangles at each node of Erdős–Rényi graphs (10 nodes, edge probability 0.3): "
        f"{graphs} graphs to train on, 500 new ones to test, seed {seed}."
    )
    training, test = erdos_renyi(graphs, seed=seed), erdos_renyi(500, seed=seed + 10_000)
    truth = Batch.from_data_list(test).y
    torch.manual_seed(seed)
    models = {
        "PG-GNN": PGGNN(10, 32, 1, num_layers=LAYERS, level="node"),
        "GIN": GIN(10, 96, LAYERS, 1, norm="batch_norm", jk="cat"),  # as deep, and as many parameters
    }
    columns = [TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"),
               TextColumn("training error {task.fields[error]:.3f}"), TimeRemainingColumn()]  # fmt: skip
    results = []
    with Progress(*columns, console=console) as progress:
        tasks = {name: progress.add_task(name, total=epochs, error=float("nan")) for name in models}
        for name, model in models.items():
            begin = time.perf_counter()
            train(model, training, epochs, partial(_advance, progress, tasks[name]))
            predicted = predict(model, test)
            results.append(
                DemoResult(
                    name,
                    error=float((predicted - truth).abs().mean()),
                    parameters=sum(parameter.numel() for parameter in model.parameters()),
                    seconds=time.perf_counter() - begin,
                    predictions=predicted,
                )
            )
    table = Table(title="500 unseen graphs")
    for heading in ("model", "test MAE", "parameters", "time"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for result in results:
        table.add_row(result.name, f"{result.error:.3f}", f"{result.parameters:,}", f"{result.seconds:.0f} s")
    console.print(table)
    picture = draw_counts(
        truth.tolist(), {r.name: (r.predictions.tolist(), r.error) for r in results}, out / "triangles.png"
    )
    console.print(f"Predicted against true counts: {picture}")
    return results
