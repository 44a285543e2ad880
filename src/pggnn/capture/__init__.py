"""CUDA graphs of passes over padded batches: for the training engine, and for training loops of your own."""

from pggnn.capture.recorded import Recorded

__all__ = ["Recorded"]
