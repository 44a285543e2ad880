"""A short way to start kernels again: most of what Triton takes for a launch is to find what it compiled for such
arguments, several times as long as the launch itself."""

from functools import partial

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

VERSIONS = ((3, 5), (3, 10))
"""Of Triton, from the first on and before the second: those whose compiled kernels are known to be called this way."""


def direct(kernel):
    """Decorates a kernel that is called with all its arguments: numbers by place, then constants by name. In the
    interpreter, with other versions and on other GPUs than NVIDIA's it stays what it is."""
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    known = VERSIONS[0] <= version < VERSIONS[1] and torch.version.cuda is not None
    return Direct(kernel) if known and isinstance(kernel, JITFunction) else kernel


class Direct:
    """A kernel whose later launches call what Triton has compiled for the first with arguments of their kind.

    Two calls are of one kind only if Triton takes them for the same: the kind says all that it may compile a kernel
    for, whether or not this one is. What it leaves out, numbers of more than 32 bits and memory that does not begin at
    a multiple of 16 bytes, or is the host's, always goes Triton's way, and so does everything while somebody listens to
    launches. Where memory begins is given as a number: Triton need not ask for it, and the driver, once more.
    """

    def __init__(self, jitted):
        self.jitted = jitted
        self._compiled = {}

    def __getitem__(self, grid):
        return self.jitted[grid] if torch.compiler.is_compiling() else partial(self._launch, grid)

    def _launch(self, grid, *args, **constants):
        device = current_device()
        key, given, pointers = [device], [], 0
        for value in args:
            if isinstance(value, Tensor):
                key.append(value.dtype)
                value = value.data_ptr() if value.is_cuda else 1
                pointers |= value
            else:
                key.append(kind(value))
            given.append(value)
        key += constants
        key += constants.values()
        key, hooks = tuple(key), triton.knobs.runtime
        found = self._compiled.get(key)
        if found is None or pointers % 16 or hooks.launch_enter_hook.calls or hooks.launch_exit_hook.calls:
            compiled = self.jitted[grid](*args, **constants)
            if not pointers % 16 and None not in key and self._are_complete(args, constants):
                values = [constants[name] for name in self.jitted.arg_names[len(args) :]]
                self._compiled[key] = compiled.run, compiled.function, compiled.packed_metadata, values
            return
        start, function, packed, values = found
        x, y, z, *_ = *grid, 1, 1
        start(x, y, z, current_stream(device), function, packed, None, None, None, *given, *values)

    def _are_complete(self, args, constants):
        """Whether all constants are given by name, and nothing else is: their values are then all in the kind."""
        params = self.jitted.params
        named = {param.name for param in params if param.is_constexpr}
        return {param.name for param in params[len(args) :]} == named and named <= constants.keys()


def kind(number):
    """What Triton may compile a kernel for of a number; None if that is not said here."""
    if type(number) is int and -(2**31) <= number < 2**31:
        return number == 1, number % 16 == 0
    return type(number) if type(number) in (bool, float) else None


def current_device():
    """The number of the current GPU, without what PyTorch's function of this name does to make sure that there is one:
    tensors lie there."""
    return torch._C._cuda_getDevice()


def current_stream(device):
    """Where the GPU's work is queued."""
    return torch._C._cuda_getCurrentRawStream(device)
