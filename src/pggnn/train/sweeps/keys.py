"""Runs by row and column of a table: which of them to take, and what their folders are called."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

Options = tuple[str, ...]
Key = tuple[str, str]
"""Row and column of a cell."""


def slug(name: str) -> str:
    """A row's name as that of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def choose(name: str, cells: Iterable[Key], only: Sequence[str]) -> list[Key]:
    """The cells of a table in the given rows and columns.

    Args:
        name: The table.
        cells: Row and column of each.
        only: Names of rows, of columns or of both, in any case; ``*`` stands for anything. If none of them is a row,
            every row is meant, and likewise for columns.
    """
    found = list(cells)
    kept = found
    asked = [text.lower() for text in only]
    names = [dict.fromkeys(cell[axis] for cell in found) for axis in (0, 1)]
    for text in asked:
        if not any(fnmatchcase(one.lower(), text) for axis in names for one in axis):
            rows, columns = (", ".join(map(repr, axis)) for axis in names)
            raise ValueError(f"{name} has no row or column {text!r}; its rows are {rows}; its columns are {columns}")
    for axis in (0, 1):
        meant = {one for one in names[axis] if any(fnmatchcase(one.lower(), text) for text in asked)}
        kept = [cell for cell in kept if not meant or cell[axis] in meant]
    if not kept:
        raise ValueError(f"{name} has no figure for {' and '.join(only)}: not every model is run on every data set")
    return kept
