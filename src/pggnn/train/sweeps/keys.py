"""The runs of a table, by row and column."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

Arguments = tuple[str, ...]
"""Command-line options of ``pggnn train``."""
RunKey = tuple[str, str]
"""Row and column of a run."""


def slug(name: str) -> str:
    """The folder name of a row."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def select_runs(table: str, keys: Iterable[RunKey], only: Sequence[str]) -> list[RunKey]:
    """The runs in the given rows and columns of a table.

    Args:
        table: Its name.
        keys: Row and column of each run.
        only: Names of rows, columns or both, in any case; ``*`` stands for anything. Where no row is named, all rows
            are meant, and likewise for columns.
    """
    kept = found = list(keys)
    patterns = [text.lower() for text in only]
    names = [dict.fromkeys(key[axis] for key in found) for axis in (0, 1)]
    for text in patterns:
        if not any(fnmatchcase(name.lower(), text) for axis in names for name in axis):
            rows, columns = (", ".join(map(repr, axis)) for axis in names)
            raise ValueError(f"{table} has no row or column {text!r}; its rows are {rows}; its columns are {columns}")
    for axis in (0, 1):
        chosen = {name for name in names[axis] if any(fnmatchcase(name.lower(), text) for text in patterns)}
        kept = [key for key in kept if not chosen or key[axis] in chosen]
    if not kept:
        raise ValueError(f"{table} has no figure for {' and '.join(only)}: not every model is run on every data set")
    return kept
