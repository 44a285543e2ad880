import os
from dataclasses import replace
from importlib.util import find_spec
from itertools import accumulate

import numpy as np
import pytest


@pytest.fixture(scope="session", autouse=True)
def swift_interpreter():
    """Triton's interpreter without what takes most of its time and changes nothing: it patches its language again at
    each call of a function within a kernel, looks for overflows at each sum of two integers, of which graphs this small
    have none, and scans number by number instead of row by row."""
    if "TRITON_INTERPRET" not in os.environ or find_spec("triton") is None:
        yield
        return
    from triton.runtime import interpreter

    patched = set()

    def call(function, *args, **kwargs):
        module = function.fn.__globals__["__name__"]
        if module not in patched:
            interpreter._patch_lang(function.fn)
            patched.add(module)
        return function.rewrite()(*args, **kwargs)

    def scan(self, given):
        """Along the first axis."""
        assert self.axis == 0
        rows = [tuple(self.to_tensor(one.handle.data[i], one.dtype) for one in given) for i in range(given[0].shape[0])]
        found = list(accumulate(rows, lambda before, row: self.combine_fn.fn(*before, *row)))
        columns = zip(*found, strict=True)
        return [
            self.to_tensor(np.stack([part.handle.data for part in column]), one.dtype)
            for one, column in zip(given, columns, strict=True)
        ]

    builder = interpreter.interpreter_builder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.InterpretedFunction, "__call__", call)
        patch.setattr(interpreter.ScanOps, "generic_scan", scan)
        patch.setattr(builder, "options", replace(builder.options, sanitize_overflow=False))
        yield
