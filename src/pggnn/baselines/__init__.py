"""The models PG-GNN is compared with, under its own interface and in its own frame."""

from typing import TYPE_CHECKING, Any

from pggnn.baselines.options import MODELS

if TYPE_CHECKING:
    from pggnn.baselines.both_ends import BothEnds
    from pggnn.baselines.cin import CIN, SIN
    from pggnn.baselines.clip import CLIP
    from pggnn.baselines.deep_lrp import DeepLRP
    from pggnn.baselines.dense.ign import IGN
    from pggnn.baselines.dense.ppgn import PPGN
    from pggnn.baselines.dense.ring_gnn import RingGNN
    from pggnn.baselines.dgcnn import DGCNN
    from pggnn.baselines.gated_gcn import GatedGCN
    from pggnn.baselines.gcn import GCN
    from pggnn.baselines.gin import GIN
    from pggnn.baselines.lrp import LRP
    from pggnn.baselines.pna import PNA
    from pggnn.baselines.rgin import RGIN
    from pggnn.baselines.rp import RP
    from pggnn.baselines.sage import SAGE

__all__ = [
    "CIN",
    "CLIP",
    "DGCNN",
    "GCN",
    "GIN",
    "IGN",
    "LRP",
    "MODELS",
    "PNA",
    "PPGN",
    "RGIN",
    "RP",
    "SAGE",
    "SIN",
    "BothEnds",
    "DeepLRP",
    "GatedGCN",
    "RingGNN",
]


def __getattr__(name: str) -> Any:
    """Imports PyTorch only with the first class that needs it, so that the command line answers at once."""
    for model in MODELS.values():
        if model.path.startswith(f"{__name__}.") and model.path.endswith(f".{name}"):
            return model.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
