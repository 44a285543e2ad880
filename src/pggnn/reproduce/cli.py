"""``pggnn reproduce``: the paper's tables and figures from the command line."""

import argparse
from functools import partial
from importlib import import_module
from typing import Any

from pggnn.console import add_command, add_only, add_out, add_sweep, goes_on, loading, say, until
from pggnn.reproduce import FIGURES, SUMMARIES, TRAINED


def add_commands(reproduce: argparse.ArgumentParser) -> None:
    """The subcommands of ``pggnn reproduce``, one for each table and figure."""
    commands: Any = reproduce.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (model, kind, column) in TRAINED.items():
        sub = add_command(
            commands, name, partial(train_table, name), SUMMARIES[name] + ", ours beside the paper's.",
            f"  pggnn reproduce {name} --quick\n  pggnn reproduce {name} --only '{model} ({kind})' {column}\n"
            f"  pggnn reproduce {name} --only '{model}*' --seeds 0 2\n"
            f"  pggnn reproduce {name} --minutes 9 --jobs 20   # repeat until done\n\n"
            "Finished runs are not repeated, interrupted ones continue. Options of pggnn\n"
            f"train may follow, for all runs:\n  pggnn reproduce {name} --run.precision bf16",
        )  # fmt: skip
        sub.add_argument("--quick", action="store_true", help="a smaller experiment, for a look on two cores")
        sub.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="instead of the paper's")
        add_sweep(sub)
        add_out(sub, "runs/paper")
    sub = add_command(
        commands, "table1", measure_costs, SUMMARIES["table1"] + ", measured beside the paper's orders (a minute).",
        "  pggnn reproduce table1\n  OMP_NUM_THREADS=1 pggnn reproduce table1 --out alone    # on one core\n\n"
        "On a GPU where there is one.",
    )  # fmt: skip
    add_out(sub, "runs/paper")
    sub = add_command(
        commands, "search", search_options, SUMMARIES["search"] + ".",
        "  pggnn reproduce search --only zinc\n  pggnn reproduce search --only proteins --protocol.only [0,1,2]\n"
        "  pggnn reproduce search --minutes 9 --jobs 20   # repeat until done\n\n"
        "Test figures are not used. The best candidate of each data set is written as a\n"
        "config; put into configs/best/, it adds a row to Tables 2 to 4. Options of pggnn\n"
        "train may follow, for all runs.",
    )  # fmt: skip
    sub.add_argument("--seeds", type=int, nargs="+", metavar="SEED", default=[0], help="default: 0")
    add_sweep(sub)
    add_out(sub, "runs/paper")
    for name in ("table5", "table6"):
        sub = add_command(
            commands, name, partial(measure_table, name), SUMMARIES[name] + ", ours beside the paper's.",
            f"  pggnn reproduce {name}\n  pggnn reproduce {name} --only proteins",
        )  # fmt: skip
        add_only(sub)
        add_out(sub, "runs/paper")
    sub = add_command(
        commands, "table7", print_statistics, SUMMARIES["table7"] + ", ours beside the paper's.",
        "  pggnn reproduce table7    # the same as pggnn data stats --all",
    )  # fmt: skip
    sub.set_defaults(all=True, names=[], data_root=None)
    for name in FIGURES:
        sub = add_command(
            commands, name, partial(draw_figure, name), SUMMARIES[name] + ".",
            f"  pggnn reproduce {name}\n  pggnn reproduce {name} --out pictures --format png",
        )  # fmt: skip
        sub.add_argument(
            "--format", choices=("svg", "png", "pdf"), default="svg", help="kind of file (default: %(default)s)"
        )
        add_out(sub, "paper")
    sub = add_command(
        commands, "gallery", show_gallery, SUMMARIES["gallery"] + " (about a minute).",
        "  pggnn reproduce gallery\n  pggnn reproduce gallery --out pictures --format png",
    )  # fmt: skip
    sub.add_argument("--format", choices=("svg", "png"), default="svg", help="kind of files (default: %(default)s)")
    add_out(sub, "paper")


@goes_on()
def train_table(name: str, args: argparse.Namespace) -> None:
    """Trains what is missing of a table and prints it."""
    end = until(args)
    with loading():
        from pggnn.reproduce.results import reproduce
        from pggnn.train.sweeps.sweep import Sweep

    sweep = Sweep(args.only, args.jobs, tuple(args.options), until=end)
    shown, written = reproduce(name, args.out, sweep, args.quick, args.seeds)
    if not shown:
        say("No run has ended yet, so there is nothing to show.")
        return
    say(written.read_text(encoding="utf-8"))
    say(f"{written} and {written.with_suffix('.json').name}")
    say(f"Page: {written.with_suffix('.html')}")


@goes_on()
def search_options(args: argparse.Namespace) -> None:
    """Trains candidates, and prints them ranked."""
    end = until(args)
    with loading():
        from pggnn.reproduce.search import search
        from pggnn.train.sweeps.sweep import Sweep

    ranked, written = search(args.out, Sweep(args.only, args.jobs, tuple(args.options), until=end), args.seeds)
    if ranked:
        say(written.read_text(encoding="utf-8"))
        say(f"{written}, and the first of each as a config in {args.out / 'search' / 'best'}")
    else:
        say("No candidate has ended yet, so there is nothing to rank.")


def measure_costs(args: argparse.Namespace) -> None:
    """Measures what a layer costs."""
    with loading():
        from pggnn.reproduce.table1 import markdown, reproduce_costs

    say(markdown(reproduce_costs(args.out)))
    say(args.out / "table1.md")


def measure_table(name: str, args: argparse.Namespace) -> None:
    """Measures the memory that training takes."""
    with loading():
        from pggnn.reproduce.memory import reproduce_memory

    reproduce_memory(name, args.out, args.only)
    say(args.out / f"{name}.md")


def print_statistics(args: argparse.Namespace) -> None:
    """Prints Table 7."""
    from pggnn.data.cli import print_stats

    print_stats(args)


def draw_figure(name: str, args: argparse.Namespace) -> None:
    """Draws a figure and says where it is."""
    with loading():
        module = import_module(f"pggnn.reproduce.figures.{name}")
    say(module.draw(args.out / f"{name}.{args.format}"))


def show_gallery(args: argparse.Namespace) -> None:
    """Draws all figures and says where their page is."""
    with loading():
        from pggnn.reproduce.gallery import draw_gallery

    say(draw_gallery(args.out, args.format))
