"""Layers and models."""

from pggnn.nn.conv import PGConv
from pggnn.nn.init import tally_init, torch_init
from pggnn.nn.model import PGGNN
from pggnn.nn.variants import ChainConv, PairConv, TripletConv

__all__ = ["PGGNN", "ChainConv", "PGConv", "PairConv", "TripletConv", "tally_init", "torch_init"]
