"""Functions that Numba compiles for float32 on a CPU, run by the threads that PyTorch has started.

Those of a second OpenMP runtime, such as Numba's own, would fight with them for the cores. A call's arguments are one
structure of whole numbers: sizes, and addresses of tensors.
"""

import ctypes
import os

import llvmlite.binding
import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

OPTIONS = {"nopython": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}
"""Multiplications may be fused with additions; NaN and infinity stay what they are."""

if numba.config.DISABLE_JIT:
    raise ImportError("Numba is switched off")
try:
    OPENMP = ctypes.CDLL("libgomp.so.1", os.RTLD_NOLOAD)
except (AttributeError, OSError) as error:
    raise ImportError("PyTorch's threads are not those of GNU's OpenMP") from error
for name in ("omp_get_thread_num", "omp_get_num_threads"):
    llvmlite.binding.add_symbol(name, ctypes.cast(OPENMP[name], ctypes.c_void_p).value)
thread_number = types.ExternalFunction("omp_get_thread_num", types.int32())
thread_count = types.ExternalFunction("omp_get_num_threads", types.int32())
jitted = numba.jit(**OPTIONS)
jitted_part = numba.jit(**OPTIONS | {"cache": False}, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For what only compiled functions call."""


def structure(*names):
    """The type of a call's arguments."""
    return type("Call", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int64) for name in names]})


def jitted_call(kind):
    """Compiles a function of one :func:`structure`."""
    return numba.cfunc(types.void(types.CPointer(numba.from_dtype(np.dtype(kind)))), **OPTIONS)


def run(function, call, threads):
    """Runs a call on so many threads."""
    if threads <= 1:
        function.ctypes(ctypes.byref(call))
    else:
        OPENMP.GOMP_parallel(ctypes.c_void_p(function.address), ctypes.byref(call), threads, 0)


def _address_of(kind):
    @intrinsic
    def pointer(_, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), generate

    return pointer


floats, integers = _address_of(types.float32), _address_of(types.int64)


@jitted
def matrix(address, rows, columns):
    return numba.carray(floats(address), (rows, columns))


@jitted
def vector(address, size):
    return numba.carray(integers(address), size)
