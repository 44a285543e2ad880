"""Layers and models."""

from pggnn.nn.conv import PGConv
from pggnn.nn.init import accumulate_init, torch_init
from pggnn.nn.lists import HopConv, ListConv, PathConv, RingConv
from pggnn.nn.model import PGGNN
from pggnn.nn.variants import ChainConv, PairConv, TrioConv, TripletConv

__all__ = [
    "PGGNN",
    "ChainConv",
    "HopConv",
    "ListConv",
    "PGConv",
    "PairConv",
    "PathConv",
    "RingConv",
    "TrioConv",
    "TripletConv",
    "accumulate_init",
    "torch_init",
]
