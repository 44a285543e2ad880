import math

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from pggnn.data.schema import Schema
from pggnn.train.engine.task import Task


def figures(answers, truth):
    metrics = Task(Schema("graph", "multilabel", truth.size(1))).metrics()
    for some in (slice(0, 3), slice(3, None)):
        metrics.update(answers[some], truth[some])
    return {name: float(value) for name, value in metrics.compute().items()}


@pytest.mark.filterwarnings("error")
def test_labels_that_no_graph_has_are_left_out():
    answers = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
    truth = torch.tensor([[i % 2, i % 3 == 0, 0, 1] for i in range(12)]).long()
    found = figures(answers, truth)
    precisions, areas = (
        [score(truth[:, i].numpy(), answers[:, i].numpy()) for i in labels]
        for score, labels in ((average_precision_score, (0, 1, 3)), (roc_auc_score, (0, 1)))
    )
    assert found["average precision"] == pytest.approx(sum(precisions) / 3)
    assert found["AUROC"] == pytest.approx(sum(areas) / 2)
    nowhere = figures(answers, torch.zeros_like(truth))
    assert all(map(math.isnan, nowhere.values())), "a figure that does not exist is not 0"
