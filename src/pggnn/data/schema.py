"""What the graphs of a data set have in common: what a model reads, what it has to give, and the names of both."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property

from pggnn.files import parse_json

Name = str | int
UNKNOWN = -1
"""The class of a graph or node whose class is not known; other targets that are not known are NaN."""
SPLITS = ("train", "val", "test")
FOLDS = tuple(f"fold{number}" for number in range(10))
"""Names of splits, and of the test parts of folds, that come with graphs."""
CHOICES = {
    "level": (None, "graph", "node"),
    "task": (None, "classification", "regression", "multilabel"),
    "flow": ("source_to_target", "target_to_source"),
}


@dataclass(frozen=True)
class Schema:
    """What a model needs to know of a data set. Kept with it, it lets later files be read as the first one was.

    Example:
        >>> from pggnn.data.schema import Schema
        >>> schema = Schema("graph", "classification", classes=("gas", "wet"), node_labels=("H", "O"))
        >>> schema.in_channels, schema.out_channels
        (2, 2)
    """

    level: str | None = None
    """``"graph"`` or ``"node"``, whose targets ``y`` are; None where there are none."""
    task: str | None = None
    """``"classification"``, ``"regression"`` or ``"multilabel"``: several yes-or-no targets."""
    width: int | None = None
    """Length of the lists of targets; None where a target is one value."""
    features: int = 0
    """Columns of ``x`` before those of the node labels."""
    edge_features: int = 0
    """Columns of ``edge_attr`` before those of the edge labels."""
    classes: tuple[Name, ...] = ()
    """Class ``i`` of ``y`` is called ``classes[i]`` in the file; likewise the labels, each a one-hot column."""
    node_labels: tuple[Name, ...] = ()
    edge_labels: tuple[Name, ...] = ()
    degrees: bool = False
    """Whether the node labels are none of the file's, but the nodes' degrees."""
    targets: tuple[str, ...] = ()
    """Names of the targets, where they have any: the columns of a table."""
    flow: str = "source_to_target"
    """Which side of an edge is the neighbour, for layers and plans; on undirected graphs both choices agree."""

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {getattr(self, name)!r}")
        if min(self.width or 0, self.features, self.edge_features) < 0:
            raise ValueError(f"width, features and edge_features must be 0 or more, got {self}")

    @property
    def in_channels(self) -> int:
        """Columns of ``x``; 0 where there is none."""
        return self.features + len(self.node_labels)

    @property
    def edge_dim(self) -> int:
        """Columns of ``edge_attr``; 0 where there is none."""
        return self.edge_features + len(self.edge_labels)

    @property
    def out_channels(self) -> int:
        """Numbers that a model has to give for each graph or node."""
        return len(self.classes) or self.width or 1

    @cached_property
    def widths(self) -> dict[str, int]:
        """One-hot columns of ``x`` and ``edge_attr`` where labels stand alone: these may be stored as ids."""
        found = {"x": (self.features, self.node_labels), "edge_attr": (self.edge_features, self.edge_labels)}
        return {name: len(labels) for name, (features, labels) in found.items() if labels and not features}

    def to_json(self) -> str:
        """As text, for caches and checkpoints."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        """The reverse of :meth:`to_json`."""
        found: Schema = parse_json(text, cls, "the schema")
        return found
