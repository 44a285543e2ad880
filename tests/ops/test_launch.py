"""The short way to start kernels: what is compiled for one kind of arguments is never started with another."""

from types import SimpleNamespace

import pytest
import torch

triton = pytest.importorskip("triton")

from pggnn.ops.triton import launch  # noqa: E402
from pggnn.ops.triton.recurrence import forward_layer  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(triton, "knobs"), reason="a version that is not started this way")
NAMES = ("x", "y", "n", "SIZE")


class Jitted:
    """In place of Triton's: makes something new for each launch, and says how that is started."""

    arg_names = NAMES
    params = [SimpleNamespace(name=name, is_constexpr=name.isupper()) for name in NAMES]  # noqa: RUF012

    def __init__(self):
        self.started, self.launches = [], 0

    def __getitem__(self, grid):
        def start(*args, **constants):
            self.launches += 1
            number = self.launches
            return SimpleNamespace(
                run=lambda *args: self.started.append((number, args)), function="function", packed_metadata="packed"
            )

        return start


@pytest.fixture
def kernel(monkeypatch):
    place = SimpleNamespace(device=0)
    monkeypatch.setattr(launch, "current_device", lambda: place.device)
    monkeypatch.setattr(launch, "current_stream", lambda device: f"stream of {device}")
    found = launch.Direct(Jitted())
    found.place = place
    return found


class OnGPU(torch.Tensor):
    """Says that it lies on a GPU."""

    is_cuda = True


HOST = torch.zeros(64)
MEMORY = HOST.as_subclass(OnGPU)
X, Y = MEMORY[:4], MEMORY[4:12]
USUAL = (X, Y, 3), {"SIZE": 8, "num_warps": 4}


def test_the_second_launch_takes_the_short_way(kernel):
    (x, y, n), constants = USUAL
    kernel[2, 3](x, y, n, **constants)
    kernel[5,](y, x, 7, **constants)
    assert kernel.jitted.launches == 1
    [(number, (*grid, stream, function, packed, metadata, enter, leave, first, second, third, size))] = (
        kernel.jitted.started
    )
    assert (number, grid, stream) == (1, [5, 1, 1], "stream of 0")
    assert (function, packed, metadata, enter, leave) == ("function", "packed", None, None, None)
    assert (first, second, third, size) == (y.data_ptr(), x.data_ptr(), 7, 8)


@pytest.mark.parametrize(
    ("args", "constants"),
    [
        ((X.half(), Y, 3), {}), ((X, Y.int(), 3), {}), ((X, Y, 1), {}), ((X, Y, 16), {}), ((X, Y, 3.0), {}),
        ((X, Y, True), {}), ((X, Y, 3), {"SIZE": 16}), ((X, Y, 3), {"num_warps": 8}), ((X, Y, 3), {"num_stages": 1}),
    ],
)  # fmt: skip
def test_another_kind_is_another_kernel(kernel, args, constants):
    for _ in range(2):
        kernel[1,](*USUAL[0], **USUAL[1])
        kernel[1,](*args, **USUAL[1] | constants)
    assert kernel.jitted.launches == 2
    assert [number for number, _ in kernel.jitted.started] == [1, 2]


@pytest.mark.parametrize(
    "args",
    [(MEMORY[1:5], Y, 3), (X, MEMORY[2:], 3), (X, HOST, 3), (X, Y, 2**31), (X, Y, -(2**31) - 1), (X, Y, None)],
    ids=range(6),
)
def test_what_goes_the_long_way(kernel, args):
    """Memory that does not begin at a multiple of 16 bytes, also after such that does, or the host's; and what is not
    said of the kind."""
    for _ in range(2):
        kernel[1,](*args, **USUAL[1])
    kernel[1,](*USUAL[0], **USUAL[1])
    kernel[1,](*args, **USUAL[1])
    assert kernel.jitted.launches == 4 and not kernel.jitted.started


def test_constants_by_place_go_the_long_way(kernel):
    """What they are is then not said of the kind."""
    for size in (8, 24):
        kernel[1,](X, Y, 3, size)
    assert kernel.jitted.launches == 2


def test_each_gpu_has_its_own(kernel):
    for device in (0, 1, 0, 1):
        kernel.place.device = device
        kernel[1,](*USUAL[0], **USUAL[1])
    assert [number for number, _ in kernel.jitted.started] == [1, 2]
    assert [args[3] for _, args in kernel.jitted.started] == ["stream of 0", "stream of 1"]


@pytest.mark.parametrize("hooks", ["launch_enter_hook", "launch_exit_hook"])
def test_who_listens_hears_of_every_launch(kernel, hooks, monkeypatch):
    monkeypatch.setattr(getattr(triton.knobs.runtime, hooks), "calls", [print])
    for _ in range(3):
        kernel[1,](*USUAL[0], **USUAL[1])
    assert kernel.jitted.launches == 3


def test_who_takes_the_short_way(monkeypatch):
    """Triton's own kernels, in a version that is known, on a GPU of NVIDIA's; not those of the interpreter."""
    jitted = triton.runtime.jit.JITFunction(getattr(forward_layer, "jitted", forward_layer).fn)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert isinstance(launch.direct(jitted), launch.Direct)
    assert launch.direct(interpreted := object()) is interpreted
    for version in ("3.4.0", "3.99.0", "4.0.0"):
        monkeypatch.setattr(triton, "__version__", version)
        assert launch.direct(jitted) is jitted
    monkeypatch.undo()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert launch.direct(jitted) is jitted
