"""When the learning rate falls, and when training ends for it."""

from typing import Any

import torch
from torch.optim import lr_scheduler

from pggnn.train.config import OptimConfig


class Schedule:
    """The learning rate after each epoch."""

    def __init__(self, optimizer: torch.optim.Optimizer, config: OptimConfig, maximise: bool) -> None:
        self._optimizer, self._config = optimizer, config
        self._rule: Any = None
        if config.schedule == "plateau":
            rule, patience = lr_scheduler.ReduceLROnPlateau, config.patience
            self._rule = rule(optimizer, "max" if maximise else "min", config.factor, patience)
        elif config.schedule == "step":
            self._rule = lr_scheduler.StepLR(optimizer, config.every, config.factor)
        elif config.schedule == "cosine":
            self._rule = lr_scheduler.CosineAnnealingLR(optimizer, config.epochs, config.min_lr)

    @property
    def lr(self) -> float:
        """The present learning rate."""
        return float(self._optimizer.param_groups[0]["lr"])

    @property
    def ended(self) -> bool:
        """Whether the learning rate is too low to go on."""
        return self.lr < self._config.min_lr

    def step(self, value: float) -> None:
        """Ends an epoch whose metric had this value."""
        if isinstance(self._rule, lr_scheduler.ReduceLROnPlateau):
            self._rule.step(value)
        elif self._rule is not None:
            self._rule.step()

    def state_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {} if self._rule is None else {k: v for k, v in self._rule.state_dict().items() if _is_plain(v)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state_dict`."""
        if self._rule is not None:
            self._rule.load_state_dict(state)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, list, type(None)))
