"""Learning rates, epoch by epoch."""

import math

import pytest
import torch

from pggnn.train.config import OptimConfig
from pggnn.train.engine.schedule import Schedule


def rates(config, values=None, stop=None):
    """The learning rate of each epoch; with ``stop``, of those after a training that was cut off then and goes on."""
    adam = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], config.lr)
    schedule, found = Schedule(adam, config, False), []
    for epoch in range(config.epochs):
        if epoch == stop:
            again = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], config.lr)
            resumed = Schedule(again, config, False)
            again.load_state_dict(adam.state_dict())
            resumed.load_state_dict(schedule.state_dict())
            schedule, adam = resumed, again
        if schedule.ended:
            break
        found.append(schedule.lr)
        adam.step()
        schedule.step(1.0 if values is None else values[epoch])
    return found


@pytest.mark.parametrize("stop", [None, 1, 2, 3, 5])
def test_warm_up_comes_before_any_rule(stop):
    common = {"lr": 0.4, "warmup": 4, "epochs": 10, "patience": 1, "every": 2, "min_lr": 0.15}
    rise = [0.1, 0.2, 0.3, 0.4]
    expected = {
        "constant": rise + [0.4] * 6,
        "step": [*rise, 0.4, 0.4, 0.2, 0.2],  # then 0.1, below min_lr, though it began there
        "plateau": [*rise, 0.4, 0.4, 0.4, 0.2, 0.2],
        "cosine": rise + [0.15 + 0.125 * (1 + math.cos(math.pi * t / 6)) for t in range(6)],
    }
    for kind, found in expected.items():
        assert rates(OptimConfig(schedule=kind, **common), stop=stop) == pytest.approx(found), kind


def test_without_warm_up_the_first_epoch_has_all():
    assert rates(OptimConfig(schedule="step", lr=1.0, epochs=4, every=2)) == [1.0, 1.0, 0.5, 0.5]
