"""The base of all data sets: PyG's ``InMemoryDataset`` over compact tensors that are cached without pickles."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from pggnn.data.cache import cached, data_root, find
from pggnn.data.features.added import AddedFeatures
from pggnn.data.formats.tables import CsvTable
from pggnn.data.formats.validation import MOST_PROBLEMS
from pggnn.data.graphs import LAYOUT, Graphs, expand, infer_schema
from pggnn.data.schema import Name, Schema

Transform = Callable[[Data], Data] | None


class GraphDataset(InMemoryDataset):
    """Graphs with PyG's habits: ``dataset[i]``, slices, ``transform``, ``DataLoader``.

    Ids are expanded to one-hot columns, and small types to those that models read, when a graph is fetched.

    Args:
        graphs: The graphs.
        file: Raw file under the data root, if there is one.
        root: Data root; see :func:`pggnn.data.cache.data_root`.
        split: ``"train"``, ``"val"``, ``"test"``, or None for all graphs.
        transform: Applied whenever a graph is fetched.
        pre_transform: Applied once to each graph when the data set is made. It is not cached on disk.

    Example:
        >>> from torch_geometric.loader import DataLoader
        >>> from pggnn.data.sets.counting import generate, with_target
        >>> from pggnn.data.dataset import GraphDataset
        >>> graphs = GraphDataset(with_target(generate("er", 4), "triangles"))
        >>> graphs[:3]
        GraphDataset(3)
        >>> next(iter(DataLoader(graphs, batch_size=2))).num_graphs
        2
    """

    schema: Schema
    """What a model reads and has to give: task, level, channels, names of classes and labels, flow."""
    splits: dict[str, Tensor]
    """Numbers of the graphs of each split that the set has: ``dataset[dataset.splits["train"]]``."""
    ids: list[Name] | None = None
    """Names of all graphs of the file, of every split, where it has any."""
    table: CsvTable | None = None
    """The file itself, where it is a table with a graph in each row."""
    left_out: Mapping[int, str] = MappingProxyType({})
    """Why rows of the table have no graph, by their numbers."""

    def __init__(
        self,
        graphs: Graphs,
        file: str | None = None,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
    ) -> None:
        self.file = file
        super().__init__(str(data_root(root)), transform, pre_transform)
        self.schema, self.splits = graphs.schema, graphs.splits
        self._data, self.slices = graphs.to_pyg()
        if pre_transform is not None:
            made = [pre_transform(self.get(i)) for i in range(len(graphs))]
            self.data, self.slices = self.collate(made)
            self.schema = _refit(self)
        if split is not None:
            if split not in self.splits:
                names = ", ".join(f'"{name}"' for name in self.splits)
                hint = "" if names else "this set has no split of its own, see pggnn.data.splits; "
                raise ValueError(f"{hint}split must be {names + ' or ' * bool(names)}None, got {split!r}")
            self._indices = self.splits[split].tolist()

    def with_features(self, added: AddedFeatures) -> "GraphDataset":
        """The same graphs with features that are computed from them."""
        graphs, made = added.add_to(Graphs.of(self)), copy(self)
        made.schema, (made._data, made.slices) = graphs.schema, graphs.to_pyg()
        made._data_list = None
        return made

    def describe_left_out(self) -> str:
        """Which rows of the table have no graph, and why, a line for each of the first of them."""
        rows, lines = list(self.left_out.items()), self.table.lines if self.table else []
        said = [f"  line {lines[number]}, {why}" for number, why in rows[:MOST_PROBLEMS]]
        said += [f"  and {len(rows) - MOST_PROBLEMS} more"] * (len(rows) > MOST_PROBLEMS)
        return "\n".join([f"{len(rows):,} of {len(lines):,} rows are left out:", *said])

    @property
    def num_classes(self) -> int:
        """Numbers that a model has to give for each graph or node, as elsewhere in PyG."""
        return self.schema.out_channels

    @property
    def raw_dir(self) -> str:
        return str((Path(self.root) / (self.file or "")).parent)

    @property
    def processed_dir(self) -> str:
        return str(Path(self.raw_dir) / "processed")

    @property
    def raw_file_names(self) -> Sequence[str]:
        return [] if self.file is None else [Path(self.file).name]

    def get(self, idx: int) -> Data:
        """One graph, expanded."""
        data = super().get(idx)
        for name, value in data.to_dict().items():
            data[name] = self._expand(name, value)
        return data

    def _expand(self, name: str, value: Any) -> Any:
        return expand(name, value, self.schema.widths) if isinstance(value, Tensor) else value

    def __getattr__(self, key: str) -> Any:
        value = super().__getattr__(key)
        return self._expand(key, value)


def load_graphs(file: str, root: str | Path | None, version: str, read: Callable[[Path], Graphs]) -> Graphs:
    """The graphs of a raw file under the data root, read and checked once, then cached."""
    path = find(file, root)
    return Graphs.from_arrays(cached(path, f"{version}, {LAYOUT}", lambda: read(path).checked(str(path)).to_arrays()))


def _refit(dataset: GraphDataset) -> Schema:
    """The schema of transformed graphs: names are kept where the shapes they belong to are the same."""
    old, graphs = dataset.schema, Graphs.of(dataset)
    new = replace(infer_schema(graphs.node, graphs.edge, graphs.graph), flow=old.flow)
    dense = all(value.dim() > 1 for _, name, value in graphs.attributes() if name in old.widths)
    return old if dense and _facts(new) == _facts(old) else new


def _facts(schema: Schema) -> tuple[Any, ...]:
    return schema.level, schema.task, schema.in_channels, schema.edge_dim, schema.out_channels
