"""The base of all data sets: PyG's ``InMemoryDataset`` over compact storage that is cached without pickles."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from pggnn.data.graphs import Graphs, expand
from pggnn.data.store import cached, data_root, find

Transform = Callable[[Data], Data] | None


class GraphDataset(InMemoryDataset):
    """Graphs with PyG's habits: ``dataset[i]``, slices, ``transform``, ``DataLoader``.

    Ids are expanded to one-hot columns, and small types to those that models read, when a graph is fetched.

    Args:
        graphs: The storage.
        file: Raw file under the data root, if there is one.
        root: Data root; see :func:`pggnn.data.store.data_root`.
        split: ``"train"``, ``"val"``, ``"test"``, or None for all graphs.
        transform: Applied whenever a graph is fetched.
        pre_transform: Applied once to each graph when the data set is made. It is not cached on disk.
    """

    flow = "source_to_target"
    """Which side of an edge is the neighbour, for :meth:`pggnn.Plan.build`; on undirected graphs both choices agree."""

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
        self.widths = graphs.widths
        self.splits = graphs.splits
        self._data, self.slices = graphs.to_pyg()
        if pre_transform is not None:
            made = [pre_transform(self.get(i)) for i in range(len(graphs))]
            self.data, self.slices = self.collate(made)
        if split is not None:
            if split not in self.splits:
                raise ValueError(f"split must be {self._choices()} or None, got {split!r}")
            self._indices = self.splits[split].tolist()

    def _choices(self) -> str:
        return ", ".join(f'"{name}"' for name in self.splits) or "left out (this set has no published split)"

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
        return expand(name, value, self.widths) if isinstance(value, Tensor) else value

    def __getattr__(self, key: str) -> Any:
        value = super().__getattr__(key)
        return self._expand(key, value)


def load_graphs(file: str, root: str | Path | None, version: str, read: Callable[[Path], Graphs]) -> Graphs:
    """The graphs of a raw file under the data root, read and checked once, then cached."""
    path = find(file, root)
    return Graphs.from_arrays(cached(path, version, lambda: read(path).checked(str(path)).to_arrays()))
