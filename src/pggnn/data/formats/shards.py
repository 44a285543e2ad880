"""Graphs in shards, for those that do not fit into memory: a folder of numpy archives with some of the graphs in each.

``00002-of-00010.npz`` has the arrays of :meth:`~pggnn.data.graphs.Graphs.to_arrays`, as a cache has them: nothing is
unpickled, and the archive keeps a checksum of each array.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.collate import collate

from pggnn.data.formats.archives import ArrayHeader, most_bytes, read_headers, read_npz
from pggnn.data.graphs import LEVELS, Graphs, compact
from pggnn.data.schema import Schema
from pggnn.files import replacing

PIECE = 4096
"""Single graphs that are put together at a time: PyG's ``Data`` takes several times the memory of their tensors."""
FILES = "*-of-*.npz"
NAMES = re.compile(rf"nodes|edges|edge_index|schema|({'|'.join(LEVELS)})\..+")
TYPES = [np.dtype(name) for name in ("bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")]
CAST = ("edge_index", "node.x", "edge.edge_attr")
"""Whole numbers that batches have in one type, whatever the size of those that are stored."""
WHOLE = "whole numbers"
Layout = dict[str, tuple[str, tuple[int, ...]]]
REQUIRED: Layout = {"nodes": ("int64", ()), "edges": ("int64", ()), "edge_index": (WHOLE, (2,))}


def save_shards(
    graphs: Graphs | Iterable[Data | Graphs], folder: str | Path, shard_size: int = 100_000,
    schema: Schema | None = None,
) -> Path:  # fmt: skip
    """Writes graphs as a folder of shards, whole or not at all, with no more than a shard of them in memory.

    :class:`~pggnn.data.batching.stream.StreamedBatches` reads it. A folder for each of training, validation and test
    keeps them apart. Lists that a transform has added, such as rings, are left out.

    Args:
        graphs: A generator or another iterable of PyG's ``Data``, a data set, or many graphs at a time as ``Graphs``.
        folder: A new folder.
        shard_size: Graphs in a shard.
        schema: What the graphs have in common; by default that of the data set. Where it has none, whole numbers in
            ``y`` are classes.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from pggnn.data.formats.shards import save_shards
        >>> from pggnn.data.sets.counting import erdos_renyi
        >>> folder = save_shards(erdos_renyi(10), Path(mkdtemp()) / "train", shard_size=4)
        >>> [file.name for file in sorted(folder.iterdir())]
        ['00000-of-00003.npz', '00001-of-00003.npz', '00002-of-00003.npz']
    """
    folder = Path(folder)
    if shard_size < 1:
        raise ValueError(f"shard_size must be 1 or more, got {shard_size}")
    if folder.exists():
        raise FileExistsError(f"{folder} is there already: choose another folder, or remove it first")
    files: list[Path] = []
    with replacing(folder, folder=True) as unfinished:
        common = Common()
        for shard in _cut(_alike(_pieces(graphs), schema, common), shard_size):
            files.append(unfinished / f"{len(files)}.npz")
            arrays = shard.to_arrays()
            del arrays["schema"]  # classes may still be found
            if (size := sum(array.nbytes for array in arrays.values())) > most_bytes():
                raise ValueError(f"{len(shard):,} graphs take {size:,} bytes, too many for a shard: lower shard_size")
            np.savez(files[-1], **arrays)  # type: ignore[arg-type]
        if common.schema is None:
            raise ValueError("there are no graphs to write")
        for number, file in enumerate(files):
            with zipfile.ZipFile(file, "a") as archive, archive.open("schema.npy", "w") as member:
                np.lib.format.write_array(member, np.array(common.schema.to_json()), allow_pickle=False)
            file.rename(unfinished / _name(number, len(files)))
    return folder


class Shards:
    """The shards of a folder. Their headers are checked at once, the graphs when they are read."""

    def __init__(self, folder: str | Path) -> None:
        self.files = _find(Path(folder))
        self.headers = [read_headers(file) for file in self.files]
        common = Common()
        for file, headers in zip(self.files, self.headers, strict=True):
            common.add(str(file), headers, _schema(file))
        assert common.schema is not None
        self.schema = common.schema
        self.counts = torch.tensor([headers["nodes"].shape[0] for headers in self.headers])
        """``[S]`` graphs in each shard."""

    def read(self, number: int) -> Graphs:
        """The graphs of a shard, checked."""
        file = self.files[number]
        arrays = read_npz(file)
        if {name: ArrayHeader(array.shape, array.dtype) for name, array in arrays.items()} != self.headers[number]:
            raise ValueError(f"{file} has changed since its folder was opened: open it again")
        return replace(Graphs.from_arrays(arrays), schema=self.schema).checked(str(file))


class Common:
    """What all parts of a folder have in common, found part by part: types and widths of arrays, and the schema."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._first = ""
        self._layout: Layout = {}

    def add(self, place: str, arrays: Mapping[str, ArrayHeader | np.ndarray], schema: Schema) -> None:
        """Takes note of a part, or refuses it."""
        layout = _layout(place, arrays)
        columns = {"node.x": schema.in_channels, "edge.edge_attr": schema.edge_dim}
        wrong = next((name for name in columns if layout.get(name, ("", ()))[1] not in ((), (columns[name],))), None)
        if wrong:
            raise ValueError(f"{place}: {wrong} is {_said(layout, wrong)}, but its schema has {columns[wrong]} columns")
        if schema.level is not None and f"{schema.level}.y" not in layout:
            raise ValueError(
                f"{place}: its schema has targets of each {schema.level}, but there is no {schema.level}.y"
            )
        if self.schema is None:
            self._first, self._layout, self.schema = place, layout, schema
        _compare(place, layout, self._first, self._layout)
        few, classes = sorted((schema.classes, self.schema.classes), key=len)
        if replace(schema, classes=()) != replace(self.schema, classes=()) or classes[: len(few)] != few:
            what = f"{schema} does not fit that of {self._first}, {self.schema}"
            raise ValueError(f"{place}: {what}; save_shards(…, schema=…) gives one schema to all")
        self.schema = replace(schema, classes=classes)


def _layout(place: str, arrays: Mapping[str, ArrayHeader | np.ndarray]) -> Layout:
    """Type and width of each array, if they are those of graphs."""
    layout = {}
    for name, array in arrays.items():
        if name == "schema":
            continue
        if not NAMES.fullmatch(name) or array.dtype not in TYPES or not array.shape:
            raise ValueError(f"{place}: {name} of {array.dtype} and shape {list(array.shape)} has no place in a shard")
        kind = WHOLE if name in CAST and array.dtype.kind in "iu" else array.dtype.name
        layout[name] = kind, array.shape[:-1] if name == "edge_index" else array.shape[1:]
    _compare(place, layout, "any shard", layout | REQUIRED)
    return layout


def _compare(place: str, layout: Layout, other: str, expected: Layout) -> None:
    for name in sorted({*layout, *expected}):
        found, wanted = _said(layout, name), _said(expected, name)
        if found != wanted:
            raise ValueError(
                f"{place}: {name} is {found}, but {wanted} in {other}; all shards must have the same arrays"
            )


def _said(layout: Layout, name: str) -> str:
    if name not in layout:
        return "missing"
    kind, width = layout[name]
    return f"{kind} of width {' x '.join(map(str, width))}" if width else kind


def _pieces(graphs: Graphs | Iterable[Data | Graphs]) -> Iterator[Graphs]:
    """All graphs, some at a time."""
    if isinstance(graphs, InMemoryDataset) and graphs.transform is None:
        stored = Graphs.of(graphs)
        yield from map(stored.select, torch.as_tensor(graphs.indices(), dtype=torch.long).split(PIECE))
        return
    done = 0
    for many, some in groupby([graphs] if isinstance(graphs, Graphs) else graphs, lambda one: isinstance(one, Graphs)):
        if many:
            yield from some
        while not many and (listed := list(islice(some, PIECE))):
            yield _gather(listed, done)
            done += len(listed)


def _gather(listed: list[Data], first: int) -> Graphs:
    """Single graphs, of which the first has this number, as many."""
    keys = sorted(listed[0].keys()) if isinstance(listed[0], Data) else []
    for number, graph in enumerate(listed, first):
        if not isinstance(graph, Data) or sorted(graph.keys()) != keys:
            expected = f"PyG's Data with {', '.join(keys)} like graph {first}" if keys else "PyG's Data"
            raise ValueError(f"graph {number}: expected {expected}, got {graph}")
    dataset = InMemoryDataset()
    try:
        dataset._data, dataset.slices, _ = collate(Data, listed, increment=False, add_batch=False)
    except RuntimeError as error:
        raise ValueError(f"graphs {first} to {first + len(listed) - 1} do not fit together: {error}") from None
    return Graphs.of(dataset)


def _alike(pieces: Iterable[Graphs], schema: Schema | None, common: Common) -> Iterator[Graphs]:
    """Pieces that are checked, each by itself and against those before."""
    done = 0
    for piece in pieces:
        place = f"graphs {done} to {done + len(piece) - 1}"
        piece = (piece if schema is None else replace(piece, schema=schema)).checked(place)
        try:
            piece = _compact(piece)
            arrays = piece.to_arrays()
        except (TypeError, RuntimeError) as error:  # bfloat16, or a gradient is asked for
            raise ValueError(f"{place}: {error}") from None
        common.add(place, arrays, piece.schema)
        done += len(piece)
        yield piece


def _cut(pieces: Iterable[Graphs], size: int) -> Iterator[Graphs]:
    """The same graphs, ``size`` at a time."""
    held: list[Graphs] = []
    count = 0
    for piece in pieces:
        while len(piece):
            held.append(piece.chunk(0, size - count))
            count += len(held[-1])
            piece = piece.chunk(len(held[-1]), len(piece))
            if count == size:
                yield Graphs.join(held)
                held, count = [], 0
    if held:
        yield Graphs.join(held)


def _compact(graphs: Graphs) -> Graphs:
    """Whole numbers that batches cast anyway, in the smallest type that holds them."""

    def small(value: Tensor) -> Tensor:
        return value if value.is_floating_point() or value.dtype == torch.bool else compact(value.numpy())

    node, edge = ({name: small(value) if name in ("x", "edge_attr") else value for name, value in level.items()}
                  for level in (graphs.node, graphs.edge))  # fmt: skip
    return replace(graphs, edge_index=small(graphs.edge_index), node=node, edge=edge)


def _name(number: int, count: int) -> str:
    return f"{number:05}-of-{count:05}.npz"


def _find(folder: Path) -> list[Path]:
    """The files of all shards of a folder, in order."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.absolute()}: save_shards writes one")
    found = sorted(folder.glob(FILES))
    if not found:
        raise ValueError(f"{folder} has no shards such as {_name(0, 10)}: save_shards writes them")
    for number, file in enumerate(found):
        if file.name != (expected := _name(number, len(found))):
            files = f"{len(found)} files {FILES}, where {file.name} should be {expected}"
            raise ValueError(f"{folder} has {files}: some are missing, or of another folder; copy it again")
    return found


def _schema(file: Path) -> Schema:
    """The schema that a shard has."""
    arrays = read_npz(file, "schema")
    if "schema" not in arrays or arrays["schema"].shape or arrays["schema"].dtype.kind != "U":
        raise ValueError(f"{file} has no schema: save_shards writes files that have one")
    try:
        return Schema.from_json(arrays["schema"].item())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
