"""The figures that the paper publishes, as ``expected.json`` has them: table, model, data set.

Tables 2 to 4 hold results, 5 and 6 memory in MiB, 7 the data sets' statistics; ``cliques`` are the 4-cliques that the
text of the paper reports beside Table 2, and ``per_seed`` what the authors' repository lists for PG-GNN.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pggnn.files import read_json

RESULTS = {"table2": "Table 2", "cliques": "the text beside Table 2", "table3": "Table 3", "table4": "Table 4"}
"""Where in the paper results stand, by the names in ``expected.json``."""


@dataclass(frozen=True)
class Figure:
    """A published result, in the paper's unit: accuracies in per cent."""

    mean: float
    std: float | None = None
    seconds: float | None = None
    """Time of an epoch on the authors' machine."""


@cache
def load() -> dict[str, Any]:
    """All of ``expected.json``."""
    found: dict[str, Any] = read_json(Path(__file__).parent / "expected.json")
    return found


def results(data: str, counted: str = "triangles") -> tuple[str, dict[str, Figure]]:
    """Where the paper has results on a data set, a key of :data:`RESULTS`, and those of each model; else ``""``."""
    for table in RESULTS:
        if (table == "cliques") != (counted == "cliques"):
            continue
        rows = {model: Figure(**cells[data]) for model, cells in load()[table].items() if data in cells}
        if rows:
            return table, rows
    return "", {}


def per_seed(table: str, data: str) -> dict[str, list[Any]]:
    """PG-GNN's ``values`` for each of the authors' ``seeds``, which are None for MNIST: they are not known."""
    found: dict[str, list[Any]] = load()["per_seed"].get(table, {}).get(data, {})
    return found
