"""A table with a header as a CSV file, and the targets in its columns."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pggnn.data.formats.validation import GZIP, LARGEST, MOST_PROBLEMS, InvalidFile, Problem, describe
from pggnn.data.schema import UNKNOWN, Name, Schema
from pggnn.files import read_bytes

MOST_BYTES = 2**30
DELIMITERS = ",;\t"
GAPS = ("", "na", "n/a", "nan", "null", "none")
"""Cells without a value, in small letters."""
DECIMAL = re.compile(r"([-+]?\d*),(\d+([eE][-+]?\d+)?)")
"""1,5 for 1.5."""
MOST_UNLIKE = 20
"""Classes that are too many where most cells have one of their own."""
NEITHER = {GZIP: "it is packed by gzip: unpack it first", b"PK": "it is a spreadsheet: save it as CSV"}


@dataclass(frozen=True)
class CsvTable:
    """The cells of a file as text."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    """Line of the file that each row begins in."""
    delimiter: str = ","

    def column(self, name: str) -> list[str]:
        """The cells of a column, or an error that names the nearest and lists the columns."""
        if name not in self.header:
            same = [one for one in self.header if one.lower() == name.lower()]
            near = same or get_close_matches(name, self.header, 1)
            meant = f"did you mean {near[0]!r}? Its" if near else "its"
            raise ValueError(f"{self.path} has no column {name!r}: {meant} columns are {self.columns}")
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def targets(self, name: str) -> list[str]:
        """The cells of a column of targets, with 1.5 for 1,5 where a comma does not separate cells."""
        cells = self.column(name)
        return cells if self.delimiter == "," else [".".join(_parts(cell)) for cell in cells]

    @property
    def columns(self) -> str:
        """Their names, for an error."""
        return ", ".join(map(repr, self.header))

    def select(self, kept: Sequence[int]) -> "CsvTable":
        """Some of the rows."""
        return replace(self, rows=[self.rows[i] for i in kept], lines=[self.lines[i] for i in kept])


def read_table(path: str | Path) -> CsvTable:
    """Reads a file in UTF-8 whose first row names the columns; they are separated by commas, semicolons or tabs."""
    path = Path(path)
    content = read_bytes(path, MOST_BYTES)
    for start, why in NEITHER.items():
        if content.startswith(start):
            raise InvalidFile(path, [why], more=False)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidFile(path, [f"line {line} is not UTF-8; save the file as UTF-8 text"], more=False) from None
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines, begin, problems = [], [], 1, []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                lines.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise InvalidFile(path, [f"line {begin}: not CSV ({error})"], more=False) from None
    if len(rows) < 2:
        raise InvalidFile(path, ["expected a first row with the names of columns, and rows below it"], more=False)
    header = rows[0]
    for name in dict.fromkeys(header):
        if header.count(name) > 1:
            problems.append(f"line {lines[0]}: {header.count(name)} columns are named {name!r}")
    wrong = [
        f"line {line}: found {len(row)} cells, but there are {len(header)} columns"
        for row, line in zip(rows, lines, strict=True)
        if len(row) != len(header)
    ]
    if problems := problems + wrong:
        raise InvalidFile(path, problems[:MOST_PROBLEMS], len(problems) > MOST_PROBLEMS)
    return CsvTable(path, header, rows[1:], lines[1:], delimiter)


def _parts(cell: str) -> Sequence[str]:
    found = DECIMAL.fullmatch(cell)
    return found.group(1, 2) if found else [cell]


def is_gap(cell: str) -> bool:
    """Whether a cell has no value."""
    return cell.lower() in GAPS


def as_number(cell: str) -> float | None:
    """The number in a cell, if it is one that float32 can hold."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST else None


def infer_targets(table: CsvTable, names: Sequence[str]) -> Schema:
    """Task and classes of some columns. Text, or nothing but 0 and 1, are classes; other numbers are regression."""
    columns = [[cell for cell in table.targets(name) if not is_gap(cell)] for name in names]
    if len(set(names)) < len(names):
        raise ValueError(f"a target is named twice: {', '.join(map(repr, names))}")
    for name, cells in zip(names, columns, strict=True):
        if not cells:
            raise ValueError(f"{table.path}: the column {name!r} has no value")
    # A column of numbers with a few remarks is one of numbers: the remarks are told of, each with its line.
    numeric = [sum(as_number(cell) is not None for cell in cells) * 2 > len(cells) for cells in columns]
    if len(names) > 1 and not all(numeric):
        text = names[numeric.index(False)]
        raise ValueError(
            f"{table.path}: the column {text!r} has text; several targets must be numbers, and classes one column"
        )
    width = len(names) if len(names) > 1 else None
    known, targets = {as_number(cell) for cells in columns for cell in cells}, tuple(names)
    if not all(numeric):
        if MOST_UNLIKE < len(set(columns[0])) > len(columns[0]) / 2:
            raise ValueError(
                f"{table.path}: the column {names[0]!r} has {len(set(columns[0])):,} different texts in "
                f"{len(columns[0]):,} rows, such as {describe(columns[0][0])}: expected numbers, or a few classes"
            )
        return Schema("graph", "classification", classes=tuple(sorted(set(columns[0]))), targets=targets)
    if not known <= {0.0, 1.0}:
        return Schema("graph", "regression", width, targets=targets)
    if width is None:
        return Schema("graph", "classification", classes=(0, 1), targets=targets)
    return Schema("graph", "multilabel", width, targets=targets)


def read_target(cell: str, schema: Schema) -> float:
    """A cell as a target: its number, or that of its class; NaN or ``UNKNOWN`` for a gap."""
    if is_gap(cell):
        return UNKNOWN if schema.classes else math.nan
    number = as_number(cell)
    if schema.classes:
        known: dict[Name | float | None, int] = {name: i for i, name in enumerate(schema.classes)}
        place = known.get(cell, known.get(number))
        if place is None:
            names = ", ".join(map(repr, schema.classes[:5])) + ", …" * (len(schema.classes) > 5)
            raise Problem(f"{describe(cell)} is not among the known: {names}")
        return place
    if number is None:
        raise Problem(f"expected a number, found {describe(cell)}; leave the cell empty where there is none")
    if schema.task == "multilabel" and number not in (0, 1):
        raise Problem(f"expected 0 or 1, found {describe(cell)}")
    return number


def as_targets(rows: list[list[float]], schema: Schema) -> Tensor:
    """The targets of all rows as one tensor."""
    y = torch.from_numpy(np.array(rows, np.int64 if schema.classes else np.float32))
    return y if schema.width is not None else y.view(-1)
