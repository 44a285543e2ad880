"""Several processes that train one network: the same losses as one process with the whole batch."""

import os

import torch
from torch import Tensor, distributed
from torch.distributed.nn.functional import all_reduce
from torch_geometric.nn.norm import BatchNorm

from pggnn.nn.norm import masked_norm


def processes() -> tuple[int, int]:
    """Number of processes that ``torchrun`` has started, in all and on this machine; 1 and 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def is_main() -> bool:
    """Whether this process is the one that writes files and prints."""
    return int(os.environ.get("RANK", 0)) == 0


class SharedBatchNorm(torch.nn.BatchNorm1d):
    """Batch normalisation over the rows of all processes, which may have different numbers of them, or none.

    PyTorch's own ``SyncBatchNorm`` works on GPUs only.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalises ``x`` of shape ``[N, C]``."""
        return masked_norm(self, x, None, all_reduce) if self.training else super().forward(x)


def share_norms(module: torch.nn.Module) -> torch.nn.Module:
    """Makes every batch normalisation in the module one over all processes, where there are several."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return module
    if isinstance(module, BatchNorm):
        module.allow_single_element = False  # a single row here may be one of many
    for name, child in module.named_children():
        if type(child) is torch.nn.BatchNorm1d:
            shared = SharedBatchNorm(child.num_features, child.eps, child.momentum, child.affine)
            shared.load_state_dict(child.state_dict())
            setattr(module, name, shared)
        else:
            share_norms(child)
    return module
