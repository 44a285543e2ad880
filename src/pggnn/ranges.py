"""Fields of options with a range: what a number may be stands beside its default."""

import math
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any

LIMIT = 2**31
POSITIVE = "positive", lambda value: 0 < value < math.inf
NOT_NEGATIVE = "0 or more", lambda value: 0 <= value < math.inf
PART = "from 0 to below 1", lambda value: 0 <= value < 1
FACTOR = "above 0 and at most 1", lambda value: 0 < value <= 1


def whole(default: Any, least: int, most: int = LIMIT - 1) -> Any:
    """A field of a dataclass whose whole numbers are in a range; :func:`check_ranges` checks it."""
    return field(default=default, metadata={"least": least, "most": most})


def real(default: float | None, valid: tuple[str, Callable[[float], bool]]) -> Any:
    """The same for other numbers, with a range in words and as a function."""
    return field(default=default, metadata={"valid": valid})


def check_ranges(options: Any, prefix: str) -> None:
    """Raises an error if a field of a dataclass is outside its range, or None without having that as its default."""
    for key in fields(options):
        name, value = f"{prefix}.{key.name}", getattr(options, key.name)
        if value is None and key.default is not None:
            raise ValueError(f"{name} must have a value, or be left out")
        least, most = (key.metadata.get(bound) for bound in ("least", "most"))
        if least is not None and isinstance(value, int) and value < least:
            raise ValueError(f"{name} must be {least} or more, got {value}")
        if most is not None and isinstance(value, int) and value > most:
            raise ValueError(f"{name} must be {most} or less, got {value}")
        expected, holds = key.metadata.get("valid", ("", None))
        if holds is not None and value is not None and not holds(value):
            raise ValueError(f"{name} must be {expected}, got {value}")
