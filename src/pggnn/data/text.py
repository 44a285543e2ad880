"""Texts of numbers: parsed whole with numpy, with errors that name the line."""

import re
from typing import NoReturn

import numpy as np

LARGEST = 2**53


def parse_numbers(place: str, text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of a text, int64 or else float64, and how many each line has; blank lines at the end are left out."""
    if b"\0" in text:
        raise ValueError(f"{place}: not a text, it has zero bytes")
    lines = text.rstrip().split(b"\n")
    counts = np.array([len(line.split()) for line in lines] if lines != [b""] else [], np.int64)
    lone_sign = (b"-" in text or b"+" in text) and re.search(rb"[+-](?![\w.])", text)  # numpy reads it as 0
    for dtype in () if lone_sign else (np.int64, np.float64):
        try:
            values = np.fromstring(text, dtype, sep=" ") if len(counts) else np.empty(0, dtype)
        except ValueError:
            continue
        if len(values) == counts.sum():
            return values, counts
    for number, line in enumerate(lines, 1):
        for word in line.split():
            try:
                float(word)
            except ValueError:
                raise ValueError(f"{place}, line {number}: {word[:40]!r} is not a number") from None
    raise ValueError(f"{place}: not a text of numbers separated by blanks")


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
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows)).any(1).argmax())
        _fail(place, int(line[bad]), "an attribute is NaN or infinite")


def _fail(place: str, line: int, message: str) -> NoReturn:
    raise ValueError(f"{place}, line {line + 1}: {message}")


def ranges(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """``first[i], first[i] + 1, …``, ``length[i]`` of them, for each i."""
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(length.sum())
