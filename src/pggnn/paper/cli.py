"""``pggnn reproduce``: the paper's figures from the command line."""

import argparse
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pggnn.console import add_command
from pggnn.paper import FIGURES, SUMMARIES


def add_commands(reproduce: argparse.ArgumentParser) -> None:
    """The subcommands of ``pggnn reproduce``, one for each figure."""
    commands: Any = reproduce.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in FIGURES:
        sub = add_command(
            commands, name, partial(draw_figure, name), SUMMARIES[name].capitalize() + ".",
            f"  pggnn reproduce {name}\n  pggnn reproduce {name} --out pictures --format png",
        )  # fmt: skip
        sub.add_argument("--out", type=Path, default=Path("paper"), metavar="DIR", help="folder (default: %(default)s)")
        sub.add_argument(
            "--format", choices=("svg", "png", "pdf"), default="svg", help="kind of file (default: %(default)s)"
        )


def draw_figure(name: str, args: argparse.Namespace) -> None:
    """Draws a figure and says where it is."""
    module, _, function = FIGURES[name].partition(":")
    print(getattr(import_module(module), function)(args.out / f"{name}.{args.format}"))
