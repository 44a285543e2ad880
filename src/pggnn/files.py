"""Writing files whole or not at all, and reading them."""

import dataclasses
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from pggnn.console import visible

MOST_BYTES = 16 * 2**20
"""The largest JSON that is read: Python's lists and objects take thirty times as much memory."""
DEEPEST = 20
"""Levels of lists and mappings in a YAML file."""
FORMULA = re.compile("[=+@＝＋－＠-]")
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
LARGEST = {int: 2**63, float: sys.float_info.max}
WORDS = {
    dict: "an object {…}", list: "a list […]", tuple: "a list […]", str: "text", bool: "true or false",
    int: "a whole number", float: "a number", NoneType: "null",
}  # fmt: skip


@contextmanager
def replacing(path: str | Path, folder: bool = False) -> Iterator[Path]:
    """Gives a file, or a folder, to write beside ``path``, with its suffix, and moves it there once the block has ended
    well."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    started = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        if folder:
            started.mkdir()
        yield started
        os.replace(started, path)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # a full disk does not say which file
    finally:
        if folder:
            shutil.rmtree(started, ignore_errors=True)
        else:
            started.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a text whole or not at all, in UTF-8 in every locale."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any, indent: int | None = 2) -> None:
    """Writes a value as JSON with a line end, see :func:`to_json`."""
    write_text(path, to_json(value, indent) + "\n")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[object]], left: Collection[str]) -> list[str]:
    """The lines of a Markdown table; columns whose headings are not in ``left`` are aligned to the right."""
    marks = ["---" if heading in left else "--:" for heading in headings]
    return [f"| {' | '.join(map(str, row))} |" for row in (headings, marks, *rows)]


def read_bytes(path: Path, most: int = MOST_BYTES, open: Callable[..., IO[Any]] = open) -> bytes:
    """What a file holds once it is unpacked, if need be by another ``open``; refused where it is more than ``most``."""
    with open(path, "rb") as file:
        content: bytes = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, which is too much for such a file")
    return content


def read_json(path: Path, kind: Any = Any) -> Any:
    """What a JSON file holds, checked as by :func:`parse_json`, or None where there is none."""
    return parse_json(read_bytes(path), kind, path) if path.exists() else None


def parse_json(text: str | bytes, kind: Any, place: Any) -> Any:
    """The value that a JSON text holds, if it is of this kind; otherwise a ``ValueError`` of one line.

    Args:
        text: The text.
        kind: A type or annotation such as ``dict[str, int | None]``. Of a dataclass an instance is returned; of a
            ``TypedDict`` further keys are allowed. Null where a number is expected is NaN, which JSON has no word for.
        place: Where the text comes from.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{place} is not valid JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{place} is not valid JSON: it is nested too deeply") from None
    return checked(value, kind, str(place))


def checked(value: Any, kind: Any, place: str) -> Any:
    """The value as one of this kind, see :func:`parse_json`."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if {int, str} <= {*inner} and type(value) is int:  # a name, which may be a number of any size
            return value
        fitting = [one for one in inner if _fits(value, one)]
        return checked(value, fitting[0] if fitting else inner[0], place)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{place}: expected {' or '.join(map(repr, inner))}, got {_shown(value)}")
        return value
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return _checked_fields(checked(value, dict, place), kind, place)
    if origin is float and value is None:
        return math.nan
    if not _fits(value, origin):
        raise ValueError(f"{place}: expected {WORDS[origin]}, got {_shown(value)}")
    if origin is dict and inner:
        return {key: checked(item, inner[1], f"{place}, {key}") for key, item in value.items()}
    if origin in (list, tuple) and inner:
        return origin(checked(item, inner[0], f"{place}, item {i}") for i, item in enumerate(value))
    return value


def _checked_fields(value: dict[str, Any], kind: Any, place: str) -> Any:
    hints, exact = get_type_hints(kind), dataclasses.is_dataclass(kind)
    missing = hints.keys() - value.keys() - (_with_defaults(kind) if exact else kind.__optional_keys__)
    unknown = [key for key in value if key not in hints] if exact else []
    for said, keys in (("there is no", missing), ("it has an unknown", unknown)):
        if keys:
            raise ValueError(f"{place}: {said} {_shown(min(keys))}")
    known = {key: checked(value[key], hint, f"{place}, {key}") for key, hint in hints.items() if key in value}
    if not exact:
        return value | known
    try:
        return kind(**known)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _with_defaults(kind: Any) -> set[str]:
    """The fields of a dataclass that need not be given."""
    made = dataclasses.MISSING
    return {one.name for one in dataclasses.fields(kind) if one.default is not made or one.default_factory is not made}


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    kind = get_origin(kind) or kind
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool) and not abs(value) > LARGEST[kind]
    return isinstance(value, list if kind is tuple else kind)


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else WORDS[type(value)]
    return text if len(text) <= 40 else f"{text[:40]}…"


def check_yaml(text: str, place: Any) -> None:
    """Refuses YAML that is nested deeper than :data:`DEEPEST`, or has aliases in it, of which a few make a value that
    contains itself or fills the memory. What else is wrong, its reader says."""
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"{place} is nested deeper than {DEEPEST} levels, which no option is")
            if isinstance(event, yaml.AliasEvent) and depth:
                raise ValueError(f"{place} has the alias *{event.anchor}: write the value itself there")
    except yaml.YAMLError:
        pass


def to_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON; numbers that are not finite, which JSON has no word for, are null."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file. Text that a spreadsheet would compute has an apostrophe before it, as spreadsheets write
    text themselves; control characters and ends of lines are escaped."""
    if not isinstance(value, str):
        return value
    text = visible(value).replace("\n", "\\n")
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def unfinished(folder: Path) -> list[Path]:
    """What processes that were killed while they wrote have left in a folder."""
    return [file for file in folder.glob(".*") if re.fullmatch(r"\.\w+\.\d+\.\w+", file.name)]
