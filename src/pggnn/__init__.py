"""PG-GNN: an aggregator that sees which of a node's neighbours know each other."""

from pggnn.nn import PGGNN, PGConv
from pggnn.plan import Plan

__all__ = ["PGGNN", "PGConv", "Plan"]
__version__ = "0.1.0"
