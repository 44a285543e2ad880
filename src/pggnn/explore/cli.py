"""``pggnn explore``."""

import argparse
from collections.abc import Callable
from pathlib import Path

from pggnn.console import loading, say


def explore(args: argparse.Namespace) -> None:
    """Writes the page, with a run if one is given."""
    run = None
    if args.run is not None:
        with loading():
            from pggnn.explore.answers import collect
        run = collect(args.run)
    from pggnn.explore.page import write

    write(args.out, run)
    say(f"Page: {args.out}")
    if args.open:
        import webbrowser

        if not webbrowser.open(args.out.resolve().as_uri()):
            say("There is no browser to open it here.")


def add_commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds the subcommand."""
    sub = command(
        "explore", explore,
        "Make one HTML page to play with: the arrangements, the linear sum, what a node of a graph reads; and, of a "
        "run, its graphs, answers and errors. The file needs no server and no network.",
        "  pggnn explore --open\n  pggnn explore runs/mine --out mine.html",
    )  # fmt: skip
    sub.add_argument("run", type=Path, nargs="?", metavar="RUN", help="folder of a run, whose answers are shown too")
    sub.add_argument("--out", type=Path, default=Path("explore.html"), metavar="FILE", help="the page")
    sub.add_argument("--open", action="store_true", help="open the page in a browser")
