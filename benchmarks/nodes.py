"""Training on one large graph, whole and in sampled neighbourhoods, on a CPU: time, memory, what is learned."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Figures
from pggnn.data.cache import data_root
from pggnn.data.features.motifs import triangles
from pggnn.train.runs.stored import Run

OPTIONS = {"model.cell": "linear", "model.layers": 2, "model.hidden": 32, "optim.lr": 0.01, "run.tensorboard": "false"}
SAMPLED = {"data.neighbours": "[10,5]", "optim.batch_size": 1024}
SMALLER = SAMPLED | {"optim.batch_size": 256, "optim.epochs": 10}
LARGE = ("facebook_combined", "email-Enron", "soc-brightkite")
"""Graphs with ``n`` and ``edges`` in the folder ``large`` of the data root."""


def nodes(count: int = 200_000, edges: int = 5_000_000, epochs: int = 2) -> Figures:
    """A planted partition; then graphs of the data root, with targets made of their triangles."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "planted.npz"
        np.savez(path, **planted(count, edges))
        for how, options in (("whole", {}), ("sampled", SAMPLED)):
            yield from train(f"{count:,} nodes, {edges:,} edges, {how}", path, options | {"optim.epochs": epochs})
        for name in LARGE:
            file = data_root() / "large" / f"{name}.npz"
            if not file.exists():
                print(f"{name} is left out: {file} does not exist", file=sys.stderr)
                continue
            for target in ("clustering", "triangles"):
                arrays = with_targets(file, target)
                np.savez(path, **arrays)
                yield from train(f"{name}, {target}", path, SMALLER)
                yield f"{name}, {target}", "test, constant answer", constant(arrays)


def train(case: str, path: Path, options: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """``pggnn train`` in a process of its own."""
    out = path.parent / "run"
    chosen = OPTIONS | options | {"data.name": path, "run.out": out}
    flags = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    subprocess.run(["rm", "-rf", str(out)], check=True)
    subprocess.run([sys.executable, "-m", "pggnn", "train", *flags], check=True, stdout=subprocess.DEVNULL)
    (result,) = Run.read(out).results.values()
    yield case, "epoch, s", result["seconds"] / result["epoch"]
    yield case, "peak of the process, MiB", result["memory"]["ram"]
    yield case, "test", result["test"]


def planted(count: int, edges: int, classes: int = 5, within: float = 0.8, seed: int = 0) -> dict[str, Any]:
    """Edges lead into a node's own class with this probability; features hint at it."""
    random = np.random.default_rng(seed)
    y = random.integers(classes, size=count)
    order, first = np.argsort(y, kind="stable"), np.searchsorted(np.sort(y), np.arange(classes + 1))
    keys = np.empty(0, np.int64)
    while len(keys) < edges:
        source = random.integers(count, size=edges)
        likely = order[first[y[source]] + (random.random(edges) * np.diff(first)[y[source]]).astype(int)]
        target = np.where(random.random(edges) < within, likely, random.integers(count, size=edges))
        found = np.minimum(source, target) * count + np.maximum(source, target)
        keys = np.unique(np.concatenate([keys, found[source != target]]))
    keys = random.permutation(keys)[:edges]
    x = random.normal(size=(count, classes)).astype(np.float32)
    x[np.arange(count), y] += 1
    return {"edges": np.stack([keys // count, keys % count], 1), "x": x, "y": y, **masks(count, random)}


def with_targets(path: Path, target: str) -> dict[str, Any]:
    """A graph with a target of each node: whether its neighbours are joined more often than those of half of the nodes,
    or log(1 + triangles)."""
    arrays = np.load(path)
    count, edges = int(arrays["n"]), arrays["edges"].astype(np.int64)
    both = torch.from_numpy(np.concatenate([edges, edges[:, ::-1]])).t().contiguous()
    degree, corners = torch.bincount(both[1], minlength=count).double(), triangles(both, count).double()
    share = corners / (degree * (degree - 1) / 2).clamp(min=1)
    y = (share > share.median()).long() if target == "clustering" else corners.log1p().float()
    random = np.random.default_rng(0)
    x = np.concatenate([degree.log1p().numpy()[:, None], random.normal(size=(count, 8))], 1).astype(np.float32)
    return {"edges": edges, "x": x, "y": y.numpy(), **masks(count, random)}


def masks(count: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """60 / 20 / 20 % of the nodes."""
    part = random.random(count)
    return {"train_mask": part < 0.6, "val_mask": (part >= 0.6) & (part < 0.8), "test_mask": part >= 0.8}


def constant(arrays: dict[str, Any]) -> float:
    """Accuracy or mean absolute error of one answer for all nodes, the best on the training nodes."""
    known, test = arrays["y"][arrays["train_mask"]], arrays["y"][arrays["test_mask"]]
    if known.dtype.kind == "i":
        return float((test == np.bincount(known).argmax()).mean())
    return float(np.abs(test - np.median(known)).mean())
