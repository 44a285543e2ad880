"""``pggnn bench kernel``: the fused kernels on a GPU, part by part."""

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name

import torch

from pggnn.bench import record
from pggnn.bench.timing import ON_GPU, Figures, settings

PARTS = {
    "layer": "pggnn.bench.layer:layer",
    "step": "pggnn.bench.steps:counting",
    "epochs": "pggnn.bench.epochs:epochs",
    "collab": "pggnn.bench.steps:collab",
    "linear": "pggnn.bench.linear:linear",
}
"""In the order in which they run; see :data:`pggnn.bench.record.PARTS` for what they are."""


def kernel(only: Sequence[str] = (), path: Path | None = None) -> record.Record:
    """Runs the parts and prints their figures; writes them case by case, so that what was measured is kept."""
    if not ON_GPU:
        raise ValueError("pggnn bench kernel measures the GPU kernels, and PyTorch sees no GPU here")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch looks at it once, at the first product
    import triton

    machine = f"torch {torch.__version__}, Triton {triton.__version__}, {torch.cuda.get_device_name()}"
    print(machine, flush=True)
    return run({name: resolve_name(place) for name, place in PARTS.items() if name in (only or PARTS)}, machine, path)


def run(parts: dict[str, Callable[[], Figures]], machine: str, path: Path | None = None) -> record.Record:
    """Runs some parts; one that fails says so and leaves the others alone."""
    figures: record.Record = {}
    failed = []
    for part, measure in parts.items():
        begin = time.perf_counter()
        print(f"{part}: {record.PARTS[part]}", file=sys.stderr, flush=True)
        try:
            with settings():
                torch.manual_seed(0)
                for case, what, value in measure():
                    if path is not None and case not in figures.get(part, {}):
                        record.save(path, machine, figures)
                    figures.setdefault(part, {}).setdefault(case, {})[what] = value
                    print(record.line(part, case, what, value), flush=True)
        except Exception:  # whatever it is, minutes on a GPU should not be lost to it
            traceback.print_exc()
            failed.append(part)
        if path is not None:
            record.save(path, machine, figures)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{part}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    if failed:
        raise ValueError(f"{' and '.join(failed)} failed, see above; the figures of the other parts hold")
    return figures
