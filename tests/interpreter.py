"""Triton's interpreter without what takes most of its time: names, types and shapes of blocks, anew at each sum."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
from triton.language import core, semantic
from triton.runtime import interpreter


def make_swift(patch):
    """Patches the interpreter for small graphs. What kernels compute stays the same, bit for bit."""
    builder = interpreter.interpreter_builder
    # Graphs this small have no overflows to look for at each sum of two integers.
    patch.setattr(builder, "options", replace(builder.options, sanitize_overflow=False))
    patch.setattr(interpreter.InterpretedFunction, "__call__", call_within_a_kernel())
    patch.setattr(interpreter.ScanOps, "generic_scan", scan_row_by_row)
    remember_types(patch)
    remember_shapes(patch)
    skip_needless_steps(patch)


def call_within_a_kernel():
    """The interpreter patches its language again at each call of a function within a kernel: once is enough."""
    patched = set()

    def call(function, *args, **kwargs):
        module = function.fn.__globals__["__name__"]
        if module not in patched:
            interpreter._patch_lang(function.fn)
            patched.add(module)
        return function.rewrite()(*args, **kwargs)

    return call


def scan_row_by_row(self, given):
    """Along the first axis, not number by number."""
    assert self.axis == 0
    rows = [tuple(self.to_tensor(one.handle.data[i], one.dtype) for one in given) for i in range(given[0].shape[0])]
    found = list(accumulate(rows, lambda before, row: self.combine_fn.fn(*before, *row)))
    columns = zip(*found, strict=True)
    return [
        self.to_tensor(np.stack([part.handle.data for part in column]), one.dtype)
        for one, column in zip(given, columns, strict=True)
    ]


def remember_types(patch):
    """One object for each type of blocks, and NumPy's type by name."""
    made, slow_init, numpy_types, slow_numpy = {}, core.block_type.__init__, {}, interpreter._get_np_dtype

    def new(cls, element, shape):
        key = element.name, tuple(getattr(size, "value", size) for size in shape)
        if key not in made:
            made[key] = object.__new__(cls)
            slow_init(made[key], element, shape)
        return made[key]

    def numpy_type(of):
        name = of.scalar.name
        if name not in numpy_types:
            numpy_types[name] = slow_numpy(of)
        return numpy_types[name]

    patch.setattr(core.block_type, "__new__", new, raising=False)
    patch.setattr(core.block_type, "__init__", lambda *_: None)
    patch.setattr(interpreter, "_get_np_dtype", numpy_type)
    for one in (core.dtype, core.block_type, core.pointer_type):
        equal = one.__eq__
        patch.setattr(one, "__eq__", lambda a, b, equal=equal: a is b or equal(a, b))


def remember_shapes(patch):
    """A tensor's shape, size and type of numbers, which follow from its type."""
    slow, known = core.tensor.__init__, {}

    def init(self, handle, type):
        if type.name not in known:
            slow(self, handle, type)
            known[type.name] = self.shape, self.numel, self.dtype
        self.handle, self.type = handle, type
        self.shape, self.numel, self.dtype = known[type.name]

    patch.setattr(core.tensor, "__init__", init)


def skip_needless_steps(patch):
    """Blocks of one shape, and two numbers, need no broadcasting; those of one type stay as they are."""
    of, constants = semantic.TritonSemantic, {}
    slow_broadcast, slow_operands = of.broadcast_impl_value, of.binary_op_type_checking_impl
    slow_constant = of.scalar_constant

    def broadcast(self, a, b):
        one, other = (x.type.shape.values if x.type.is_block() else None for x in (a, b))
        return (a, b) if one == other else slow_broadcast(self, a, b)

    def operands(self, a, b, ptr_a=False, ptr_b=False, arithmetic_check=True, div_or_mod=False):
        both = isinstance(a, core.tensor) and isinstance(b, core.tensor)
        if both and a.type is b.type and not div_or_mod and not a.dtype.is_ptr():
            return a, b
        return slow_operands(self, a, b, ptr_a, ptr_b, arithmetic_check, div_or_mod)

    def constant(self, value, dtype):
        key = repr(value), dtype.name
        if key not in constants:
            constants[key] = slow_constant(self, value, dtype)
        return constants[key]

    patch.setattr(of, "broadcast_impl_value", broadcast)
    patch.setattr(of, "binary_op_type_checking_impl", operands)
    patch.setattr(of, "scalar_constant", constant)
