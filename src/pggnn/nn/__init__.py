"""Layers and models."""

from pggnn.nn.conv import PGConv
from pggnn.nn.init import tally_init, torch_init
from pggnn.nn.model import PGGNN
from pggnn.nn.variants import ChainConv, PairConv, TrioConv, TripletConv

__all__ = [
    "PGGNN",
    "ChainConv",
    "PGConv",
    "PairConv",
    "TrioConv",
    "TripletConv",
    "tally_init",
    "torch_init",
]
