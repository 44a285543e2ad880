"""What the commands share: how one is added, options of those that train for long, and tables of text."""

import argparse
import math
import os
import re
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Command = Callable[[argparse.Namespace], None]
Item = TypeVar("Item")
NO_MEMORY = (
    "the GPU has too little memory for this beside what others take of it; CUDA_VISIBLE_DEVICES= before the command "
    "leaves it to the CPU"
)
FULL = (
    "CUDA out of memory", "CUDA error: out of memory", "[CUDA]: out of memory", "STATUS_ALLOC_FAILED",
    "device(s) is/are busy or unavailable",
)  # fmt: skip
"""Error messages of a GPU that has too little memory for tensors, the process, Triton's kernels or cuBLAS, or
whose server (MPS) takes no further process."""
PATIENCE = 1.5
"""Seconds that may pass without a word."""

_CONTROL = re.compile("[\0-\t\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a terminal's cursor, changes its colours or the direction of writing, or cannot be encoded; not the end of
a line."""


def visible(text: object) -> str:
    """A text that may hold names from files, with escapes such as ``\\x1b`` for control characters."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def say(text: object, file: TextIO | None = None, filled: bool = False) -> None:
    """Prints a text, made :func:`visible`; on a terminal in lines of whole words if ``filled``."""
    file, shown = file or sys.stdout, visible(text)
    print(fill(shown) if filled and file.isatty() else shown, file=file, flush=True)


def tell(console: "Console", text: str) -> None:
    """The same beside progress bars, on a terminal in lines of whole words; brackets in it are no markup."""
    console.print(visible(text), soft_wrap=not console.is_terminal, highlight=False, markup=False)


def is_live(console: "Console") -> bool:
    """Whether it shows bars: a terminal, or a notebook with ipywidgets; others get lines."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


LINES = 30.0
"""Seconds between lines of progress where there is no terminal."""


def duration(seconds: float) -> str:
    """A time with two or three digits."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}" if seconds < 10 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


class Incomplete(Exception):
    """The command has finished, but not all results are good: exit code 1."""


RAM_FULL = "DefaultCPUAllocator: "
"""What PyTorch says where the system refuses memory."""


def is_gpu_full(said: str) -> bool:
    """Whether an error says so, of PyTorch or Triton: neither need be imported here."""
    return any(text in said for text in FULL)


@contextmanager
def loading() -> Iterator[None]:
    """Says what it is that takes seconds, and the first time half a minute: importing PyTorch and PyG. On a terminal
    while it lasts, elsewhere in a line once it has lasted for :data:`PATIENCE`."""
    said, shown = "Loading PyTorch …", sys.stderr.isatty()
    later = threading.Timer(PATIENCE, say, (said, sys.stderr))
    later.daemon = True
    if shown:
        print(said, end="", file=sys.stderr, flush=True)
    else:
        later.start()
    try:
        yield
    finally:
        later.cancel()
        print(f"\r{' ' * len(said)}\r" if shown else "", end="", file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """Names the nearest command, or value of an option, where one is wrong; so do the parsers of its commands."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        near = get_close_matches(str(value), [*map(str, action.choices or ())], 1, 0.5)
        if action.choices is not None and value not in action.choices and near:
            raise argparse.ArgumentError(action, visible(f"there is no {value!r}; did you mean {near[0]}?"))
        super()._check_value(action, value)


class _CommandFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the examples, and adds the defaults of options to what is said of them."""

    def _get_help_string(self, action: argparse.Action) -> str:
        said, takes_value = action.help or "", action.option_strings and action.nargs != 0
        unsaid = takes_value and "default" not in said and isinstance(action.default, int | float | str | Path)
        return f"{said} (default: %(default)s)" if unsaid else said

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(text, width, indent) if text.startswith("examples:") else textwrap.fill(text, width)


def add_command(
    commands: Any, name: str, function: Command | None, summary: str, examples: str, *parents: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """A subcommand that runs ``function``; its ``--help`` ends with the examples."""
    sub: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary, epilog="examples:\n" + examples, parents=parents,
        formatter_class=_CommandFormatter,
    )  # fmt: skip
    sub.set_defaults(function=function)
    return sub


ROWS_AND_COLUMNS = (
    "only these rows and columns, by their names in the table; * stands for anything. Rows alone mean all columns, "
    "columns alone all rows"
)


def add_sweep(sub: argparse.ArgumentParser, only: str = ROWS_AND_COLUMNS) -> None:
    """What sweeps of trainings have in common; options of ``pggnn train`` may follow theirs."""
    add_only(sub, only)
    sub.add_argument("--minutes", type=float, help="stop in time, after a whole epoch; the same command continues")
    sub.add_argument(
        "--jobs",
        type=int,
        default=0,
        help="trainings at once (default: one per core; with --run.on ray as many as the cluster has room for)",
    )
    sub.set_defaults(takes_options=True)


def until(args: argparse.Namespace) -> float:
    """When to stop; asked before anything is imported, which takes seconds too."""
    if args.minutes is None:
        return math.inf
    if not args.minutes > 0:
        raise ValueError(f"--minutes must be a number greater than 0, got {args.minutes:g}")
    return time.time() + 60 * args.minutes


@contextmanager
def terminable() -> Iterator[list[int]]:
    """SIGTERM does what Control-C does; gives a list that it is then in. Where ``torchrun`` has started this process,
    which may wait for others that have ended, and outside of the main thread all stays as it is."""
    received: list[int] = []
    here = os.getpid()

    def interrupt(number: int, _: object) -> None:
        if os.getpid() != here:  # a process that was forked from this one ends as by default
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        raise KeyboardInterrupt

    if "TORCHELASTIC_RUN_ID" in os.environ or threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = signal.getsignal(signal.SIGTERM)
    if before == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        if before == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def goes_on() -> Iterator[None]:
    """Control-C, or SIGTERM, says how to go on with a sweep."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what has ended is kept; the same command goes on from the last whole epochs") from None


def add_only(sub: argparse.ArgumentParser, said: str = ROWS_AND_COLUMNS) -> None:
    """The rows and columns of a table."""
    sub.add_argument("--only", nargs="+", action="extend", default=[], metavar="NAME", help=said)


def add_data_root(sub: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Where the data sets are."""
    sub.add_argument(
        "--data-root", type=Path, metavar="DIR", help="folder of the data (default: $PGGNN_DATA, else data)"
    )


def add_out(sub: argparse.ArgumentParser, default: str) -> None:
    """The folder of the results."""
    sub.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help="folder (default: %(default)s)")


def print_table(rows: Sequence[Sequence[str]], right: set[int]) -> None:
    """Prints rows of cells in columns two spaces apart; those numbered in ``right`` end at their right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            f"{cell:>{w}}" if i in right else f"{cell:{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


def fill(text: str, indent: int = 0) -> str:
    """The text in lines of 78 characters, all but the first indented."""
    return textwrap.fill(text, 78, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def tracked(
    items: Iterable[Item],
    said: str,
    total: float,
    work: Callable[[Item], float] | None = None,
    after: float = 0,
    console: "Console | None" = None,
) -> Iterator[Item]:
    """The items, with a bar on a terminal until they are done, and elsewhere a line every half minute; without rich
    alone.

    Args:
        items: What takes a while, one by one.
        said: What is done.
        total: The work of all items.
        work: That of one; 1 by default.
        after: Seconds that pass in silence.
        console: Where to show it; standard error by default.
    """
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        yield from items
        return
    console = console or Console(stderr=True)
    progress = Progress(console=console, transient=True)
    begin = time.monotonic()
    bar, done, due = progress.add_task(said, total=total), 0.0, begin + after
    with ExitStack() as shown:
        for item in items:
            if time.monotonic() >= due:
                due = time.monotonic() + LINES
                if not is_live(console):
                    part = f"{done:,.0f} of {total:,.0f}" if work is None else f"{done / max(total, 1):.0%}"
                    left = f", about {duration((due - LINES - begin) * (total / done - 1))} to go" if done else ""
                    tell(console, f"{said}: {part}{left}")
                elif not progress.live.is_started:
                    shown.enter_context(progress)
            yield item
            done += 1 if work is None else work(item)
            progress.update(bar, completed=done)
