"""``pggnn lab transfer`` and ``sensitivity``: how networks that learnt to count do elsewhere than in training."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from pggnn.console import add_command, add_out, loading, print_table, say

if TYPE_CHECKING:
    from pggnn.lab import sensitivity, transfer


def add_commands(commands: Any) -> None:
    """Adds both to the subcommands of ``pggnn lab``."""
    sub = add_command(
        commands, "transfer", show_transfer, "Learn to count on graphs of 10 nodes, and test on graphs of up to 30.",
        "  pggnn lab transfer --quick            # less than a minute\n"
        "  pggnn lab transfer --seeds 0 1 2 --out transfer\n"
        "  pggnn lab transfer --clustered        # where 4-cliques are common\n\n"
        "Networks of equal width learn the triangles or 4-cliques at each node of random\n"
        "graphs, from constant features with structural bits, or from rows of the\n"
        "adjacency matrix without. Logs, weights and a table in JSON are kept in --out.",
    )  # fmt: skip
    sub.add_argument(
        "--clustered", action="store_true",
        help="4-cliques, trained with p = 0.5, tested on geometric graphs and caves of the same mean degree",
    )  # fmt: skip
    sub.add_argument(
        "--seeds", type=int, nargs="+", default=[0], metavar="SEED",
        help="seeds of graphs and weights; figures of several are mean ± standard deviation (default: 0)",
    )  # fmt: skip
    _add_work(sub, "runs/transfer")
    sub = add_command(
        commands, "sensitivity", show_sensitivity,
        "Measure how answers change when neighbours are renumbered or nodes relabelled.",
        "  pggnn lab sensitivity --quick         # about a minute\n"
        "  pggnn lab sensitivity --task cliques --numberings 100\n"
        "  pggnn lab sensitivity runs/er_triangles runs/er_cliques --graphs 200\n\n"
        "Without RUN, networks are trained to count on Erdős–Rényi graphs of 10 nodes, in\n"
        "the given numbering of neighbours and in fresh ones, and measured beside\n"
        "untrained ones. With RUN, the trained networks of these folders are measured on\n"
        "their own test graphs. The last column is what averaging answers over all\n"
        "changes gives.",
    )  # fmt: skip
    sub.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folder of a run of pggnn train")
    sub.add_argument("--task", choices=("triangles", "cliques"), default="triangles", help="what to count")
    sub.add_argument("--numberings", type=int, default=32, metavar="M", help="random changes of each kind")
    sub.add_argument("--graphs", type=int, default=500, metavar="G", help="most test graphs of a RUN")
    sub.add_argument("--seed", type=int, default=0, help="seed of graphs and weights")
    _add_work(sub, "runs/sensitivity")


def show_transfer(args: argparse.Namespace) -> None:
    """Prints what networks trained on small graphs make of larger ones; progress goes to standard error."""
    from rich.console import Console

    with loading():
        from pggnn.lab.transfer import BUDGETS, DENSE, NODES, PROBABILITY, QUICK, run
        from pggnn.train.runs.progress import Bars

    experiment = "clustered" if args.clustered else "sparse"
    budget = QUICK if args.quick else BUDGETS[experiment]
    with Bars(Console(stderr=True), "MAE") as bars:
        found = [row for seed in args.seeds for row in run(budget, seed, args.out, bars.add, experiment)]
    _keep(found, args.out / f"{experiment}.json")
    print_table(transfer_table(found), right={2, 3, 5, 6, 7, 8})
    p, several = DENSE if args.clustered else PROBABILITY, len(args.seeds) > 1
    say(
        f"\nTrained on {budget.graphs:,} graphs of {NODES} nodes (p = {p}), tested on {budget.tests} of each kind; "
        f"seed{'s' * several} {', '.join(map(str, args.seeds))}.\n"
        "Mean count is what answering 0 everywhere would have as its MAE."
    )


def transfer_table(found: Sequence["transfer.TransferResult"]) -> list[Sequence[str]]:
    """A line for each network and kind of test graphs, over all seeds."""
    rows: list[Sequence[str]] = [
        ("task", "features", "structure", "numberings", "test graphs", "MAE", "where > 0", "mean count", "largest")
    ]
    kind_of = attrgetter("task", "features", "structure", "numberings", "tested_on")
    for kind in dict.fromkeys(map(kind_of, found)):
        here = [row for row in found if kind_of(row) == kind]
        figures = (_spread([getattr(row, name) for row in here]) for name in ("error", "error_where"))
        mean, largest = fmean(row.mean for row in here), max(row.largest for row in here)
        rows.append((*map(str, kind), *figures, f"{mean:.4f}", str(largest)))
    return rows


def show_sensitivity(args: argparse.Namespace) -> None:
    """Prints how answers change; progress goes to standard error."""
    from rich.console import Console

    with loading():
        from pggnn.lab.sensitivity import FULL, QUICK, run, run_folder
        from pggnn.train.runs.progress import Bars

    if args.numberings < 1 or args.graphs < 1:
        raise ValueError(f"--numberings and --graphs must be at least 1, got {args.numberings} and {args.graphs}")
    if args.runs:
        found = [row for folder in args.runs for row in run_folder(folder, args.graphs, args.numberings)]
        about = f"on at most {args.graphs} test graphs of each run; means over its seeds and folds"
    else:
        budget = QUICK if args.quick else FULL
        with Bars(Console(stderr=True), "MAE") as bars:
            callback = lambda name: bars.add(name, budget.epochs)  # noqa: E731
            found = list(run(budget, args.task, args.seed, args.numberings, args.out, callback))
        _keep(found, args.out / "table.json")
        about = f"counting {args.task} on {budget.tests} test graphs of 10 nodes; seed {args.seed}"
    print_table(sensitivity_table(found, args.numberings), right={3, 4, 5, 6, 7, 8})
    say(
        f"\n{args.numberings} random changes of each kind, {about}.\n"
        "Neighbours: each node's are renumbered. Nodes: those of each graph are relabelled, and with them rows of the\n"
        "adjacency matrix as features. Spread: standard deviation of the answers, to compare changes with."
    )


def sensitivity_table(found: Sequence["sensitivity.Sensitivity"], numberings: int) -> list[Sequence[str]]:
    """A line for each network and kind of change."""
    metric = found[0].metric if len({row.metric for row in found}) == 1 else "metric"
    rows: list[Sequence[str]] = [
        ("network", "training", "changed", metric, "after", "mean change", "largest", "spread",
         f"mean of {numberings}")
    ]  # fmt: skip
    for row in found:
        figures = (row.before, row.after, row.mean, row.largest, row.spread, row.averaged)
        rows.append((row.network, row.trained, row.changed, *(f"{value:.4f}" for value in figures)))
    return rows


def _add_work(sub: argparse.ArgumentParser, out: str) -> None:
    sub.add_argument("--quick", action="store_true", help="smaller networks, fewer graphs and epochs")
    add_out(sub, out)


def _keep(found: Sequence[Any], path: Path) -> None:
    from pggnn.files import write_json

    write_json(path, [asdict(row) for row in found], 1)


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.4f}" + (f" ± {pstdev(values):.4f}" if len(values) > 1 else "")
