"""Metrics that torchmetrics defines otherwise, or not for all targets. Of several binary labels, over known targets:
the mean over the labels where they are defined."""

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import R2Score
from torchmetrics.classification import MultilabelAUROC, MultilabelAveragePrecision
from torchmetrics.functional.classification import binary_auroc, binary_average_precision
from torchmetrics.utilities import dim_zero_cat

from pggnn.data.graphs import is_known


class OfClasses:
    """For a metric of labels: of two classes the second is the only label."""

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds answers."""
        if target.dim() == 1:
            preds, target = preds[:, 1:], target.unsqueeze(1)
        super().update(preds, target)  # type: ignore[misc]


class AveragePrecision(OfClasses, MultilabelAveragePrecision):
    """Average precision, over the labels that some graph has."""

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean; NaN if it is defined for no label, or if an answer is NaN."""
        return _mean(self, binary_average_precision, Tensor.any)


class AUROC(OfClasses, MultilabelAUROC):
    """AUROC, over the labels that some graphs have and others do not."""

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean; NaN if it is defined for no label, or if an answer is NaN."""
        return _mean(self, binary_auroc, lambda truth: truth.any() and not truth.all())


class R2(R2Score):
    """The coefficient of determination: 1 for answers without error, 0 for the mean of the targets. In float64, as it
    is made of differences of large sums."""

    def __init__(self) -> None:
        super().__init__()
        self.set_dtype(torch.double)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds answers."""
        super().update(preds.double(), target.double())

    def compute(self) -> Tensor:
        """NaN of fewer than two targets, or if an answer is not finite."""
        defined = self.total >= 2 and bool(self.residual.isfinite().all())
        return super().compute() if defined else self.residual.new_tensor(torch.nan)


def _mean(
    metric: MultilabelAUROC | MultilabelAveragePrecision,
    score: Callable[[Tensor, Tensor], Tensor],
    defined: Callable[[Tensor], bool | Tensor],
) -> Tensor:
    answers, truth = dim_zero_cat(metric.preds), dim_zero_cat(metric.target)
    known = is_known(truth)
    if answers[known].isnan().any():  # NaN would be sorted first
        return answers.new_tensor(torch.nan)
    labels = [(answers[of, i], truth[of, i]) for i, of in enumerate(known.unbind(1))]
    each = [score(*label) for label in labels if defined(label[1])]
    return torch.stack(each).mean() if each else answers.new_tensor(torch.nan)
