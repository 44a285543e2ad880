"""Which benchmarks there are, and their figures as they are kept: by benchmark, case and quantity. Imports quickly."""

import json
from pathlib import Path

from pggnn.files import read_json, write_text

Record = dict[str, dict[str, dict[str, float]]]
GPU = {
    "layer": "One aggregation over 262,144 sequences of degree 8, beside cuDNN, the definition and matrix products.",
    "step": "A training step of 16 ER graphs: eager, PyG's GIN, Recorded, a CUDA graph, the training engine.",
    "epochs": "Training epochs of ZINC and MNIST, beside PyG's GIN.",
    "collab": "Training steps of 32 COLLAB graphs with the whole group.",
    "hubs": "Training epochs of COLLAB, MNIST and graphs with hubs by the linear cell, beside PyG's GIN.",
    "linear": "Time against work, from 10^4 to 10^9 steps of sequences, and a hub of degree 100,000.",
}
"""What is measured on a GPU, in this order by ``python -m benchmarks gpu``. A module has its benchmark's name."""
CPU = {
    "cpu": "Training steps of small graphs beside a straightforward implementation, and the forward rate.",
    "star": "Time and peak memory of a hub with 2,000 neighbours.",
    "data": "Reading data sets into batches with plans, and the memory that MNIST takes.",
    "stream": "Training from ten million graphs in shards on a disk, beside the same batches in memory.",
    "nodes": "Training on one large graph, whole and in sampled neighbourhoods: time and peak memory.",
    "engine": "What the training engine adds to a bare PyTorch loop.",
    "rings": "An epoch of ZINC that reads rings, against neighbours alone, on a GPU if there is one.",
    "arcs": "The linear cell, on a GPU if there is one: whole group, single ordering, large graphs, GIN.",
}
ALL = GPU | CPU
COSTS = {"extra memory, MiB": "≤ 1024", "deterministic / default, training": "≤ 1.5"}
CELLS = ("lstm", "gru", "srn")
GOALS: dict[str, dict[str, dict[str, str]]] = {
    "layer": {
        "hidden 64, bf16": {"forward, ms": "≤ 1.4", "training, ms": "≤ 7.5", **COSTS},
        "hidden 128, bf16": {"forward, ms": "≤ 4.5", "training, ms": "≤ 19", **COSTS},
    },
    "step": {
        "ER, batch 16, hidden 64": {
            "eager, ms": "≤ 2.5", "by Recorded, over changing batches, ms": "≤ 2.5",
            "CUDA graph of one batch, ms": "≤ 1.2", "recorded over changing batches, ms": "≤ 1.2",
        },
    },
    "epochs": {
        "ZINC": {"ours, s": "≤ 0.9", "GIN with PyG's DataLoader / ours": "≥ 1"}, "MNIST": {"ours, s": "≤ 15"},
    },
    "hubs": {
        case: {"GIN with batches on the GPU / ours": "≥ 1"} for case in ("COLLAB", "MNIST", "graphs with hubs")
    },
    "collab": {"COLLAB, batch 32, hidden 64": {"training step, TFLOP/s": "≥ 100", "peak memory, GiB": "≤ 8"}},
    "cpu": {
        **{f"ER, {cell}": {"straightforward / ours": "≥ 4", "plan / step": "≤ 0.1"} for cell in CELLS},
        **{f"regular, {cell}": {"straightforward / ours": "≥ 2.5", "plan / step": "≤ 0.1"} for cell in CELLS},
        "8,192 sequences of degree 8": {"forward / matrix product": "≥ 0.4"},
    },
    "star": {"whole group": {"extra memory, MiB": "≤ 1536", "seconds / those of 16 orderings": "≥ 50"}},
    "data": {
        "ER": {"graphs/s": "≥ 20000"}, "ZINC": {"graphs/s": "≥ 20000"}, "MNIST": {"peak of the process, MiB": "≤ 3000"},
    },
    "stream": {
        "PGGNN, linear cell, hidden 16, batch 512": {
            "streamed / in memory": "≥ 0.7", "peak of the process, MiB": "≤ 2048",
        },
    },
    "nodes": {
        f"200,000 nodes, 5,000,000 edges, {how}": {"peak of the process, MiB": "≤ 8192"} for how in ("whole", "sampled")
    },
    "engine": {"ER, batch 16, hidden 64": {"engine / bare loop": "≤ 1.1"}},
    "rings": {
        "ZINC, 8 blocks of 64": {
            "star and rings / star": "≤ 4", "star and rings / CIN": "≤ 1", "star and rings, epoch, s": "≤ 0.8",
        },
    },
    "arcs": {
        **{f"degree {degree:,}": {"group / single": "≤ 1.5"} for degree in (8, 64, 491, 10_000)},
        **{f"stars of {first} to 1,000,000": {"exponent of the time": "≤ 1.05"} for first in ("100", "10,000")},
        "star of 1,000,000": {"extra memory, MiB": "≤ 3072"}, "10,000,000 edges": {"extra memory, MiB": "≤ 3072"},
        "32 graphs with hubs": {"PG-GNN / GIN": "≤ 3"},
    },
}  # fmt: skip
PICTURES = {
    "linear": ("linear", "Time and rate against the steps of all sequences"),
    "roofline": ("layer", "Rates against operations for each byte moved, under the roofs of an H200"),
}
"""By name: the benchmark whose figures are drawn, and what the picture shows."""


def goal(part: str, case: str, what: str) -> str:
    """The goal of a figure, or an empty text."""
    return GOALS.get(part, {}).get(case, {}).get(what, "")


def is_met(goal: str, value: float) -> bool:
    """Whether a figure reaches a goal."""
    sign, number = goal.split()
    return value <= float(number) if sign == "≤" else value >= float(number)


def line(part: str, case: str, what: str, value: float) -> str:
    """A figure as it is printed."""
    said = f"{f'{case}: {what}':>64}  {value:12.3f}"
    if aim := goal(part, case, what):
        said += f"  (goal {aim}: {'reached' if is_met(aim, value) else 'missed'})"
    return said


def save(path: Path, machine: str, figures: Record) -> None:
    """Writes the figures as JSON."""
    content = {"machine": machine, "figures": figures}
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def load(path: Path) -> tuple[str, Record]:
    """The machine and the figures of a file that ``--json`` wrote."""
    content = read_json(path.resolve(strict=True))
    figures = content.get("figures", {}) if isinstance(content, dict) else {}
    if not figures or not set(figures) <= set(ALL):
        raise ValueError(f"{path} was not written by python -m benchmarks --json: expected some of {', '.join(ALL)}")
    return content["machine"], figures
