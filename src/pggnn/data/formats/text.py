"""Texts of numbers: parsed in pieces with numpy, with errors that name the line."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from pggnn.data.formats.archives import check_count

LARGEST = 2**53
PIECE = 2**20
LINE_END = ord("\n")


def parse_numbers(place: str, text: bytes | bytearray, comma: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of a text, int64 or else float64, and how many each line has; blank lines at the end are left out.

    Numbers are counted before room is made for them: a text that holds more than are read is refused first.

    Args:
        place: What errors call the text.
        text: Numbers that are separated by blanks.
        comma: Whether commas are blanks too.
    """
    text = text.removeprefix(BOM_UTF8)
    if b"\0" in text:
        raise ValueError(f"{place}: not a text, it has zero bytes")
    blank = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c," if comma else b" \t\n\r\x0b\x0c"))
    everything = np.frombuffer(text, np.uint8)
    small = np.int32 if len(text) < 2**31 else np.int64
    pieces, counted, words, unended = [], [], 0, 0
    for first, last in _pieces(everything, blank):
        empty = blank[everything[first:last]]
        starts = np.flatnonzero(~empty & np.concatenate([[True], empty[:-1]]))
        breaks = np.flatnonzero(everything[first:last] == LINE_END)
        of_lines = np.diff(np.searchsorted(starts, breaks), prepend=-unended).astype(small)
        unended = len(starts) - int(of_lines.sum()) + unended
        counted.append(of_lines)
        pieces.append((first, last, len(starts)))
        check_count(place, words := words + len(starts))
    counts = np.concatenate([*counted, np.array([unended], small)])
    counts = counts[: len(counts) - int((counts[::-1] > 0).argmax()) if words else 0]
    for dtype in (np.int64, np.float64):
        values, filled = np.empty(words, dtype), 0
        for first, last, count in pieces:
            found = _parse(_piece(text, first, last, comma), dtype)
            if len(found) != count:
                break
            values[filled : filled + count] = found
            filled += count
        else:
            return values, counts
    line = 1 + int(np.count_nonzero(everything[:first] == LINE_END))
    for number, words_of_line in enumerate(_piece(text, first, last, comma).split(b"\n"), line):
        for word in words_of_line.split():
            try:
                float(word)
            except ValueError:
                raise ValueError(f"{place}, line {number}: {word[:40]!r} is not a number") from None
    raise ValueError(f"{place}: not a text of numbers separated by blanks")


def _pieces(text: np.ndarray, blank: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last byte of pieces of a text that are parsed at a time: no word is cut."""
    first = 0
    while first < len(text):
        last = min(first + PIECE, len(text))
        while last < len(text) and not blank[text[last - 1]]:
            further = blank[text[last : last + PIECE]]
            last += int(further.argmax()) + 1 if further.any() else len(further)
        yield first, last
        first = last


def _piece(text: bytes | bytearray, first: int, last: int, comma: bool) -> bytes:
    piece = bytes(memoryview(text)[first:last])
    return piece.replace(b",", b" ") if comma else piece


def _parse(piece: bytes, dtype: type[np.generic]) -> np.ndarray:
    """The numbers of a text, up to the first word that is none."""
    if re.search(rb"[+-](?![\w.])", piece) if b"-" in piece or b"+" in piece else piece.isspace():
        return np.empty(0, dtype)  # numpy reads a lone sign as 0
    try:
        return np.fromstring(piece, dtype, sep=" ")
    except ValueError:
        return np.empty(0, dtype)


def whole(place: str, values: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Values as integers, or an error with the line (counted from 0) of the first that is none."""
    if values.dtype.kind == "i" and not ((values >= LARGEST) | (values <= -LARGEST)).any():
        return values
    wrong = ~(np.isfinite(values) & (values < LARGEST) & (values > -LARGEST) & (values == np.floor(values)))
    if wrong.any():
        bad = np.unravel_index(wrong.argmax(), wrong.shape)
        _fail(place, int(np.broadcast_to(line, values.shape)[bad]), f"expected a whole number, got {values[bad]:g}")
    return values.astype(np.int64)


def check_finite(place: str, rows: np.ndarray, line: np.ndarray) -> None:
    check_lines(place, ~np.isfinite(rows).all(1), line, "an attribute is NaN or infinite")


def check_lines(place: str, wrong: np.ndarray, line: np.ndarray, message: str) -> None:
    """An error with the line (counted from 0) of the first row that is wrong, if there is one."""
    if wrong.any():
        _fail(place, int(line[wrong.argmax()]), message)


def _fail(place: str, line: int, message: str) -> NoReturn:
    raise ValueError(f"{place}, line {line + 1}: {message}")


def ranges(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """``first[i], first[i] + 1, …``, ``length[i]`` of them, for each i."""
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(length.sum())
