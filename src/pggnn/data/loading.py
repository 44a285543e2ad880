"""Graphs by name or by path: a data set of the catalogue, or a file of one's own."""

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pggnn.data.catalogue import CATALOGUE, lookup, plain_name

if TYPE_CHECKING:
    from pggnn.data.dataset import GraphDataset
    from pggnn.data.graphs import Graphs
    from pggnn.data.schema import Name, Schema


def is_own(name: str | Path) -> bool:
    """Whether this is the path of one's own graphs, not the name of a data set. What is both is refused, whether or not
    the data set's file is there: one command must not mean other graphs elsewhere. A ``Path`` is never a name."""
    path = Path(name)
    if plain_name(name) not in CATALOGUE:
        return path.exists()
    own = any(path.glob("*.txt")) if path.is_dir() else path.exists()  # not the data root's folders, such as zinc
    if own and not isinstance(name, Path):
        kind = "folder" if path.is_dir() else "file"
        raise ValueError(
            f"{name!r} is a data set and a {kind} here: write ./{name} for the {kind}, or rename it and read the set"
        )
    return own


def load(
    name: str | Path, root: str | Path | None = None, walks: int = 0, cliques: int = 0, cycles: int = 0, **options: Any
) -> "GraphDataset":
    """The data set of that name, or the graphs of one's own file or folder.

    Args:
        name: A key of :data:`CATALOGUE`, or a path: a JSON-lines file, a CSV file of molecules, or a zip or folder in
            TU's or GIN's format.
        root: Data root, for the data sets.
        walks: Columns to add to each node's features: how often random walks of 1, 2, … steps come back to it.
        cliques: Columns to add to each node's and each edge's features: how many cliques of 3, 4, … up to so many nodes
            it lies in, at most 5, on a logarithmic scale.
        cycles: The same for cycles, of at most 6 nodes.
        options: For the data set's class: ``split=``, ``transform=``, ``task=`` (counting), ``schema=`` (one's own),
            ``target=`` (molecules), …

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> file = Path(mkdtemp()) / "graphs.jsonl"
        >>> lines = ['{"node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "y": "wet"}']
        >>> lines += ['{"node_labels": ["H", "H"], "edges": [[0, 1]], "y": "gas"}']
        >>> _ = file.write_text("\\n".join(lines))
        >>> from pggnn.data.loading import load
        >>> graphs = load(file)
        >>> graphs[0]
        Data(edge_index=[2, 4], x=[3, 2], y=[1])
        >>> graphs.schema.classes, graphs.schema.node_labels
        (('gas', 'wet'), ('H', 'O'))
    """
    dataset: GraphDataset
    added = resolve_name("pggnn.data.features.added:AddedFeatures")(walks, cliques, cycles)
    if "schema" in options:
        options["schema"] = added.remove_from(options["schema"])
    if not is_own(name):
        entry = lookup(name)[1]
        dataset = resolve_name(entry.loader)(**entry.arguments, root=root, **options)
    elif is_table(name):
        dataset = resolve_name(f"{MOLECULES}:load_molecules")(name, **options)
    else:
        graphs, ids = _read(Path(name), options.pop("schema", None))
        dataset = resolve_name("pggnn.data.dataset:GraphDataset")(graphs, **options)
        dataset.ids = ids
    return dataset.with_features(added) if walks or cliques or cycles else dataset


def read_own(path: str | Path, schema: "Schema | None" = None) -> "Graphs":
    """One's own graphs, checked: a JSON-lines file, a CSV file of molecules, or a zip or folder in TU's or GIN's
    format; read as those that a ``schema`` is of, where one is given."""
    if not is_own(path):  # which refuses a name that is a data set's too
        known = f"; pggnn data stats {path} describes the data set" if plain_name(path) in CATALOGUE else ""
        raise FileNotFoundError(f"there is no file or folder {Path(path).absolute()}{known}")
    if is_table(path):
        found: Graphs = resolve_name(f"{MOLECULES}:read_molecules")(path, schema)[0]
        return found
    return _read(Path(path), schema)[0]


def _read(path: Path, schema: "Schema | None") -> "tuple[Graphs, list[Name] | None]":
    """The graphs of a file or folder, and their ids, if it has any."""
    kind = "folder" if path.is_dir() else path.suffix.lower()
    if kind in ELSEWHERE:
        raise ValueError(f"{path}: {kind} is not read; {ELSEWHERE[kind]}")
    if kind == "folder" and any(path.glob("*-of-*.npz")):
        raise ValueError(
            f"{path} has shards, which a loop of your own reads: StreamedBatches({str(path)!r}), in Python"
        )
    found = resolve_name(READERS.get(kind, READERS[".jsonl"]))(path, schema)
    return found if isinstance(found, tuple) else (found.checked(str(path)), None)


def is_table(path: str | Path) -> bool:
    """Whether a file is a table, by its name."""
    return Path(path).suffix.lower() in (".csv", ".tsv")


MOLECULES = "pggnn.data.formats.molecules"
TU, ARRAYS = "pggnn.data.sets.tu:read_tu", "pggnn.data.formats.arrays:read_arrays"
READERS = {
    ".jsonl": "pggnn.data.formats.jsonl:read_jsonl",
    "folder": TU, ".zip": TU, ".txt": TU,
    ".npz": ARRAYS, ".pt": ARRAYS, ".safetensors": ARRAYS,
}  # fmt: skip
"""What reads a file, by the end of its name; others are taken for JSON lines."""
NETWORKX = "in Python: save_jsonl([networkx.read_{}(path)], 'graph.jsonl'), from pggnn.data.formats.export"
PICKLES = (
    "a pickle could run any code; save tensors, torch.save(data.to_dict(), 'graph.pt'), or save_jsonl([graph], path)"
)
SHEET, SMILES = "save it as CSV", "write a CSV file with a column named smiles, and what is to be predicted beside it"
ELSEWHERE = {
    ".xlsx": SHEET, ".xls": SHEET, ".ods": SHEET, ".smi": SMILES, ".sdf": SMILES,
    ".graphml": NETWORKX.format("graphml"), ".gml": NETWORKX.format("gml"), ".gexf": NETWORKX.format("gexf"),
    ".pkl": PICKLES, ".pickle": PICKLES, ".gpickle": PICKLES,
    ".mtx": "in Python: scipy.sparse.save_npz('graph.npz', scipy.io.mmread(path))",
}  # fmt: skip
"""How to convert what is not read."""
