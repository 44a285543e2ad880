"""One line of a JSON-lines file → a checked :class:`Record`; for the format see :mod:`pggnn.data.formats.jsonl`.

Each check first runs over whole lists at the speed of C; only a list that fails is walked to name the place.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any

import numpy as np

from pggnn.data.schema import Name

KEYS = ("id", "num_nodes", "x", "node_labels", "edges", "edge_attr", "edge_labels", "directed", "y", "node_y", "split")
SPLITS = ("train", "val", "test")
OTHER_NAMES = {
    "nodes": "num_nodes", "n": "num_nodes", "features": "x", "node_features": "x", "node_attr": "x", "node_attrs": "x",
    "labels": "node_labels", "edge_index": "edges", "links": "edges", "edge_features": "edge_attr", "label": "y",
    "target": "y", "targets": "y", "class": "y", "node_targets": "node_y",
}  # fmt: skip
"""Names that people try, and ours."""
MOST_NODES = 50_000_000
"""In one file; so that a few digits in it cannot ask for all of the memory."""
LARGEST = float(np.finfo(np.float32).max)
NAMES = {bool: "true or false", str: "text", list: "a list", dict: "an object", type(None): "null"}


class Problem(ValueError):
    """What is wrong with a line, and where in it."""


@dataclass
class Record:
    """A graph as its line gives it."""

    num_nodes: int
    edges: np.ndarray
    directed: bool = False
    id: Name | None = None
    split: str | None = None
    x: np.ndarray | None = None
    edge_attr: np.ndarray | None = None
    node_labels: list[Name] | None = None
    edge_labels: list[Name] | None = None
    level: str | None = None
    targets: list[Any] = field(default_factory=list)
    """Of all nodes, or of the graph; with several a node or graph, those of one follow each other."""
    width: int | None = None
    """How many targets a node or graph has; None where ``y`` is one value rather than a list."""


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
            hint = "; a graph must stand whole on one line"
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


def check_graph(graph: dict[str, Any]) -> tuple[Record | None, list[str]]:
    """The graph, or everything that is wrong with it: of each field the first problem."""
    problems = [_unknown(key) for key in islice((key for key in graph if key not in KEYS), 5)]
    result: dict[str, Any] = {}

    def attempt(key: str, read: Callable[[Any], Any]) -> None:
        try:
            result[key] = read(graph[key]) if key in graph else None
        except Problem as problem:
            problems.append(str(problem))

    attempt("id", _read_id)
    attempt("split", _read_split)
    try:
        n = _count_nodes(graph)
    except Problem as problem:
        return None, [*problems, str(problem)]
    attempt("x", lambda value: _read_matrix(value, "x", n, "node"))
    attempt("node_labels", lambda value: _read_labels(value, "node_labels", n, "node"))
    attempt("directed", _read_flag)
    if "edges" not in graph:
        problems.append('edges is missing; for a graph without edges write "edges": []')
    attempt("edges", lambda value: _read_edges(value, n, bool(result.get("directed"))))
    if isinstance(edges := graph.get("edges"), list):
        attempt("edge_attr", lambda value: _read_matrix(value, "edge_attr", len(edges), "edge"))
        attempt("edge_labels", lambda value: _read_labels(value, "edge_labels", len(edges), "edge"))
    if "y" in graph and "node_y" in graph:
        problems.append("y and node_y are both given: keep y for a target of the graph, node_y for those of its nodes")
    else:
        attempt("y", lambda value: _read_targets([value], "y"))
        attempt("node_y", lambda value: _read_targets(_read_list(value, "node_y", n, "node"), "node_y"))
    if problems:
        return None, problems
    by_node, by_graph = result.pop("node_y"), result.pop("y")
    targets, width = by_node or by_graph or ([], None)
    level = "node" if by_node else "graph" if by_graph else None
    result["directed"] = bool(result["directed"])
    return Record(n, level=level, targets=targets, width=width, **result), []


def _unknown(key: str) -> str:
    word = key[:40].lower()
    near = OTHER_NAMES.get(word) or next(iter(get_close_matches(word, KEYS, 1)), None)
    return f"{describe(key)} is no key of a graph; " + (
        f'did you mean "{near}"?' if near else f"keys are {', '.join(KEYS)}"
    )


def _read_id(value: Any) -> Name:
    if type(value) not in (str, int):
        raise Problem(f"id: expected text or a whole number, found {describe(value)}")
    return value


def _read_split(value: Any) -> str:
    if value not in SPLITS:
        raise Problem(f'split: expected "train", "val" or "test", found {describe(value)}')
    return value


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Problem(f"directed: expected true or false, found {describe(value)}")
    return value


def _count_nodes(graph: dict[str, Any]) -> int:
    """From ``num_nodes``, or from the length of what is given for each node."""
    if "num_nodes" in graph:
        n = graph["num_nodes"]
        if type(n) is not int:
            raise Problem(f"num_nodes: expected a whole number, found {describe(n)}")
    else:
        key = next((key for key in ("x", "node_labels") if key in graph), None)
        if key is None:
            raise Problem("the number of nodes is missing; give num_nodes, x or node_labels")
        if not isinstance(graph[key], list):
            raise Problem(f"{key}: expected a list with an entry for each node, found {describe(graph[key])}")
        n = len(graph[key])
    if not 0 < n <= MOST_NODES:
        raise Problem(f"a graph must have 1 to {MOST_NODES} nodes, found {describe(n)}")
    return n


def _read_list(value: Any, key: str, length: int, each: str) -> list[Any]:
    if not isinstance(value, list):
        raise Problem(f"{key}: expected a list with an entry for each {each}, found {describe(value)}")
    if len(value) != length:
        raise Problem(f"{key}: found {len(value)} entries, but there are {length} {each}s")
    return value


def _read_matrix(value: Any, key: str, length: int, each: str) -> np.ndarray:
    rows = _read_list(value, key, length, each)
    if not rows:
        return np.empty((0, 0), np.float32)
    if set(map(type, rows)) == {list} and len(set(map(len, rows))) == 1 and rows[0]:
        flat = list(chain.from_iterable(rows))
        if _all_numbers(flat):
            return np.array(flat, np.float32).reshape(length, -1)
    for i, row in enumerate(rows):
        if not isinstance(row, list):
            hint = f'; one number a {each} is written [[1], [2], …], a label goes to "{each}_labels"'
            raise Problem(f"{key}[{i}]: expected the list of numbers of {each} {i}, found {describe(row)}{hint}")
        if len(row) != len(rows[0]) or not row:
            expected = f"{len(rows[0])} as in {key}[0]" if rows[0] else "at least one"
            raise Problem(f"{key}[{i}]: found {len(row)} numbers, expected {expected}")
        for j, number in enumerate(row):
            _check_number(number, f"{key}[{i}][{j}]")
    raise AssertionError("a matrix was refused without a reason")


def _all_numbers(values: list[Any]) -> bool:
    """Whether these are whole or decimal numbers that float32 can hold; true, NaN and Infinity are not."""
    if not set(map(type, values)) <= {int, float}:
        return False
    try:
        return bool(np.abs(np.array(values, np.float64)).max(initial=0) <= LARGEST)
    except OverflowError:
        return False


def _check_number(value: Any, where: str) -> None:
    """Raises a :class:`Problem` for one value as :func:`_all_numbers` does for many."""
    if type(value) not in (int, float):
        hint = {bool: "; write 1 or 0", type(None): "; fill the gap, or leave the graph out"}.get(type(value), "")
        raise Problem(f"{where}: expected a number, found {describe(value)}{hint}")
    if not abs(value) <= LARGEST:
        raise Problem(f"{where}: expected a number up to 3.4e38, found {describe(value)}")


def _read_labels(value: Any, key: str, length: int, each: str) -> list[Name]:
    labels = _read_list(value, key, length, each)
    if len(kinds := set(map(type, labels))) > 1 or not kinds <= {int, str}:
        for i, label in enumerate(labels):
            if type(label) not in (int, str):
                raise Problem(f"{key}[{i}]: expected text or a whole number, found {describe(label)}")
            if type(label) is not type(labels[0]):
                raise Problem(f"{key}[{i}]: text and numbers are mixed: {describe(labels[0])}, {describe(label)}")
    return _shared(labels)


def _shared(labels: list[Name]) -> list[Name]:
    """The same labels; texts that are equal are one object, as a file has few of them many times."""
    return list(map(sys.intern, labels)) if labels and isinstance(labels[0], str) else labels  # type: ignore[arg-type]


def _read_edges(value: Any, n: int, directed: bool) -> np.ndarray:
    if not isinstance(value, list):
        raise Problem(f"edges: expected a list of pairs [source, target], found {describe(value)}")
    if not value:
        return np.empty((0, 2), np.int64)
    if set(map(type, value)) == {list} and set(map(len, value)) == {2}:
        flat = list(chain.from_iterable(value))
        if set(map(type, flat)) == {int} and min(flat) >= 0 and max(flat) < n:
            if not directed and len({a * n + b if a < b else b * n + a for a, b in value}) < len(value):
                raise Problem(_repeated(value))
            return np.array(flat, np.int64).reshape(-1, 2)
    for i, edge in enumerate(value):
        if not isinstance(edge, list) or len(edge) != 2:
            found = f"a list of {len(edge)}" if isinstance(edge, list) else describe(edge)
            raise Problem(f"edges[{i}]: expected a pair [source, target], found {found}")
        for node in edge:
            if type(node) is not int:
                raise Problem(f"edges[{i}]: expected the whole number of a node, found {describe(node)}")
            if not 0 <= node < n:
                raise Problem(f"edges[{i}]: node {describe(node)}, but the graph has {n} nodes (0 to {n - 1})")
    raise AssertionError("edges were refused without a reason")


def _repeated(edges: list[list[int]]) -> str:
    first: dict[tuple[int, ...], int] = {}
    for i, edge in enumerate(edges):
        before = first.setdefault(tuple(sorted(edge)), i)
        if before < i:
            break
    return (
        f"edges[{i}]: {edge} joins the same nodes as edges[{before}]; give each edge once, as it is read both ways, "
        'or write "directed": true to have the list taken as it stands'
    )


def _read_targets(values: list[Any], key: str) -> tuple[list[Any], int | None]:
    width = len(values[0]) if isinstance(values[0], list) else None
    flat: list[Any] = list(chain.from_iterable(values)) if set(map(type, values)) == {list} else values
    if width is None and (_all_numbers(flat) or set(map(type, flat)) == {str}):
        return _shared(flat), None
    if width and set(map(type, values)) == {list} and set(map(len, values)) == {width} and _all_numbers(flat):
        return flat, width
    for i, entry in enumerate(values):
        where = key if key == "y" else f"{key}[{i}]"
        if (isinstance(entry, list), isinstance(entry, str)) != (width is not None, isinstance(values[0], str)):
            raise Problem(f"{where}: found {describe(entry)} after {describe(values[0])}; all must be of one kind")
        if isinstance(entry, list):
            if not entry or len(entry) != width:
                expected = str(width) if width else "at least one"
                raise Problem(f"{where}: found a list of {len(entry)} targets, expected {expected}")
            for j, target in enumerate(entry):
                _check_number(target, f"{where}[{j}]")
        elif not isinstance(entry, str):
            _check_number(entry, where)
    raise AssertionError("targets were refused without a reason")


def describe(value: Any) -> str:
    """A value as an error shows it: short and printable."""
    if type(value) in NAMES and not isinstance(value, str):
        return NAMES[type(value)]
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    shown = repr(value[:41] if isinstance(value, str) else value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
