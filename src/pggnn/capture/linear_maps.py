"""Linear maps in recorded steps, with fewer launches for their gradients."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pggnn.ops import HAS_TRITON

COUNTERS = 2**14
"""Tiles of weights that one step may have."""
MOST_ROWS = 2**15
"""Rows up to which one launch is faster than PyTorch's operations."""


class LinearMaps(TorchFunctionMode):
    """While it lasts, gradients of ``torch.nn.functional.linear`` by weights and biases take one launch each, whichever
    module calls it. For one step at a time: each linear map of a step has counters of its own."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._arrived = torch.zeros(COUNTERS, dtype=torch.int32, device=device)
        self._used = 0

    def __enter__(self) -> "LinearMaps":
        self._used = 0
        super().__enter__()
        return self

    def __torch_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        if function is torch.nn.functional.linear and HAS_TRITON and not kwargs:
            from pggnn.ops.fused.products import LinearMap, takes, tiles

            x, weight, bias = (*args, None)[:3]
            if takes(x, weight) and len(x) <= MOST_ROWS:
                first, self._used = self._used, self._used + tiles(weight)
                if self._used <= COUNTERS:
                    return LinearMap.apply(x, weight, bias, self._arrived[first : self._used])
        return function(*args, **(kwargs or {}))
