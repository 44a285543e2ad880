"""Figures of several yes-or-no targets: the mean over those that have one."""

import torch
from torch import Tensor
from torchmetrics.classification import MultilabelAUROC, MultilabelAveragePrecision
from torchmetrics.functional.classification import binary_auroc, binary_average_precision
from torchmetrics.utilities import dim_zero_cat


class AveragePrecision(MultilabelAveragePrecision):
    """Over the labels that some graph has: where none has it, there is nothing to find."""

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean, or 0 if no label has a figure; NaN where an answer is."""
        answers, truth = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        each = [binary_average_precision(answers[:, i], truth[:, i]) for i in truth.amax(0).nonzero().view(-1)]
        return _mean(each, answers)


class AUROC(MultilabelAUROC):
    """Over the labels that some graphs have and some have not: otherwise there is nothing to tell apart."""

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean, or 0 if no label has a figure; NaN where an answer is."""
        answers, truth = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        both = (truth.amax(0) > truth.amin(0)).nonzero().view(-1)
        return _mean([binary_auroc(answers[:, i], truth[:, i]) for i in both], answers)


def _mean(each: list[Tensor], answers: Tensor) -> Tensor:
    if answers.isnan().any():  # which would be sorted as the surest of all
        return answers.new_tensor(torch.nan)
    return torch.stack(each).mean() if each else answers.new_zeros(())
