"""``pggnn demo``: a PG-GNN and a GIN learn to count the triangles at each node of random graphs."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn.models import GIN

from pggnn.console import print_table
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import PGGNN

LAYERS = 2


def train(
    model: torch.nn.Module, graphs: list[Data], epochs: int, report: Callable[..., None], batch_size: int = 16
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
        report(error=total / sum(graph.num_nodes or 0 for graph in graphs))


@torch.no_grad()
def predict(model: torch.nn.Module, graphs: list[Data]) -> Tensor:
    """The predicted count of every node."""
    batch = Batch.from_data_list(graphs)
    return model.eval()(batch.x, batch.edge_index).squeeze(-1)


def run(out: Path, epochs: int = 100, graphs: int = 1000, seed: int = 0) -> None:
    """Trains both models, prints the table, and writes ``triangles.png`` to ``out``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
    rows, drawn = [("500 unseen graphs", "test MAE", "parameters", "time")], {}
    with Progress(*columns, console=console) as progress:
        tasks = {name: progress.add_task(name, total=epochs, error=float("nan")) for name in models}
        for name, model in models.items():
            begin = time.perf_counter()
            train(model, training, epochs, partial(progress.update, tasks[name], advance=1))
            predicted = predict(model, test)
            error = float((predicted - truth).abs().mean())
            parameters = sum(parameter.numel() for parameter in model.parameters())
            rows.append((name, f"{error:.3f}", f"{parameters:,}", f"{time.perf_counter() - begin:.0f} s"))
            drawn[name] = predicted.tolist(), error
    print_table(rows, right={1, 2, 3})
    console.print(f"Predicted against true counts: {draw_counts(truth.tolist(), drawn, out / 'triangles.png')}")
