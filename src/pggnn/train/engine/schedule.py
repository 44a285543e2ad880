"""Learning-rate schedules, and when a low rate ends training."""

from typing import Any

import torch
from torch.optim import lr_scheduler

from pggnn.train.config import OptimConfig


class Schedule:
    """The learning rate after each epoch."""

    def __init__(self, optimizer: torch.optim.Optimizer, config: OptimConfig, maximise: bool) -> None:
        self._optimizer, self._config = optimizer, config
        self._epoch = 0
        self._rule: Any = None
        if config.schedule == "plateau":
            rule, patience = lr_scheduler.ReduceLROnPlateau, config.patience
            self._rule = rule(optimizer, "max" if maximise else "min", config.factor, patience)
        elif config.schedule == "step":
            self._rule = lr_scheduler.StepLR(optimizer, config.every, config.factor)
        elif config.schedule == "cosine":
            self._rule = lr_scheduler.CosineAnnealingLR(optimizer, config.epochs - config.warmup, config.min_lr)
        self._warm_up()

    @property
    def lr(self) -> float:
        """The present learning rate."""
        return float(self._optimizer.param_groups[0]["lr"])

    @property
    def ended(self) -> bool:
        """Whether the learning rate is too low to go on."""
        return self._epoch >= self._config.warmup and self.lr < self._config.min_lr

    def step(self, value: float) -> None:
        """Ends an epoch whose metric had this value."""
        self._epoch += 1
        if self._epoch <= self._config.warmup:
            self._warm_up()
        elif isinstance(self._rule, lr_scheduler.ReduceLROnPlateau):
            self._rule.step(value)
        elif self._rule is not None:
            self._rule.step()

    def state_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        rule = {} if self._rule is None else self._rule.state_dict()
        return {k: v for k, v in rule.items() if _is_plain(v)} | {"epoch": self._epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state_dict`."""
        self._epoch = state.get("epoch", self._config.warmup)
        if self._rule is not None:
            self._rule.load_state_dict({key: value for key, value in state.items() if key != "epoch"})

    def _warm_up(self) -> None:
        """The learning rate of the next epoch, while it rises: the first has a ``warmup``-th of it, the last all."""
        if self._config.warmup:
            for group in self._optimizer.param_groups:
                group["lr"] = self._config.lr * min(1.0, (self._epoch + 1) / self._config.warmup)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, list, type(None)))
