"""The recurrent cells: their gates, their maths by definition, and the module that holds their weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter
from torch.nn.modules.lazy import LazyModuleMixin

State = tuple[Tensor, ...]


def _lstm(x: Tensor, h: Tensor, state: State) -> State:
    i, f, g, o = (x + h).chunk(4, dim=-1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, h: Tensor, state: State) -> State:
    x_r, x_z, x_n = x.chunk(3, dim=-1)
    h_r, h_z, h_n = h.chunk(3, dim=-1)
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    return ((1 - z) * n + z * state[0],)


def _gate_and_input(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = x.chunk(2, dim=-1)
    return a.sigmoid(), b.relu()


def _linear(x: Tensor, h: Tensor, state: State) -> State:
    a, b = _gate_and_input(x)
    return (a * state[0] + b,)


@dataclass(frozen=True)
class Cell:
    """A recurrent cell in the conventions of ``torch.nn``.

    ``step(x, h, state)`` takes the gates' input part ``W_ih x + b_ih`` and hidden part ``W_hh h + b_hh``, each of
    ``gates`` blocks, and returns the next state, hidden vector first.

    Example:
        >>> from pggnn.cells import CELLS
        >>> CELLS["gru"].gates, CELLS["lstm"].states, CELLS["linear"].affine is not None
        (3, 2, True)
    """

    gates: int
    states: int
    step: Callable[[Tensor, Tensor, State], State]
    affine: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    """For a cell h ← a ⊙ h + b: ``a`` and ``b`` from the input part. Such a cell has no hidden part, and one layer."""


CELLS: dict[str, Cell] = {
    "lstm": Cell(gates=4, states=2, step=_lstm),
    "gru": Cell(gates=3, states=1, step=_gru),
    "srn": Cell(gates=1, states=1, step=lambda x, h, state: ((x + h).tanh(),)),
    "srn-relu": Cell(gates=1, states=1, step=lambda x, h, state: ((x + h).relu(),)),
    "srn-identity": Cell(gates=1, states=1, step=lambda x, h, state: (x + h,)),
    "linear": Cell(gates=2, states=1, step=_linear, affine=_gate_and_input),
}


class Layer(NamedTuple):
    """One layer's weights as an operation gets them; the first layer's input part is already in the gate rows."""

    weight_ih: Tensor | None
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor

    @property
    def filled(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """With those of the state in place of what the first layer does not have, for kernels that do not read it."""
        weight_ih, weight_hh, bias_ih, bias_hh = self
        return (
            weight_hh if weight_ih is None else weight_ih,
            weight_hh,
            bias_hh if bias_ih is None else bias_ih,
            bias_hh,
        )


def split_layers(weights: Sequence[Tensor]) -> list[Layer]:
    """Undoes :attr:`Recurrence.recurrent_weights`."""
    upper = (weights[first : first + 4] for first in range(2, len(weights), 4))
    return [Layer(None, weights[0], None, weights[1]), *(Layer(*layer) for layer in upper)]


def is_integer(value: object, least: int) -> bool:
    """Whether an argument is a whole number, NumPy's too, and large enough."""
    return isinstance(value, Integral) and int(value) >= least


class Recurrence(torch.nn.Module):
    """The weights of a stacked RNN, named, shaped and ordered as in ``torch.nn.LSTM``, ``GRU`` and ``RNN``.

    State dicts move freely between this module and its namesake there. It only holds weights: the sequences are read by
    :func:`pggnn.ops.group_recurrence`. The cell ``"linear"`` has ``weight_ih_l0`` and ``bias_ih_l0`` alone.

    Example:
        >>> import torch
        >>> from pggnn.cells import Recurrence
        >>> rnn = Recurrence(8, 16, num_layers=2, cell="lstm")
        >>> rnn.load_state_dict(torch.nn.LSTM(8, 16, num_layers=2).state_dict())
        <All keys matched successfully>
    """

    weight_ih_l0: Parameter
    bias_ih_l0: Parameter

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, cell: str = "lstm") -> None:
        super().__init__()
        if not isinstance(cell, str) or cell not in CELLS:
            raise ValueError(f"cell must be one of {', '.join(map(repr, CELLS))}, got {cell!r}")
        for name, number in (("the hidden size (out_channels)", hidden_size), ("num_layers", num_layers)):
            if not is_integer(number, 1):
                raise ValueError(f"{name} must be an integer ≥ 1, got {number!r}")
        if CELLS[cell].affine is not None and num_layers > 1:
            raise ValueError(f"the cell {cell!r} has one layer: num_layers must be 1, got {num_layers}")
        self.hidden_size, self.num_layers, self.cell = hidden_size, num_layers, cell
        rows = CELLS[cell].gates * hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else hidden_size
            weight_ih = Parameter(torch.empty(rows, columns)) if columns > 0 else UninitializedParameter()
            self.register_parameter(f"weight_ih_l{layer}", weight_ih)  # type: ignore[arg-type]
            if CELLS[cell].affine is None:
                self.register_parameter(f"weight_hh_l{layer}", Parameter(torch.empty(rows, hidden_size)))
            self.register_parameter(f"bias_ih_l{layer}", Parameter(torch.empty(rows)))
            if CELLS[cell].affine is None:
                self.register_parameter(f"bias_hh_l{layer}", Parameter(torch.empty(rows)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot for each gate's matrix, zero for the biases, as the paper's appendix sets it."""
        for name, parameter in self.named_parameters():
            if isinstance(parameter, UninitializedParameter):
                continue
            if name.startswith("bias"):
                torch.nn.init.zeros_(parameter)
            else:
                for gate in parameter.data.split(self.hidden_size):
                    torch.nn.init.xavier_uniform_(gate)

    @property
    def input_size(self) -> int:
        """Width of the rows that the first layer reads; -1 as long as it is not known."""
        weight = self.weight_ih_l0
        return -1 if isinstance(weight, UninitializedParameter) else weight.size(1)

    def layer(self, index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``weight_ih, weight_hh, bias_ih, bias_hh`` of one layer; without a hidden part, its weights have no rows."""
        weight_ih, bias_ih = getattr(self, f"weight_ih_l{index}"), getattr(self, f"bias_ih_l{index}")
        if CELLS[self.cell].affine is not None:
            return weight_ih, bias_ih.new_empty(0, self.hidden_size), bias_ih, bias_ih.new_empty(0)
        return weight_ih, getattr(self, f"weight_hh_l{index}"), bias_ih, getattr(self, f"bias_hh_l{index}")

    def forward(self, x: Tensor) -> Tensor:
        """The first layer's gate rows ``W_ih x + b_ih``: once per node, however many sequences read them."""
        return torch.nn.functional.linear(x, self.weight_ih_l0, self.bias_ih_l0)

    @property
    def recurrent_weights(self) -> list[Tensor]:
        """What is left to do after the gate rows: layer 0's hidden weights, then all four of each further layer."""
        _, weight_hh, _, bias_hh = self.layer(0)
        return [weight_hh, bias_hh, *(w for index in range(1, self.num_layers) for w in self.layer(index))]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, cell={self.cell!r}"


class LazyRecurrence(LazyModuleMixin, Recurrence):
    """A :class:`Recurrence` that takes its input size from the first rows it sees."""

    cls_to_become = Recurrence

    def __init__(self, hidden_size: int, num_layers: int = 1, cell: str = "lstm") -> None:
        super().__init__(-1, hidden_size, num_layers, cell)

    def initialize_parameters(self, x: Tensor, *args: Any) -> None:
        weight, _, bias, _ = self.layer(0)
        if isinstance(weight, UninitializedParameter):
            weight.materialize((bias.numel(), x.size(-1)))
            self.reset_parameters()
