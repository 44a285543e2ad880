"""Another start for the weights than Glorot's."""

from math import sqrt

import torch
from torch_geometric.nn.dense.linear import Linear

from pggnn.cells import Recurrence


def torch_init(module: torch.nn.Module) -> None:
    """Starts recurrent and linear weights and biases as PyTorch starts its own: uniform within ±1/√width, which is the
    hidden size of an RNN, or the input size of a linear map. For ``network.apply(torch_init)``.

    The paper's appendix says Glorot, which is what layers here start with; its authors' code leaves the weights as
    PyTorch makes them, and that is what the published figures were made with. On counting it learns faster.
    """
    if isinstance(module, (Recurrence, Linear)):
        bound = 1 / sqrt(module.hidden_size if isinstance(module, Recurrence) else module.in_channels)
        for parameter in module.parameters(recurse=False):
            torch.nn.init.uniform_(parameter, -bound, bound)
