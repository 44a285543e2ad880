"""The models PG-GNN is compared with, under its own interface and in its own frame."""

from pggnn.baselines.gcn import GCN
from pggnn.baselines.gin import GIN
from pggnn.baselines.lrp import LRP
from pggnn.baselines.rgin import RGIN
from pggnn.baselines.rp import RP
from pggnn.baselines.sage import SAGE

__all__ = ["GCN", "GIN", "LRP", "RGIN", "RP", "SAGE"]
