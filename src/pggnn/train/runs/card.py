"""What a model card says of a run."""

from pathlib import Path

from pggnn.train.runs.protocol import CROSS_VALIDATION
from pggnn.train.runs.stored import Run

MOST_NAMES = 20
"""Labels that are listed."""


def describe_run(run: Run) -> dict[str, str]:
    """Data, input, protocol, figures, limits and command, in Markdown."""
    schema, protocol, figures = run.schema, run.config.protocol, run.figures
    data = Path(run.data).name
    trained = f"{run.model}, {run.config.optim.epochs} epochs at most, seeds {', '.join(map(str, protocol.seeds))}"
    how = {"folds": "cross-validation whose epoch was chosen on the test folds", "nested": "nested cross-validation"}
    split = how.get(protocol.kind, "a split into training, validation and test graphs")
    folds = f", {protocol.folds} folds" if protocol.kind in CROSS_VALIDATION else ""
    limits = ["The figures are those of graphs from the same source; others may be answered worse, without a word."]
    limits += [f"One training on {data}: another seed may have another figure."] * (len(run.logs) == 1)
    limits += ["The choice of the epoch has seen the test graphs."] * (protocol.kind == "folds")
    limits += [text for text in (run.warning, *run.lacks) if text]
    return {
        "data": data,
        "input": "" if schema is None else "\n".join(f"- {line}" for line in _columns(run)),
        "protocol": f"{trained}; {split}{folds}.",
        "figures": f"Test {figures.metric} {figures}; {run.beside() or 'no baseline is known'}." if figures else "",
        "limits": "\n".join(f"- {line}" for line in limits),
        "command": f"```sh\n{run.command.replace(run.config.data.name, data)}\n```",
    }


def _columns(run: Run) -> list[str]:
    schema = run.schema
    assert schema is not None
    found = [f"{schema.level} {schema.task}"]
    found += [f"classes: {_some(schema.classes)}"] * bool(schema.classes)
    added = [f"{name} {value}" for name, value in run.config.data.added.items() if value]
    found += [f"computed columns of `x`, which come first: {', '.join(added)}"] * bool(added)
    for name, features, labels in (
        ("x", schema.features, schema.node_labels),
        ("edge_attr", schema.edge_features, schema.edge_labels),
    ):
        parts = [f"{features} features"] * bool(features)
        parts += [f"one-hot columns of the labels {_some(labels)}"] * bool(labels)
        found += [f"`{name}`: {', then '.join(parts)}"] * bool(parts)
    return found


def _some(names: tuple[object, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names[:MOST_NAMES]) + ", …" * (len(names) > MOST_NAMES)
