"""``python -m benchmarks``: measures speed and memory, and puts what was measured into a page."""

import argparse
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import record

NOTES = """examples, from the root of the repository:
  python -m benchmarks cpu
  python -m benchmarks gpu --json benchmarks/kernel-h200.json
  python -m benchmarks table benchmarks/kernel-h200.json --into benchmarks/README.md
  python benchmarks/compare.py OLD_SRC NEW_SRC

Data sets are looked for in $PGGNN_DATA, else data; one that is missing is left out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; errors that a user can mend are one line on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure speed and memory on this machine.", epilog=NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for name, what in {"gpu": f"{', '.join(record.GPU)}, one after another.", **record.ALL}.items():
        sub = commands.add_parser(name, help=what, description=what)
        sub.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON, case by case")
        if name == "stream":
            sub.add_argument("--graphs", type=int, metavar="N", help="how many, if not ten million: 5 GB on the disk")
            sub.add_argument("--folder", metavar="DIR", help="where to write them for a while, if not in the system's")
    sub = commands.add_parser("table", help="Print the figures of a file as Markdown.")
    sub.add_argument("file", type=Path, metavar="FILE", help="what --json wrote")
    sub.add_argument("--into", type=Path, metavar="PAGE", help="put tables and pictures into this page instead")
    args = parser.parse_args(argv)
    try:
        if args.command == "table":
            from benchmarks.tables import insert, tables

            print(insert(args.file, args.into) if args.into else tables(args.file), end="")
        else:
            options = {name: value for name in ("graphs", "folder") if (value := getattr(args, name, None)) is not None}
            measure([*record.GPU] if args.command == "gpu" else [args.command], args.json, **options)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return 2
    return 0


def measure(names: list[str], path: Path | None, **options: Any) -> None:
    """Runs benchmarks by name; a single one may have options."""
    import torch

    machine = f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    if names[0] in record.GPU:
        if not torch.cuda.is_available():
            raise ValueError(f"{names[0]} is measured on a GPU, and PyTorch sees none here")
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch looks at it once, at the first product
        import triton

        machine = f"torch {torch.__version__}, Triton {triton.__version__}, {torch.cuda.get_device_name()}"
    print(machine, flush=True)
    parts = {name: getattr(import_module(f"benchmarks.{name}"), name) for name in names}
    run({name: partial(part, **options) for name, part in parts.items()}, machine, path)


def run(
    parts: dict[str, Callable[[], Iterable[tuple[str, str, float]]]], machine: str, path: Path | None = None
) -> record.Record:
    """Prints figures as they come and writes them case by case; a benchmark that fails leaves the others alone."""
    import torch

    from benchmarks.timing import settings

    figures: record.Record = {}
    failed = []
    for part, benchmark in parts.items():
        begin = time.perf_counter()
        print(f"{part}: {record.ALL[part]}", file=sys.stderr, flush=True)
        try:
            with settings():
                torch.manual_seed(0)
                for case, what, value in benchmark():
                    if path is not None and case not in figures.get(part, {}):
                        record.save(path, machine, figures)
                    figures.setdefault(part, {}).setdefault(case, {})[what] = value
                    print(record.line(part, case, what, value), flush=True)
        except Exception:  # no error of one part may lose minutes on a GPU
            traceback.print_exc()
            failed.append(part)
        if path is not None:
            record.save(path, machine, figures)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{part}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    if failed:
        raise ValueError(f"{' and '.join(failed)} failed, see above; the figures of the others hold")
    return figures


if __name__ == "__main__":
    sys.exit(main())
