"""Metrics of several binary labels: the mean over the labels where they are defined."""

import torch
from torch import Tensor
from torchmetrics.classification import MultilabelAUROC, MultilabelAveragePrecision
from torchmetrics.functional.classification import binary_auroc, binary_average_precision
from torchmetrics.utilities import dim_zero_cat


class AveragePrecision(MultilabelAveragePrecision):
    """Average precision, over the labels that some graph has."""

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean, 0 if it is defined for no label; NaN if an answer is NaN."""
        answers, truth = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        each = [binary_average_precision(answers[:, i], truth[:, i]) for i in truth.amax(0).nonzero().view(-1)]
        return _mean(each, answers)


class AUROC(MultilabelAUROC):
    """AUROC, over the labels that some graphs have and others do not."""

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean, 0 if it is defined for no label; NaN if an answer is NaN."""
        answers, truth = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        both = (truth.amax(0) > truth.amin(0)).nonzero().view(-1)
        return _mean([binary_auroc(answers[:, i], truth[:, i]) for i in both], answers)


def _mean(each: list[Tensor], answers: Tensor) -> Tensor:
    if answers.isnan().any():  # NaN would be sorted first
        return answers.new_tensor(torch.nan)
    return torch.stack(each).mean() if each else answers.new_zeros(())
