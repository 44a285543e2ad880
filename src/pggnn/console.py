"""What the commands share: how one is added, and tables of text."""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

Command = Callable[[argparse.Namespace], None]


def add_command(
    commands: Any, name: str, function: Command | None, summary: str, examples: str, *parents: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """A subcommand that runs ``function``; its ``--help`` ends with the examples."""
    sub: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary, epilog="examples:\n" + examples, parents=parents,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    sub.set_defaults(function=function)
    return sub


def print_table(rows: Sequence[Sequence[str]], right: set[int]) -> None:
    """Prints rows of cells in columns two spaces apart; those numbered in ``right`` end at their right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            f"{cell:>{w}}" if i in right else f"{cell:{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


def fill(text: str, indent: int = 0) -> str:
    """The text in lines of 78 characters, of which all but the first are indented."""
    return textwrap.fill(text, 78, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
