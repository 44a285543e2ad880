"""Packed runs: many runs in three files, ``runs.jsonl``, ``curves.parquet`` and ``answers.parquet``.

``runs.jsonl`` has a line for each run: config, schema, machine, figures, and the result of each training.
``curves.parquet`` has a row for each epoch of each training, ``answers.parquet`` one for each answer that was kept.

A packed run has the path that its folder would have: ``results/table2/gin/er_triangles`` is the run
``gin/er_triangles`` of the files in ``results/table2``. All that reads the folder of a run can read it from there.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from pggnn import files
from pggnn.files import replacing

RUNS, CURVES, ANSWERS = "runs.jsonl", "curves.parquet", "answers.parquet"
COLUMNS = ("epoch", "lr", "loss", "val", "test", "seconds")
DIGITS = {"lr": 5, "loss": 5, "seconds": 3}
"""Columns that are rounded to so many digits. The others, from which figures are made, are exact."""
SPARE_BITS = 6
"""Bits of a float32 that five digits do not need."""
Record = dict[str, Any]


@dataclass(frozen=True)
class PackedRun:
    """A run to be packed."""

    run: str
    """Its path below the folder of the files; ``"."`` for that folder itself."""
    line: dict[str, Any]
    """``config``, ``schema``, ``environment``, ``summary``, and ``trainings``, by name, with the results of those that
    have ended."""
    logs: dict[str, list[Record]]
    answers: dict[str, np.ndarray] | None


class Pack:
    """The runs of one folder's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, dict[str, Any]] = {}
        for number, text in enumerate((folder / RUNS).read_text(encoding="utf-8").splitlines(), start=1):
            try:
                line = json.loads(text)
                self.lines[line["run"]] = line
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{folder / RUNS}, line {number}, is not a packed run ({error}): fetch it again"
                ) from None

    @cached_property
    def curves(self) -> Any:
        """The table of epochs."""
        return _read(self.folder / CURVES)

    @cached_property
    def answers(self) -> Any:
        """The table of answers."""
        return _read(self.folder / ANSWERS) if (self.folder / ANSWERS).exists() else None

    @cached_property
    def _rows(self) -> dict[tuple[str, str], tuple[int, int]]:
        """The first row of each training, and their number."""
        found, start = {}, 0
        for key, rows in groupby(zip(*(self.curves[name].to_pylist() for name in ("run", "training")), strict=True)):
            count = sum(1 for _ in rows)
            found[key] = start, count
            start += count
        return found

    def log(self, run: str, training: str) -> list[Record]:
        """The records of a training."""
        start, count = self._rows.get((run, training), (0, 0))
        part = self.curves.slice(start, count)
        names = [name for name in part.column_names if name not in ("run", "training")]
        lists = [
            _decimals(part[name].to_pylist(), name) if name in DIGITS else part[name].to_pylist() for name in names
        ]
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in zip(*lists, strict=True)
        ]

    def predicted(self, run: str) -> dict[str, np.ndarray] | None:
        """The answers of a run, as ``predictions.npz`` has them."""
        about = self.lines[run].get("answers")
        if about is None or self.answers is None:
            return None
        import pyarrow.compute as pc

        rows = self.answers.filter(pc.equal(self.answers["run"], run))
        found = {key: np.array(about[key]) for key in ("kind", "epochs", "total", "trainings")}
        for name in ("predicted", "true"):
            values = rows[name].to_numpy().astype(about["types"][name])
            found[name] = values.reshape(-1, about["width"]) if about["width"] else values
        return found


def find(path: Path) -> tuple[Pack, str, str] | None:
    """The pack and run of a path, and the rest of the path below the run; None if it is not in a packed run."""
    for folder in (path, *path.parents):
        if (folder / RUNS).is_file() and (folder / CURVES).is_file():
            pack, inside = _open(folder), PurePosixPath(path.relative_to(folder).as_posix())
            for run in (inside, *inside.parents):
                if str(run) in pack.lines:
                    return pack, str(run), inside.relative_to(run).as_posix()
    return None


def holds(folder: Path) -> bool:
    """Whether a folder is that of a packed run."""
    found = find(folder)
    return found is not None and found[2] == "."


def runs_below(folder: Path) -> list[Path]:
    """The folders of the packed runs in and below a folder."""
    packs = {path.parent for path in folder.rglob(RUNS)} | {one for one in folder.parents if (one / RUNS).is_file()}
    found = [one / run for one in packs if (one / CURVES).is_file() for run in _open(one).lines]
    return sorted(one for one in found if one.is_relative_to(folder))


def read_json(path: Path, kind: Any) -> Any:
    """The content of a JSON file of a run, packed or not, checked against a type; None if there is no such file."""
    if path.exists() or (found := find(path)) is None:
        return files.read_json(path, kind)
    pack, run, inside = found
    if inside.endswith("/result.json"):
        value = pack.lines[run]["trainings"].get(inside.removesuffix("/result.json"))
    else:
        value = pack.lines[run].get(inside.removesuffix(".json"))
    return None if value is None else files.checked(value, kind, str(path))


def read_log(folder: Path) -> list[Record]:
    """The records of a packed training; empty if it is not packed."""
    found = find(folder)
    return found[0].log(*found[1:]) if found else []


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a run that a pack :func:`holds`."""
    found = find(folder)
    assert found is not None
    config: dict[str, Any] = found[0].lines[found[1]]["config"]
    return config


def read_answers(folder: Path) -> dict[str, np.ndarray] | None:
    """The answers of a packed run, or None if it has none."""
    found = find(folder)
    return found[0].predicted(found[1]) if found else None


def write(folder: Path, entries: Sequence[PackedRun]) -> None:
    """Adds runs to the files in a folder; runs of the same name are replaced."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    lines: dict[str, dict[str, Any]] = {}
    none = pa.table({"run": pa.array([], pa.string())})
    tables = {CURVES: [none], ANSWERS: [none]}
    if (folder / RUNS).is_file():
        pack, replaced = _open(folder), pa.array([entry.run for entry in entries], pa.string())
        lines |= pack.lines
        for name, old in ((CURVES, pack.curves), (ANSWERS, pack.answers)):
            if old is not None:
                tables[name].append(old.filter(pc.invert(pc.is_in(old["run"], replaced))))
    for entry in entries:
        lines[entry.run] = {"run": entry.run, **entry.line}
        tables[CURVES].append(_curve_table(entry))
        if entry.answers is not None:
            lines[entry.run]["answers"], answers = _answer_table(entry.run, entry.answers)
            tables[ANSWERS].append(answers)
    with ExitStack() as held:
        paths = {name: held.enter_context(replacing(folder / name)) for name in (CURVES, ANSWERS, RUNS)}
        for name, found in tables.items():
            table = pa.concat_tables(found, promote_options="permissive").sort_by("run")
            pq.write_table(
                table.combine_chunks(), paths[name], compression="zstd", compression_level=19,
                row_group_size=1 << 24, data_page_size=1 << 24,
                use_dictionary=["run", "training", "lr", "seconds"],
                column_encoding={"loss": "BYTE_STREAM_SPLIT"} if "loss" in table.column_names else None,
            )  # fmt: skip
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for _, line in sorted(lines.items()))
        paths[RUNS].write_text(text, encoding="utf-8")


def shortened(values: np.ndarray, bits: int) -> np.ndarray:
    """Numbers as float32, rounded so that their last bits are 0, which compress well."""
    whole = values.astype(np.float32).view(np.uint32)
    half, mask = np.uint32(1 << bits - 1), np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return ((whole + half) & mask).view(np.float32)


def _open(folder: Path) -> Pack:
    return _cached(folder, (folder / RUNS).stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _cached(folder: Path, changed: int) -> Pack:
    return Pack(folder)


def _read(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is damaged ({' '.join(str(error).split())}): fetch it again") from None


def _curve_table(entry: PackedRun) -> Any:
    import pyarrow as pa

    records = [(training, record) for training, records in entry.logs.items() for record in records]
    columns = {"run": pa.array([entry.run] * len(records), pa.string())}
    columns["training"] = pa.array([training for training, _ in records], pa.string())
    for name in COLUMNS:
        values = [record.get(name) for _, record in records]
        if name == "epoch":
            columns[name] = pa.array(values, pa.int32())
        elif name in DIGITS:
            numbers = np.array(_decimals(values, name), np.float32)
            columns[name] = pa.array(shortened(numbers, SPARE_BITS) if name == "loss" else numbers)
        else:
            exact = all(value is None or float(np.float32(value)) == value or value != value for value in values)
            columns[name] = pa.array(values, pa.float32() if exact else pa.float64())
    return pa.table(columns)


def _answer_table(run: str, answers: dict[str, np.ndarray]) -> tuple[dict[str, Any], Any]:
    """The answers' entry in the line of the run, and the table of answers."""
    import pyarrow as pa

    about: dict[str, Any] = {key: answers[key].tolist() for key in ("kind", "epochs", "total", "trainings")}
    about["types"] = {name: str(answers[name].dtype) for name in ("predicted", "true")}
    about["width"] = answers["true"].shape[1] if answers["true"].ndim > 1 else None
    values = {name: pa.array(answers[name].ravel().astype(np.float32)) for name in ("predicted", "true")}
    return about, pa.table({"run": pa.array([run] * len(values["true"]), pa.string()), **values})


def _decimals(values: list[Any], name: str) -> list[float]:
    return [float(f"{value:.{DIGITS[name]}g}") for value in values]
