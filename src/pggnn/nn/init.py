"""Initialisations other than Glorot's."""

import copy
from collections.abc import Callable
from math import sqrt
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense.linear import Linear

from pggnn.cells import Recurrence
from pggnn.nn.model import Network


def torch_init(module: torch.nn.Module) -> None:
    """Initialises recurrent and linear weights and biases as PyTorch does: uniform within ±1/√width, which is the
    hidden size of an RNN, or the input size of a linear map. For ``network.apply(torch_init)``.

    The paper's appendix says Glorot, which is what layers here start with; its authors' code leaves the weights as
    PyTorch makes them, and that is what the published figures were made with. On counting it learns faster.

    Example:
        >>> from pggnn import PGGNN
        >>> from pggnn.nn import torch_init
        >>> model = PGGNN(8, 16, 1).apply(torch_init)
        >>> bool(model.convs[0].rnn.weight_hh_l0.abs().max() <= 16**-0.5)
        True
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


def scaled_init(module: torch.nn.Module) -> None:
    """Lets a network divide its readouts by their sizes, which are 1 until :func:`start_scores` measures them; weights
    stay as they are. For ``network.apply(scaled_init)``."""
    if isinstance(module, Network):
        for scale, head in zip(module.scales, module.scores, strict=True):
            first = _linear(head)[0]
            scale.size = first.weight.new_ones(first.in_channels)


@torch.no_grad()
def start_scores(network: Network, guess: Tensor, run: Callable[[Network], object]) -> None:
    """Starts the scores of a network at a guess, the same for all graphs. Columns of readouts that are large are
    divided by their root mean square, so that a step of the optimizer changes scores by little.

    Args:
        network: :func:`scaled_init` must have been applied to it.
        guess: ``[C]``, the scores.
        run: Calls a network with some graphs.
    """
    measured, found = copy.deepcopy(network).train(), []
    for scale in measured.scales:
        scale.register_forward_pre_hook(lambda _, args: found.append(args[0].double().square().mean(0).sqrt()))
    run(measured)
    first = found[: len(network.scales)]  # a network may score several times and combine that
    for scale, head, size in zip(network.scales, network.scores, first, strict=True):
        cast(Tensor, scale.size).copy_(size.clamp(min=1))
        last = _linear(head)[-1]
        last.weight.zero_()
        last.bias.zero_()
    last.bias.copy_(guess)


@torch.no_grad()
def fold_scales(network: Network) -> None:
    """Moves scales into the weights that follow them; scores stay the same, up to rounding."""
    for scale, head in zip(network.scales, network.scores, strict=True):
        if scale.size is not None:
            _linear(head)[0].weight.div_(scale.size)
            scale.size = None  # type: ignore[assignment]


@torch.no_grad()
def fold_unit(network: Network, deviation: Tensor, mean: Tensor) -> None:
    """Lets scores be multiplied by a deviation and a mean be added, in the weights."""
    for head in network.scores:
        last = _linear(head)[-1]
        last.weight.mul_(deviation.to(last.weight).unsqueeze(-1))
        last.bias.mul_(deviation.to(last.bias))
    last.bias.add_(mean.to(last.bias))


def _linear(head: torch.nn.Module) -> list[Any]:
    """The linear maps of a score."""
    return [part for part in head.modules() if isinstance(part, Linear)]


def accumulate_init(module: torch.nn.Module) -> None:
    """Initialises as :func:`torch_init`, except for the gates of LSTMs: the last layer of each keeps its state and
    adds a little of its input at each step, the layers below forget quickly. For ``network.apply(accumulate_init)``.

    The last state is then a sum over all steps of a sequence, and not only what its end shows: with small weights, the
    sum over the arrangements is close to a count of what consecutive neighbours show.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.nn import accumulate_init
        >>> conv = PGConv(8, 16, structure=1).apply(accumulate_init)
        >>> conv.rnn.bias_ih_l1[16:32].unique()  # the forget gate's: nearly all is kept
        tensor([4.], grad_fn=<Unique2Backward0>)
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
