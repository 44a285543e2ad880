"""The models PG-GNN is compared with, under its own interface and in its own frame."""

from pggnn.baselines.gcn import GCN
from pggnn.baselines.gin import GIN

__all__ = ["GCN", "GIN"]
