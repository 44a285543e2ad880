"""What the graphs of a person's own file have in common, and how their labels and classes are numbered."""

from dataclasses import dataclass

from pggnn.data.records import Name, Record, describe, kind_of_labels


@dataclass(frozen=True)
class Schema:
    """What the graphs of a file have in common. Kept with a model, it lets later files be read as the first one was."""

    level: str | None
    """``"graph"`` or ``"node"``, whose targets these are; None where the file has none."""
    task: str | None
    """``"classification"``, ``"regression"`` or ``"multilabel"``: several yes-or-no targets."""
    width: int | None
    """Length of the lists of targets; None where a target is one value."""
    features: int
    """Columns of ``x`` before those of the node labels."""
    edge_features: int
    """Columns of ``edge_attr`` before those of the edge labels."""
    classes: tuple[Name, ...] = ()
    """Class ``i`` of ``y`` is called ``classes[i]`` in the file; likewise the labels, each a one-hot column."""
    node_labels: tuple[Name, ...] = ()
    edge_labels: tuple[Name, ...] = ()

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

    def outline(self) -> dict[str, str]:
        """What :meth:`Record.outline` says of graphs like these."""
        width = "a single value" if self.width is None else f"a list of {self.width}"
        target = f"{width}, {kind_of_labels([*self.classes] or [0])}"
        return {
            "x": f"width {self.features}" if self.features else "none",
            "node_labels": kind_of_labels([*self.node_labels]),
            "edge_attr": f"width {self.edge_features}" if self.edge_features else "none",
            "edge_labels": kind_of_labels([*self.edge_labels]),
            "y": target if self.level == "graph" else "none",
            "node_y": target if self.level == "node" else "none",
        }

    def unknown(self, record: Record) -> list[str]:
        """Labels and classes of a graph that have no number here, as problems."""
        classes: tuple[Name, ...] = (0, 1) if self.task == "multilabel" else self.classes
        problems = []
        for key, found, names in (
            ("node_labels", record.node_labels, self.node_labels),
            ("edge_labels", record.edge_labels, self.edge_labels),
            ("y" if self.level == "graph" else "node_y", record.targets if classes else None, classes),
        ):
            known = set(names)
            strange = [label for label in dict.fromkeys(found or ()) if isinstance(label, float) or label not in known]
            if strange:
                some = ", ".join(map(describe, names[:5])) + ", …" * (len(names) > 5)
                problems.append(f"{key}: {describe(strange[0])} is not among the known: {some}")
        return problems
