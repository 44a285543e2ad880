"""Several processes that train one network: the same losses as one process with the whole batch."""

import os

import torch
from torch import distributed
from torch.distributed.nn.functional import all_reduce
from torch_geometric.nn.norm import BatchNorm

from pggnn.nn.norm import RowNorm


def processes() -> tuple[int, int]:
    """Number of processes that ``torchrun`` has started, in all and on this machine; 1 and 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def is_main() -> bool:
    """Whether this process is the one that writes files and prints."""
    return int(os.environ.get("RANK", 0)) == 0


def share_norms(module: torch.nn.Module) -> None:
    """Makes every batch normalisation in the module one over all processes, where there are several."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    for norm in module.modules():
        if isinstance(norm, BatchNorm):
            norm.allow_single_element = False  # a single row here may be one of many
        elif isinstance(norm, RowNorm):
            norm.total = all_reduce
