"""``pggnn report``."""

import argparse
from collections.abc import Callable
from pathlib import Path


def report(args: argparse.Namespace) -> None:
    """Writes a page about runs."""
    from pggnn.report.page import write

    out = args.out or (args.run[0] if len(args.run) == 1 else Path()) / "report.html"
    for sentence in write(args.run, out, args.predictions):
        print(sentence)
    print(f"Page: {out}")


def add_command(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds the subcommand."""
    sub = command(
        "report", report,
        "Make one HTML page about runs, finished or not: figures beside the paper's, learning curves, answers, config.",
        "  pggnn report runs/mutag-pggnn\n  pggnn report runs/er-pggnn runs/er-gin --out counting.html",
    )  # fmt: skip
    sub.add_argument("run", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    sub.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: RUN/report.html; report.html for several runs)"
    )
    sub.add_argument(
        "--no-predictions", dest="predictions", action="store_false",
        help="do not have the networks answer for the test graphs, which takes long on large ones; answers that a "
        "report has left in RUN/predictions.npz are shown all the same",
    )  # fmt: skip
