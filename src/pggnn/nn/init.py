"""Other starts for the weights than Glorot's."""

from math import sqrt

import torch
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense.linear import Linear

from pggnn.cells import Recurrence


def torch_init(module: torch.nn.Module) -> None:
    """Starts recurrent and linear weights and biases as PyTorch starts its own: uniform within ±1/√width, which is the
    hidden size of an RNN, or the input size of a linear map. For ``network.apply(torch_init)``.

    The paper's appendix says Glorot, which is what layers here start with; its authors' code leaves the weights as
    PyTorch makes them, and that is what the published figures were made with. On counting it learns faster.
    """
    if isinstance(module, (Recurrence, Linear)):
        if any(map(is_lazy, module.parameters(recurse=False))):
            raise ValueError(
                "weights cannot be started before their shape is known (in_channels=-1): call the network once with "
                "its inputs, then start them"
            )
        bound = 1 / sqrt(module.hidden_size if isinstance(module, Recurrence) else module.in_channels)
        for parameter in module.parameters(recurse=False):
            torch.nn.init.uniform_(parameter, -bound, bound)


def tally_init(module: torch.nn.Module) -> None:
    """Starts as :func:`torch_init`, but for the LSTMs' gates: the uppermost layer of each keeps its state and adds a
    little of its input at each step, the layers below forget soon. For ``network.apply(tally_init)``.

    What a sequence shows from step to step is then summed up over all of it, and not lost but for its end: with small
    weights, the sum over the arrangements is close to a count of what consecutive neighbours show.
    """
    torch_init(module)
    if isinstance(module, Recurrence) and module.cell == "lstm":
        for layer in range(module.num_layers):
            bias = getattr(module, f"bias_ih_l{layer}").detach()
            taken, kept = bias[: module.hidden_size], bias[module.hidden_size : 2 * module.hidden_size]
            if layer + 1 == module.num_layers:
                taken.fill_(-2)
                kept.fill_(4)
            else:
                taken.zero_()
                kept.fill_(-1)
