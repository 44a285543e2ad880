"""Many runs as one table: models in rows, data sets in columns, as the paper has them where it does."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pggnn.data.catalogue import lookup
from pggnn.paper.expected import Figure, results
from pggnn.paper.tables import TABLES, cells, run_of
from pggnn.train.config import difference
from pggnn.train.runs.folder import CIRCUMSTANCES
from pggnn.train.runs.stored import Run
from pggnn.train.sweeps.keys import slug


@dataclass(frozen=True)
class Column:
    """Runs on the same data."""

    label: str
    run: Run
    """One of them: all have its metric."""

    @cached_property
    def published(self) -> tuple[str, dict[str, Figure]]:
        """Where the paper has figures on this data, and those of each model."""
        return results(self.run.data, self.run.counted)


@dataclass(frozen=True)
class Grid:
    """The runs by row and column."""

    name: str
    """Of the table in :data:`~pggnn.paper.tables.TABLES` whose rows and columns these are; else empty."""
    columns: list[Column]
    rows: dict[str, dict[str, Run]]
    """Runs by the names of rows and by those of columns."""

    @property
    def runs(self) -> list[tuple[str, str, Run]]:
        """Row, column and run of each."""
        return [(row, label, run) for row, cells in self.rows.items() for label, run in cells.items()]

    def model(self, row: str) -> str | None:
        """The model of the paper that a row is compared with, if there is one."""
        known = _known(row, self.name)
        return TABLES[self.name].rows[known].published if known else next(iter(self.rows[row].values())).model

    @cached_property
    def departures(self) -> dict[str, list[str]]:
        """By row, the options in which its runs are not those of the table, as ``optim.epochs: 8, not 800``, and the
        columns if it is not all."""
        there, here = set(cells(self.name) if self.name else ()), Path()
        found: dict[str, list[str]] = {}
        for row, ours in self.rows.items():
            where: dict[str, list[str]] = {}
            keys = [(_known(row, self.name), label) for label in ours]
            planned = {key[1]: run_of(self.name, here, key) for key in keys if key in there}
            for label, plan in planned.items():
                for text in difference(ours[label].config, plan, CIRCUMSTANCES):
                    where.setdefault(text, []).append(label)
            every = len(planned)
            found[row] = [
                text if len(labels) == every else f"{text} ({', '.join(labels)})" for text, labels in where.items()
            ]
        return found


def arrange(found: Sequence[Run]) -> Grid:
    """The runs as a table; rows are called as in the paper's tables where their folders are, else by their folders."""
    name = max(TABLES, key=lambda table: sum(_is_in(table, run) for run in found))
    if not any(_is_in(name, run) for run in found):
        name = ""
    titles = {slug(row): row for row in TABLES[name].rows} if name else {}
    root = Path(os.path.commonpath([run.folder.resolve().parent.parent for run in found]))
    columns: dict[str, Column] = {}
    rows: dict[str, dict[str, Run]] = {}
    places = [_place(run.folder.resolve().relative_to(root).parts, name) for run in found]
    heads = [_column(run, name) for run in found]
    cells = {(folder, column.label) for (folder, _), column in zip(places, heads, strict=True)}
    apart = len({before for _, before in places}) > 1 and not (name and len(cells) == len(found))
    for run, column, (folder, before) in zip(found, heads, places, strict=True):
        leaf = run.folder.name
        row = ", ".join([titles.get(folder, folder), *(before if apart else ())])
        while column.label in rows.get(row, {}):
            row = f"{row}, {leaf}" if leaf not in row else f"{row}′"
        columns.setdefault(column.label, column)
        rows.setdefault(row, {})[column.label] = run
    if name:
        order = [*TABLES[name].columns, *columns], [*TABLES[name].rows, ""]
        columns = {label: columns[label] for label in sorted(columns, key=lambda one: order[0].index(one))}
        rows = {row: rows[row] for row in sorted(rows, key=lambda one: order[1].index(_known(one, name)))}
    rows = {row: {label: runs[label] for label in columns if label in runs} for row, runs in rows.items()}
    return Grid(name, list(columns.values()), rows)


def _known(row: str, table: str) -> str:
    """The row of that table that a row here is, or is another version of; else empty."""
    found = [known for known in TABLES[table].rows if f"{row}, ".startswith(f"{known}, ")] if table else []
    return max(found, key=len, default="")


def _is_in(table: str, run: Run) -> bool:
    path, known = run.folder.resolve(), TABLES[table]
    return path.parent.name in map(slug, known.rows) and path.name in known.columns.values()


def _place(parts: tuple[str, ...], table: str) -> tuple[str, tuple[str, ...]]:
    """The folder of a run's row, and those above it."""
    last = -2 if table and parts[-1] in TABLES[table].columns.values() else -1
    return parts[last], parts[:last]


def _column(run: Run, table: str) -> Column:
    options = run.config.data.options
    label = f"{Path(run.data).name} {options['task']}" if "task" in options else Path(run.data).name
    for known in TABLES[table].columns if table else []:
        data, _, what = known.partition(" ")
        if lookup(data)[0] == run.data and (what or "triangles").removeprefix("4-") == run.counted:
            label = known
    return Column(label, run)
