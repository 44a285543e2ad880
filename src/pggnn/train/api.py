"""``pggnn.fit`` and ``pggnn.load``: training and trained networks from Python, with what the command line uses."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

from torch_geometric.data import Data

from pggnn.data.formats.export import save_jsonl
from pggnn.train.options import parse
from pggnn.train.runs.folder import is_run
from pggnn.train.runs.predict import GraphSource, Trained
from pggnn.train.runs.run import train
from pggnn.train.runs.stored import as_text

OutputType = Literal["classification", "regression", "multilabel"]


def load(folder: str | Path, which: Literal["best", "last"] = "best") -> Trained:
    """The trained networks of a run: ``predict``, ``score``, ``model``, ``schema`` and ``metrics``.

    Args:
        folder: The folder of the run, or of one training in it (``RUN/seed0/fold3``).
        which: Checkpoint of each training.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import fit, load
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graphs = [Data(x=torch.tensor([i % 2, 1, 1]), edge_index=edges, y=torch.tensor([i % 2])) for i in range(20)]
        >>> out = Path(mkdtemp()) / "paths"
        >>> _ = fit(graphs, epochs=1, out=out, model={"hidden": 4, "layers": 1, "cell": "linear"}, run={"jobs": 1})
        >>> trained = load(out)
        >>> trained.metrics["metric"], len(trained.predict(graphs[:3]))
        ('accuracy', 3)
    """
    return Trained.load(folder, which)


def fit(
    graphs: GraphSource,
    task: OutputType | None = None,
    epochs: int = 100,
    patience: int = 10,
    out: str | Path | None = None,
    **options: Mapping[str, Any],
) -> Trained:
    """Trains a network, with a progress bar; ``predict`` and ``score`` of what it returns answer for other graphs.

    It is ``pggnn train``: 80 % of the graphs train, 10 % choose the epoch and 10 % test, unless ``protocol`` says
    otherwise; ``metrics`` has the test figure. The folder is that of any run.

    Args:
        graphs: A list of PyG's ``Data``, a data set, or a file as for ``pggnn train``.
        task: ``"regression"`` takes whole numbers in ``y`` for values, ``"classification"`` takes values for classes,
            ``"multilabel"`` for several yes-or-no targets; by default whole numbers are classes.
        epochs: The most epochs.
        patience: Epochs without a better validation after which the learning rate is halved. Training ends when it is
            below a tenth of the first.
        out: Folder of the run; by default a new one, ``runs/fit``, ``runs/fit-2``, …
        **options: Those of ``pggnn train``, as in its YAML file: ``model={"hidden": 32}, optim={"lr": 0.01}``.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import fit
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> graphs = [Data(x=torch.tensor([i % 2, 1, 1]), edge_index=ring, y=torch.tensor([i % 2])) for i in range(20)]
        >>> small = {"hidden": 4, "layers": 1, "cell": "linear"}
        >>> out = Path(mkdtemp()) / "rings"
        >>> trained = fit(graphs, epochs=1, out=out, model=small, run={"jobs": 1})
        >>> [row["prediction"] in (0, 1) for row in trained.predict(graphs[:2])]
        [True, True]
    """
    folder = Path(out) if out is not None else next(one for one in _names() if not one.exists())
    if is_run(folder):
        raise ValueError(f"{folder} holds a run already: choose another folder by out, or load({str(folder)!r})")
    given: dict[str, dict[str, Any]] = {part: dict(values) for part, values in options.items()}
    optim = {"epochs": epochs, "schedule": "plateau", "patience": patience} | given.get("optim", {})
    first = optim.get("lr", 1e-3)
    given["optim"] = ({"min_lr": float(f"{first / 10:.6g}")} if isinstance(first, (int, float)) else {}) | optim
    if isinstance(graphs, (str, Path)):
        if task is not None:
            raise ValueError(f"task is for graphs in memory, got {task!r}: a file says by itself what its targets are")
        given["data"] = {"name": str(graphs)} | given.get("data", {})
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
        listed = graphs if task is None else [_targeted(graph, task) for graph in graphs]
        stored = save_jsonl(listed, folder.with_name(f"{folder.name}.jsonl"))
        given["data"] = given.get("data", {}) | {"name": str(stored)}
    given["run"] = {"tensorboard": False} | given.get("run", {}) | {"out": str(folder)}
    words = [word for part, values in given.items() for key, value in values.items()
             for word in (f"--{part}.{key}", as_text(value))]  # fmt: skip
    train(parse(words)[0])
    return Trained.load(folder)


def _names() -> Any:
    return (Path("runs") / (f"fit-{number}" if number > 1 else "fit") for number in count(1))


def _targeted(graph: Data, task: OutputType) -> Data:
    """The graph with targets of the type that stands for this task in a file."""
    if graph.y is None:
        raise ValueError(f"task {task!r} needs targets y, got {graph}")
    made, y = graph.clone(), graph.y
    made.y = y.float() if task == "regression" else y.long()
    if task != "regression" and bool((made.y != y).any()):
        raise ValueError(f"task {task!r} needs whole numbers in y, got {y}")
    return made
