"""Features that are computed from the graphs and added to those of the file: one table of them, and how they join."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pggnn.data.features.substructures import Substructure, log_counts, up_to
from pggnn.data.features.walks import return_probabilities
from pggnn.data.graphs import Graphs, expand
from pggnn.data.schema import Schema


@dataclass(frozen=True)
class AddedFeatures:
    """Which features are added, as columns before all others."""

    walks: int = 0
    """Columns of ``x``: how often random walks of 1, 2, … steps return to the node."""
    cliques: int = 0
    """Columns of ``x`` and ``edge_attr``: log(1 + count) of cliques of 3, 4, … up to so many nodes, at most 5."""
    cycles: int = 0
    """The same for cycles, of at most 6 nodes; triangles have one column, not two."""

    def __post_init__(self) -> None:
        if self.walks < 0:
            raise ValueError(f"walks must be a number of steps, 0 or more, got {self.walks}")
        up_to(self.cliques, self.cycles)  # refuses other sizes

    @property
    def counted(self) -> list[Substructure]:
        """The cliques and cycles, in the order of their columns."""
        return up_to(self.cliques, self.cycles)

    def add_to(self, graphs: Graphs) -> Graphs:
        """The same graphs with these features, before all others: first walks, then counts."""
        of_nodes: list[Tensor] = []
        of_edges: list[Tensor] = []
        if self.walks:
            of_nodes.append(return_probabilities(graphs, self.walks))
        if self.counted:
            at_nodes, at_edges = log_counts(graphs, self.counted)
            of_nodes.append(at_nodes)
            of_edges.append(at_edges)
        return replace(
            graphs,
            node=_join("x", of_nodes, graphs.node, graphs.schema),
            edge=_join("edge_attr", of_edges, graphs.edge, graphs.schema),
            schema=self._widen(graphs.schema, 1),
        )

    def remove_from(self, schema: Schema) -> Schema:
        """The schema of the same graphs without these features, which are in no file."""
        return self._widen(schema, -1)

    def _widen(self, schema: Schema, times: int) -> Schema:
        counts = len(self.counted)
        return replace(
            schema,
            features=schema.features + times * (self.walks + counts),
            edge_features=schema.edge_features + times * counts,
        )


def _join(name: str, columns: list[Tensor], attributes: dict[str, Tensor], schema: Schema) -> dict[str, Tensor]:
    """Attributes of nodes or of edges with columns before those of ``x`` or ``edge_attr``."""
    if not columns:
        return attributes
    if name in attributes:
        columns = [*columns, expand(name, attributes[name], schema.widths)]
    return attributes | {name: torch.cat(columns, dim=1)}
