import pytest
import torch

from pggnn.cells import CELLS, LazyRecurrence, Recurrence

TORCH = {
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
    "srn": torch.nn.RNN,
    "srn-relu": lambda *args: torch.nn.RNN(*args, nonlinearity="relu"),
}


@pytest.mark.parametrize("cell", TORCH)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_weights_move_to_and_from_torch(cell, layers):
    theirs, ours = TORCH[cell](5, 7, layers), Recurrence(5, 7, layers, cell)
    shapes = {name: tensor.shape for name, tensor in theirs.state_dict().items()}
    assert {name: tensor.shape for name, tensor in ours.state_dict().items()} == shapes
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("cell", TORCH)
def test_step_is_that_of_torch(cell):
    rnn = TORCH[cell](5, 7, 1).double()
    weight_ih, weight_hh, bias_ih, bias_hh = rnn.parameters()
    x, state = torch.randn(5).double(), (torch.randn(7).double(),) * CELLS[cell].states
    ours = CELLS[cell].step(weight_ih @ x + bias_ih, weight_hh @ state[0] + bias_hh, state)
    hx = tuple(s[None] for s in state)
    _, theirs = rnn(x[None], hx if cell == "lstm" else hx[0])
    theirs = theirs if cell == "lstm" else (theirs,)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b[0], rtol=1e-12, atol=1e-12)


def test_the_linear_cell_forgets_and_adds():
    rnn = Recurrence(5, 7, cell="linear").double()
    assert [name for name, _ in rnn.named_parameters()] == ["weight_ih_l0", "bias_ih_l0"]
    weight_hh, bias_hh = rnn.recurrent_weights
    assert weight_hh.shape == (0, 7) and bias_hh.shape == (0,)
    x, h = rnn(torch.randn(3, 5).double()), torch.randn(3, 7).double()
    (found,) = CELLS["linear"].step(x, torch.nn.functional.linear(h, weight_hh, bias_hh), (h,))
    torch.testing.assert_close(found, h / (1 + (-x[:, :7]).exp()) + x[:, 7:].clamp(min=0), rtol=1e-12, atol=1e-12)
    lazy = LazyRecurrence(7, cell="linear").double()
    lazy(torch.randn(3, 5).double())
    lazy.load_state_dict(rnn.state_dict())


def test_glorot_initialisation_per_gate():
    rnn = Recurrence(100, 50, 2, "lstm")
    bound_ih, bound_hh = (6 / 150) ** 0.5, (6 / 100) ** 0.5
    for gate in rnn.weight_ih_l0.split(50):
        assert 0.9 * bound_ih < gate.abs().max() <= bound_ih
    for gate in rnn.weight_hh_l1.split(50):
        assert 0.9 * bound_hh < gate.abs().max() <= bound_hh
    assert not any(bias.any() for name, bias in rnn.named_parameters() if name.startswith("bias"))


def test_lazy_weights_take_their_size_from_the_first_rows():
    rnn = LazyRecurrence(7, 2, "gru")
    assert rnn.input_size == -1
    assert rnn(torch.randn(3, 5)).shape == (3, 21)
    assert type(rnn) is Recurrence
    assert rnn.input_size == 5
    fresh = LazyRecurrence(7, 2, "gru")
    fresh.load_state_dict(rnn.state_dict())
    assert torch.equal(fresh(torch.ones(1, 5)), rnn(torch.ones(1, 5)))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="cell must be one of 'lstm', 'gru', 'srn'"):
        Recurrence(2, 2, cell="lstn")
    with pytest.raises(ValueError, match="the cell 'linear' has one layer: num_layers must be 1, got 2"):
        Recurrence(2, 2, 2, "linear")
    with pytest.raises(ValueError, match=r"the hidden size \(out_channels\) must be an integer ≥ 1, got 0"):
        Recurrence(2, 0)
