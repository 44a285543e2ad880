"""``pggnn report`` and ``pggnn pack``."""

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

from pggnn.console import loading, say


def report(args: argparse.Namespace) -> None:
    """Writes a page about runs."""
    with loading():
        from pggnn.report.page import write
        from pggnn.report.table import write_table
        from pggnn.train.runs.stored import find_runs

    out = args.out or (args.run[0] if len(args.run) == 1 else Path()) / "report.html"
    found = [find_runs(folder) for folder in args.run]
    folders = [folder for runs in found for folder in runs]
    write_page = write if all(runs == [folder] for runs, folder in zip(found, args.run, strict=True)) else write_table
    for sentence in write_page(folders, out, args.predictions):
        say(sentence)
    say(f"Page: {out}")


def pack(args: argparse.Namespace) -> None:
    """Packs runs into three files."""
    from pggnn.report.pack import pack as write
    from pggnn.train.packed import ANSWERS, CURVES, RUNS
    from pggnn.train.runs.stored import Run

    packed, lacks = write(args.source, args.out, args.unfinished, args.predictions)
    for sentence in lacks:
        say(sentence)
    size = sum((args.out / name).stat().st_size for name in (RUNS, CURVES, ANSWERS))
    trainings = sum(bool(records) for folder in packed for records in Run.read(folder).logs.values())
    say(f"{len(packed)} run{'s' * (len(packed) > 1)} with {trainings} trainings: {args.out}, {size / 1e6:.2f} MB")
    say(f"A page about {'them' if len(packed) > 1 else 'it'}: pggnn report {shlex.quote(str(args.out))}")


def add_commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds the subcommands."""
    sub = command(
        "report", report,
        "Make one HTML page about runs, finished or not: figures beside the paper's, learning curves, answers, config.",
        "  pggnn report runs/mutag-pggnn\n  pggnn report runs/er-pggnn runs/er-gin --out counting.html\n"
        "  pggnn report results/table2    # all runs below, as one table",
    )  # fmt: skip
    sub.add_argument("run", type=Path, nargs="+", metavar="RUN", help="folder of a run, or one with many runs below it")
    sub.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: RUN/report.html; report.html for several RUNs)"
    )
    _add_predictions(sub, "RUN")
    sub = command(
        "pack", pack,
        "Pack runs into runs.jsonl, curves.parquet and answers.parquet, to be published: config, figures, logs and "
        "some answers, but no weights and no paths of this machine. pggnn report and pggnn reproduce read them without "
        "a GPU and without the data.",
        "  pggnn pack runs/paper/table2/full results/table2    # all runs below\n"
        "  pggnn pack runs/mutag-pggnn results/mutag\n  pggnn report results/table2",
    )  # fmt: skip
    sub.add_argument("source", type=Path, metavar="FROM", help="folder of a run, or one with many runs below it")
    sub.add_argument(
        "out",
        type=Path,
        metavar="TO",
        help="folder of the files; runs that they have already are replaced, others stay",
    )
    sub.add_argument("--unfinished", action="store_true", help="also take runs that have not ended, as they are")
    _add_predictions(sub, "FROM")


def _add_predictions(sub: argparse.ArgumentParser, folder: str) -> None:
    sub.add_argument(
        "--no-predictions", dest="predictions", action="store_false",
        help="do not compute answers for the test graphs, which takes long on large ones; those that a report has left "
        f"in {folder}/predictions.npz are shown all the same",
    )  # fmt: skip
