"""Graphs by name or by path: a data set of the catalogue, or a file of one's own."""

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pggnn.data.catalogue import CATALOGUE, lookup, plain_name

if TYPE_CHECKING:
    from pggnn.data.dataset import GraphDataset
    from pggnn.data.graphs import Graphs
    from pggnn.data.schema import Schema


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
    """
    dataset: GraphDataset
    added = resolve_name("pggnn.data.features.added:AddedFeatures")(walks, cliques, cycles)
    if "schema" in options:
        options["schema"] = added.remove_from(options["schema"])
    if not is_own(name):
        entry = lookup(name)[1]
        dataset = resolve_name(entry.loader)(**entry.arguments, root=root, **options)
    elif _in_tu_format(Path(name)):
        graphs = read_own(name, options.pop("schema", None))
        dataset = resolve_name("pggnn.data.dataset:GraphDataset")(graphs, **options)
    else:
        load_file = "molecules:load_molecules" if is_table(name) else "jsonl:load_jsonl"
        dataset = resolve_name(f"pggnn.data.formats.{load_file}")(name, **options)
    return dataset.with_features(added) if walks or cliques or cycles else dataset


def read_own(path: str | Path, schema: "Schema | None" = None) -> "Graphs":
    """One's own graphs, checked: a JSON-lines file, a CSV file of molecules, or a zip or folder in TU's or GIN's format;
    read as those that a ``schema`` is of, where one is given."""
    if not is_own(path):  # which refuses a name that is a data set's too
        known = f"; pggnn data stats {path} describes the data set" if plain_name(path) in CATALOGUE else ""
        raise FileNotFoundError(f"there is no file or folder {Path(path).absolute()}{known}")
    if _in_tu_format(Path(path)):
        from pggnn.data.sets.tu import read_tu

        return read_tu(path, schema).checked(str(path))
    if is_table(path):
        from pggnn.data.formats.molecules import read_molecules

        return read_molecules(path, schema)[0]
    from pggnn.data.formats.jsonl import read_jsonl

    return read_jsonl(path, schema)[0]


def _in_tu_format(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() == ".zip"


def is_table(path: str | Path) -> bool:
    """Whether a file is a table, by its name."""
    return Path(path).suffix.lower() in (".csv", ".tsv")
