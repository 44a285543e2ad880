import os
from dataclasses import replace
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session", autouse=True)
def swift_interpreter():
    """Triton's interpreter without what takes most of its time and changes nothing: it patches its language again at
    each call of a function within a kernel, and looks for overflows at each sum of two integers, of which graphs this
    small have none."""
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

    builder = interpreter.interpreter_builder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.InterpretedFunction, "__call__", call)
        patch.setattr(builder, "options", replace(builder.options, sanitize_overflow=False))
        yield
