"""What the networks of a run answer for its test graphs, kept beside the run in a small file.

With that file a page can be made again where neither weights nor data are at hand.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pggnn.console import NO_MEMORY, is_gpu_full
from pggnn.data.formats.archives import read_npz
from pggnn.data.schema import Schema
from pggnn.files import replacing
from pggnn.train import packed
from pggnn.train.packed import shortened
from pggnn.train.runs.stored import Run

FILE = "predictions.npz"
BITS = 12
"""Bits of a float32 that are dropped: three significant digits stay, and the file halves."""
MOST = 2000
"""Answers in numbers that a packed run keeps: enough for a picture."""


@dataclass(frozen=True)
class Predictions:
    """Answers and targets of all trainings, one after another."""

    kind: str
    """The run's protocol, with ``"auto"`` resolved."""
    epochs: tuple[int, ...]
    """The epoch whose network answered, of each training; 0 where it has not ended."""
    predicted: np.ndarray
    """``[N]`` classes, or ``[N, C]`` values; of several yes-or-no targets whether the answer is yes."""
    true: np.ndarray
    """The same of the targets."""
    total: int
    """How many answers there were; more than are kept in a packed run, or than were finite where they are classes."""
    trainings: tuple[str, ...]
    """Names of the trainings; none in files that do not say."""

    @classmethod
    def load(cls, path: Path) -> "Predictions":
        """Those of the file, or of the packed run that it would belong to."""
        arrays = read_npz(path) if path.exists() else packed.read_answers(path.parent) or {}
        kinds = {"kind": "U0", "epochs": "iu1", "predicted": "biuf12", "true": "biuf12"}
        kinds |= {key: kind for key, kind in (("total", "iu0"), ("trainings", "Uf1")) if key in arrays}
        found = {key: arrays[key] for key in kinds if key in arrays}
        if (
            found.keys() != kinds.keys()
            or any(one.dtype.kind not in kinds[key] or str(one.ndim) not in kinds[key] for key, one in found.items())
            or found["predicted"].shape != found["true"].shape
            or found["predicted"].ndim != 1 + (found["predicted"].dtype.kind in "bf")
            or int(arrays.get("total", len(found["true"]))) < len(found["true"])
        ):
            raise ValueError(f"{path} does not hold predictions: delete it, and it is made again")
        total = int(arrays.get("total", len(arrays["true"])))
        epochs, trainings = (tuple(arrays[key].tolist()) if key in arrays else () for key in ("epochs", "trainings"))
        return cls(str(arrays["kind"]), epochs, arrays["predicted"], arrays["true"], total, trainings)

    def fits(self, schema: Schema | None) -> bool:
        """Whether all classes are those of a schema, if it is known."""
        return (
            schema is None
            or self.predicted.ndim > 1
            or not len(self.true)
            or bool(
                min(self.predicted.min(), self.true.min()) >= 0
                and max(self.predicted.max(), self.true.max()) < len(schema.classes)
            )
        )

    def save(self, path: Path) -> None:
        """Writes the file."""
        with replacing(path) as file:
            np.savez_compressed(file, **self.arrays)

    @property
    def arrays(self) -> dict[str, Any]:
        """All of it, as the file has it."""
        named = {name: getattr(self, name) for name in ("kind", "epochs", "predicted", "true", "total", "trainings")}
        return {name: np.asarray(value) for name, value in named.items()}

    def thinned(self) -> "Predictions":
        """A sample of the answers, always the same one; classes take little room, and all of them stay."""
        if self.predicted.dtype.kind != "f" or len(self.true) <= MOST:
            return self
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.true))[:MOST])
        return replace(self, predicted=self.predicted[chosen], true=self.true[chosen])


def find(run: Run, compute: bool = True) -> tuple[Predictions | None, str]:
    """The run's predictions, from their file or from weights and data; or None, and why there are none.

    Args:
        run: The run.
        compute: Whether to have the networks answer where the file is missing or out of date.
    """
    path, kept_none = run.folder / FILE, packed.holds(run.folder)
    reason = "none were packed" if kept_none else "they were not computed"
    expected, trainings = _epochs(run), _names(run)
    if path.exists() or packed.read_answers(run.folder) is not None:
        try:
            kept = Predictions.load(path)
            if kept.epochs == expected and kept.trainings in (trainings, ()) and kept.fits(run.schema):
                return kept, ""
            reason = f"{FILE} belongs to other epochs or trainings of this run"
        except ValueError as error:
            reason = str(error)
    if not compute or kept_none:
        return None, reason
    try:
        found = _answer(run)
    except (ValueError, OSError) as error:
        return None, str(error)
    except RuntimeError as error:
        if not is_gpu_full(str(error)):
            raise
        return None, NO_MEMORY
    if run.complete:
        try:
            found.save(path)
        except OSError as error:
            return found, f"{path} could not be written: {error.strerror}"
    return found, ""


def _epochs(run: Run) -> tuple[int, ...]:
    return tuple(found[0] if trial in run.results and (found := run.tested(trial)) else 0 for trial in run.logs)


def _names(run: Run) -> tuple[str, ...]:
    return tuple(trial.name for trial in run.logs)


def _answer(run: Run) -> Predictions:
    import torch

    from pggnn.data.graphs import Graphs, is_known
    from pggnn.train.runs import protocol
    from pggnn.train.runs.folder import check_same
    from pggnn.train.runs.predict import Trained

    trained = Trained.load(run.folder, run.which)
    graphs = Graphs.of(trained.read(run.config.data.name))
    check_same(trained.config, graphs)
    collater, task = trained.collater(graphs), trained.task
    splits = {trial: protocol.split(run.config, graphs, trial) for trial in trained.scorers}
    pairs = [trained.answers(collater, one.test, [trial], by_node=one.by_node) for trial, one in splits.items()]
    outputs, targets = (torch.cat(column).numpy() for column in zip(*pairs, strict=True))
    kind = protocol.kind(run.config, graphs)
    epochs, names = _epochs(run), _names(run)
    if task.kind == "regression":
        return Predictions(kind, epochs, shortened(outputs, BITS), targets.astype(np.float32), len(targets), names)
    known = is_known(torch.from_numpy(targets)).numpy()
    if not known.all():
        outputs, targets = outputs[known], targets[known]
        if task.kind == "multilabel":  # one row for each known target
            outputs, targets = outputs[:, None], targets[:, None]
    total, finite = len(targets), np.isfinite(outputs).all(1)  # NaN would be the first class, or a no
    outputs, targets = outputs[finite], targets[finite]
    if task.kind == "multilabel":
        return Predictions(kind, epochs, outputs > 0.5, targets > 0.5, total, names)
    small = np.min_scalar_type(outputs.shape[1])
    return Predictions(kind, epochs, outputs.argmax(1).astype(small), targets.astype(small), total, names)
