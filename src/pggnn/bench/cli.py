"""``pggnn bench``: benchmarks from the command line, and tables and pictures of what was measured on a GPU."""

import argparse
from functools import partial
from pathlib import Path

from pggnn.bench.record import PARTS
from pggnn.console import add_command

KERNEL = """  pggnn bench kernel
  pggnn bench kernel --only layer --only linear
  PGGNN_DATA=DIR pggnn bench kernel --json kernel.json
  pggnn bench table kernel.json && pggnn bench plot kernel.json

parts, which run in this order, minutes in all; where a data set is missing or a
part fails, the rest is measured and kept:
""" + "\n".join(f"  {name:7} {what}" for name, what in PARTS.items())
OTHERS = {
    "layer": "Time training steps of small graphs on the CPU, and the forward rate.",
    "star": "Measure a hub of 2,000 neighbours on the CPU: time, and peak memory.",
    "data": "Time loading data sets into batches with plans.",
    "train": "Measure what the training engine adds to a bare PyTorch loop.",
}


def add_commands(bench: argparse.ArgumentParser) -> None:
    """The subcommands of ``pggnn bench``."""
    commands = bench.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = partial(add_command, commands)
    for name, summary in OTHERS.items():
        sub = command(name, measure, summary, f"  pggnn bench {name}\n  pggnn bench {name} --json {name}.json")
        sub.set_defaults(what=name)
        sub.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    sub = command("kernel", kernel, "Measure the fused kernels on a GPU, beside cuDNN and PyG's GIN.", KERNEL)
    sub.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON, case by case")
    sub.add_argument(
        "--only", action="append", choices=PARTS, default=[], metavar="PART", help="run this part only; may be repeated"
    )
    sub = command(
        "table", table, "Print the figures of pggnn bench kernel as Markdown.",
        "  pggnn bench table benchmarks/kernel-h200.json\n"
        "  pggnn bench table benchmarks/kernel-h200.json --into benchmarks/README.md",
    )  # fmt: skip
    sub.add_argument("file", type=Path, metavar="FILE", help="what pggnn bench kernel --json wrote")
    sub.add_argument("--into", type=Path, metavar="PAGE", help="put the tables between the marks in this page instead")
    sub = command(
        "plot", plot, "Draw the figures of pggnn bench kernel: time against work, and the roofline.",
        "  pggnn bench plot benchmarks/kernel-h200.json\n  pggnn bench plot kernel.json --out pictures --format png",
    )  # fmt: skip
    sub.add_argument("file", type=Path, metavar="FILE", help="what pggnn bench kernel --json wrote")
    sub.add_argument("--out", type=Path, metavar="DIR", help="folder of the pictures (default: that of FILE)")
    sub.add_argument("--format", choices=("svg", "png", "pdf"), default="svg", help="(default: %(default)s)")


def measure(args: argparse.Namespace) -> None:
    """Times and measures."""
    from pggnn.bench.run import run

    run(args.what, args.json)


def kernel(args: argparse.Namespace) -> None:
    """Measures on a GPU."""
    from pggnn.bench.kernel import kernel

    kernel(args.only, args.json)


def table(args: argparse.Namespace) -> None:
    """Prints tables, or puts them into a page."""
    from pggnn.bench.tables import insert, tables

    if args.into is None:
        print(tables(args.file), end="")
    else:
        insert(args.file, args.into)
        print(f"Tables: {args.into}")


def plot(args: argparse.Namespace) -> None:
    """Draws pictures."""
    from pggnn.bench.plots import draw

    for path in draw(args.file, args.out or args.file.parent, args.format):
        print(f"Figure: {path}")
