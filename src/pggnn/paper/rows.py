"""What a table is made of: rows of models, columns of data sets."""

from collections.abc import Iterable
from dataclasses import dataclass

from pggnn.train.sweeps.keys import Arguments


@dataclass(frozen=True)
class Row:
    """A model as we run it."""

    options: Arguments = ()
    """What it has otherwise than the configs of the columns."""
    published: str | None = "PG-GNN"
    """The model of the paper's table that it is compared with; None where figures are not of one kind."""
    columns: tuple[str, ...] | None = None
    """The columns that it has; by default all."""
    config: str = "{}"
    """The config, given that of the column."""
    quick: bool = True
    """Whether it is part of the smaller experiment."""
    note: str = ""
    """What is said of it below the table."""


@dataclass(frozen=True)
class Table:
    """Rows of models and columns of data sets; each cell is a run."""

    title: str
    columns: dict[str, str]
    """Data set as the paper's table has it, and the config that comes with the library."""
    rows: dict[str, Row]
    quick: Arguments
    """What makes a run small enough for two cores, and its figures those of another, smaller experiment."""
    quick_columns: tuple[str, ...] | None = None
    """The columns that are quick; by default all."""
    notes: tuple[str, ...] = ()

    def notes_on(self, rows: Iterable[str]) -> list[str]:
        """What is said below a table with these rows; some may be others' own."""
        return [*self.notes, *dict.fromkeys(note for row in rows if (note := self.rows.get(row, Row()).note))]
