"""The data sets by name: what each is, where its file lies and comes from. Imports nothing heavy."""

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DatasetEntry:
    """One data set."""

    loader: str
    """``module:class`` of its data set class."""
    task: str
    """``"classification"``, ``"regression"``, or ``"comparison"`` of pairs."""
    level: str
    """Whether ``"graph"``\\ s or ``"node"``\\ s are labelled."""
    classes: int | None
    """Number of classes; None where there are none."""
    features: str
    """What ``x`` holds."""
    file: str
    """Path under the data root."""
    sha256: str
    """Of that file."""
    source: str
    """Where it comes from."""
    cite: str
    """Whom to cite."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of the class that choose this set."""
    archive: str | None = None
    """Name in TU's collection, from which it can be downloaded."""
    obstacle: str = ""
    """Why it cannot be downloaded, where it cannot."""


TU_SOURCE = "https://github.com/weihua916/powerful-gnns"
TU_CITE = "Morris et al., TUDataset, 2020 (arXiv:2007.08663); the repository's licence is MIT."
BENCHMARK_SOURCE = "https://github.com/graphdeeplearning/benchmarking-gnns"
BENCHMARK_CITE = (
    "Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023 (arXiv:2003.00982); the repository's licence is MIT."
)
COUNTING_SOURCE = "https://github.com/leichen2018/GNN-Substructure-Counting"
COUNTING_CITE = "Chen et al., Can Graph Neural Networks Count Substructures?, NeurIPS 2020 (arXiv:2002.04025)."
OTHER_FILES = "PyTorch Geometric offers it in files that only its authors' packages or unpickling can read"
NO_CLASS = "PyTorch Geometric has no data set class for it"


def _tu(name: str, classes: int, features: str, sha256: str, archive: str | None = None) -> DatasetEntry:
    return DatasetEntry(
        "pggnn.data.sets.tu:TU", "classification", "graph", classes, features, f"tu/{name}.zip", sha256, TU_SOURCE,
        TU_CITE, {"name": name}, archive or name,
    )  # fmt: skip


CATALOGUE: dict[str, DatasetEntry] = {
    "ER": DatasetEntry(
        "pggnn.data.sets.counting:Counting", "regression", "node", None, "adjacency (10)", "counting/er.npz",
        "0ff4da1ece055ad297747aea7bae3d34af426c315a4b88b5df0e8802b0a99c02", COUNTING_SOURCE, COUNTING_CITE,
        {"name": "er"}, obstacle=NO_CLASS,
    ),
    "REGULAR": DatasetEntry(
        "pggnn.data.sets.counting:Counting", "regression", "node", None, "adjacency (30)", "counting/regular.npz",
        "dd781d3282da74ef81e09d2e66ab92556c1dee436df6007a57d0e5dd5dcc7e1a", COUNTING_SOURCE, COUNTING_CITE,
        {"name": "regular"}, obstacle=NO_CLASS,
    ),
    "PROTEINS": _tu(
        "PROTEINS", 2, "3 node labels", "d28f022559a1fe3f3c0cfd49c96a68a8cb8a1d1e31d5506fb7d93e438eab6f52"
    ),
    "NCI1": _tu("NCI1", 2, "37 node labels", "8cd032542f59df715c5983b05bb2b5396ab501c3b41d4ecbd941b88dc40c8c59"),
    "IMDBBINARY": _tu(
        "IMDBBINARY", 2, "65 degrees", "0424af4414007a76bd0d7d9f8e7ba845f595745d142894cf42b505b30f5ff7d8", "IMDB-BINARY"
    ),
    "IMDBMULTI": _tu(
        "IMDBMULTI", 3, "59 degrees", "20caee26511d0e5ed130bcb1054b2697b91cc8bb846c72cf0f37a92f99bfc67b", "IMDB-MULTI"
    ),
    "COLLAB": _tu("COLLAB", 3, "369 degrees", "9ecf84c958ac765b9e0f878f4bd002fec20926e0c3d037cb753ab251f59b41f3"),
    "MUTAG": _tu("MUTAG", 2, "7 node labels", "545905a7f0782cba6d3f96cb40af67c90e54f26932341999103e1eb94bbbee52"),
    "MNIST": DatasetEntry(
        "pggnn.data.sets.mnist:MNIST", "classification", "graph", 10, "intensity, place", "mnist/mnist75sp.npz",
        "7c58da96640bd3648c66cc8e221d75721c0a6c84b59f7488c27458176871601e", BENCHMARK_SOURCE, BENCHMARK_CITE,
        obstacle="the copy that PyTorch Geometric offers is a pickle, and has other edges than the original",
    ),
    "ZINC": DatasetEntry(
        "pggnn.data.sets.zinc:ZINC", "regression", "graph", None, "28 atom types", "zinc/zinc12k.npz",
        "37d28d4c529484fc0ab9a510bbd0643550a2f047f360267070e0c4bd40156084", BENCHMARK_SOURCE,
        BENCHMARK_CITE + " Irwin et al., ZINC, 2012.",
        obstacle="the copy that PyTorch Geometric offers is a pickle, which could run any code",
    ),
    "MOLHIV": DatasetEntry(
        "pggnn.data.sets.ogb:OGBMolecules", "multilabel", "graph", None, "93 atom features", "more/ogbg_molhiv.npz",
        "f5be60281977a0e59d7b98a3d7defd213c1b504999206a8f8062f9441466b824", "https://ogb.stanford.edu/docs/graphprop/",
        "Hu et al., Open Graph Benchmark, NeurIPS 2020 (arXiv:2005.00687); Wu et al., MoleculeNet, 2018.",
        {"name": "molhiv"}, obstacle=OTHER_FILES,
    ),
    "PEPTIDES": DatasetEntry(
        "pggnn.data.sets.ogb:OGBMolecules", "multilabel", "graph", None, "32 atom features", "more/peptides_func.npz",
        "181df1196dd04213bfca8952475782fe219ac0527260343837fc394f930859f7", "https://github.com/vijaydwivedi75/lrgb",
        "Dwivedi et al., Long Range Graph Benchmark, NeurIPS 2022 (arXiv:2206.08164).",
        {"name": "peptides"}, obstacle=OTHER_FILES,
    ),
    "BREC": DatasetEntry(
        "pggnn.data.sets.brec:BREC", "comparison", "graph", None, "constant", "brec/brec_pairs.tsv",
        "14687cfc6f555b9ec4b4dd914aad5f9560f53e43f5322213e60d7e4f7731949d", "https://github.com/GraphPKU/BREC",
        "Wang and Zhang, An Empirical Study of Realized GNN Expressiveness, ICML 2024 (arXiv:2304.07702).",
        obstacle=NO_CLASS,
    ),
}  # fmt: skip


def lookup(name: str | Path) -> tuple[str, DatasetEntry]:
    """Name and entry of a data set, whatever the case and hyphens of ``name``; ``IMDB-B`` and ``IMDB-M`` are known."""
    plain = plain_name(name)
    if plain not in CATALOGUE:
        absent = f"no data set or file is named {str(name)!r}"
        if len(Path(name).parts) > 1 or Path(name).suffix:
            raise ValueError(f"{absent}: there is no {Path(name).absolute()}")
        near = get_close_matches(plain, CATALOGUE, 1, 0.7)
        meant = f"did you mean {near[0]}? T" if near else "t"
        raise ValueError(f"{absent}; {meant}he data sets are {', '.join(CATALOGUE)}")
    return plain, CATALOGUE[plain]


def plain_name(name: str | Path) -> str:
    """The key of :data:`CATALOGUE` that a name would have, in capitals and without hyphens."""
    plain = str(name).upper().replace("-", "").replace("_", "")
    return {"IMDBB": "IMDBBINARY", "IMDBM": "IMDBMULTI"}.get(plain, plain)
