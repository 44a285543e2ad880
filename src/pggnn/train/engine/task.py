"""What a network's scores mean: losses and metrics for each kind of target."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pggnn.data.graphs import is_known
from pggnn.data.schema import UNKNOWN, Schema

LOSSES: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "mse": ("regression", functional.mse_loss),
    "mae": ("regression", functional.l1_loss),
    "cross_entropy": ("classification", functional.cross_entropy),
    "bce": ("multilabel", functional.binary_cross_entropy_with_logits),
}
DEFAULT_LOSS = {"regression": "mse", "classification": "cross_entropy", "multilabel": "bce"}
METRIC = {"regression": "MAE", "classification": "accuracy", "multilabel": "average precision"}
LESS_IS_BETTER = ("MAE", "RMSE")
BASELINE = {
    "regression": "always the mean", "classification": "always the most frequent class",
    "multilabel": "always the labels' frequencies",
}  # fmt: skip
"""What is answered without a network: the same for all, from the training graphs."""

NONFINITE = "nonfinite"
"""Key, among metrics, of the answers that are not finite."""


@dataclass(frozen=True)
class Task:
    """Losses, metrics and answers for the targets of a data set."""

    schema: Schema
    loss_name: str = "auto"
    metric_names: tuple[str, ...] = ()
    """The metric that models are compared in is the first of these that the task has; by default that of METRIC."""
    deviation: Tensor | None = None
    """Unit of the loss, for each column of a regression."""

    def __post_init__(self) -> None:
        kind = self.schema.task
        if kind is None:
            raise ValueError("the graphs have no targets y to learn: give each of them y, or node_y for its nodes")
        if self.loss_name != "auto" and LOSSES[self.loss_name][0] != kind:
            fitting = " or ".join(name for name, (one, _) in LOSSES.items() if one == kind)
            raise ValueError(f"optim.loss {self.loss_name} does not fit {kind}: choose {fitting}, or auto")
        if self.metric_names and not set(self.metric_names) & set(known := self.metrics()):
            raise ValueError(
                f"protocol.metric {' '.join(self.metric_names)} does not fit {kind}: choose {' or '.join(known)}"
            )

    @property
    def kind(self) -> str:
        """``"classification"``, ``"regression"`` or ``"multilabel"``."""
        return str(self.schema.task)

    @cached_property
    def metric(self) -> str:
        """Name of the figure that models are chosen by and compared in."""
        if not self.metric_names:
            return METRIC[self.kind]
        known = self.metrics()
        return next(name for name in self.metric_names if name in known)

    @cached_property
    def maximise(self) -> bool:
        """Whether more of it is better."""
        return self.metric not in LESS_IS_BETTER

    def better(self, value: float, than: float | None) -> bool:
        """Whether one value of the metric is better than another."""
        if than is None or math.isnan(than):
            return True
        return value > than if self.maximise else value < than

    @property
    def columns(self) -> int:
        """Targets in a row."""
        return 1 if self.kind == "classification" else self.schema.out_channels

    def guess(self, targets: Tensor) -> Tensor:
        """``[C]`` the scores that have the least loss of those that are the same for all these targets; as a metric
        sees it the most frequent class, or the mean (the median, where that is the loss)."""
        if self.kind == "classification":
            counts = targets[targets >= 0].bincount(minlength=self.schema.out_channels)
            return ((counts + 1) / (counts.sum() + len(counts))).log()
        known = targets.cpu()  # a GPU has no repeatable median
        mean: Tensor = known.nanmedian(0).values if self.loss_name == "mae" else known.nanmean(0)
        mean = mean.nan_to_num().to(targets.device)
        return mean.clamp(1e-4, 1 - 1e-4).logit() if self.kind == "multilabel" else mean

    def baseline(self, guess: Tensor, targets: Tensor) -> dict[str, float]:
        """The metrics of one :meth:`guess` for all targets."""
        return self.measure(self.outputs(guess.repeat(len(targets), 1)), targets)

    def targets(self, y: Tensor) -> Tensor:
        """The targets, one row for each row of scores where those have several columns."""
        if self.kind == "classification":
            return y.view(-1).long()
        return y.float().view(-1, self.schema.out_channels)

    def loss(self, scores: Tensor, targets: Tensor, counts: Tensor | None = None) -> Tensor:
        """Sum of the loss over the known targets, weighted by ``counts``, divided by the number of columns. The loss of
        a committee is the sum over its networks, so that each learns as if alone."""
        if scores.dim() == 3:
            return torch.stack([self.loss(one, targets, counts) for one in scores]).sum()
        name = DEFAULT_LOSS[self.kind] if self.loss_name == "auto" else self.loss_name
        scores, known = _wide(scores), is_known(targets)
        targets = targets.where(known, 0)
        if self.deviation is not None:
            scores, targets = scores / self.deviation, targets / self.deviation
        each = LOSSES[name][1](
            scores, targets if self.kind == "classification" else targets.to(scores.dtype), reduction="none"
        )
        each = each.where(known, 0).view(len(targets), self.columns)
        return (each if counts is None else each * counts.unsqueeze(-1)).sum() / self.columns

    def metrics(self) -> Any:
        """A ``torchmetrics.MetricCollection``."""
        import torchmetrics as tm

        from pggnn.train.engine.multilabel import AUROC, R2, AveragePrecision

        kind, channels = self.kind, self.schema.out_channels
        found: dict[str, Any] = {}
        if kind == "regression":
            found |= {"MAE": tm.MeanAbsoluteError(), "RMSE": tm.MeanSquaredError(squared=False), "R2": R2()}
        if kind == "classification":
            classes: dict[str, Any] = {"num_classes": channels, "validate_args": False}
            found["accuracy"] = tm.classification.MulticlassAccuracy(average="micro", **classes)
            found["macro F1"] = tm.classification.MulticlassF1Score(average="macro", **classes)
        if kind == "multilabel" or (kind == "classification" and channels == 2):
            labels = channels if kind == "multilabel" else 1
            for name, metric in (("average precision", AveragePrecision), ("AUROC", AUROC)):
                found[name] = metric(num_labels=labels, thresholds=None, validate_args=False)
        return tm.MetricCollection(found, compute_groups=False)

    def measurable(self, targets: Tensor) -> Tensor:
        """Targets in the type that the metrics expect."""
        return targets.nan_to_num(UNKNOWN).long() if self.kind == "multilabel" else targets

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """The metrics over the known targets, of all processes. In classification an answer that is not finite is
        wrong; in other tasks it makes the metrics NaN or infinite."""
        metrics = self.metrics().to(outputs.device)
        if self.kind != "multilabel":  # whose metrics are those of single columns
            known = is_known(targets)
            outputs, targets = outputs[known], targets[known]
        missed = targets[:0]
        if self.kind == "classification":  # or argmax would take NaN for the first class
            finite = is_finite(outputs)
            outputs, lost, targets, missed = outputs[finite], outputs[~finite], targets[finite], targets[~finite]
        if len(outputs):
            metrics.update(outputs, self.measurable(targets))
        for metric in metrics.values() if len(missed) else ():
            if not hasattr(metric, "fn"):  # of probabilities, without which it is NaN
                metric.update(lost, missed)
                continue
            counts = missed.bincount(minlength=self.schema.out_channels)
            metric.fn += counts if metric.fn.numel() > 1 else counts.sum()
            metric._update_count += 1
        return {name: float(value) for name, value in metrics.compute().items()}

    def outputs(self, scores: Tensor) -> Tensor:
        """Probabilities or values, which can be averaged over models; the mean over a committee. An infinite score is
        an overflow, so its probability is NaN."""
        answers = _wide(scores)
        infinite = ~answers.isfinite()
        if self.kind == "classification":
            answers = torch.softmax(answers, dim=-1).masked_fill(infinite.any(-1, keepdim=True), torch.nan)
        elif self.kind == "multilabel":
            answers = torch.sigmoid(answers).masked_fill(infinite, torch.nan)
        return answers.mean(0) if answers.dim() == 3 else answers


def is_finite(outputs: Tensor) -> Tensor:
    """Which answers are finite in all columns."""
    return outputs.isfinite().flatten(1).all(1)


def _wide(scores: Tensor) -> Tensor:
    return scores.float() if scores.dtype in (torch.half, torch.bfloat16) else scores
