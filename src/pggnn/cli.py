"""The command ``pggnn``. Each subcommand imports what it needs only when it runs."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from pggnn.console import (
    NO_MEMORY,
    RAM_FULL,
    Incomplete,
    Parser,
    add_command,
    is_gpu_full,
    loading,
    say,
    terminable,
    visible,
)

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Control-C and after SIGTERM, as shells have them."""
MOST_ARRANGEMENTS = 24
MOST_NEIGHBOURS = 1000
EXTRAS = {"igraph": "lab", "skimage": "lab", "rdkit": "molecules", "ray": "ray"}
"""What has to be installed for a module; train for all others."""
FOLDERS = {
    "data": (
        "The data sets of the paper, and graphs of your own.",
        "  pggnn data list\n  pggnn data stats PROTEINS ZINC --data-root DIR\n  pggnn data check graphs.jsonl",
    ),
    "lab": (
        "The paper's claims as programs: what can tell two graphs apart, what sampling costs.",
        "  pggnn lab wl rook shrikhande\n  pggnn lab ladder\n  pggnn lab theorems",
    ),
    "reproduce": (
        "The paper's tables, trained and measured, and its figures, drawn from the code.",
        "  pggnn reproduce table2 --quick\n  pggnn reproduce figure9 --out pictures --format png",
    ),
}
"""Commands that have subcommands of their own, each with a summary and examples."""


def demo(args: argparse.Namespace) -> None:
    """Trains PG-GNN and GIN on generated graphs."""
    with loading():
        from pggnn.reproduce.demo import run
    run(args.out, args.epochs, args.graphs, args.seed)


def groups(args: argparse.Namespace) -> None:
    """Prints σ, the group and its arrangements; draws them on request."""
    from pggnn.groups import coverage, group

    n = args.n
    if n > MOST_NEIGHBOURS:
        raise ValueError(f"groups of up to {MOST_NEIGHBOURS} neighbours can be listed, got {n}")
    g = group(n)
    width = len(str(n))
    top, bottom = (" ".join(f"{i + 1:{width}}" for i in row) for row in (range(n), g.generator.images))
    if n > 0:
        print(f"σ = ( {top} )\n    ( {bottom} )\n  = {g.generator!r}\n")
    print(f"𝔊 = ⟨σ⟩ ≅ Z_{g.order}, {g.order} arrangement{'s' * (g.order > 1)} of {n} neighbour{'s' * (n != 1)}\n")
    shown = g.order if args.all else min(g.order, MOST_ARRANGEMENTS)
    seen: set[frozenset[int]] = set()
    if n > 0:
        print(f"{'':>6}  arrangement{'':{max(n * (width + 1) - 11, 1)}} new pairs")
    for k, arrangement in enumerate(g.arrangements[:shown]):
        before = len(seen)
        seen |= {frozenset(pair) for pair in coverage([arrangement])}
        name = {0: "e", 1: "σ"}.get(k, f"σ^{k}")
        row = " ".join(f"{i + 1:{width}}" for i in arrangement)
        if n > 0:
            print(f"{name:>6}  {row:{max(n * (width + 1), 12)}} {len(seen) - before:>4}")
    if shown < g.order:
        print(f"        … {g.order - shown} more (--all prints them)")
    counts = coverage(g.arrangements)
    if n > 1:
        first = {frozenset(pair) for pair in coverage(g.arrangements[: n // 2])}
        often = " or ".join({1: "once", 2: "twice"}[times] for times in sorted(set(counts.values())))
        covering = f"first {n // 2} arrangements cover" if n > 3 else "first arrangement covers"
        print(f"\nThe {covering} {len(first)} of {n * (n - 1) // 2} pair{'s' * (n > 2)} of neighbours;")
        print(f"the group covers {len(counts)} of {n * (n - 1)} ordered pairs, each {often}.")
    if args.figure is not None:
        from pggnn.report.figures import draw_group

        say(f"\nFigure: {draw_group(n, args.figure)}")
    if args.animation is not None:
        from pggnn.report.animation import animate_pairs

        say(f"\nMoving picture: {animate_pairs(n, args.animation)}")


def parser() -> argparse.ArgumentParser:
    """The command line with all its subcommands."""
    from pggnn import __version__

    root = Parser(prog="pggnn", description="PG-GNN: graph neural networks that see which neighbours know each other.")
    root.add_argument("--version", action="version", version=f"pggnn {__version__}")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = partial(add_command, commands)
    sub = command(
        "demo", demo, "Train PG-GNN and GIN to count triangles in random graphs, about three minutes on two cores.",
        "  pggnn demo\n  pggnn demo --epochs 20 --out /tmp/demo",
    )  # fmt: skip
    sub.add_argument("--epochs", type=int, default=100, help="passes over the training graphs (default: %(default)s)")
    sub.add_argument("--graphs", type=int, default=1000, help="training graphs (default: %(default)s)")
    sub.add_argument("--seed", type=int, default=0, help="seed of graphs and weights (default: %(default)s)")
    sub.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture (default: %(default)s)")

    sub = command(
        "groups", groups, "Show the permutation σ, the group it generates, and the pairs its arrangements cover.",
        "  pggnn groups 7\n  pggnn groups 8 --figure group8.svg\n  pggnn groups 7 --animation pairs.svg",
    )  # fmt: skip
    sub.add_argument("n", type=int, help=f"number of neighbours, 0 to {MOST_NEIGHBOURS}")
    sub.add_argument(
        "--all", action="store_true", help=f"print every arrangement, not only the first {MOST_ARRANGEMENTS}"
    )
    sub.add_argument("--figure", type=Path, metavar="FILE", help="also draw them, to .svg, .png or .pdf")
    sub.add_argument("--animation", type=Path, metavar="FILE", help="also draw them one after another, to .svg")

    for module in ("train", "report", "explore"):
        import_module(f"pggnn.{module}.cli").add_commands(command)
    for module, (summary, examples) in FOLDERS.items():
        import_module(f"pggnn.{module}.cli").add_commands(command(module, None, summary, examples))
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; errors that a user can correct are one line on standard error."""
    with terminable() as terminated:
        code = run(sys.argv[1:] if argv is None else argv)
    return TERMINATED if code == INTERRUPTED and terminated else code


def run(argv: Sequence[str]) -> int:
    """:func:`main`, but for signals; returns the exit code."""
    try:
        if argv[:1] == ["train"]:
            from pggnn.train.cli import train

            train(argv[1:])
        else:
            made = parser()
            args, options = made.parse_known_args(argv)
            if options and not getattr(args, "takes_options", False):
                made.error(visible(f"unrecognized arguments: {' '.join(options)}"))
            args.options = options
            args.function(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, as in ``pggnn … | head``, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # takes what is flushed on leaving
        return 141
    except (ValueError, OSError) as error:
        system = isinstance(error, OSError) and (error.filename, error.strerror)
        said = "{}: {}".format(*system) if system and all(system) else error
        say(f"pggnn: error: {said}", sys.stderr)
        return 2
    except Incomplete as error:
        say(f"pggnn: error: {error}", sys.stderr)
        return 1
    except (RuntimeError, MemoryError) as error:
        refused = isinstance(error, MemoryError) or RAM_FULL in str(error)
        if not refused and not is_gpu_full(str(error)):
            raise
        said = "there is too little memory for this: choose smaller options" if refused else NO_MEMORY
        say(f"pggnn: error: {said}", sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "", "train")
        say(f"pggnn: error: {error.name} is missing; install it with: pip install 'pggnn[{extra}]'", sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        say(": ".join(["pggnn: interrupted", *map(str, interrupt.args)]), sys.stderr)
        return INTERRUPTED
    return 0
