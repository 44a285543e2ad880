"""PG-GNN: an aggregator that sees which of a node's neighbours know each other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pggnn.nn.conv import PGConv
    from pggnn.nn.model import PGGNN
    from pggnn.plan import Plan
    from pggnn.transforms import AddHops, AddPaths, AddRings

__all__ = ["PGGNN", "AddHops", "AddPaths", "AddRings", "PGConv", "Plan", "fit", "load"]
__version__ = "0.1.0"

_HOMES = {"PGConv": "pggnn.nn.conv", "PGGNN": "pggnn.nn.model", "Plan": "pggnn.plan"}
_HOMES |= dict.fromkeys(("AddHops", "AddPaths", "AddRings"), "pggnn.transforms")
_HOMES |= dict.fromkeys(("fit", "load"), "pggnn.train.api")


def __getattr__(name: str) -> Any:
    """Imports PyTorch only with the first name that needs it, so that the command line answers at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pggnn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
