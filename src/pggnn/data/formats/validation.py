"""One line of a JSON-lines file → a checked graph. :data:`KEYS` says what each key must hold.

A list is checked as a whole at the speed of C. Only a list that fails is walked, to name the place.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pggnn.data.schema import SPLITS

MOST_NODES = 50_000_000
"""In one file: a few digits must not be able to fill the memory."""
LARGEST = float(np.finfo(np.float32).max)
HINTS = {bool: "; write 1 or 0", type(None): "; fill the gap, or leave the graph out"}
MOST_PROBLEMS = 20
GZIP = b"\x1f\x8b"


class InvalidFile(ValueError):
    """A file that cannot be read as graphs; :attr:`problems` says why, each with its place."""

    def __init__(self, path: str | Path, problems: list[str], more: bool, hint: str = ""):
        self.problems = problems
        count = f"{len(problems)}{' or more' * more} problem{'s' * (len(problems) > 1)}"
        super().__init__("\n  ".join([f"{path}: {count}", *problems, *filter(None, [hint])]))


class Problem(ValueError):
    """What is wrong with a line, and where in it."""


class Values(NamedTuple):
    """What the values of a list must be: of the given types together, and in a range that may depend on the graph."""

    expected: str
    types: tuple[set[type], ...]
    range: str = ""
    in_range: Callable[[list[Any], int], bool] | None = None
    arrays: str = ""
    """The kinds of NumPy's types that are taken for them."""


def _is_finite(values: list[Any], _: int) -> bool:
    """Whether numbers are finite in float32; text is."""
    if len(values) == 1 or isinstance(values[0], str):
        return isinstance(values[0], str) or abs(values[0]) <= LARGEST
    try:
        return bool(np.abs(np.array(values, np.float64)).max() <= LARGEST)
    except OverflowError:
        return False


NUMBERS: tuple[set[type], ...] = ({int}, {float}, {int, float})
NUMBER = Values("a number", NUMBERS, "a number up to 3.4e38", _is_finite, "biuf")
TARGET = Values("a number or text", (*NUMBERS, {str}), NUMBER.range, _is_finite, "biufU")
LABEL = Values("text or a whole number", ({int}, {str}), arrays="iuU")
FLAG = Values("true or false", ({bool},), arrays="b")
NODE = Values("a node's number", ({int},), "a node from 0 to {last}", lambda v, n: min(v) >= 0 and max(v) < n, "iu")
COUNT = Values("a whole number", ({int},), f"1 to {MOST_NODES}", lambda v, _: 0 < v[0] <= MOST_NODES)
SPLIT = Values('"train", "val" or "test"', ({str},), '"train", "val" or "test"', lambda v, _: v[0] in SPLITS)


class Key(NamedTuple):
    """What a key holds: an entry, or a list with one for ``each`` node or edge. An entry is a value or, if ``rows``, a
    list of ``width`` values; ``rows=None`` allows either, and without a width all have that of the first."""

    values: Values
    each: str = ""
    entry: str = ""
    rows: bool | None = False
    width: int | None = None
    dtype: type | None = None


MASKS = tuple(f"{name}_mask" for name in SPLITS)
KEYS = {
    "id": Key(LABEL),
    "num_nodes": Key(COUNT),
    "x": Key(NUMBER, "node", "a list of numbers", rows=True, dtype=np.float32),
    "node_labels": Key(LABEL, "node", "a label"),
    "directed": Key(FLAG),
    "edges": Key(NODE, "edge", "a pair [source, target]", rows=True, width=2, dtype=np.int64),
    "edge_attr": Key(NUMBER, "edge", "a list of numbers", rows=True, dtype=np.float32),
    "edge_labels": Key(LABEL, "edge", "a label"),
    "y": Key(TARGET, rows=None),
    "node_y": Key(TARGET, "node", "a target", rows=None),
    "split": Key(SPLIT),
    **{mask: Key(FLAG, "node", "true or false", dtype=bool) for mask in MASKS},
}
OTHER_NAMES = {
    "nodes": "num_nodes", "n": "num_nodes", "features": "x", "node_features": "x", "node_attr": "x", "node_attrs": "x",
    "labels": "node_labels", "edge_index": "edges", "links": "edges", "edge_features": "edge_attr", "label": "y",
    "target": "y", "targets": "y", "class": "y", "node_targets": "node_y", "valid_mask": "val_mask",
}  # fmt: skip
"""Names that people try, and ours."""


class KeyColumn(NamedTuple):
    """The checked values of a key, one entry after the other; ``width`` is None where an entry is a single value."""

    values: Any
    width: int | None = None

    @property
    def kind(self) -> str | None:
        """What must be the same for all graphs of a file; None where all values are gaps."""
        if not len(self.values):
            return "none"
        if self.width:
            return f"lists of {self.width}"
        first = next((value for value in self.values if value is not None), None)
        return None if first is None else "text" if isinstance(first, str) else "numbers"


class GraphLine(dict[str, Any]):
    """A checked graph: ``num_nodes``, and what its line has of the other keys, columns or single values."""

    @property
    def target(self) -> str | None:
        """``"y"``, ``"node_y"`` or None."""
        return "y" if "y" in self else "node_y" if "node_y" in self else None


def read_line(line: bytes) -> dict[str, Any]:
    """The JSON object of a line, or a :class:`Problem`."""
    try:
        graph = DECODER.decode(line.decode())
        if b"\\ud" in line or b"\\uD" in line:
            json.dumps(graph, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise Problem(f"{half} is half of a surrogate pair, which is no text; write the character itself") from None
    except UnicodeDecodeError as error:
        raise Problem(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8 text") from None
    except json.JSONDecodeError as error:
        hint = "" if line.lstrip().startswith((b"{", b"[")) else "; expected one object {…} per line"
        if line.strip() in (b"{", b"[", b"[{"):
            hint = "; a graph must be on one line"
        if error.msg == "Extra data" and line.rstrip().endswith(b"},"):
            hint = "; leave out the comma at its end"
        raise Problem(f"column {error.colno}: not JSON ({error.msg}){hint}") from None
    except RecursionError:
        raise Problem("not a graph: brackets are nested too deeply") from None
    except Problem:
        raise
    except ValueError:
        raise Problem("not a graph: it has a number of thousands of digits") from None
    if not isinstance(graph, dict):
        hint = "; write each of its graphs on a line of its own" if isinstance(graph, list) else ""
        raise Problem(f"expected an object {{…}} with a graph, found {describe(graph)}{hint}")
    return graph


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise Problem(f"{describe(twice)} is given twice")
    return keys


DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def check_graph(graph: dict[str, Any]) -> tuple[GraphLine, list[str]]:
    """The graph, and what is wrong with it: of each key the first problem."""
    problems = [_unknown(key) for key in islice((key for key in graph if key not in KEYS), 5)]
    checked = GraphLine()
    try:
        checked["num_nodes"] = _count_nodes(graph)
    except Problem as problem:
        return checked, [*problems, str(problem)]
    if "edges" not in graph:
        problems.append('edges is missing; for a graph without edges write "edges": []')
    if "y" in graph and "node_y" in graph:
        problems.append("y and node_y are both given: keep y for a target of the graph, node_y for those of its nodes")
    edges: Any = graph.get("edges")
    listed = isinstance(edges, list | np.ndarray)
    lengths = {"node": checked["num_nodes"], "edge": len(edges) if listed else 0}
    for name, value in graph.items():
        if name in KEYS and name != "num_nodes" and (listed or not name.startswith("edge_")):
            try:
                checked[name] = _check(name, value, lengths)
            except Problem as problem:
                problems.append(str(problem))
    if "edges" in checked and not checked.get("directed") and (repeated := _repeated(edges, lengths["node"])):
        problems.append(repeated)
    return checked, problems


def _unknown(key: str) -> str:
    word = key[:40].lower()
    near = OTHER_NAMES.get(word) or next(iter(get_close_matches(word, KEYS, 1)), None)
    return f"{describe(key)} is no key of a graph; " + (
        f'did you mean "{near}"?' if near else f"keys are {', '.join(KEYS)}"
    )


def _count_nodes(graph: dict[str, Any]) -> Any:
    """``num_nodes``, or the length of what is given for each node."""
    name = next((key for key in ("num_nodes", "x", "node_labels") if key in graph), None)
    if name is None:
        raise Problem("the number of nodes is missing; give num_nodes, x or node_labels")
    return _check("num_nodes", graph[name] if name == "num_nodes" else len(_read_list(name, graph[name])), {"node": 0})


def _read_list(name: str, value: Any) -> Any:
    if not isinstance(value, list | np.ndarray):
        key = KEYS[name]
        raise Problem(f"{name}: expected a list with {key.entry} for each {key.each}, found {describe(value)}")
    return value


def _check(name: str, value: Any, lengths: dict[str, int]) -> Any:
    """The column or the single value of a key, or a :class:`Problem` that names the first place that is wrong."""
    if isinstance(value, np.ndarray):
        return _check_array(name, value, lengths)
    allowed, each, _, rows, width, dtype = KEYS[name]
    entries = _read_list(name, value) if each else [value]
    if allowed is TARGET:
        entries = _with_gaps(entries)
    if each and len(entries) != lengths[each]:
        raise Problem(f"{name}: found {len(entries)} entries, but there are {lengths[each]} {each}s")
    flat, good = entries, True
    if rows is not False and entries:
        good = rows is None
        if isinstance(entries[0], list):
            width, allowed = width or len(entries[0]), allowed if rows else NUMBER
            good = width > 0 and set(map(type, entries)) == {list} and set(map(len, entries)) == {width}
            flat = list(chain.from_iterable(entries)) if good else entries
    some = flat if KEYS[name].values is not TARGET else [value for value in flat if value is not None]
    if some:
        good = good and set(map(type, some)) in allowed.types
        if not good or (allowed.in_range and not allowed.in_range(some, lengths["node"])):
            raise Problem(_first_problem(name, entries, allowed, lengths["node"]))
    if dtype:
        return KeyColumn(np.array(flat, dtype), width)
    if not each and rows is False:
        return value
    if some and isinstance(some[0], str):  # a file has few texts, each many times
        flat = [value and sys.intern(value) for value in flat]
    return KeyColumn(flat, width)


def _check_array(name: str, value: np.ndarray, lengths: dict[str, int]) -> KeyColumn:
    """The column of a key that is given as an array."""
    key, rows = KEYS[name], value.ndim == 2
    allowed = NUMBER if key.values is TARGET and rows else key.values
    if key.values is FLAG and value.dtype.kind in "iu" and np.isin(value, (0, 1)).all():
        value = value.astype(bool)
    if value.dtype.kind not in allowed.arrays or value.ndim not in (1, 2):
        raise Problem(
            f"{name}: expected {allowed.expected}, found an array of {value.dtype}, shape {list(value.shape)}"
        )
    if (key.rows is not None and rows != key.rows) or (key.width and value.shape[1:] != (key.width,)):
        dimensions = f"[{key.each}s, {key.width or 'columns'}]" if key.rows else f"[{key.each}s]"
        raise Problem(f"{name}: expected an array of shape {dimensions}, found {list(value.shape)}")
    if len(value) != (lengths[key.each] if key.each else 1):
        raise Problem(f"{name}: found {len(value)} entries, but there are {lengths.get(key.each, 1)} {key.each}s")
    value = value.astype(int) if value.dtype.kind == "b" and key.dtype is not bool else value
    wrong = np.zeros(1, bool)
    if allowed is NODE:
        wrong = (value < 0) | (value >= lengths["node"])
    elif value.dtype.kind == "f":
        wrong = np.abs(value) > LARGEST
        wrong |= np.isnan(value) & (key.values is not TARGET)  # a gap
    if wrong.any():
        place = np.unravel_index(wrong.argmax(), wrong.shape)
        where = "".join(f"[{i}]" for i in place)
        expected = allowed.range.format(last=lengths["node"] - 1)
        raise Problem(f"{name}{where}: expected {expected}, found {value[place].item()!r}")
    width = value.shape[1] if rows else None
    if key.dtype:
        return KeyColumn(value.astype(key.dtype).ravel(), width)
    flat = value.ravel().tolist()
    if value.dtype.kind == "f":
        flat = [None if one != one else one for one in flat]
    return KeyColumn(flat, width)


def _with_gaps(entries: list[Any]) -> list[Any]:
    """Targets where null and NaN are None; in place of a list, a list of them."""
    first = next((entry for entry in entries if entry is not None), None)
    gap = [None] * len(first) if isinstance(first, list) else None
    entries = [gap if _is_gap(entry) else entry for entry in entries]
    return [
        [None if _is_gap(value) else value for value in entry] if isinstance(entry, list) else entry
        for entry in entries
    ]


def _is_gap(value: Any) -> bool:
    return value is None or value != value


def _first_problem(name: str, entries: list[Any], allowed: Values, nodes: int) -> str:
    key = KEYS[name]
    gaps, first = key.values is TARGET, next((entry for entry in entries if entry is not None), None)
    in_rows = key.rows or (key.rows is None and isinstance(first, list))
    width = key.width or (len(first) if isinstance(first, list) else 0)
    for i, entry in enumerate(entries):
        place = f"{name}[{i}]" if key.each else name
        if in_rows and (not isinstance(entry, list) or not entry or len(entry) != width):
            expected = "a list of numbers" if allowed is NUMBER else key.entry
            if width and not key.width:
                expected += f", {width} as in {name}[0]"
            hint = ""
            if allowed is NUMBER and not isinstance(entry, list) and key.rows:
                hint = f"; write one number as [1], a label in {key.each}_labels"
            return f"{place}: expected {expected}, found {describe(entry)}{hint}"
        for j, value in enumerate(entry if in_rows else [entry]):
            if gaps and value is None:
                continue
            where = f"{place}[{j}]" if in_rows else place
            if {type(value)} not in allowed.types:
                hint = HINTS.get(type(value), "") if {float} in allowed.types else ""
                return f"{where}: expected {allowed.expected}, found {describe(value)}{hint}"
            if allowed.in_range and not allowed.in_range([value], nodes):
                return f"{where}: expected {allowed.range.format(last=nodes - 1)}, found {describe(value)}"
            if isinstance(value, str) != isinstance(first, str):
                return f"{where}: text and numbers are mixed: {describe(first)}, {describe(value)}"
    raise AssertionError(f"{name} was refused without a reason")


def _repeated(edges: list[list[int]] | np.ndarray, nodes: int) -> str:
    """What is wrong where two edges join the same nodes."""
    if isinstance(edges, np.ndarray):
        low, high = (part.astype(np.int64) for part in (edges.min(1), edges.max(1)))
        if len(np.unique(low * nodes + high)) == len(edges):
            return ""
        edges = edges.tolist()
    if len({a * nodes + b if a < b else b * nodes + a for a, b in edges}) == len(edges):
        return ""
    first: dict[tuple[int, ...], int] = {}
    i, edge = next((i, edge) for i, edge in enumerate(edges) if first.setdefault(tuple(sorted(edge)), i) < i)
    return (
        f"edges[{i}]: {edge} joins the same nodes as edges[{first[tuple(sorted(edge))]}]; give each edge once, "
        'as it is read both ways, or write "directed": true to have the list taken as it stands'
    )


def describe(value: Any) -> str:
    """A value as an error shows it: short and printable."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool | dict):
        return {bool: "true or false", dict: "an object"}.get(type(value), "null")
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    shown = repr(value[:41] if isinstance(value, str) else value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
