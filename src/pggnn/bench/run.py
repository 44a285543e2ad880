"""The benchmarks that need no GPU by name, run and kept."""

import json
from collections.abc import Callable
from pathlib import Path

import torch

from pggnn.bench.cpu import BATCH, HIDDEN, Figures, data, layer, star
from pggnn.files import write_text


def train() -> Figures:
    """See :mod:`pggnn.bench.engine`."""
    from pggnn.bench.engine import overhead

    return overhead()


BENCHMARKS: dict[str, tuple[str, Callable[[], Figures]]] = {
    "layer": (f"Training step: batch {BATCH}, hidden {HIDDEN}, 2-layer LSTM, 4 aggregations, whole group", layer),
    "data": ("Training sets, from the cache to shuffled batches with plans", data),
    "train": (
        f"Epoch of ER counting: batch {BATCH}, hidden {HIDDEN}, 2-layer LSTM, 4 aggregations, whole group",
        train,
    ),
    "star": (f"Star with 2,000 leaves: forward and backward, hidden {HIDDEN}, 2-layer LSTM", star),
}


def run(what: str, json_path: Path | None = None) -> dict[str, float]:
    """Runs a benchmark, prints its figures as they come and, on request, writes them as JSON."""
    from rich.console import Console

    torch.manual_seed(0)
    title, benchmark = BENCHMARKS[what]
    machine = f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    console = Console()
    console.print(f"{title}\n{machine}")
    figures = {}
    with console.status("measuring, up to two minutes"):
        for name, value in benchmark():
            figures[name] = value
            console.print(f"{name:>64}  {value:10.3f}", highlight=False)
    if json_path is not None:
        content = {"benchmark": what, "machine": machine, "figures": figures}
        write_text(json_path, json.dumps(content, indent=2) + "\n")
    return figures
