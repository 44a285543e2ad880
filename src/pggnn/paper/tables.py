"""The paper's tables of results as sets of runs: which model with which options on which data."""

from dataclasses import dataclass
from pathlib import Path

from pggnn.train.config import Config
from pggnn.train.options import parse

Options = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A model as we run it."""

    options: Options = ()
    """What it has otherwise than the configs of the columns."""
    published: str = "PG-GNN"
    """The model of the paper's table that it is compared with."""


@dataclass(frozen=True)
class Table:
    """Rows of models and columns of data sets; each cell is a run."""

    title: str
    columns: dict[str, str]
    """Data set as the paper's table has it, and the config that comes with the library."""
    rows: dict[str, Row]
    quick: Options
    """What makes a run small enough for two cores, and its figures those of another, smaller experiment."""
    quick_columns: tuple[str, ...] | None = None
    """The columns that are quick; by default all."""
    notes: tuple[str, ...] = ()


COUNTING_RIVAL = ("--optim.batch_size", "32", "--optim.lr", "0.01", "--model.dropout", "0.5")
TU_GIN = ("--model.name", "gin", "--optim.lr", "0.01", "--model.hidden", "32", "--model.dropout", "0.5")
SINGLE, GROUP = ("--model.orderings", "single"), ("--model.orderings", "group")

TABLES: dict[str, Table] = {
    "table2": Table(
        "Counting triangles and 4-cliques at each node: mean absolute error",
        {
            "ER triangles": "er_triangles",
            "ER 4-cliques": "er_cliques",
            "regular triangles": "regular_triangles",
            "regular 4-cliques": "regular_cliques",
        },
        {
            "PG-GNN (group)": Row(GROUP),
            "PG-GNN (single)": Row(SINGLE),
            "GIN": Row(("--model.name", "gin", *COUNTING_RIVAL), "GIN"),
            "GCN": Row(
                ("--model.name", "gcn", "--model.init", "glorot", "--model.layers", "2", *COUNTING_RIVAL), "GCN"
            ),
            "GraphSAGE": Row(("--model.name", "sage", "--model.layers", "2", *COUNTING_RIVAL[:4]), "SAGE"),
            "rGIN": Row(("--model.name", "rgin", *COUNTING_RIVAL), "rGIN"),
            "RP": Row(("--model.name", "rp", "--optim.lr", "0.01"), "RP"),
            "LRP": Row(("--model.name", "lrp"), "LRP"),
        },
        (
            *("--model.hidden", "32", "--model.layers", "2", "--optim.epochs", "25", "--protocol.seeds", "[0]"),
            *("--optim.schedule", "cosine", "--optim.lr", "0.01"),
        ),
        None,
        ("Published graphs and splits; test at the best validation epoch; each epoch is ⌈N/batch⌉ draws.",),
    ),
    "table3": Table(
        "Graph classification on TUDataset: accuracy",
        {"PROTEINS": "proteins", "NCI1": "nci1", "IMDB-B": "imdb_b", "IMDB-M": "imdb_m", "COLLAB": "collab"},
        {
            "PG-GNN (group)": Row(GROUP),
            "PG-GNN (single)": Row(SINGLE),
            "GIN": Row(TU_GIN, "GIN"),
        },
        ("--optim.epochs", "10", "--optim.steps", "10", "--protocol.folds", "3"),
        ("PROTEINS", "NCI1", "IMDB-B", "IMDB-M"),
        (
            "Stratified 10-fold cross-validation at the epoch whose mean test accuracy is best, as in the paper: there "
            "is no separate test set.",
            "The published figures of PG-GNN are those of a single ordering.",
        ),
    ),
    "table4": Table(
        "MNIST superpixels (accuracy) and ZINC (mean absolute error)",
        {"MNIST": "mnist", "ZINC": "zinc"},
        {
            "PG-GNN (group)": Row(GROUP),
            "PG-GNN (single)": Row(SINGLE),
            "GIN": Row(("--model.name", "gin"), "GIN"),
        },
        ("--optim.epochs", "4", "--optim.steps", "50", "--protocol.seeds", "[0]", "--model.hidden", "32"),
        ("ZINC",),
        (
            "Published splits; test after the last epoch.",
            "The published figures of PG-GNN are those of a single ordering.",
        ),
    ),
}


def runs(name: str, out: Path, quick: bool = False, more: Options = ()) -> dict[tuple[str, str], Config]:
    """The run of each row and column of a table, each in its folder under ``out``."""
    table, found = TABLES[name], {}
    for model, row in table.rows.items():
        for data, config in table.columns.items():
            if quick and table.quick_columns is not None and data not in table.quick_columns:
                continue
            folder = out / name / ("quick" if quick else "full") / _plain(model) / config
            options = ["--config", config, *row.options, *(table.quick if quick else ()), *more]
            found[model, data] = parse([*options, "--run.out", str(folder)])[0]
    return found


def _plain(model: str) -> str:
    return model.lower().replace(" ", "-").replace("(", "").replace(")", "")
