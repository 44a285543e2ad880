"""No kernel swaps variables that a loop carries.

Triton (3.6 and 3.9 were tried) compiles ``x, y = y, x`` in a loop to something else where both are equal before the
loop: one of them keeps its first value. The interpreter does it right, so that only a GPU would show it.
"""

import ast
from itertools import combinations
from pathlib import Path

import pytest

import pggnn.ops

KERNELS = sorted((Path(pggnn.ops.__file__).parent / "triton").glob("*.py"))


def names(node):
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def swaps(source):
    """Lines inside loops that assign two names crosswise."""
    for loop in ast.walk(ast.parse(source)):
        if not isinstance(loop, ast.For | ast.While):
            continue
        for line in ast.walk(loop):
            if not (isinstance(line, ast.Assign) and isinstance(line.value, ast.Tuple)):
                continue
            for target in line.targets:
                given = list(zip(target.elts, line.value.elts, strict=True)) if isinstance(target, ast.Tuple) else []
                for (x, new_x), (y, new_y) in combinations(given, 2):
                    if names(x) & names(new_y) and names(y) & names(new_x):
                        yield line.lineno


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_no_loop_swaps(path):
    assert list(swaps(path.read_text())) == []


def test_swaps_are_found():
    assert list(swaps("for i in range(n):\n    x, y = y, x")) == [2]
    assert list(swaps("while n:\n    if n:\n        w, x, y = w, 2 * y, x + 1")) == [3]
    assert list(swaps("x, y = y, x\nfor i in range(n):\n    x, y = i, x")) == []
    assert len(KERNELS) > 5
