"""Triton's interpreter without what takes most of its time: names, types and shapes of blocks, anew at each sum."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
from triton.language import core, semantic
from triton.runtime import interpreter

SMALL = 32
"""Blocks of fewer numbers are loaded and stored as fast one by one."""


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
    move_blocks_at_once(patch)
    start_operations_the_short_way(patch)


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
    made, given, slow_init = {}, {}, core.block_type.__init__
    numpy_types, slow_numpy = {}, interpreter._get_np_dtype

    def new(cls, element, shape):
        as_given = element.name, tuple(shape)
        if as_given not in given:
            key = element.name, tuple(getattr(size, "value", size) for size in shape)
            if key not in made:
                made[key] = object.__new__(cls)
                slow_init(made[key], element, shape)
            given[as_given] = made[key]
        return given[as_given]

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
    """Blocks of one shape, and two numbers, need no broadcasting. NumPy does that of operands by itself: they only get
    the types that the slow way has found for such operands."""
    of, constants, known = semantic.TritonSemantic, {}, {}
    slow_broadcast, slow_operands = of.broadcast_impl_value, of.binary_op_type_checking_impl
    slow_constant = of.scalar_constant

    def broadcast(self, a, b):
        one, other = (x.type.shape.values if x.type.is_block() else None for x in (a, b))
        return (a, b) if one == other else slow_broadcast(self, a, b)

    def operands(self, a, b, *rest, **more):
        key = *(x.type.name if isinstance(x, core.tensor) else repr(x) for x in (a, b)), rest, *more.items()
        if key not in known:
            made = slow_operands(self, a, b, *rest, **more)
            known[key] = [one.type if isinstance(x, core.tensor) else one for x, one in zip((a, b), made, strict=True)]
        one, other = known[key]
        return fit(self, a, one), fit(self, b, other)

    def fit(self, x, known):
        """A tensor, as one of the type that is known for it; for a number the block itself is known."""
        if isinstance(known, core.tensor):
            return known
        if x.type is known:
            return x
        cast = x if x.dtype is known.scalar else self.cast(x, known.scalar)
        return core.tensor(cast.handle, known)

    def constant(self, value, dtype):
        key = repr(value), dtype.name
        if key not in constants:
            constants[key] = slow_constant(self, value, dtype)
        return constants[key]

    patch.setattr(of, "broadcast_impl_value", broadcast)
    patch.setattr(of, "binary_op_type_checking_impl", operands)
    patch.setattr(of, "scalar_constant", constant)


def start_operations_the_short_way(patch):
    """Calls of operations are not looked at for what kernels always give them, nor results for the size of numbers."""
    slow_unwrap = core._unwrap_if_constexpr
    plain = {core.tensor, int, float, bool, str, type(None), slice}

    def unwrap(x):
        return x if type(x) in plain else slow_unwrap(x)

    def patch_attribute(place, name, member, _, scope):
        inner = getattr(member, "__wrapped__", member)

        def call(*args, **kwargs):
            kwargs["_semantic"] = interpreter.interpreter_semantic
            return inner(*args, **kwargs)

        scope.set_attr(place, name, call)

    def expand(self, x, axis):
        shape = x.data.shape
        return interpreter.TensorHandle(x.data.reshape((*shape[:axis], 1, *shape[axis:])), x.dtype.scalar)

    patch.setattr(core, "_unwrap_if_constexpr", unwrap)
    patch.setattr(interpreter, "_patch_attr", patch_attribute)
    patch.setattr(interpreter.TensorHandle, "__post_init__", lambda _: None)
    patch.setattr(interpreter.InterpreterBuilder, "create_expand_dims", expand)


class Memory:
    """Numbers from an address on, for NumPy."""

    def __init__(self, first, count, dtype):
        self.__array_interface__ = {"data": (first, False), "shape": (count,), "typestr": dtype.str, "version": 3}


def memory(pointers, dtype):
    """The memory that holds what some pointers point to, and the place of each in it."""
    first = pointers.min()
    places = ((pointers - first) // dtype.itemsize).astype(np.intp)
    return np.asarray(Memory(int(first), int(places.max()) + 1, dtype)), places


def move_blocks_at_once(patch):
    """Not number by number."""
    of = interpreter.InterpreterBuilder
    slow_load, slow_store = of.create_masked_load, of.create_masked_store

    def load(self, pointers, mask, other, *rest):
        if pointers.data.size < SMALL:
            return slow_load(self, pointers, mask, other, *rest)
        element = pointers.get_element_ty()
        dtype, chosen = interpreter._get_np_dtype(element), mask.data
        values = np.zeros(pointers.data.shape, dtype) if other is None else other.data.astype(dtype)
        if chosen.all():
            held, places = memory(pointers.data, dtype)
            values = held[places]
        elif chosen.any():
            held, places = memory(pointers.data[chosen], dtype)
            values[chosen] = held[places]
        return interpreter.TensorHandle(values, element)

    def store(self, pointers, value, mask, *rest):
        if pointers.data.size < SMALL:
            return slow_store(self, pointers, value, mask, *rest)
        chosen = mask.data
        if chosen.any():
            held, places = memory(pointers.data[chosen], value.data.dtype)
            held[places] = value.data[chosen]
        return None

    patch.setattr(of, "create_masked_load", load)
    patch.setattr(of, "create_masked_store", store)
