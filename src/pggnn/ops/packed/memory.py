"""Recycled CPU memory: the system charges more for fresh pages than the arithmetic that fills them costs."""

import threading

import torch
from torch import Tensor

MOST_BYTES = 512 * 2**20
"""How much memory is held for reuse."""


class Pool:
    """Flat buffers that are handed out again once nobody else refers to them."""

    def __init__(self) -> None:
        self.buffers: list[Tensor] = []
        self.lock = threading.Lock()

    def take(self, elements: int, like: Tensor) -> Tensor:
        """An uninitialised flat tensor with the dtype and device of ``like``."""
        if like.device.type != "cpu" or torch.are_deterministic_algorithms_enabled():
            return like.new_empty(elements)  # a GPU has its own pool; tests fill fresh memory with NaN
        with self.lock:
            fitting = [
                buffer
                for buffer in self.buffers
                if buffer.dtype == like.dtype and elements <= buffer.numel() <= 2 * elements and _unused(buffer)
            ]
            if fitting:
                return min(fitting, key=Tensor.numel)[:elements]
            with torch.inference_mode(False):  # or nobody could write to it once that mode has ended
                fresh = torch.empty(elements, dtype=like.dtype, device=like.device)
            if fresh.nbytes <= MOST_BYTES:
                self.buffers.append(fresh)
            self._shrink()
            return fresh[:]

    def _shrink(self) -> None:
        """Lets go of the longest held buffers beyond :data:`MOST_BYTES`; those in use live on with their users."""
        while sum(buffer.nbytes for buffer in self.buffers) > MOST_BYTES:
            self.buffers.pop(0)


def _unused(buffer: Tensor) -> bool:
    """Whether nobody else has it. Older versions of PyTorch do not tell: no buffer is then used again."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    storage = buffer.untyped_storage()
    return count is not None and count(storage._cdata) <= 2  # the pool's tensor, and the handle just made


POOL = Pool()
