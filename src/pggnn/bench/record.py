"""The figures of ``pggnn bench kernel`` as they are kept: by part, case and quantity, with the goals that they have.

Imports nothing heavy.
"""

import json
from pathlib import Path

from pggnn.files import read_json, write_text

Record = dict[str, dict[str, dict[str, float]]]
PARTS = {
    "layer": "one aggregation over 262,144 sequences of degree 8, beside cuDNN, the reference and plain products",
    "step": "a training step of ER counting: eager, PyG's GIN, by Recorded, as a CUDA graph, by the training engine",
    "epochs": "training epochs of ZINC and MNIST by the engine, beside PyG's GIN",
    "collab": "training batches of 32 COLLAB graphs with the whole group",
    "linear": "time against work from 10^4 to 10^9 steps, and a hub of degree 100,000",
}
PICTURES = {
    "linear": ("linear", "Time and rate against the steps of all sequences"),
    "roofline": ("layer", "Rates against operations for each byte moved, under the roofs of an H200"),
}
"""The pictures that can be drawn: from the figures of which part, and what they show."""
GOALS: dict[tuple[str, str, str], float] = {
    ("layer", "hidden 64, bf16", "forward, ms"): 1.4,
    ("layer", "hidden 64, bf16", "training, ms"): 7.5,
    ("layer", "hidden 64, bf16", "extra memory, MiB"): 1024,
    ("layer", "hidden 64, bf16", "deterministic / default, training"): 1.5,
    ("layer", "hidden 128, bf16", "forward, ms"): 4.5,
    ("layer", "hidden 128, bf16", "training, ms"): 19,
    ("layer", "hidden 128, bf16", "extra memory, MiB"): 1024,
    ("layer", "hidden 128, bf16", "deterministic / default, training"): 1.5,
    ("step", "ER, batch 16, hidden 64", "eager, ms"): 2.5,
    ("step", "ER, batch 16, hidden 64", "by Recorded, over changing batches, ms"): 2.5,
    ("step", "ER, batch 16, hidden 64", "CUDA graph of one batch, ms"): 1.2,
    ("step", "ER, batch 16, hidden 64", "recorded over changing batches, ms"): 1.2,
    ("epochs", "ZINC", "ours, s"): 0.9,
    ("epochs", "ZINC", "GIN with PyG's DataLoader / ours"): 1,
    ("epochs", "MNIST", "ours, s"): 15,
    ("collab", "COLLAB, batch 32, hidden 64", "training step, TFLOP/s"): 100,
    ("collab", "COLLAB, batch 32, hidden 64", "peak memory, GiB"): 8,
}
"""At most so much, or at least where more is better."""


def more_is_better(what: str) -> bool:
    """Whether a quantity should be large."""
    return what.endswith(("TFLOP/s", "/ ours"))


def is_met(part: str, case: str, what: str, value: float) -> bool | None:
    """Whether a figure reaches its goal, or None where it has none."""
    goal = GOALS.get((part, case, what))
    return None if goal is None else value >= goal if more_is_better(what) else value <= goal


def line(part: str, case: str, what: str, value: float) -> str:
    """A figure in words."""
    met = is_met(part, case, what, value)
    said = f"{case}: {what}"
    if met is None:
        return f"{said:>64}  {value:12.3f}"
    goal = f"{GOALS[part, case, what]:g} or {'more' if more_is_better(what) else 'less'}"
    return f"{said:>64}  {value:12.3f}  (goal: {goal}{', reached' if met else ', missed'})"


def save(path: Path, machine: str, figures: Record) -> None:
    """Writes the figures as JSON."""
    content = {"benchmark": "kernel", "machine": machine, "figures": figures}
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def load(path: Path) -> tuple[str, Record]:
    """The machine and the figures of a file that ``pggnn bench kernel --json`` wrote."""
    content = read_json(path.resolve(strict=True))
    figures = content.get("figures", {}) if isinstance(content, dict) else {}
    if not figures or not set(figures) <= set(PARTS):
        raise ValueError(f"{path} was not written by pggnn bench kernel --json: expected parts {', '.join(PARTS)}")
    return content["machine"], figures
